"""What people ask for by annotations survives writing and reading, and a mistake is named with its mend."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_policy.annotations import (
    OVERRIDE,
    ROLLBACK,
    SUSPEND,
    AnnotationError,
    Rollback,
    is_suspended,
    read_override,
    read_rollback,
    write_override,
    write_rollback,
)
from specloop_policy.decision import Override

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()

moments = st.integers(0, 4_102_444_800_000_000).map(lambda microseconds: microseconds / 1_000_000)
"""To the year 2100."""
names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
people = st.text(max_size=100)


def test_no_annotation_asks_for_nothing() -> None:
    """Annotations of others do not count either."""
    others = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    assert read_override(others) is None
    assert read_rollback(others) is None
    assert not is_suspended(others)


def test_an_override_reads_as_the_documentation_shows_it() -> None:
    """The example of the contract."""
    value = '{"level": "k3", "until": "2026-11-30T12:00:00.000000Z", "by": "alice"}'
    assert read_override({OVERRIDE: value}) == Override("k3", NOON, "alice")


def test_an_override_needs_no_more_than_a_level() -> None:
    """It has no end then."""
    assert read_override({OVERRIDE: '{"level": "disabled"}'}) == Override("disabled")
    assert json.loads(write_override(Override("disabled"))) == {"level": "disabled", "by": ""}


def test_times_are_written_as_everywhere_in_kubernetes() -> None:
    """RFC 3339 in UTC with microseconds."""
    assert json.loads(write_override(Override("k3", NOON, "alice"))) == {
        "level": "k3",
        "until": "2026-11-30T12:00:00.000000Z",
        "by": "alice",
    }


def test_a_time_may_have_any_zone() -> None:
    """13:00 in a zone one hour east of Greenwich is noon there."""
    assert read_rollback({ROLLBACK: '{"at": "2026-11-30T13:00:00+01:00"}'}) == Rollback(NOON)


@given(level=names, until=st.none() | moments, by=people)
def test_an_override_survives_writing_and_reading(level: str, until: float | None, by: str) -> None:
    """Ends are whole microseconds, as datetimes are."""
    override = Override(level, until, by)
    assert read_override({OVERRIDE: write_override(override)}) == override


@given(at=moments, by=people)
def test_a_rollback_survives_writing_and_reading(at: float, by: str) -> None:
    """Its time tells two wishes apart, so that it must come back as it was."""
    assert read_rollback({ROLLBACK: write_rollback(Rollback(at, by))}) == Rollback(at, by)


@pytest.mark.parametrize(("value", "suspended"), [("true", True), ("false", False)])
def test_suspension_is_true_or_false(value: str, suspended: bool) -> None:
    """Annotations are text."""
    assert is_suspended({SUSPEND: value}) is suspended


@pytest.mark.parametrize("value", ["", "True", "yes", "1"])
def test_any_other_suspension_is_named_with_its_mend(value: str) -> None:
    """It is not guessed at."""
    with pytest.raises(AnnotationError, match=r'specloop\.dev/suspend: .* is neither .*; write "true", or remove it'):
        is_suspended({SUSPEND: value})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", "Invalid JSON"),
        ("k3", "Invalid JSON"),
        ("[]", "should be an object"),
        ("{}", "level: Field required"),
        ('{"level": "K 3"}', "level: String should match"),
        ('{"level": "k3", "untill": "2026-11-30T12:00:00Z"}', "untill: Extra inputs"),
        ('{"level": "k3", "until": "tomorrow"}', "until: Input should be a valid datetime"),
        ('{"level": "k3", "until": "2026-11-30T12:00:00"}', "until: Input should have timezone"),
        ('{"level": "k3", "until": 1796040000}', "until: Input should be a valid datetime"),
        ('{"level": "k3", "until": "9999-12-31T23:59:59-14:00"}', "after 9999"),
    ],
)
def test_a_malformed_override_is_named_with_its_mend(value: str, words: str) -> None:
    """A misspelt end counts as malformed: read leniently it would be an override without an end."""
    with pytest.raises(AnnotationError, match=words) as caught:
        read_override({OVERRIDE: value})
    assert str(caught.value).startswith("annotation specloop.dev/override: ")
    assert "specloop override --clear" in str(caught.value)


def test_a_malformed_rollback_is_named_with_its_mend() -> None:
    """Without a time it cannot be told from the one before."""
    with pytest.raises(AnnotationError, match=r"specloop\.dev/rollback: at: Field required; remove it, or write"):
        read_rollback({ROLLBACK: "{}"})


@given(value=st.text())
@pytest.mark.parametrize(
    ("name", "read"), [(OVERRIDE, read_override), (ROLLBACK, read_rollback), (SUSPEND, is_suspended)]
)
def test_whatever_an_annotation_holds_the_only_error_is_ours(
    name: str, read: Callable[[Mapping[str, str]], object], value: str
) -> None:
    """Anybody who may edit a policy may write anything."""
    with suppress(AnnotationError):
        read({name: value})
