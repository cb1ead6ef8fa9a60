"""The gate on canaries whose true speed is known, under noise such as requests have.

Requests come by chance, 0.8 a second and pod, to one canary beside two others.  Their answers have lengths that fall
off exponentially, 200 tokens in the mean.  What one step yields differs from request to request: 1.5 to 3.5 tokens,
all alike likely, so that the time per token of a request is spread by (1/1.5 - 1/3.5) / 2 = 0.1905 in its second
moment against (ln(3.5/1.5) / 2)² = 0.1795: a standard deviation of 25 % of the mean.  Steps are up to 10 % slower or
faster from look to look, on all pods alike, as load is.
"""

from collections import Counter

import numpy as np
import pytest

from specloop_policy.gate import Evidence, Result
from specloop_policy.model import Gate
from specloop_policy.observation import Service
from specloop_policy.soak import judge_soak

pytestmark = pytest.mark.slow

LOOK_SECONDS, SOAK, DEADLINE = 30.0, 300.0, 1740.0
"""A soak of five minutes, and half an hour for all, of which a minute has warmed up, as the schema has it."""
MIN_REQUESTS = 60


class Pods:
    """So many pods whose steps take `slower` times as long as others do."""

    def __init__(self, count: int, slower: float) -> None:
        self.count, self.slower = count, slower
        self.blocks: list[Service] = []

    def serve(self, chance: np.random.Generator, step_seconds: float) -> None:
        """Live through one look."""
        requests = int(chance.poisson(0.8 * LOOK_SECONDS * self.count))
        tokens = 1 + np.ceil(chance.exponential(200.0, requests))
        seconds = (tokens - 1) * self.slower * step_seconds / chance.uniform(1.5, 3.5, requests)
        service = Service(
            decode_seconds=float(seconds.sum()),
            decode_tokens=float(tokens.sum() - requests),
            first_token_seconds=float(chance.exponential(0.2, requests).sum()),
            first_tokens=float(requests),
            finished_requests=float(requests),
            output_tokens=float(tokens.sum()),
            length_requests=float(chance.binomial(requests, 0.1)),
            failed_requests=float(chance.binomial(requests, 0.002)),
        )
        self.blocks.append(service)


def soak(seed: int, slower: float) -> Result:
    """How a canary ends that takes `slower` times as long a step."""
    chance = np.random.default_rng(seed)
    canary, control = Pods(1, slower), Pods(2, 1.0)

    def until(end: float) -> Evidence:
        count = int(end / LOOK_SECONDS)
        return Evidence(tuple(canary.blocks[:count]), tuple(control.blocks[:count]))

    for look in range(1, int(DEADLINE / LOOK_SECONDS) + 1):
        step_seconds = chance.uniform(0.018, 0.022)
        for pods in (canary, control):
            pods.serve(chance, step_seconds)
        verdict = judge_soak(until, Gate(), MIN_REQUESTS, SOAK, 0.0, DEADLINE, look * LOOK_SECONDS, speed=True)
        if verdict.result is not Result.INCONCLUSIVE:
            return verdict.result
    return Result.INCONCLUSIVE


def ends(slower: float, seeds: int) -> Counter[Result]:
    """How often each end came."""
    return Counter(soak(seed, slower) for seed in range(seeds))


@pytest.mark.parametrize("slower", [1.0, 0.8], ids=["alike", "a fifth faster"])
def test_a_canary_that_serves_no_worse_passes_and_next_to_never_fails(slower: float) -> None:
    """It fails twice in a hundred at most, though it is looked at up to 58 times."""
    found = ends(slower, 100)
    assert found[Result.PASS] >= 90
    assert found[Result.FAIL] <= 2


def test_a_canary_that_is_a_tenth_slower_never_passes() -> None:
    """5 % are allowed."""
    found = ends(1.1, 200)
    assert found[Result.PASS] == 0
    assert found[Result.FAIL] >= 180
