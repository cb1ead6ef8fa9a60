"""The plan of a roll-out: its table, what is made of a look at a workload, and the words for it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_policy.canary import (
    PLAN,
    Ending,
    Event,
    Kind,
    Limits,
    Phase,
    Plan,
    PodView,
    Rollout,
    Step,
    View,
    begin,
    canary_table,
    plan,
)
from specloop_policy.gate import Comparison, GateVerdict, Result

P, E, S = Phase, Event, Step
ROOT = Path(__file__).resolve().parents[3]

ROLLED_BACK = (P.ROLLING_BACK, S.PUT_BACK)
LET_GO, LEFT = (None, S.LET_GO), (None, S.WAIT)
FAILING = dict.fromkeys((E.BROKEN, E.OVERDUE, E.UNSCHEDULED, E.CANCELLED, E.CHANGED), ROLLED_BACK)
OVER = {E.UNDONE: LET_GO, E.GONE: LEFT}

TABLE: Mapping[Phase, Mapping[Event, tuple[Phase | None, Step]]] = {
    P.STARTING: {
        E.UNWRITTEN: (P.STARTING, S.WRITE),
        E.REFUSED: ROLLED_BACK,
        E.FIRST_POD: (P.STARTING, S.HOLD),
        E.HELD: (P.CANARY, S.WAIT),
        **FAILING,
        **OVER,
    },
    P.CANARY: {E.READY: (P.SOAKING, S.WAIT), **FAILING, **OVER},
    P.SOAKING: {
        E.PASSED: (P.PROMOTING, S.RELEASE),
        E.FAILED: ROLLED_BACK,
        E.SLOWER: ROLLED_BACK,
        E.UNSURE: ROLLED_BACK,
        **FAILING,
        **OVER,
    },
    P.PROMOTING: {
        E.UNWRITTEN: (P.PROMOTING, S.WRITE),
        E.HELD: (P.PROMOTING, S.RELEASE),
        E.COMPLETE: LEFT,
        E.STRANDED: LEFT,
        E.STUCK: (P.PROMOTING, S.CLEAR),
        **FAILING,
        **OVER,
    },
    P.ROLLING_BACK: {
        E.UNWRITTEN: ROLLED_BACK,
        E.HELD: ROLLED_BACK,
        E.STUCK: (P.ROLLING_BACK, S.CLEAR),
        E.COMPLETE: LEFT,
        E.OVERDUE: LEFT,
        **OVER,
    },
}
"""The plan as it was thought out, cell by cell, against the one in the code."""

LIMITS = Limits(soak_seconds=300.0, progress_deadline_seconds=1800.0, warmup_seconds=60.0)
NOW = 10_000.0


def rollout(phase: Phase, kind: Kind = Kind.RULE, **more: object) -> Rollout:
    """A roll-out from k5 to k3 that has been in its phase since now."""
    written = phase is not Phase.STARTING
    one = replace(begin("k3", "k5", kind, "key", "rest", NOW), phase=phase, since=NOW, written=written)
    return replace(one, **more)  # type: ignore[arg-type]


def view(*pods: PodView, **more: object) -> View:
    """A workload that asks for k3, nothing held."""
    return replace(View("k3", "rest", replicas=len(pods), pods=pods), **more)  # type: ignore[arg-type]


def new(name: str = "llama-new", *, ready: bool = False, broken: str = "", pending: str = "") -> PodView:
    """A pod at k3."""
    return PodView(name, True, NOW if ready else None, broken, pending)


def old(name: str = "llama-old", *, ready: bool = True) -> PodView:
    """A pod at k5."""
    return PodView(name, False, 0.0 if ready else None)


def planned(one: Rollout, seen: View | None, *, after: float = 0.0, **more: object) -> Plan:
    """The plan so many seconds after the phase began."""
    return plan(one, seen, LIMITS, NOW + after, **more)  # type: ignore[arg-type]


def test_the_table_is_what_was_thought_out() -> None:
    """No cell less, none more."""
    assert {(phase, event): cell for phase, row in TABLE.items() for event, cell in row.items()} == PLAN


def test_the_table_in_the_docs_is_the_one_in_the_code() -> None:
    """Every row, in its order."""
    assert canary_table() in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert len(canary_table().splitlines()) == 2 + len(PLAN)


pods = st.builds(
    PodView,
    st.sampled_from(("llama-a", "llama-b", "llama-c")),
    st.booleans(),
    st.none() | st.sampled_from((0.0, NOW)),
    st.sampled_from(("", "its container ended 3 times")),
    st.sampled_from(("", "3 Insufficient nvidia.com/gpu")),
)
views = st.none() | st.builds(
    View,
    template=st.sampled_from(("k3", "k5", "ngram", None)),
    rest=st.sampled_from(("rest", "another")),
    held=st.booleans(),
    settled=st.booleans(),
    replicas=st.integers(0, 3),
    pods=st.lists(pods, max_size=4).map(tuple),
    ordered=st.booleans(),
)
RETREATING = [(Kind.RETREAT, Phase.PROMOTING)]
COMING = [(kind, phase) for kind in Kind if kind is not Kind.RETREAT for phase in Phase]
rollouts = st.builds(
    lambda kind_and_phase, written, ending: rollout(
        kind_and_phase[1], kind_and_phase[0], written=written, ending=ending, reason="why"
    ),
    st.sampled_from([*RETREATING, *COMING]),
    st.booleans(),
    st.none() | st.sampled_from((Ending.FAILED, Ending.CANCELLED, Ending.LOST)),
)
SLOW = GateVerdict(Result.FAIL, "slow", (Comparison("time per output token", Result.FAIL, "slow"),))
verdicts = st.none() | st.sampled_from([SLOW, *(GateVerdict(result, str(result)) for result in Result)])


@given(rollouts, views, st.sampled_from((0.0, 359.0, 1800.0, 1e6)), st.sampled_from(("", "suspended")), verdicts)
def test_whatever_is_seen_means_something_in_its_phase(
    one: Rollout, seen: View | None, after: float, called_off: str, gate: GateVerdict | None
) -> None:
    """No look at a workload is a mistake, and every plan has its words."""
    found = planned(one, seen, after=after, called_off=called_off, gate=gate)
    assert found.words
    assert found.ended is None or found.rollout.phase is one.phase
    if found.step is Step.CLEAR:
        assert seen is not None
        assert seen.ordered


THREE = (old("a"), old("b"))
SAID = GateVerdict(Result.PASS, "no slower")
SUSPENDED: dict[str, object] = {"called_off": "the policy is suspended"}

LOOKS: list[tuple[Rollout, View | None, float, dict[str, object], Event | None]] = [
    # What is seen of a roll-out in its phase, so long after the phase began, and what it means.
    (rollout(P.STARTING), view(*THREE, template="k5"), 0, {}, E.UNWRITTEN),
    (rollout(P.STARTING), view(*THREE), 0, {}, None),
    (rollout(P.STARTING), view(*THREE, new()), 0, {}, E.FIRST_POD),
    (rollout(P.STARTING), view(*THREE, new(), held=True), 0, {}, E.HELD),
    (rollout(P.STARTING), view(*THREE, held=True), 0, {}, E.HELD),
    (rollout(P.STARTING), view(*THREE, template="k5"), 0, SUSPENDED, E.CANCELLED),
    (rollout(P.STARTING), view(*THREE, template="ngram", rest="another"), 0, {}, E.CHANGED),
    (rollout(P.STARTING), view(*THREE), 1799, {}, None),
    (rollout(P.STARTING), view(*THREE), 1800, {}, E.OVERDUE),
    (rollout(P.CANARY), view(*THREE, new(), held=True), 1799, {}, None),
    (rollout(P.CANARY), view(*THREE, new(), held=True), 1800, {}, E.OVERDUE),
    (rollout(P.CANARY), view(*THREE, new(pending="no GPU"), held=True), 1799, {}, None),
    (rollout(P.CANARY), view(*THREE, new(pending="no GPU"), held=True), 1800, {}, E.UNSCHEDULED),
    (rollout(P.CANARY), view(*THREE, new(broken="it ended"), held=True), 0, {}, E.BROKEN),
    (rollout(P.CANARY), view(*THREE, new(ready=True), held=True), 0, {}, E.READY),
    (rollout(P.CANARY), view(*THREE, new(ready=True), held=True), 1800, {}, E.READY),
    (rollout(P.CANARY), view(*THREE, new(ready=True), new(), held=True), 0, {}, None),
    (rollout(P.CANARY), view(*THREE, new(ready=True), held=True, settled=False), 0, {}, None),
    (rollout(P.CANARY), view(*THREE, held=True), 0, {}, None),
    (rollout(P.CANARY), view(*THREE, new(broken="it ended"), template="k5"), 0, SUSPENDED, E.UNDONE),
    (rollout(P.CANARY), view(*THREE, new(broken="it ended"), rest="another"), 0, SUSPENDED, E.CHANGED),
    (rollout(P.CANARY), view(*THREE, new(broken="it ended")), 0, SUSPENDED, E.CANCELLED),
    (rollout(P.SOAKING), view(*THREE, new(ready=True)), 0, {}, None),
    (rollout(P.SOAKING), view(*THREE, new(ready=True)), 0, {"gate": SAID}, E.PASSED),
    (rollout(P.SOAKING), view(*THREE, new(ready=True)), 1800, {"gate": SAID}, E.PASSED),
    (rollout(P.SOAKING), view(*THREE, new(ready=True)), 0, {"gate": SLOW}, E.SLOWER),
    (rollout(P.SOAKING), view(*THREE, new(ready=True)), 0, {"gate": GateVerdict(Result.FAIL, "errors")}, E.FAILED),
    (rollout(P.SOAKING), view(*THREE, new(broken="it ended")), 0, {"gate": SAID}, E.BROKEN),
    (rollout(P.SOAKING), view(*THREE, new(ready=True)), 1799, {}, None),
    (rollout(P.SOAKING), view(*THREE, new(ready=True)), 1800, {}, E.UNSURE),
    (rollout(P.SOAKING, Kind.PROBE), view(*THREE, new(ready=True)), 1e9, {}, None),
    (rollout(P.PROMOTING), view(*THREE, new(ready=True), held=True), 0, {}, E.HELD),
    (rollout(P.PROMOTING), view(*THREE, new(ready=True)), 1799, {}, None),
    (rollout(P.PROMOTING), view(*THREE, new(ready=True)), 1800, {}, E.OVERDUE),
    (rollout(P.PROMOTING), view(new(), new(ready=True)), 0, {}, None),
    (rollout(P.PROMOTING), view(new(ready=True), new(ready=True)), 0, {}, E.COMPLETE),
    (rollout(P.PROMOTING), view(new(ready=True), new(ready=True)), 1800, {}, E.COMPLETE),
    (rollout(P.PROMOTING), view(new(ready=True), new(ready=True), replicas=3), 0, {}, None),
    (rollout(P.PROMOTING), view(new(ready=True), old()), 0, {}, None),
    (rollout(P.PROMOTING), view(new(ready=True), settled=False), 0, {}, None),
    (rollout(P.PROMOTING, Kind.RETREAT, written=False), view(*THREE, template="k5"), 0, {}, E.UNWRITTEN),
    (rollout(P.PROMOTING, Kind.RETREAT), view(*THREE, new(broken="it ended")), 1799, SUSPENDED, None),
    (rollout(P.PROMOTING, Kind.RETREAT), view(*THREE, new(), rest="another"), 1799, {}, None),
    (rollout(P.PROMOTING, Kind.RETREAT), view(*THREE, new(pending="no GPU")), 1800, {}, E.STRANDED),
    (rollout(P.ROLLING_BACK), view(*THREE, new()), 0, {}, E.UNWRITTEN),
    (rollout(P.ROLLING_BACK), view(*THREE, new(), template="k5", held=True), 0, {}, E.HELD),
    (rollout(P.ROLLING_BACK), view(*THREE, new(), template="k5"), 1799, SUSPENDED, None),
    (rollout(P.ROLLING_BACK), view(*THREE, new(), template="k5"), 1800, {}, E.OVERDUE),
    (rollout(P.ROLLING_BACK), view(*THREE, template="k5"), 1800, {}, E.COMPLETE),
    (rollout(P.ROLLING_BACK), view(*THREE, template="k5", settled=False), 0, {}, None),
    (rollout(P.ROLLING_BACK), view(*THREE, old("c", ready=False), template="k5"), 0, {}, None),
    (rollout(P.ROLLING_BACK), view(*THREE, new(), template="k5", ordered=True), 0, {}, E.STUCK),
    (rollout(P.ROLLING_BACK), view(*THREE, new(ready=True), template="k5", ordered=True), 0, {}, None),
    *((rollout(phase), None, 0, SUSPENDED, E.GONE) for phase in Phase),
]


@pytest.mark.parametrize(("one", "seen", "after", "asked", "event"), LOOKS)
def test_each_look_means_what_it_is_meant_to(
    one: Rollout, seen: View | None, after: float, asked: dict[str, object], event: Event | None
) -> None:
    """Phase and step as the table has them for that event; without one there is nothing to do but wait."""
    found = planned(one, seen, after=after, **asked)
    if event is None:
        assert (found.rollout.phase, found.step, found.ended) == (one.phase, Step.WAIT, None)
        return
    phase, step = TABLE[one.phase][event]
    assert found.step is step
    assert (found.ended is not None) == (phase is None)
    assert found.rollout.phase is (phase or one.phase)


@pytest.mark.parametrize(
    ("event", "seen", "gate", "after", "ending"),
    [
        ("broken", view(new(broken="it ended")), None, 0, Ending.FAILED),
        ("no verdict", view(new()), None, 1800, Ending.LOST),
        ("not scheduled", view(new(pending="no GPU")), None, 1800, Ending.LOST),
        ("errors", view(new(ready=True)), GateVerdict(Result.FAIL, "errors"), 0, Ending.FAILED),
        ("slower", view(new(ready=True)), SLOW, 0, Ending.LOST),
        ("changed", view(new(ready=True), rest="another"), None, 0, Ending.CANCELLED),
    ],
)
def test_it_is_remembered_on_the_way_back_what_it_will_have_been(
    event: str, seen: View, gate: GateVerdict | None, after: float, ending: Ending
) -> None:
    """What is the level's fault is not tried again; what is the traffic's, or for want of room, is, after a gap."""
    back = planned(rollout(P.SOAKING), seen, after=after, gate=gate).rollout
    assert (back.phase, back.ending, back.since) == (P.ROLLING_BACK, ending, NOW + after)
    done = planned(back, view(old(), template="k5"), after=after)
    assert (done.ended, done.words) == (ending, back.reason)


def test_it_is_known_once_and_for_all_that_the_level_was_written() -> None:
    """So that another one there later is somebody else's word."""
    one = planned(rollout(P.STARTING), view(old())).rollout
    assert one.written
    undone = planned(one, view(old(), template="k5"))
    assert undone.ended is Ending.UNDONE
    assert undone.words == "somebody else set k5 while k3 was rolled out: left as it is"
    nothing = planned(one, view(old(), template=None))
    assert "somebody else set a configuration that is none of the ladder's" in nothing.words


def test_a_pod_that_becomes_ready_puts_the_deadline_off_while_the_rest_follows() -> None:
    """Ready at 1,000 s: overdue 1,800 s after that."""
    pod = PodView("llama-new", True, NOW + 1000.0)
    assert planned(rollout(P.PROMOTING), view(pod, old()), after=2799.0).rollout.phase is P.PROMOTING
    assert planned(rollout(P.PROMOTING), view(pod, old()), after=2800.0).rollout.phase is P.ROLLING_BACK


def test_a_soak_longer_than_the_deadline_puts_it_off() -> None:
    """A minute of warm-up and an hour of soak."""
    limits = Limits(soak_seconds=3600.0, progress_deadline_seconds=1800.0, warmup_seconds=60.0)
    seen = view(old(), new(ready=True))
    assert plan(rollout(P.SOAKING), seen, limits, NOW + 3659.0).rollout.soaking
    assert plan(rollout(P.SOAKING), seen, limits, NOW + 3660.0).rollout.phase is P.ROLLING_BACK


@pytest.mark.parametrize(
    ("one", "seen", "words"),
    [
        (rollout(P.STARTING), view(*THREE), "the first pods at k3 are awaited"),
        (
            rollout(P.CANARY),
            view(*THREE, new(pending="3 Insufficient nvidia.com/gpu"), held=True),
            "0 of 1 pod of the canary at k3 ready: 3 Insufficient nvidia.com/gpu",
        ),
        (rollout(P.SOAKING), view(*THREE, new(ready=True)), "1 pod at k3 compared with 2 left alone"),
        (rollout(P.PROMOTING), view(*THREE, new(ready=True)), "1 of 3 replicas serve at k3"),
        (rollout(P.ROLLING_BACK), view(*THREE, new(), template="k5"), "1 pods are still at k3, going back to k5"),
    ],
)
def test_what_is_waited_for_is_said(one: Rollout, seen: View, words: str) -> None:
    """In every phase, with what the scheduler says where a pod is pending."""
    found = planned(one, seen)
    assert (found.step, found.words) == (Step.WAIT, words)
