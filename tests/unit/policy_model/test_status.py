"""What the operator reports keeps the memory of decisions exactly."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from specloop_policy.decision import FailedChange, Forced, PolicyState, Probe, Trial
from specloop_policy.status import Memory, SpecPolicyStatus, to_memory, to_state

names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
times = st.integers(0, 4_000_000_000_000_000).map(lambda microseconds: microseconds / 1_000_000)
"""Seconds since the epoch, as a clock gives them: whole microseconds, until the year 2096."""

states = st.builds(
    PolicyState,
    level=st.none() | names,
    changed_at=st.none() | times,
    raised_at=st.none() | times,
    changes=st.lists(times, max_size=3).map(tuple),
    holds_since=st.lists(st.tuples(names, times), max_size=3).map(tuple),
    probe=st.none() | st.builds(Probe, names, times),
    forced=st.none() | st.builds(Forced, st.text(max_size=20), st.none() | names),
    trials=st.lists(st.builds(Trial, names, st.integers(0, 20), times), max_size=3).map(tuple),
    quarantine=st.lists(st.builds(FailedChange, names, st.text(max_size=20), st.text(max_size=20)), max_size=3).map(
        tuple
    ),
)


@given(states)
def test_a_memory_comes_back_from_the_api_server_as_it_was(state: PolicyState) -> None:
    stored = to_memory(state).model_dump_json(by_alias=True, exclude_none=True)
    assert to_state(Memory.model_validate_json(stored)) == state


def test_the_memory_has_every_field_of_the_state() -> None:
    beside = [
        "rollout",
        "watch",
        "interrupted",
        "live",
        "shed_failed",
        "configurations",
        "written_level",
        "previous_level",
        "reverted",
        "reverted_wish",
        "rolled_back_at",
    ]  # the operator's own
    assert list(Memory.model_fields) == [*(field.name for field in dataclasses.fields(PolicyState)), *beside]


def test_times_are_written_as_kubernetes_writes_them() -> None:
    stored = to_memory(PolicyState(level="k5", changed_at=1_700_000_000.25)).model_dump(by_alias=True)
    assert stored["changedAt"] == "2023-11-14T22:13:20.250000Z"


def test_fields_of_a_newer_operator_are_passed_over() -> None:
    assert SpecPolicyStatus.model_validate({"observedLevel": "k3", "invention": 1}).observed_level == "k3"
