"""Searches propose what was not tried before."""

import pytest

from specloop_sim.sweep.fields import field_at
from specloop_sim.sweep.search import Guided, Search, grid_by_lot, whole_grid
from specloop_sim.sweep.space import Choice, Space
from specloop_sim.sweep.values import parameter
from tests.unit.sweep.specs import SPEC, limits

SPACE = limits("30..44:2", "50..64:2")
"""8 x 8 combinations."""
WIDE = limits("10..48:2", "50..88:2")
"""20 x 20 of them."""


def ask_all(search: Search, most: int = 1000) -> list[Choice]:
    """What is proposed, where no answer ever comes back."""
    found: list[Choice] = []
    while len(found) < most and (choice := search.ask()) is not None:
        found.append(choice)
    return found


def answered(search: Search, space: Space, count: int) -> list[Choice]:
    """What is proposed where the best place is the upper right corner, and every change costs nothing."""
    found: list[Choice] = []
    for _ in range(count):
        choice = search.ask()
        assert choice is not None
        search.tell(choice, float(sum(choice)), 0.0, 0)
        found.append(choice)
    return found


def test_a_grid_has_every_combination_in_order() -> None:
    assert ask_all(whole_grid(SPACE)) == list(SPACE.choices())


def test_a_grid_by_lot_has_every_combination_and_depends_on_the_seed_alone() -> None:
    first = ask_all(grid_by_lot(SPACE, 1))
    assert sorted(first) == sorted(SPACE.choices())
    assert first == ask_all(grid_by_lot(SPACE, 1))
    assert first != ask_all(grid_by_lot(SPACE, 2))


def test_a_grid_larger_than_memory_is_no_trouble() -> None:
    paths = ("maxEvidenceSeconds", "settleSeconds", "minRequests", "designEffect")
    fields = (field_at(SPEC, f"signals.{one}") for one in paths)
    huge = Space(tuple(parameter(one, "1..1000") for one in fields))
    assert huge.size == 10**12
    assert len(ask_all(grid_by_lot(huge, 1), most=5)) == 5


@pytest.mark.slow
def test_guided_proposals_never_repeat_and_end_when_all_is_tried() -> None:
    space = limits("30..38:2", "50..54:2")
    found = answered(Guided(space, 1), space, 15)
    assert sorted(found) == sorted(space.choices())
    assert len(found) == len(set(found)) == space.size


def test_guided_proposals_depend_on_the_seed_alone() -> None:
    first = answered(Guided(SPACE, 1), SPACE, 20)
    assert first == answered(Guided(SPACE, 1), SPACE, 20)
    assert first != answered(Guided(SPACE, 2), SPACE, 20)


def test_guided_proposals_learn() -> None:
    found = answered(Guided(WIDE, 1), WIDE, 40)
    # by lot the mean of both places together would be 19; the best corner has 38
    late = found[20:]
    assert sum(sum(one) for one in late) / len(late) > 25.0


def test_what_leaves_requests_unanswered_is_kept_away_from() -> None:
    free, kept = (forbidden(unanswered) for unanswered in (0, 100))
    # the best corner is forbidden, and the best of what is allowed lies right beside it
    assert kept < 0.75 * free


def forbidden(unanswered: int) -> int:
    """How many proposals of the right half there are, where those leave so many requests unanswered."""
    search, count = Guided(WIDE, 1), 0
    for place in range(60):
        choice = search.ask()
        assert choice is not None
        right = choice[0] > 9
        search.tell(choice, float(sum(choice)), 0.0, unanswered if right else 0)
        count += right and place >= 20
    return count


def test_combinations_that_are_dropped_or_under_way_are_not_proposed_again() -> None:
    search, found = Guided(SPACE, 1), []
    for place in range(30):
        choice = search.ask()
        assert choice is not None
        found.append(choice)
        if place % 3 == 0:
            search.drop(choice)
    assert len(set(found)) == 30
