"""Numbered markers: apart where there is room, together where there is none."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from specloop_sim.report.frame import NARROW
from specloop_sim.report.markers import placed


def test_markers_with_room_stand_alone_in_the_first_row() -> None:
    markers = placed([50.0, 100.0, 200.0], NARROW)
    assert [(one.label, one.centre, one.row) for one in markers] == [("1", 50, 0), ("2", 100, 0), ("3", 200, 0)]


def test_a_marker_without_room_goes_to_the_second_row() -> None:
    assert [(one.label, one.row) for one in placed([100.0, 110.0], NARROW)] == [("1", 0), ("2", 1)]


def test_a_third_one_at_the_same_place_shares_a_marker() -> None:
    assert [one.label for one in placed([100.0, 100.0, 100.0, 300.0], NARROW)] == ["1", "2–3", "4"]


@given(st.lists(st.floats(44.0, 394.0), max_size=60).map(sorted))
def test_markers_never_overlap_nor_leave_the_sheet_and_none_is_lost(places: list[float]) -> None:
    markers = placed(places, NARROW)
    assert [number for one in markers for number in range(one.first, one.last + 1)] == list(range(len(places)))
    for row in (0, 1):
        for one, other in pairwise(marker for marker in markers if marker.row == row):
            assert one.centre + one.half <= other.centre - other.half
    assert all(one.centre - one.half >= 0 and one.centre + one.half <= NARROW.width for one in markers)
