"""What nothing beats, and what to take."""

from hypothesis import given, settings
from hypothesis import strategies as st

from specloop_sim.sweep.figures import Judged, Measured, judge
from specloop_sim.sweep.front import Candidate, best, front


def candidate(number: int, speed: float, changes: int, *, unanswered: int = 0, departures: int = 1) -> Candidate:
    """A candidate with what came of it."""
    judged = Judged(speed, changes, changes, 1.0, unanswered)
    return Candidate(number, (number,), departures if number else 0, judged)


def numbers(*found: Candidate) -> list[int]:
    """By which candidates are known."""
    return [one.number for one in found]


def test_the_front_has_what_is_not_beaten_in_both() -> None:
    tried = [candidate(0, 30, 4), candidate(1, 35, 4), candidate(2, 20, 1), candidate(3, 25, 5), candidate(4, 10, 0)]
    assert numbers(*front(tried)) == [4, 2, 1]


def test_of_those_that_come_out_alike_the_one_nearest_to_the_policy_stands_for_all() -> None:
    tried = [candidate(0, 10, 2), candidate(1, 30, 2, departures=5), candidate(2, 30, 2, departures=1)]
    assert numbers(*front(tried)) == [2]
    assert best(tried).number == 2


def test_the_best_is_the_fastest_with_no_more_changes_than_the_policy_has() -> None:
    tried = [candidate(0, 30, 2), candidate(1, 50, 3), candidate(2, 35, 2), candidate(3, 33, 1)]
    assert best(tried).number == 2


def test_the_policy_itself_is_best_where_none_is_faster() -> None:
    tried = [candidate(0, 30, 2), candidate(1, 50, 3), candidate(2, 30, 2)]
    assert best(tried).number == 0


def test_whoever_leaves_requests_unanswered_is_neither() -> None:
    tried = [candidate(0, 30, 2), candidate(1, 50, 1, unanswered=1)]
    assert numbers(*front(tried)) == [0]
    assert best(tried).number == 0


def test_a_policy_that_leaves_requests_unanswered_is_best_only_for_want_of_others() -> None:
    bad = candidate(0, 90, 2, unanswered=3)
    assert best([bad, candidate(1, 10, 2)]).number == 1
    assert best([bad, candidate(1, 10, 3)]).number == 0


tried = st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 4), st.integers(0, 1)), min_size=1, max_size=20)


@given(tried)
@settings(max_examples=100)
def test_the_front_is_what_comparing_all_pairs_finds(rows: list[tuple[int, int, int]]) -> None:
    candidates = [candidate(place, *row[:2], unanswered=row[2]) for place, row in enumerate(rows)]
    sound = {(row[0], row[1]) for row in rows if not row[2]}
    beaten = {one for one in sound for other in sound if other != one and other[0] >= one[0] and other[1] <= one[1]}
    found = [(one.judged.speed_percent, one.judged.changes) for one in front(candidates)]
    assert sorted(found) == sorted(sound - beaten)


def test_speed_is_the_mean_of_what_each_trace_gains() -> None:
    runs = [Measured(3.0, 2, 1, 0), Measured(9.0, 1, 1, 2)]
    disabled = [Measured(4.0, 0, 0, 0), Measured(10.0, 0, 0, 1)]
    # 1 - 3/4 = 25 %, 1 - 9/10 = 10 %: 17.5 % on average; 2 + 1 changes; one request more unanswered than without
    found = judge(runs, disabled)
    assert round(found.speed_percent, 9) == 17.5
    assert (found.changes, found.restarts, found.mean_request_seconds, found.unanswered) == (3, 2, 6.0, 1)


def test_requests_that_nobody_answers_are_nobodys_fault() -> None:
    assert judge([Measured(3.0, 0, 0, 5)], [Measured(4.0, 0, 0, 7)]).unanswered == 0
    assert judge([Measured(0.0, 0, 0, 5)], [Measured(0.0, 0, 0, 5)]).speed_percent == 0.0
