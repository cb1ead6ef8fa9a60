"""Noise: requests as unlike each other as real ones, and a policy that neither flaps nor sleeps.

Every window holds 20 requests of 300 draft tokens each.  A request's own acceptance is drawn from a beta distribution
about the true rate, so that the design effect, counted in draft tokens, is 50: 1 + (300 - 1) rho = 50 gives
rho = 49 / 299, and a beta distribution has rho = 1 / (a + b + 1), so that a + b = 299 / 49 - 1 = 5.10.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pytest

from specloop_policy.decision import ActionName, Decision, Inputs
from specloop_policy.observation import Window
from specloop_policy.policy import Policy
from specloop_policy.step import fresh, step
from tests.support.policies import policy_of, rule
from tests.support.windows import measured, observe, off

REQUESTS, DRAFT_TOKENS, TOKENS = 20, 300, 5
SPREAD = 299.0 / 49.0 - 1.0
SECONDS = 300.0

BOTH_WAYS = policy_of(
    rules=[
        rule("acceptance-low", {"acceptance": {"belowPercent": 60}}, "StepDown"),
        rule("acceptance-healthy", {"acceptance": {"abovePercent": 60}}, "StepUp"),
    ]
)
"""One threshold for down and up, 60 %, which is what makes a naive controller flap 618 times."""

FIELD_REPORT = policy_of()
"""The field report's rules: below 40 % for ten minutes steps down."""


def accepted(seed: int, rate: float, windows: int) -> Sequence[float]:
    """Accepted share of each of so many windows."""
    rng = np.random.default_rng(seed)
    chances = rng.beta(rate * SPREAD, (1.0 - rate) * SPREAD, size=(windows, REQUESTS))
    counts = rng.binomial(DRAFT_TOKENS, chances).sum(axis=1)
    return [float(share) for share in counts / (REQUESTS * DRAFT_TOKENS)]


def window(share: float, level: str, tokens: int, place: int) -> Window:
    """A window that accepted this share at every position."""
    drafts = REQUESTS * DRAFT_TOKENS / tokens
    return measured((share,) * tokens, end=SECONDS * place, level=level, requests=float(REQUESTS), drafts=drafts)


def lived(policy: Policy, level: str, shares: Sequence[float]) -> Iterator[tuple[int, str | None, Decision]]:
    """Every decision, with the number of its window and the level that the target is meant to be at afterwards.

    One replica: while a level is tried, the windows are of that level.
    """
    state = fresh(level, -1e6)
    windows: tuple[Window, ...] = ()
    for place, share in enumerate(shares, start=1):
        at = policy.ladder.find(level)
        assert at is not None
        newest = window(share, level, at.tokens, place) if at.speculates else off(end=SECONDS * place, requests=20.0)
        windows = (*windows[-14:], newest)
        decision, state = step(policy, state, observe(policy.ladder, level, windows), Inputs(), SECONDS * place)
        yield place, state.level, decision
        level = decision.level or level


def changes(policy: Policy, level: str, shares: Sequence[float]) -> list[int]:
    """The windows at whose end the level that the target is meant to be at was changed."""
    found, before = [], level
    for place, after, _ in lived(policy, level, shares):
        if after != before:
            found.append(place)
            before = after or before
    return found


def first_change(policy: Policy, level: str, shares: Sequence[float]) -> float:
    """The window at whose end the level was first changed, infinite for never."""
    return next((place for place, after, _ in lived(policy, level, shares) if after != level), float("inf"))


def test_the_design_effect_of_the_draws_is_what_it_claims() -> None:
    """A window's share varies as 6,000 / 50 = 120 independent drafts do: .62 .38 / 120 = .00196, within 10 %."""
    assert np.var(accepted(1, 0.62, 4000)) == pytest.approx(0.62 * 0.38 / 120.0, rel=0.1)


@pytest.mark.parametrize("level", ["k5", "k3"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_rate_just_above_its_limit_does_not_flap(seed: int, level: str) -> None:
    """.62 against .60 over 2,000 windows, a week: one change at most."""
    assert len(changes(BOTH_WAYS, level, accepted(seed, 0.62, 2000))) <= 1


def test_a_rate_well_below_its_limit_steps_down_soon() -> None:
    """.30 against .40: within ten windows in 95 of 100 seeds.  Three are needed for 60 requests, two for the rule."""
    hits = sum(first_change(FIELD_REPORT, "k5", accepted(seed, 0.30, 10)) <= 10 for seed in range(100))
    assert hits >= 95


def test_a_collapse_steps_down_soon_after_a_calm_hour() -> None:
    """.72 for twelve windows, then .25: within six windows more in 95 of 100 seeds, and never before."""
    hits = 0
    for seed in range(100):
        shares = [*accepted(seed, 0.72, 12), *accepted(seed + 1000, 0.25, 6)]
        at = first_change(FIELD_REPORT, "k5", shares)
        assert at > 12
        hits += at <= 18
    assert hits >= 95


@pytest.mark.parametrize("rate", [0.15, 0.30, 0.42, 0.50, 0.58, 0.70])
def test_a_constant_rate_comes_to_rest(rate: float) -> None:
    """Three days of the same traffic at every level: after the first the level stays, and tries grow rarer.

    .42 and .58 lie just beyond the limits of 40 and 55 %, on the side where the noise pushes across them.
    """
    tries: dict[str | None, list[int]] = {}
    levels: list[str | None] = []
    for place, level, decision in lived(FIELD_REPORT, "k3", accepted(7, rate, 864)):
        levels.append(level)
        if decision.action is ActionName.PROBE:
            tries.setdefault(decision.level, []).append(place)
    assert len(set(levels[288:])) == 1
    for found in tries.values():
        gaps = [later - earlier for earlier, later in pairwise(found)]
        assert gaps == sorted(gaps)
