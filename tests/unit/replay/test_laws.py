"""The law of a replay: on what a governed fleet showed, it decides what the loop decided that governed it."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specloop_policy.ladder import Level
from specloop_policy.policy import Policy
from tests.support.policies import rule
from tests.unit.replay.fleets import SIGNALS, Fleet, changes, govern, policy, replayed

SECONDS = 5400.0
"""The loop runs so long, and the recording goes on for a roll-out's time."""

PART_SECONDS = 900.0
"""Acceptance changes this often."""


@dataclass(frozen=True)
class World:
    """A policy, and the fleet that it is to govern."""

    policy: Policy
    first: str
    rates: dict[int, tuple[float, ...]]
    """Acceptance by K, part by part."""
    pods: int
    restart_seconds: float
    scrape_seconds: float
    silent: frozenset[tuple[int, str]]
    """Scrapes that fail: number and pod."""

    def fleet(self) -> Fleet:
        """The fleet at its start."""
        level = self.policy.ladder.find(self.first)
        assert level is not None
        return Fleet(
            level,
            self.rate,
            pods=self.pods,
            scrape_seconds=self.scrape_seconds,
            restart_seconds=self.restart_seconds,
            silent=lambda seconds, pod: (round(seconds / self.scrape_seconds), pod) in self.silent,
        )

    def rate(self, seconds: float, level: Level) -> float:
        """Acceptance at a level."""
        parts = self.rates[level.tokens]
        return parts[int((seconds - 1.0) / PART_SECONDS) % len(parts)]


def policies() -> st.SearchStrategy[Policy]:
    """Policies with quick and slow rules, limits and probes."""
    durations = st.sampled_from([0, 300, 600])
    return st.builds(
        lambda low, high, cooldown, probe, settle: policy(
            rule("acceptance-low", {"acceptance": {"belowPercent": 40}}, "StepDown", for_seconds=low),
            rule("acceptance-high", {"acceptance": {"abovePercent": 60}}, "StepUp", for_seconds=high),
            signals={**SIGNALS, "settleSeconds": settle},
            guardrails={"cooldownSeconds": cooldown, "probe": {"afterSeconds": probe, "maxSeconds": 7200}},
        ),
        durations,
        durations,
        st.sampled_from([0, 900, 1800]),
        st.sampled_from([600, 1200, 7200]),
        st.sampled_from([0, 60]),
    )


def worlds(silent: Any) -> st.SearchStrategy[World]:
    """Worlds whose acceptance changes now and then."""
    rates = st.lists(st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9]), min_size=1, max_size=5).map(tuple)
    return st.builds(
        World,
        policies(),
        st.sampled_from(["k5", "k3", "ngram", "disabled"]),
        st.fixed_dictionaries({5: rates, 3: rates, 4: rates, 0: st.just((0.0,))}),
        st.integers(1, 3),
        st.sampled_from([15.0, 45.0, 120.0]),
        st.sampled_from([5.0, 15.0]),
        silent,
    )


SOME_FAIL = st.frozensets(st.tuples(st.integers(1, 360), st.sampled_from(["pod-0", "pod-1", "pod-2"])), max_size=120)

LAWS = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.slow
@LAWS
@given(worlds(st.just(frozenset())))
def test_a_replay_decides_what_the_loop_decided_tick_by_tick(world: World) -> None:
    fleet = world.fleet()
    told = govern(fleet, world.policy, SECONDS)
    _, again = replayed(fleet.run(1800.0).recording, world.policy)
    assert [one for one in again if one[0] <= SECONDS] == told


@pytest.mark.slow
@LAWS
@given(worlds(SOME_FAIL))
def test_scrapes_that_fail_change_nothing_about_that(world: World) -> None:
    """A pod that comes back unseen is seen a scrape later: looks may be missing there, but nothing is decided then."""
    fleet = world.fleet()
    told = govern(fleet, world.policy, SECONDS)
    found, again = replayed(fleet.run(1800.0).recording, world.policy)
    assert [one for one in changes(again) if one[0] <= SECONDS] == list(changes(told))
    assert all(one.carried_out for one in found.changes if one.seconds <= SECONDS)


@pytest.mark.slow
@LAWS
@given(worlds(SOME_FAIL))
def test_a_fleet_that_nobody_changes_gives_spans_that_do_not_overlap(world: World) -> None:
    found, again = replayed(world.fleet().run(SECONDS).recording, world.policy)
    ends = [(one.seconds, one.until_seconds) for one in found.changes]
    assert all(start <= end for start, end in ends)
    assert all(earlier[1] < later[0] for earlier, later in pairwise(ends))
    asked = [seconds for seconds, _, _ in changes(again)]
    assert all(any(start <= seconds <= end for start, end in ends) for seconds in asked)
    assert not any(one.carried_out for one in found.changes)
