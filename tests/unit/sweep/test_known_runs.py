"""Going through a known run again gives what simulating would have given, to the last bit."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from specloop_policy.decision import Inputs
from specloop_policy.policy import Policy
from specloop_sim.figures import Figures
from specloop_sim.simulate import Setup, simulate
from specloop_sim.sweep.known_runs import KnownRuns
from specloop_sim.traffic import OpenLoop
from tests.unit.simulate.scenes import PROFILE, policy, requests, setup

TRAFFIC = requests(400)
KNOWN = Inputs(step_times=PROFILE.times, restart_seconds=10.0)


def inputs(now: float) -> Inputs:
    """What every policy knows."""
    return KNOWN


def low(percent: int, *, seconds: int = 40) -> Policy:
    """A policy that steps down below a limit."""
    rule = {
        "name": "low",
        "when": {"acceptance": {"belowPercent": percent}},
        "forSeconds": seconds,
        "action": {"type": "StepDown"},
    }
    return policy(rules=[rule])


POLICIES = [low(percent, seconds=seconds) for percent in (5, 10, 30, 33, 36, 40, 45) for seconds in (20, 40, 41)]
"""From never a change to several, many of them alike."""


def simulated(scene: Setup, one: Policy) -> Figures:
    """What simulating gives."""
    return simulate(scene, OpenLoop(TRAFFIC), one, inputs).figures


def by_known(known: KnownRuns, scene: Setup, one: Policy) -> Figures:
    """What known runs give."""
    return known.figures(scene, lambda: OpenLoop(TRAFFIC), one, inputs)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scene",
    [setup(seconds=200.0), setup(seconds=200.0, replicas=2), setup(seconds=200.0, live_seconds=1.0)],
    ids=["one replica", "two replicas", "live changes"],
)
def test_figures_are_those_of_simulating_and_most_runs_are_known(scene: Setup) -> None:
    known = KnownRuns()
    found = [by_known(known, scene, one) for one in POLICIES]
    assert found == [simulated(scene, one) for one in POLICIES]
    assert len({one.changes for one in found}) > 1, "some change the level, and some do not"
    assert known.simulated < len(POLICIES) / 2


def test_a_policy_that_looks_at_other_moments_is_simulated() -> None:
    scene, known = setup(seconds=60.0), KnownRuns()
    quiet, slower = low(5), policy(intervalSeconds=10)
    by_known(known, scene, quiet)
    assert by_known(known, scene, slower) == simulated(scene, slower)
    assert known.simulated == 2


def test_a_policy_that_starts_elsewhere_is_simulated() -> None:
    known, one = KnownRuns(), low(5)
    k5 = setup(seconds=60.0)
    k3 = replace(k5, level=k5.ladder.levels[1])
    assert by_known(known, k5, one) != by_known(known, k3, one)
    assert by_known(known, k3, one) == simulated(k3, one)
    assert known.simulated == 2


def test_memory_is_bounded_and_forgetting_changes_nothing() -> None:
    scene, one = setup(seconds=60.0), low(5)
    known = KnownRuns(most_samples=1)
    found = [by_known(known, scene, one) for _ in range(2)]
    assert found == [simulated(scene, one)] * 2
    assert known.simulated == 2


def test_a_known_run_needs_no_traffic() -> None:
    def none() -> OpenLoop:
        raise AssertionError("nothing is to be simulated")

    traffic: list[Callable[[], OpenLoop]] = [lambda: OpenLoop(TRAFFIC), none]
    scene, known = setup(seconds=60.0), KnownRuns()
    first, again = (
        known.figures(scene, one, low(percent), inputs) for percent, one in zip((5, 6), traffic, strict=True)
    )
    assert first == again
