"""How long a replay takes: a week of ten pods, a sample every 15 seconds, from a recording on disk.

    python benchmarks/replay.py [-o json] [--days 7]

The counters are arithmetic, not the engine model's: acceptance shifts from 70 to 25 % for six hours of every day, more
requests are hot then, and each pod restarts once a day.  The fleet stays at k5, so that every recommendation stands.
The peak of memory is that of the replay alone, in a process of its own.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from specloop_control.recording import Header, Recording, write_recording
from specloop_engine.sample import Dialect, Drafting, Sample
from specloop_policy.decision import Inputs
from specloop_policy.ladder import Drafter, Method
from specloop_policy.model import SpecPolicySpec
from specloop_policy.policy import Policy, resolve
from specloop_sim.recordings.replay import replay

PODS, INTERVAL_SECONDS, DAY_SECONDS = 10, 15.0, 86400.0
START, LAG_SECONDS = 1_800_000_000.0, 10.0
STEPS, REQUESTS, K = 300.0, 1.5, 5
"""Decode steps and finished requests of a pod a second: eight requests at 37 steps a second, 200 steps each."""

TEMPERATURES = tuple(round(0.1 * edge, 1) for edge in range(21))
"""Edges of the histogram, as a sidecar exports them."""

DECAY = (1.25, 1.1, 1.0, 0.9, 0.75)
"""Acceptance by position against the mean of all five."""


def default_policy() -> Policy:
    """The policy that names nothing but its target, which runs a draft model with K = 5."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama-70b"}
    spec = SpecPolicySpec.model_validate_json(json.dumps({"targetRef": target}))
    return resolve("chat-70b", spec, Drafter("running", Method.DRAFT_MODEL), K, enforce=True)


def acceptance(seconds: float) -> float:
    """Mean acceptance: 70 % by day, 25 % for six hours of every night."""
    return 0.25 if seconds % DAY_SECONDS > 0.75 * DAY_SECONDS else 0.7


def samples(days: float) -> Iterator[tuple[str, Sample]]:
    """What ten pods show, each 1.5 s after the one before; each restarts once a day, an hour after the one before."""
    totals = [[0.0, 0.0, 0.0] for _ in range(PODS)]
    for place in range(1, int(days * DAY_SECONDS / INTERVAL_SECONDS) + 1):
        seconds = place * INTERVAL_SECONDS
        rate = acceptance(seconds)
        hot = 0.6 if rate < 0.5 else 0.1
        for pod in range(PODS):
            age = (seconds - 3600.0 * pod) % DAY_SECONDS
            if age < INTERVAL_SECONDS:
                totals[pod] = [0.0, 0.0, 0.0]
            load = 1.0 + 0.5 * math.sin(2.0 * math.pi * seconds / DAY_SECONDS + pod)
            totals[pod][0] += load * INTERVAL_SECONDS
            totals[pod][1] += load * INTERVAL_SECONDS * STEPS * rate
            totals[pod][2] += load * INTERVAL_SECONDS * REQUESTS * hot
            yield f"llama-70b-{pod}", sample(START + seconds - 1.5 * (PODS - pod), age, load, *totals[pod])


def sample(at: float, age: float, load: float, busy: float, accepted: float, hot: float) -> Sample:
    """A page after so many busy seconds, accepted drafts at a mean position and hot requests."""
    steps, requests = float(int(STEPS * busy)), float(int(REQUESTS * busy))
    positions = tuple(float(int(accepted * share)) for share in DECAY)
    cool = float(int(requests - hot))
    return Sample(
        at,
        Dialect.VLLM_V1,
        round(at - age, 2),
        drafting=Drafting(steps, K * steps, sum(positions), positions),
        tokens=K,
        generation_tokens=steps + sum(positions) + requests,
        prompt_tokens=500.0 * requests,
        finished_requests=requests,
        one_token_requests=0.0,
        length_requests=0.0,
        first_tokens=requests,
        engine_steps=float(int(37.0 * busy)),
        running=float(round(8.0 * load)),
        waiting=0.0,
        kv_cache_percent=round(40.0 * load, 3),
        temperatures=(*((edge, requests if edge >= 0.8 else cool) for edge in TEMPERATURES), (math.inf, requests)),
    )


def write(path: Path, days: float) -> None:
    """Write the recording."""
    header = Header("http://prometheus:9090", "", "vllm:", {}, START, START + days * DAY_SECONDS, LAG_SECONDS)
    write_recording(path, header, samples(days))


def replay_file(path: Path) -> dict[str, float]:
    """Replay the recording, and say how long that took and what it needed."""
    began, busy = time.perf_counter(), time.process_time()
    with Recording.open(path) as recording:
        header = recording.header
        found = replay(
            default_policy(),
            recording.samples(),
            start=header.start,
            end=header.end,
            inputs=lambda now: Inputs(),
            lag_seconds=header.lag_seconds,
        )
    return {
        "replaySeconds": round(time.perf_counter() - began, 2),
        "cpuSeconds": round(time.process_time() - busy, 2),
        "recordingMegabytes": round(path.stat().st_size / 1e6, 1),
        "peakMegabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, 1),
        "samples": header.samples,
        "ticks": found.ticks,
        "decisions": len(found.changes),
        "windows": found.outcomes.total(),
    }


def main() -> None:
    """Measure, and print a table or one line of JSON."""
    parser = argparse.ArgumentParser(description="Seconds to replay a week of ten pods.")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--replay", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.replay is not None:
        print(json.dumps(replay_file(given.replay)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "week.rec"
        write(path, given.days)
        again = [sys.executable, __file__, "--replay", str(path)]
        figures = json.loads(subprocess.run(again, check=True, capture_output=True, text=True).stdout)
    if given.output == "json":
        print(json.dumps(figures))
        return
    print(f"{given.days:g} days, {PODS} pods, a sample every {INTERVAL_SECONDS:g} s, default policy")
    for name, figure in figures.items():
        print(f"{name:20} {figure:12,.10g}")


if __name__ == "__main__":
    main()
