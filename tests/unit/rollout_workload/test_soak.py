"""When a soak is judged: harm at any look, success only at its end, at doublings of it, and at the deadline."""

from collections.abc import Callable

import pytest

from specloop_policy.gate import Evidence, GateVerdict, Result
from specloop_policy.model import Gate
from specloop_policy.soak import judge_soak, last_look
from tests.unit.rollout_workload.services import against, blocks

SOAK, SINCE = 300.0, 1000.0
DEADLINE = SINCE + 1740.0
"""The schema's defaults: a soak of five minutes, and half an hour for all, of which a minute has warmed up."""

GOOD, SLOW, THIN = against(blocks()), against(blocks(decode_seconds=200.0)), against(blocks(1))
"""Blocks that pass, that surely fail, and that are too few to say anything."""


@pytest.mark.parametrize(
    ("after", "look"),
    [
        (0.0, None),
        (299.0, None),
        (300.0, 300.0),
        (599.0, 300.0),
        (600.0, 600.0),
        (1199.0, 600.0),
        (1200.0, 1200.0),
        (1739.0, 1200.0),
        (1740.0, 1740.0),
        (1800.0, 1800.0),
    ],
)
def test_the_looks_are_the_soak_doubled_again_and_again_and_the_deadline(after: float, look: float | None) -> None:
    """300, 600 and 1,200 s after measuring began; 1800 - 60 = 1740 s are left to the deadline, and then any time."""
    found = last_look(SOAK, SINCE, DEADLINE, SINCE + after)
    assert found == (None if look is None else SINCE + look)


def test_a_soak_that_begins_too_late_for_the_deadline_is_judged_at_its_own_end() -> None:
    """Measuring began 100 s before the deadline: the soak is what was asked for, and no figure is judged before."""
    assert last_look(SOAK, SINCE, SINCE + 100.0, SINCE + 299.0) is None
    assert last_look(SOAK, SINCE, SINCE + 100.0, SINCE + 300.0) == SINCE + 300.0


def test_without_a_soak_every_doubled_second_is_a_look() -> None:
    """A soak of 0 s counts as one of 1 s, or nothing could be doubled."""
    assert last_look(0.0, SINCE, DEADLINE, SINCE + 1.0) == SINCE + 1.0
    assert last_look(0.0, SINCE, DEADLINE, SINCE + 700.0) == SINCE + 512.0


def soaked(until: Callable[[float], Evidence], after: float) -> GateVerdict:
    """The verdict so long after measuring began."""
    return judge_soak(until, Gate(), 60, SOAK, SINCE, DEADLINE, SINCE + after, speed=True)


def always(evidence: Evidence) -> Callable[[float], Evidence]:
    """The same blocks by any time."""
    return lambda end: evidence


@pytest.mark.parametrize("after", [15.0, 300.0, 450.0, 1500.0, 1740.0])
def test_harm_is_not_waited_with(after: float) -> None:
    """At the first look as at any other."""
    assert soaked(always(SLOW), after).result is Result.FAIL


def test_a_canary_never_passes_before_its_soak_is_over() -> None:
    """However well it serves; the figures so far are said."""
    early = soaked(always(GOOD), 299.0)
    assert early.result is Result.INCONCLUSIVE
    assert "time per output token 10.00 ms against 10.00 ms" in early.reason
    assert soaked(always(GOOD), 300.0).result is Result.PASS


def test_it_passes_on_what_was_there_at_a_look_and_at_no_other_time() -> None:
    """Conclusive from 400 s on: not at 450 s, which would be one more try at luck, but at 600 s."""

    def until(end: float) -> Evidence:
        return GOOD if end >= SINCE + 400.0 else THIN

    assert [soaked(until, after).result for after in (300.0, 450.0, 599.0)] == [Result.INCONCLUSIVE] * 3
    assert soaked(until, 600.0).result is Result.PASS


def test_a_look_that_came_late_judges_what_was_there_when_it_was_due() -> None:
    """The tick is at 315 s, the look at 300 s: what came in between counts for the next one."""

    def until(end: float) -> Evidence:
        return GOOD if end > SINCE + 300.0 else THIN

    assert soaked(until, 315.0).result is Result.INCONCLUSIVE


def test_what_went_wrong_since_a_look_that_passed_counts() -> None:
    """Good at 300 s and surely slow at 315 s: it fails."""

    def until(end: float) -> Evidence:
        return GOOD if end <= SINCE + 300.0 else SLOW

    assert soaked(until, 315.0).result is Result.FAIL


def test_inconclusive_is_no_pass_at_the_deadline_either() -> None:
    """Half an hour without enough requests."""
    assert soaked(always(THIN), 1740.0).result is Result.INCONCLUSIVE
