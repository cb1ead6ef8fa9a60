"""How many decisions `step` takes a second: three pods, an hour of windows, the default policy, on one core.

    python benchmarks/step.py [-o json]

Two loads: a new window of every pod at each call, which is what a busy operator pays at the end of a window, and the
ticks in between, which look at the same windows again.  Every observation is made beforehand, and none is seen twice
with a new window, so that nothing but `step` is timed and nothing is remembered from a call before.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import product

from specloop_policy.decision import Inputs, PolicyState
from specloop_policy.ladder import Drafter, Method
from specloop_policy.model import SpecPolicySpec
from specloop_policy.observation import Observation, Outcome, Window, Workload
from specloop_policy.policy import Policy, resolve
from specloop_policy.step import fresh, step

PODS, WINDOWS, SECONDS = 3, 12, 300.0
CALLS, ROUNDS = 200, 50
SURVIVAL = (0.72, 0.55, 0.43, 0.34, 0.27)
"""Mean 46 %: between the default limits, so that every rule is judged on every span and none decides early."""


def default_policy() -> Policy:
    """The policy that names nothing but its target, which runs a draft model with K=5."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama-70b"}
    spec = SpecPolicySpec.model_validate_json(json.dumps({"targetRef": target}))
    drafter = Drafter("small", Method.DRAFT_MODEL, "meta-llama/Llama-3.2-1B-Instruct")
    return resolve("chat-70b", spec, drafter, 5, enforce=True)


def window(place: int, pod: int) -> Window:
    """One window of one pod, of a size that differs from all others."""
    steps = 9000.0 + 7.0 * place + 100.0 * pod
    requests = 60.0 + pod
    accepted = tuple(steps * share for share in SURVIVAL)
    cool, hot = 0.8 * requests, requests
    edges = [round(0.1 * edge, 1) for edge in range(21)]
    return Window(
        pod=f"llama-70b-{pod}",
        start=SECONDS * (place - 1),
        end=SECONDS * place,
        outcome=Outcome.MEASURED,
        level="k5",
        tokens=5,
        process_start=-86400.0 - 60.0 * pod,
        drafts=steps,
        draft_tokens=5.0 * steps,
        accepted_tokens=sum(accepted),
        accepted_per_position=accepted,
        generation_tokens=steps + sum(accepted) + requests,
        prompt_tokens=500.0 * requests,
        finished_requests=requests,
        first_tokens=requests,
        running=8.0 + pod,
        kv_cache_percent=40.0,
        temperatures=(*((edge, hot if edge >= 0.8 else cool) for edge in edges), (float("inf"), hot)),
    )


def observations(count: int) -> list[tuple[Observation, float]]:
    """So many looks at the target, each one window on, and when each is taken."""
    windows = [window(place, pod) for place, pod in product(range(1, count + WINDOWS), range(PODS))]
    workload = Workload("k5", PODS)
    return [
        (Observation(tuple(windows[PODS * place : PODS * (place + WINDOWS)]), workload), SECONDS * (place + WINDOWS))
        for place in range(count)
    ]


def each_new(policy: Policy, state: PolicyState, seen: Sequence[tuple[Observation, float]]) -> None:
    """A new window at every call."""
    inputs = Inputs()
    for observation, now in seen:
        _, state = step(policy, state, observation, inputs, now)


def each_again(policy: Policy, state: PolicyState, seen: Sequence[tuple[Observation, float]]) -> None:
    """The same windows at every call, a little later each time."""
    inputs = Inputs()
    observation, now = seen[0]
    for place in range(len(seen)):
        _, state = step(policy, state, observation, inputs, now + SECONDS * place / len(seen))


def per_second(run: Callable[[Policy, PolicyState, Sequence[tuple[Observation, float]]], None]) -> tuple[float, float]:
    """Decisions a second, the best and the median of some rounds; the best is the one that nobody disturbed."""
    policy, seconds = default_policy(), []
    for _ in range(ROUNDS):
        seen = observations(CALLS)
        start = time.process_time()
        run(policy, fresh("k5", -86400.0), seen)
        seconds.append(time.process_time() - start)
    return CALLS / min(seconds), CALLS / statistics.median(seconds)


def main() -> None:
    """Measure, and print a table or one line of JSON."""
    parser = argparse.ArgumentParser(description="Decisions a second on one core.")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    output = parser.parse_args().output
    (new, new_median), (again, again_median) = per_second(each_new), per_second(each_again)
    if output == "json":
        print(json.dumps({"stepsPerSecond": round(new), "betweenWindowsStepsPerSecond": round(again)}))
        return
    print(f"{PODS} pods, {WINDOWS} windows each, default policy    best     median  decisions a second")
    print(f"{'a new window at every call':43} {new:8.0f}   {new_median:8.0f}")
    print(f"{'ticks between two windows':43} {again:8.0f}   {again_median:8.0f}")


if __name__ == "__main__":
    main()
