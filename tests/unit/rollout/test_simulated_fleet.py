"""The simulated fleet keeps to the same plan: one replica at a time, and none without time to end its requests."""

import pytest

from specloop_policy.ladder import DISABLED, Drafter, Ladder, Level, Method
from specloop_policy.rollout import placement
from specloop_sim.fleet import Difference, Fleet, Hardware
from specloop_sim.profile import profile_named
from specloop_sim.request import Finish, Request

SMALL = Drafter("small", Method.DRAFT_MODEL, "meta-llama/Llama-3.2-1B-Instruct")
K5, K3 = Level("k5", SMALL, 5), Level("k3", SMALL, 3)
LADDER = Ladder((K5, K3, DISABLED))


@pytest.fixture
def fleet() -> Fleet:
    """Three replicas at k5 that start in ten seconds and drain for five at most."""
    profile = profile_named("4xh100-llama-3.3-70b")
    return Fleet(Hardware(profile, startup_seconds=10.0, drain_seconds=5.0), LADDER, K5, 3, seed=1)


def request(number: int, output_tokens: int) -> Request:
    return Request(
        id=f"r{number}",
        arrival=0.0,
        prompt_tokens=100,
        output_tokens=output_tokens,
        temperature=0.0,
        finish=Finish.STOP,
    )


def away(fleet: Fleet) -> list[str]:
    """Replicas that do not serve now."""
    return [one.name for one in fleet.replicas if not one.serves(fleet.now)]


def levels(fleet: Fleet) -> list[str]:
    return [one.level.name for one in fleet.replicas]


def test_replicas_change_one_after_the_other(fleet: Fleet) -> None:
    """Ten seconds away each: thirty in all, and two slices in which one is back and the next has not gone yet."""
    fleet.apply(placement(fleet.pods(), "k3", None))
    seconds, order = 0, list[str]()
    while fleet.changing or away(fleet):
        seconds += 1
        fleet.advance(float(seconds))
        assert len(away(fleet)) <= 1
        order += [name for name in away(fleet) if order[-1:] != [name]]
        assert seconds < 60
    assert order == ["replica-0", "replica-1", "replica-2"]
    assert levels(fleet) == ["k3", "k3", "k3"]
    assert fleet.restarts == 3
    assert 30 <= seconds <= 36


def test_a_probe_restarts_the_first_replica_alone(fleet: Fleet) -> None:
    fleet.apply(placement(fleet.pods(), "k5", "k3"))
    for second in range(1, 30):
        fleet.advance(float(second))
    assert levels(fleet) == ["k3", "k5", "k5"]
    assert fleet.restarts == 1
    assert fleet.workload().level == "k5"


def test_requests_go_round_a_replica_that_changes(fleet: Fleet) -> None:
    fleet.apply(placement(fleet.pods(), "k3", None))
    fleet.advance(1.0)
    for number in range(20):
        fleet.submit(request(number, 50))
    assert fleet.replicas[0].outstanding == 0
    assert fleet.outstanding == 20


def test_a_request_that_ends_within_the_drain_is_not_cut_off(fleet: Fleet) -> None:
    fleet.submit(request(1, 20))
    fleet.apply(placement(fleet.pods(), "k3", None))
    finished = [one for second in range(1, 60) for one in fleet.advance(float(second))]
    assert [one.finish for one in finished] == [Finish.STOP]


def test_a_request_that_does_not_is_cut_off_and_sent_again(fleet: Fleet) -> None:
    """4,000 tokens take longer than five seconds on any replica, so the first restart cuts the request off.

    It starts anew elsewhere and keeps its first arrival: it is answered later than by a fleet that stays as it is.
    """
    fleet.submit(request(1, 4000))
    fleet.apply(placement(fleet.pods(), "k3", None))
    (finished,) = [one for tenth in range(1, 1200) for one in fleet.advance(tenth / 10.0)]
    assert fleet.retried >= 1
    assert fleet.outstanding == 0
    assert (finished.finish, finished.tokens, finished.request.arrival) == (Finish.STOP, 4000, 0.0)
    calm = Fleet(fleet.hardware, LADDER, K3, 3, seed=1)
    calm.submit(request(1, 4000))
    (undisturbed,) = calm.advance(120.0)
    assert finished.e2e_seconds > 5.0 + undisturbed.e2e_seconds


def test_a_request_longer_than_an_engine_takes_is_counted_and_no_error(fleet: Fleet) -> None:
    fleet.submit(request(1, 1_000_000))
    assert (fleet.refused, fleet.outstanding) == (1, 0)


def test_where_k_may_change_live_nothing_restarts_within_a_drafter() -> None:
    profile = profile_named("4xh100-llama-3.3-70b")
    fleet = Fleet(Hardware(profile, startup_seconds=10.0, drain_seconds=5.0, live_seconds=1.0), LADDER, K5, 3, seed=1)
    fleet.apply(placement(fleet.pods(), "k3", None))
    fleet.advance(0.5)
    assert levels(fleet) == ["k5", "k5", "k5"]
    fleet.advance(1.0)
    assert levels(fleet) == ["k3", "k3", "k3"]
    assert [one.engine.tokens for one in fleet.replicas] == [3, 3, 3]
    assert (fleet.restarts, fleet.changing) == (0, False)
    fleet.apply(placement(fleet.pods(), "disabled", None))
    for tenth in range(20, 600):
        fleet.advance(tenth / 10.0)
    assert levels(fleet) == ["disabled", "disabled", "disabled"]
    assert fleet.restarts == 3


def test_replicas_may_differ() -> None:
    """The second one is half as fast, so that the same request takes twice as long there."""
    profile = profile_named("4xh100-llama-3.3-70b")
    fleet = Fleet(Hardware(profile, differences=(Difference(), Difference(speed=0.5))), LADDER, DISABLED, 2, seed=1)
    fleet.submit(request(1, 1000))
    fleet.submit(request(2, 1000))
    first, second = sorted(fleet.advance(600.0), key=lambda one: one.request.id)
    assert second.e2e_seconds == pytest.approx(2.0 * first.e2e_seconds)
