"""A leader takes itself for one for less long than others take it for one."""

import pytest

from specloop_operator.leadership import LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS, Alone, Leadership
from tests.support.fakes import ManualClock

TAKE_OVER_SECONDS = 15.0
"""What is demanded of a take-over; docs/operator.md says 12 s."""


def leadership() -> tuple[Leadership, ManualClock]:
    """A leadership whose time is moved by hand."""
    clock = ManualClock(1000.0)
    return Leadership(clock.now), clock


def test_nobody_leads_before_the_lease_is_won() -> None:
    """A follower asks the same question."""
    found, _ = leadership()
    assert not found.holds()


@pytest.mark.parametrize("answered_after", [0.0, 1.9])
def test_a_leader_is_one_until_a_while_after_its_last_renewal_began(answered_after: float) -> None:
    """Others count from when they saw it, which is after it began and may be before it was answered."""
    found, clock = leadership()
    clock.time += answered_after
    found.renewed(began=1000.0)
    clock.time = 1000.0 + RENEW_SECONDS - 0.1
    assert found.holds()
    clock.time = 1000.0 + RENEW_SECONDS
    assert not found.holds()


def test_each_renewal_makes_it_last_for_longer() -> None:
    """Ten in a row, at twice the usual time between two looks."""
    found, clock = leadership()
    for _ in range(10):
        found.renewed(began=clock.time)
        clock.time += 2.0 * RETRY_SECONDS
        assert found.holds()


def test_a_renewal_that_was_answered_too_late_leads_to_nothing() -> None:
    """A process that was stopped meanwhile reads the answer when it goes on, and may be another's follower by then."""
    found, clock = leadership()
    clock.time += LEASE_SECONDS
    found.renewed(began=1000.0)
    assert not found.holds()


def test_who_lost_never_leads_again() -> None:
    """Not even by a renewal that succeeds: what this process remembers is old."""
    found, clock = leadership()
    found.renewed(began=clock.time)
    found.lose()
    assert not found.holds()
    found.renewed(began=clock.time)
    assert not found.holds()


def test_the_only_operator_there_is_leads_always() -> None:
    """Without a lease in the settings."""
    assert Alone().holds()


def test_a_leader_gives_up_before_others_may_lead_and_they_do_before_the_bound() -> None:
    """The last look before a lease runs out may be just too early, and the one after it is as far away again."""
    assert RENEW_SECONDS < LEASE_SECONDS
    assert LEASE_SECONDS + 2 * RETRY_SECONDS < TAKE_OVER_SECONDS
