"""Conditions: all types from the first visit on, and changed only when something in them does."""

import re
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from specloop_operator.conditions import ConditionReason, ConditionType, Found, conditions, conditions_table
from specloop_policy.report import as_time
from specloop_policy.status import Condition, ConditionStatus

R, T = ConditionReason, ConditionType
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()
TYPES = (
    *("Ready", "MetricsAvailable", "TargetResolved", "Progressing"),
    *("Degraded", "Drifted", "Conflicted", "Suspended", "LiveControl"),
)


def by_type(made: tuple[Condition, ...]) -> dict[str, Condition]:
    """Conditions by their type."""
    return {one.type: one for one in made}


def test_there_are_nine_types() -> None:
    """Those of the resource's description."""
    assert tuple(T) == TYPES


def test_all_types_are_set_at_the_first_visit() -> None:
    """Unknown where nothing was found yet (KEP-1623)."""
    made = by_type(conditions({T.READY: (R.GOVERNING, "it governs")}, (), 3, NOON))
    assert tuple(made) == TYPES
    assert (made["Ready"].status, made["Ready"].reason) == (ConditionStatus.TRUE, "Governing")
    assert {one.status for one in made.values()} == {ConditionStatus.TRUE, ConditionStatus.UNKNOWN}
    assert made["Drifted"].reason == "NotSeen"
    assert {(one.observed_generation, one.last_transition_time) for one in made.values()} == {(3, as_time(NOON))}


def test_the_transition_time_moves_with_the_status_alone() -> None:
    """Another reason and message an hour later, the same False; then True."""
    first = conditions({T.READY: (R.NOT_READY, "no metrics")}, (), 1, NOON)
    second = conditions({T.READY: (R.UNMANAGED, "what runs is no level")}, first, 1, NOON + 3600.0)
    third = conditions({T.READY: (R.GOVERNING, "it governs")}, second, 1, NOON + 7200.0)
    told = [
        (by_type(made)["Ready"].reason, by_type(made)["Ready"].last_transition_time) for made in (first, second, third)
    ]
    assert told == [("NotReady", as_time(NOON)), ("Unmanaged", as_time(NOON)), ("Governing", as_time(NOON + 7200.0))]


def test_what_was_not_looked_for_stays_as_it_was() -> None:
    """With the generation that it was said of."""
    first = conditions({T.DRIFTED: (R.REVERTED, "somebody else set k5")}, (), 1, NOON)
    second = conditions({T.READY: (R.GOVERNING, "it governs")}, first, 2, NOON + 60.0)
    assert by_type(second)["Drifted"] == by_type(first)["Drifted"]
    assert by_type(second)["Ready"].observed_generation == 2


found = st.dictionaries(
    st.sampled_from(ConditionType),
    st.sampled_from(ConditionReason).map(lambda reason: (reason, "a sentence")),
).map(lambda rows: {reason.type: (reason, words) for reason, words in rows.values()})


@given(found, found, st.floats(0.0, 1e6))
def test_unchanged_input_gives_equal_conditions_whenever_it_comes(before: Found, now: Found, later: float) -> None:
    """So that nothing is written where nothing is new."""
    first = conditions(before, (), 1, NOON)
    second = conditions(now, first, 1, NOON + 1.0)
    assert conditions(now, second, 1, NOON + 2.0 + later) == second


@given(found, st.text(max_size=5))
def test_conditions_come_back_from_the_api_server_as_they_were(rows: Found, words: str) -> None:
    """Or every tick would find them changed."""
    made = conditions({type_: (reason, words) for type_, (reason, _) in rows.items()}, (), 1, NOON + 0.123456789)
    assert tuple(Condition.model_validate_json(one.model_dump_json(by_alias=True)) for one in made) == made


def test_messages_are_cut_to_what_kubernetes_takes() -> None:
    """32,768 characters."""
    made = by_type(conditions({T.DEGRADED: (R.FAULT_FOUND, "x" * 40_000)}, (), 1, NOON))
    assert len(made["Degraded"].message) == 32_768


def test_every_reason_is_one_word_and_of_its_own_type_and_has_its_meaning() -> None:
    """CamelCase, once among all, and a sentence."""
    for reason in ConditionReason:
        assert re.fullmatch(r"[A-Z][A-Za-z]+", reason)
        assert reason.type in TYPES
        assert re.fullmatch(r".+\.", reason.meaning)
    assert len({str(reason) for reason in ConditionReason}) == len(list(ConditionReason))


def test_every_type_can_be_true_and_false() -> None:
    """Unknown is what it is before it is looked at, and metrics where there is no pod to have any."""
    for type_ in ConditionType:
        found = {reason.status for reason in ConditionReason if reason.type is type_}
        assert found - {ConditionStatus.UNKNOWN} == {ConditionStatus.TRUE, ConditionStatus.FALSE}
    unknown = [reason for reason in ConditionReason if reason.status is ConditionStatus.UNKNOWN]
    assert unknown == [ConditionReason.NO_PODS]


def test_the_table_for_the_documentation_has_every_type_and_reason() -> None:
    """One row each."""
    table = conditions_table()
    assert re.findall(r"^\| (\w+) \| [A-Z][^|]*\. \|$", table, re.MULTILINE) == list(TYPES)
    assert re.findall(r"^\| \w+ \| \w+ \| `(\w+)` \|", table, re.MULTILINE) == [str(one) for one in ConditionReason]
