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


ANSWER_TOKENS, TOKEN_SECONDS = 2000.0, 0.03
"""Answers of a minute in the mean: a fifth of the soak."""


def filling(seed: int, pods: int, since: float, longer: float = 1.0) -> list[Service]:
    """Blocks of pods that take their first request at `since`, with answers `longer` times as long as usual."""
    chance = np.random.default_rng(seed)
    requests = int(chance.poisson(0.8 * pods * (DEADLINE - since)))
    begins = chance.uniform(since, DEADLINE, requests)
    tokens = 2 + chance.exponential(longer * ANSWER_TOKENS, requests)
    ends = begins + tokens * TOKEN_SECONDS
    found = []
    for start in np.arange(0.0, DEADLINE, LOOK_SECONDS):
        over = (ends > start) & (ends <= start + LOOK_SECONDS)
        spans = np.clip(np.minimum(ends, start + LOOK_SECONDS) - np.maximum(begins, start), 0.0, None)
        ended = float(over.sum())
        service = Service(
            decode_seconds=float((ends - begins)[over].sum()),
            decode_tokens=float(tokens[over].sum()),
            first_token_seconds=0.2 * ended,
            first_tokens=ended,
            finished_requests=ended,
            output_tokens=float(tokens[over].sum()),
            generated_tokens=float(spans.sum() / TOKEN_SECONDS),
            length_requests=0.0,
            failed_requests=0.0,
        )
        found.append(service)
    return found


def soak_of_new_pod(seed: int, longer: float) -> Result:
    """How a canary ends that is new beside pods that are not."""
    canary, control = filling(seed, 1, 0.0, longer), filling(seed + 10_000, 2, -20.0 * ANSWER_TOKENS * TOKEN_SECONDS)

    def until(end: float) -> Evidence:
        count = int(end / LOOK_SECONDS)
        return Evidence(tuple(canary[:count]), tuple(control[:count]))

    for look in range(1, len(canary) + 1):
        verdict = judge_soak(until, Gate(), MIN_REQUESTS, SOAK, 0.0, DEADLINE, look * LOOK_SECONDS, speed=True)
        if verdict.result is not Result.INCONCLUSIVE:
            return verdict.result
    return Result.INCONCLUSIVE


@pytest.mark.parametrize(
    ("longer", "right"), [(1.0, Result.PASS), (0.2, Result.FAIL), (3.0, Result.FAIL)], ids=["alike", "fifth", "loops"]
)
def test_a_new_pod_whose_short_answers_end_first_is_judged_by_all_of_them(longer: float, right: Result) -> None:
    """In the first minute what has ended is half as long as the others' answers, though nothing is wrong."""
    found = Counter(soak_of_new_pod(seed, longer) for seed in range(50))
    wrong = Result.FAIL if right is Result.PASS else Result.PASS
    assert found[right] >= 45
    assert found[wrong] <= 1


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
