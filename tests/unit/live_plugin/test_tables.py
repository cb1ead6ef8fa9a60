"""K by number of requests, and what an engine takes for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_vllm.tables import MOST_REQUESTS, MOST_TOKENS, Table, TableError, lookup, read_table


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Ranges one after the other."""
    ranges, first = [], 1
    for _ in range(draw(st.integers(1, 6))):
        last = draw(st.integers(first, min(first + 40, MOST_REQUESTS)))
        ranges.append((first, last, draw(st.integers(0, MOST_TOKENS))))
        first = last + 1
    return tuple(ranges)


def test_a_table_is_read_as_it_is_written() -> None:
    assert read_table([[1, 8, 5], [9, 256, 2]]) == ((1, 8, 5), (9, 256, 2))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "list of 1 to"),
        ({}, "list of 1 to"),
        ([[1, 2, 3]] * 65, "list of 1 to"),
        ([[1, 8]], "no range"),
        ([[1, 8, 5.0]], "no range"),
        ([[1, 8, True]], "no range"),
        ([[2, 8, 5]], "must begin at 1"),
        ([[1, 8, 5], [10, 12, 2]], "must begin at 9"),
        ([[1, 0, 5]], "must begin at 1"),
        ([[1, 65537, 5]], "end at most at 65536"),
        ([[1, 8, 65]], "from 0 to 64"),
        ([[1, 8, -1]], "from 0 to 64"),
    ],
)
def test_what_is_no_table_is_refused_with_the_reason(value: object, words: str) -> None:
    with pytest.raises(TableError, match=words):
        read_table(value)


def test_an_engine_gets_a_list_of_its_own_length() -> None:
    """Eight requests at most: 1 to 3 with K = 5, 4 to 6 with 2, and the last K beyond; index 0 is no number."""
    assert lookup(((1, 3, 5), (4, 6, 2)), 9, 5).tokens == (5, 5, 5, 5, 2, 2, 2, 2, 2)


def test_more_than_the_start_up_maximum_is_cut_down_to_it() -> None:
    """Above it the engine would die."""
    found = lookup(((1, 4, 9), (5, 8, 1)), 9, 3)
    assert (found.tokens, found.clamped) == ((3, 3, 3, 3, 3, 1, 1, 1, 1), True)


@given(tables(), st.integers(2, 300), st.integers(1, MOST_TOKENS))
def test_every_number_of_requests_has_the_k_of_its_range_or_the_last(table: Table, length: int, most: int) -> None:
    """By plain search."""
    found = lookup(table, length, most).tokens
    assert len(found) == length
    for requests in range(1, length):
        wanted = next((tokens for first, last, tokens in table if first <= requests <= last), table[-1][2])
        assert found[requests] == min(wanted, most)


@given(tables(), st.integers(2, 300))
def test_a_lookup_told_as_ranges_is_the_same_lookup(table: Table, length: int) -> None:
    found = lookup(table, length, MOST_TOKENS)
    assert lookup(found.table, length, MOST_TOKENS).tokens == found.tokens
