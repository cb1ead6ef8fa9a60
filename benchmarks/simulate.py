"""How fast the engine model runs: the Azure conversation hour on one replica, one core, step by step.

    python benchmarks/simulate.py [-o json] [--trace FILE]

A level that stays, and a policy at work with its windows and decisions, each on its own without anything kept from the
run before.  Times are of the processor, the best of some rounds: the machine may have other things to do.
"""

import argparse
import json
import resource
import time
from pathlib import Path

from specloop_policy.decision import Inputs
from specloop_policy.ladder import DISABLED, Drafter, Ladder, Level, Method
from specloop_policy.model import SpecPolicySpec
from specloop_policy.policy import resolve
from specloop_sim.fleet import Hardware
from specloop_sim.profile import profile_named
from specloop_sim.simulate import Outcome, Setup, simulate
from specloop_sim.traces.trace import read_trace
from specloop_sim.traffic import OpenLoop, requests_of
from specloop_sim.workload import workload_named

TRACE = Path(__file__).parent / "traces" / "azure-2023-conv.csv.gz"
PROFILE = profile_named("4xh100-llama-3.3-70b")
SMALL = Drafter("small", Method.DRAFT_MODEL, "small")
LOOKUP = Drafter("lookup", Method.NGRAM, lookup_min=2, lookup_max=4)
K5, NGRAM = Level("k5", SMALL, 5), Level("ngram", LOOKUP, 4)
ROUNDS = 3


def main() -> None:
    """Measure, and print a table or one line of JSON."""
    parser = argparse.ArgumentParser(description="The engine model's speed against real time.")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    parser.add_argument("--trace", default=TRACE, type=Path)
    arguments = parser.parse_args()
    with arguments.trace.open("rb") as stream:
        trace = read_trace(stream, arguments.trace.name)
    requests = requests_of(trace, workload_named("heating-up"), 1)
    spec = SpecPolicySpec.model_validate_json('{"targetRef": {"apiVersion": "v1", "kind": "Deployment", "name": "d"}}')
    policy = resolve("default", spec, SMALL, 5, enforce=True)
    known = Inputs(step_times=PROFILE.times, restart_seconds=PROFILE.startup_seconds)

    def run(level: Level, *, decide: bool = False) -> float:
        """Processor seconds of the best round."""
        setup = Setup(Hardware(PROFILE), policy.ladder if decide else Ladder((level,)), level, 1, 1, trace.seconds)
        seconds = []
        for _ in range(ROUNDS):
            traffic, start = OpenLoop(requests), time.process_time()
            outcome: Outcome = simulate(setup, traffic, policy if decide else None, lambda now: known)
            seconds.append(time.process_time() - start)
            assert outcome.figures.finished_requests == len(trace)
        return min(seconds)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    found = {
        "k5": run(K5),
        "ngram": run(NGRAM),
        "disabled": run(DISABLED),
        "policy": run(policy.ladder.levels[0], decide=True),
    }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    times = {name: trace.seconds / seconds for name, seconds in found.items()}
    if arguments.output == "json":
        print(
            json.dumps(
                {
                    "timesRealTime": round(times["k5"]),
                    "ngramTimesRealTime": round(times["ngram"]),
                    "disabledTimesRealTime": round(times["disabled"]),
                    "policyTimesRealTime": round(times["policy"]),
                    "peakMegabytes": round(peak, 1),
                    "megabytesBefore": round(before, 1),
                }
            )
        )
        return
    print(f"{len(trace):,} requests in {trace.seconds:,.0f} s, one replica, one core")
    for name, seconds in found.items():
        print(f"{name:10} {seconds:6.2f} s  {times[name]:8,.0f} times real time")
    print(f"peak {peak:.0f} MB, of which {before:.0f} MB were there before the first run (requests and libraries)")


if __name__ == "__main__":
    main()
