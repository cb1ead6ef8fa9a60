"""Long series get short, and no extreme is lost."""

from hypothesis import given
from hypothesis import strategies as st

from specloop_sim.report.model import Point
from specloop_sim.report.thin import thinned


def points(*values: float | None) -> list[Point]:
    return [Point(float(place), value) for place, value in enumerate(values)]


def test_a_short_series_stays_as_it_is() -> None:
    series = points(1.0, None, 3.0)
    assert thinned(series, 3, 3.0) is series


def test_each_stretch_keeps_its_lowest_and_its_highest_in_order_of_time() -> None:
    """Eight points on a limit of four: two stretches of four, [5 9 1 5] and [2 2 7 3]."""
    kept = thinned(points(5, 9, 1, 5, 2, 2, 7, 3), 4, 8.0)
    assert [(one.seconds, one.value) for one in kept] == [(1, 9), (2, 1), (4, 2), (6, 7)]


def test_a_stretch_keeps_the_widest_interval() -> None:
    series = [Point(0, 0.5, 0.4, 0.6), Point(1, 0.5, 0.1, 0.7), Point(2, 0.5, 0.3, 0.9), Point(3, 0.6, 0.5, 0.7)]
    assert {(one.low, one.high) for one in thinned(series, 2, 4.0)} == {(0.1, 0.9)}


def test_a_stretch_in_which_nothing_is_known_breaks_the_line() -> None:
    assert [one.value for one in thinned(points(1, 1, None, None, 2, 2), 6, 6.0)] == [1, 1, None, None, 2, 2]
    assert [one.value for one in thinned(points(1, 1, 1, None, None, None, 2, 2, 2), 6, 9.0)] == [1, None, 2]


def test_a_series_without_length_is_no_division_by_nought() -> None:
    assert len(thinned([Point(0.0, float(place)) for place in range(10)], 4, 0.0)) == 2


@given(st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1, max_size=300), st.integers(1, 20))
def test_the_extremes_of_the_whole_survive_whatever_the_series(values: list[float | None], stretches: int) -> None:
    kept = thinned(points(*values), 2 * stretches, float(len(values)))
    known = [value for value in values if value is not None]
    left = [one.value for one in kept if one.value is not None]
    assert len(kept) <= 2 * stretches
    assert (min(left, default=None), max(left, default=None)) == (min(known, default=None), max(known, default=None))
