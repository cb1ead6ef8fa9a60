"""Trouble comes from a seed, and each victim has one trouble of a lane at a time."""

from itertools import pairwise

import pytest

from specloop_policy.model import AlertActionType
from tests.support.soak_plan import ALERTS, LANES, OPERATORS, TARGETS, What, each_once, plan

SECONDS = 600.0
SEEDS = pytest.mark.parametrize("seed", range(20))


def test_the_same_seed_gives_the_same_plan_and_another_seed_another() -> None:
    """A run that found something can be had again."""
    assert plan(7, SECONDS) == plan(7, SECONDS)
    assert plan(7, SECONDS) != plan(8, SECONDS)


def test_a_shorter_plan_is_the_beginning_of_a_longer_one() -> None:
    """What is over by then, so that a seed need not run for ten minutes to show what it did in the first two."""
    assert plan(7, 120.0) == [one for one in plan(7, SECONDS) if one.at + one.lasts <= 120.0]


@SEEDS
def test_all_is_undone_by_the_end_and_comes_in_order(seed: int) -> None:
    """What is left over afterwards is not the plan's."""
    found = plan(seed, SECONDS)
    assert [one.at for one in found] == sorted(one.at for one in found)
    assert all(one.at >= 0.0 and one.at + one.lasts <= SECONDS for one in found)


@SEEDS
def test_a_victim_has_one_trouble_of_a_lane_at_a_time_and_a_pause_in_between(seed: int) -> None:
    """Nobody is frozen while it is down."""
    found = plan(seed, SECONDS)
    for lane in LANES:
        kinds = {one.what for one in lane.troubles}
        for victim in lane.victims:
            own = [one for one in found if one.whom == victim and one.what in kinds]
            assert len(own) >= 2
            assert all(after.at - before.at - before.lasts >= lane.pause[0] - 1e-9 for before, after in pairwise(own))


def test_no_kind_of_trouble_is_left_out_and_nobody_is_spared() -> None:
    """Over ten seeds; a kind that no lane names would never come."""
    found = [one for seed in range(10) for one in plan(seed, SECONDS)]
    assert {one.what for one in found} == set(What)
    assert {one.whom for one in found if one.what is What.FREEZE} == set(OPERATORS)
    assert {one.whom for one in found if one.what is What.ALERT} == set(TARGETS)
    assert {ALERTS[one.how]["type"] for one in found if one.what is What.ALERT} == set(AlertActionType)


def test_a_frozen_operator_stays_so_for_longer_than_a_lease_lasts() -> None:
    """Or nobody would take over, and the first would just go on."""
    lasts = [one.lasts for seed in range(10) for one in plan(seed, SECONDS) if one.what is What.FREEZE]
    assert min(lasts) > 9.0


def test_a_row_of_the_table_says_when_for_how_long_to_whom_and_what() -> None:
    """All that somebody needs who looks for what came before a failure."""
    [first, *_] = [one for one in plan(7, SECONDS) if one.what is What.OVERRIDE]
    words = f"{first.whom:<10}  override: {first.how}"
    assert first.row == f"{first.at:7.1f}  {first.lasts:5.1f}  {words}"


@SEEDS
def test_a_short_run_has_each_kind_of_trouble_once_and_is_over_in_time(seed: int) -> None:
    """The longest takes a minute; nobody has two of a lane at a time."""
    found = each_once(seed, 60.0)
    assert sorted(one.what for one in found) == sorted(What)
    assert all(one.at >= 0.0 and one.at + one.lasts <= 60.0 + 1e-9 for one in found)
    for lane in LANES:
        kinds = {one.what for one in lane.troubles}
        for victim in lane.victims:
            own = [one for one in found if one.whom == victim and one.what in kinds]
            assert all(after.at >= before.at + before.lasts - 1e-9 for before, after in pairwise(own))
