"""Spans and ages are said in the unit in which a person would say them."""

import pytest

from specloop_cli.ages import age, ago, span_words
from tests.support.live_policies import NOON


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7199, "120 min"),
        (7200, "2 h"),
        (172_799, "48 h"),
        (172_800, "2 d"),
        (864_000, "10 d"),
    ],
)
def test_a_unit_is_used_from_two_of_it_on(seconds: float, words: str) -> None:
    """A minute has 60 s, an hour 3,600 s, a day 86,400 s."""
    assert span_words(seconds) == words


@pytest.mark.parametrize("seconds", [0.4, 0, -30])
def test_what_is_hardly_over_is_just_now(seconds: float) -> None:
    """So is what another machine's clock puts ahead."""
    assert ago(seconds) == "just now"


def test_an_age_is_the_time_since() -> None:
    """11:57 is three minutes before noon."""
    assert age("2026-11-30T11:57:00.000000Z", NOON) == "3 min ago"


@pytest.mark.parametrize(("time", "words"), [(None, ""), ("soon", "soon"), ("2026-11-30T11:57:00Z", "3 min ago")])
def test_a_time_that_cannot_be_read_stays_as_it_is(time: str | None, words: str) -> None:
    """A newer operator may write what this release does not know."""
    assert age(time, NOON) == words
