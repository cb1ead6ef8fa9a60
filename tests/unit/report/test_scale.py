"""Round numbers on the axes, and times in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_sim.report.scale import Scale, duration, moment, round_ticks, time_ticks


def test_a_value_lands_where_its_share_of_the_axis_is() -> None:
    """60 of 0 to 240 is a quarter: 100 + 0.25 × 400."""
    assert Scale(0.0, 240.0, 100.0, 500.0)(60.0) == 200.0


def test_what_lies_outside_lands_on_the_edge() -> None:
    assert (Scale(0.0, 1.0, 10.0, 0.0)(2.0), Scale(0.0, 1.0, 10.0, 0.0)(-1.0)) == (0.0, 10.0)


def test_an_axis_without_length_is_a_point() -> None:
    assert Scale(3.0, 3.0, 10.0, 20.0)(3.0) == 10.0


@pytest.mark.parametrize(
    ("low", "high", "count", "ticks"),
    [
        (0.0, 9.0, 5, (0, 2, 4, 6, 8, 10)),
        (0.0, 12800.0, 3, (0, 5000, 10000, 15000)),
        (-12.0, 24.0, 5, (-20, -10, 0, 10, 20, 30)),
        (0.0, 0.0, 4, (0, 0.25, 0.5, 0.75, 1)),
    ],
)
def test_ticks_are_round_and_cover_the_values(low: float, high: float, count: int, ticks: tuple[float, ...]) -> None:
    assert round_ticks(low, high, count) == pytest.approx(ticks)


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9), st.integers(2, 10))
def test_ticks_cover_any_range_with_few(one: float, other: float, count: int) -> None:
    low, high = min(one, other), max(one, other)
    ticks = round_ticks(low, high, count)
    assert ticks[0] <= low + 1e-6 * (abs(low) + 1)
    assert ticks[-1] >= high - 1e-6 * (abs(high) + 1)
    assert len(ticks) <= count + 2


def test_times_are_counted_from_the_start() -> None:
    assert time_ticks(1860.0, None, 9) == [
        (0.0, "0"), (300.0, "5 min"), (600.0, "10 min"), (900.0, "15 min"),
        (1200.0, "20 min"), (1500.0, "25 min"), (1800.0, "30 min"),
    ]  # fmt: skip


def test_dates_stand_on_round_times_of_the_clock() -> None:
    """1,715,587,200 is 2024-05-13 08:00 UTC; from 07:40 on the full hours are 20, 80, ... minutes away."""
    ticks = time_ticks(4 * 3600.0, 1_715_587_200.0 - 1200.0, 5)
    assert ticks == [(1200.0, "08:00"), (4800.0, "09:00"), (8400.0, "10:00"), (12000.0, "11:00")]


def test_midnight_is_the_day() -> None:
    """A day from 08:00 on, in steps of six hours."""
    labels = [label for _, label in time_ticks(86400.0, 1_715_587_200.0, 4)]
    assert labels == ["12:00", "18:00", "14 May", "06:00"]


@given(st.floats(0.0, 1e10), st.none() | st.floats(0.0, 4e9), st.integers(2, 9))
def test_there_are_never_too_many_times(seconds: float, epoch: float | None, count: int) -> None:
    assert len(time_ticks(seconds, epoch, count)) <= count + 1


def test_a_moment_is_a_date_where_the_start_has_one() -> None:
    assert moment(90.0, None) == "1 min 30 s"
    assert moment(90.0, 1_715_587_200.0) == "2024-05-13 08:01:30 UTC"


def test_lengths_of_time_leave_out_what_is_nought() -> None:
    assert [duration(one) for one in (0.0, 59.6, 3620.0, 97200.0)] == ["0 s", "1 min", "1 h 20 s", "1 d 3 h"]
    assert duration(86400 + 7200 + 180 + 4, 2) == "1 d 2 h"
