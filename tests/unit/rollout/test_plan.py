"""One process on its way to a level: the table, what is made of a look at it, and every way through."""

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_policy.rollout import (
    ROLLOUT_PLAN,
    Event,
    IllegalMove,
    Limits,
    Phase,
    ProcessView,
    Step,
    advance,
    find_event,
    rollout_table,
)

P, E, S = Phase, Event, Step

TABLE = {
    # phase: what idle, healthy, gone, overdue and a wanted change mean in it; None: illegal
    P.SERVING: {
        E.CHANGE_WANTED: (P.DRAINING, S.DRAIN),
        E.IDLE: None,
        E.HEALTHY: None,
        E.GONE: (P.FAILED, S.GIVE_UP),
        E.OVERDUE: None,
    },
    P.DRAINING: {
        E.CHANGE_WANTED: None,
        E.IDLE: (P.STOPPING, S.STOP),
        E.HEALTHY: None,
        E.GONE: (P.STARTING, S.START),
        E.OVERDUE: (P.STOPPING, S.STOP),
    },
    P.STOPPING: {
        E.CHANGE_WANTED: None,
        E.IDLE: None,
        E.HEALTHY: None,
        E.GONE: (P.STARTING, S.START),
        E.OVERDUE: (P.STOPPING, S.KILL),
    },
    P.STARTING: {
        E.CHANGE_WANTED: None,
        E.IDLE: None,
        E.HEALTHY: (P.SERVING, S.KEEP),
        E.GONE: (P.RETURNING, S.START_LAST_GOOD),
        E.OVERDUE: (P.RETREATING, S.GO_BACK),
    },
    P.RETREATING: {
        E.CHANGE_WANTED: None,
        E.IDLE: None,
        E.HEALTHY: None,
        E.GONE: (P.RETURNING, S.START_LAST_GOOD),
        E.OVERDUE: (P.RETREATING, S.KILL),
    },
    P.RETURNING: {
        E.CHANGE_WANTED: None,
        E.IDLE: None,
        E.HEALTHY: (P.SERVING, S.KEEP),
        E.GONE: (P.FAILED, S.GIVE_UP),
        E.OVERDUE: (P.FAILED, S.GIVE_UP),
    },
    P.FAILED: dict.fromkeys(E),
}
"""The plan as it was thought out, every cell, against the one in the code."""

CELLS = list(product(Phase, Event))
FINAL = (P.SERVING, P.FAILED)
LIMITS = Limits(drain_seconds=30.0, stop_seconds=10.0, start_seconds=600.0)


@pytest.mark.parametrize(("phase", "event"), [cell for cell in CELLS if cell in ROLLOUT_PLAN])
def test_an_event_leads_where_the_plan_says(phase: Phase, event: Event) -> None:
    assert advance(phase, event) == TABLE[phase][event]


@pytest.mark.parametrize(("phase", "event"), [cell for cell in CELLS if cell not in ROLLOUT_PLAN])
def test_an_illegal_move_names_phase_and_event(phase: Phase, event: Event) -> None:
    assert TABLE[phase][event] is None
    with pytest.raises(IllegalMove) as raised:
        advance(phase, event)
    assert str(phase) in str(raised.value)
    assert str(event) in str(raised.value)


def test_the_table_for_the_documentation_has_every_row_and_no_other() -> None:
    rows = rollout_table().splitlines()[2:]
    assert len(rows) == len(ROLLOUT_PLAN)
    for (phase, event), (after, step) in ROLLOUT_PLAN.items():
        assert f"| {phase} | {event} | {step} | {after} |" in rows


Path = tuple[tuple[Event, Step], ...]


def ways(phase: Phase, so_far: Path = ()) -> Iterator[tuple[Phase, Path]]:
    """Every way from a phase to a final one.

    The one thing taken from the world is that a killed process is gone: no other event follows a kill.
    """
    killed = bool(so_far) and so_far[-1][1] is S.KILL
    for event in [E.GONE] if killed else E:
        if (phase, event) not in ROLLOUT_PLAN:
            continue
        after, step = advance(phase, event)
        path = (*so_far, (event, step))
        if after in FINAL:
            yield after, path
        else:
            yield from ways(after, path)


ALL_WAYS = list(ways(P.SERVING))


def test_a_change_ends_in_serving_or_failed_whatever_happens_on_the_way() -> None:
    """That the walk over all orders of events comes to its end is the proof.  The longest kills twice: change wanted,
    drained, overdue (kill), gone, overdue (go back), overdue (kill), gone, and one last event."""
    assert {phase for phase, _ in ALL_WAYS} == set(FINAL)
    assert max(len(path) for _, path in ALL_WAYS) == 8


def test_a_change_ends_in_keeping_or_giving_up_and_nowhere_before() -> None:
    for phase, path in ALL_WAYS:
        *before, last = [step for _, step in path]
        assert last is (S.KEEP if phase is P.SERVING else S.GIVE_UP)
        assert S.KEEP not in before
        assert S.GIVE_UP not in before


def test_nothing_is_started_while_the_process_before_it_may_still_run() -> None:
    for _, path in ALL_WAYS:
        assert all(event is E.GONE for event, step in path if step in (S.START, S.START_LAST_GOOD))


def test_the_new_level_is_started_once_at_most_and_the_last_good_one_only_after_it_failed() -> None:
    for _, path in ALL_WAYS:
        steps = [step for _, step in path]
        assert steps.count(S.START) <= 1
        assert steps.count(S.START_LAST_GOOD) <= 1
        if S.START_LAST_GOOD in steps:
            assert S.START in steps[: steps.index(S.START_LAST_GOOD)]


def test_a_process_is_given_up_only_when_it_ends_by_itself_or_not_even_the_last_good_level_runs() -> None:
    for phase, path in ALL_WAYS:
        if phase is P.FAILED:
            assert path == ((E.GONE, S.GIVE_UP),) or S.START_LAST_GOOD in [step for _, step in path]


views = st.builds(
    ProcessView,
    phase=st.sampled_from([phase for phase in Phase if phase is not P.FAILED]),
    phase_seconds=st.floats(0.0, 1e6),
    alive=st.booleans(),
    healthy=st.booleans(),
    busy=st.booleans(),
    change_wanted=st.booleans(),
)


@given(views)
def test_whatever_is_seen_of_a_process_means_something_in_its_phase(view: ProcessView) -> None:
    event = find_event(view, LIMITS)
    assert event is None or (view.phase, event) in ROLLOUT_PLAN


@given(views)
def test_a_process_that_has_ended_is_gone_whatever_else_is_seen(view: ProcessView) -> None:
    assert (find_event(view, LIMITS) is E.GONE) == (not view.alive)


def seen(
    phase: Phase, seconds: float, *, healthy: bool = False, busy: bool = True, wanted: bool = False
) -> ProcessView:
    return ProcessView(phase, seconds, True, healthy=healthy, busy=busy, change_wanted=wanted)


@pytest.mark.parametrize(
    ("view", "event"),
    [
        (seen(P.SERVING, 1e9), None),
        (seen(P.SERVING, 0.0, wanted=True), E.CHANGE_WANTED),
        (seen(P.DRAINING, 29.9), None),
        (seen(P.DRAINING, 0.0, busy=False), E.IDLE),
        (seen(P.DRAINING, 30.0), E.OVERDUE),
        (seen(P.STOPPING, 9.9, busy=False), None),
        (seen(P.STOPPING, 10.0), E.OVERDUE),
        (seen(P.STARTING, 599.9), None),
        (seen(P.STARTING, 0.1, healthy=True), E.HEALTHY),
        (seen(P.STARTING, 600.0), E.OVERDUE),
        (seen(P.STARTING, 600.0, healthy=True), E.HEALTHY),
        (seen(P.RETREATING, 9.9, healthy=True), None),
        (seen(P.RETREATING, 10.0), E.OVERDUE),
        (seen(P.RETURNING, 599.9), None),
        (seen(P.RETURNING, 1.0, healthy=True), E.HEALTHY),
        (seen(P.RETURNING, 600.0), E.OVERDUE),
    ],
)
def test_each_phase_waits_for_its_own_event_until_its_own_limit(view: ProcessView, event: Event | None) -> None:
    assert find_event(view, LIMITS) is event
