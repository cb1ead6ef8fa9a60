"""A simulation: the same requests for everybody, changes that cost, and figures that add up."""

from dataclasses import replace
from statistics import fmean

import pytest

from specloop_policy.decision import ActionName, Inputs
from specloop_policy.model import Schedule
from specloop_policy.policy import Policy
from specloop_sim.contest import BEST, ContestError, Entrant, best_in_hindsight, contest, score, static_levels
from specloop_sim.courses import Courses
from specloop_sim.engine import EngineModel
from specloop_sim.phases import ClosedLoop, Phase
from specloop_sim.simulate import RUN_OUT_SECONDS, simulate
from specloop_sim.text import Kind
from specloop_sim.traffic import OpenLoop
from tests.unit.simulate.scenes import DISABLED, IDLE, K3, K5, LADDER, NGRAM, PROFILE, policy, requests, setup

KNOWN = Inputs(step_times=PROFILE.times, restart_seconds=10.0)


def test_a_level_that_stays_is_the_engine_alone() -> None:
    asked = requests()
    engine = EngineModel(PROFILE, K3, seed=1)
    for request in asked:
        engine.submit(request)
    engine.advance(1e9)
    alone = engine.finished()
    figures = simulate(setup(K3, seconds=asked[-1].arrival), OpenLoop(asked)).figures
    assert figures.finished_requests == len(asked)
    assert figures.output_tokens == sum(one.tokens for one in alone)
    assert figures.mean_request_seconds == pytest.approx(fmean(one.e2e_seconds for one in alone))
    assert figures.busy_gpu_seconds == pytest.approx(engine.counters.busy_seconds)
    assert (figures.restarts, figures.changes) == (0, 0)


@pytest.mark.parametrize("replicas", [1, 3])
def test_everybody_answers_the_same_requests_with_the_same_tokens(replicas: int) -> None:
    asked = requests(900, per_second=3.0)
    outcomes = contest(setup(replicas=replicas), [Entrant(policy(), K5)], lambda: OpenLoop(asked), KNOWN)
    assert set(outcomes) == {"ours", "disabled", "static-k5", "static-k3", "static-ngram"}
    assert outcomes["ours"].figures.restarts >= replicas  # it did change something
    for outcome in outcomes.values():
        assert outcome.figures.finished_requests == 900
        assert outcome.figures.output_tokens == sum(request.output_tokens for request in asked)


def test_a_policy_steps_down_when_its_rule_has_held_and_a_restart_costs_its_time() -> None:
    """Prose at K=5 is accepted at 34 %, below the limit of 40 %; K=3 at 46 % is not.

    The earliest moment: a settling time of 10 s, so that the first whole window of the grid ends at 40 s, held for 40 s
    more.  The lone replica is away for 10 s, so some requests wait that long.
    """
    outcome = simulate(setup(), OpenLoop(requests()), policy(), lambda now: KNOWN)
    first = outcome.decisions[0]
    assert (first.before, first.decision.level, first.decision.action) == ("k5", "k3", ActionName.STEP_DOWN)
    assert first.seconds >= 80.0
    assert "acceptance-low" in first.decision.reason
    assert outcome.figures.restarts == outcome.figures.changes == len(outcome.decisions)
    assert outcome.figures.ttft_milliseconds_p99 > 5000.0
    assert [(one.start, one.end, one.level.name) for one in outcome.stays[:2]] == [
        (0.0, first.seconds, "k5"),
        (first.seconds, outcome.stays[1].end, "k3"),
    ]
    assert outcome.stays[-1].end == outcome.seconds


def test_a_live_change_restarts_nothing_and_costs_its_delay() -> None:
    asked = requests()
    live = simulate(setup(live_seconds=1.0), OpenLoop(asked), policy(), lambda now: KNOWN)
    restarting = simulate(setup(), OpenLoop(asked), policy(), lambda now: KNOWN)
    assert live.decisions[0].seconds == restarting.decisions[0].seconds
    assert live.figures.restarts == 0
    assert live.figures.mean_request_seconds < restarting.figures.mean_request_seconds


def test_a_restart_empties_the_prefix_cache() -> None:
    """With a share of prompts in the cache, time to first token is shorter at a level that stays, and is so again only
    when the cache has filled after a restart: never shorter than without a restart."""
    asked = requests(kind=Kind.CHAT)
    plain = simulate(setup(K3), OpenLoop(asked)).figures
    warm = simulate(setup(K3, prefix_share=0.8), OpenLoop(asked)).figures
    assert warm.ttft_milliseconds_p50 < plain.ttft_milliseconds_p50
    assert warm.busy_gpu_seconds < plain.busy_gpu_seconds


def test_a_schedule_forces_its_level_and_gives_it_back() -> None:
    """From 00:01 for 60 s every day, UTC; the simulation begins at midnight."""
    schedule = Schedule.model_validate(
        {"name": "nightly", "cron": "1 0 * * *", "timeZone": "UTC", "durationSeconds": 60, "level": "disabled"}
    )
    calm = policy(rules=IDLE)
    entrant = Entrant(calm, K3, (schedule,))
    outcome = simulate(setup(K3), OpenLoop(requests(kind=Kind.STRUCTURED)), entrant.policy, entrant.inputs(KNOWN))
    moves = [(one.seconds, one.before, one.decision.level) for one in outcome.decisions]
    assert moves[0] == (60.0, "k3", "disabled")
    assert moves[1][1:] == ("disabled", "k3")
    assert 120.0 <= moves[1][0] <= 130.0
    assert "nightly" in outcome.decisions[0].decision.reason


def test_what_is_not_answered_in_ten_minutes_after_a_short_trace_is_counted() -> None:
    """Four thousand requests of 3,000 tokens within ten seconds are twelve million; ten minutes give about three."""
    asked = requests(4000, per_second=400.0, output=3000)
    seconds = asked[-1].arrival
    outcome = simulate(setup(DISABLED, seconds=seconds), OpenLoop(asked))
    figures = outcome.figures
    assert figures.unfinished_requests > 0
    assert figures.finished_requests + figures.unfinished_requests == 4000
    assert outcome.seconds == pytest.approx(seconds + RUN_OUT_SECONDS, abs=15.0)


def test_requests_that_all_come_at_once_are_answered_like_any_others() -> None:
    asked = [replace(request, arrival=0.0) for request in requests(50)]
    figures = simulate(setup(K3, seconds=0.0), OpenLoop(asked)).figures
    assert (figures.finished_requests, figures.unfinished_requests) == (50, 0)
    assert figures.mean_request_seconds > 0.0


def test_the_same_again_is_the_same_to_the_last_bit_and_courses_kept_change_nothing() -> None:
    asked = requests()
    first = simulate(setup(), OpenLoop(asked), policy(), lambda now: KNOWN)
    again = simulate(setup(), OpenLoop(asked), policy(), lambda now: KNOWN)
    courses = Courses()
    kept = [simulate(replace(setup(), courses=courses), OpenLoop(asked), policy(), lambda now: KNOWN) for _ in range(2)]
    assert [first, again] == kept == [first, first]


@pytest.mark.parametrize("interval", [1, 5, 20])
def test_how_often_a_policy_that_does_nothing_looks_changes_nothing_else(interval: int) -> None:
    asked = requests(200)
    idle: Policy = policy(rules=IDLE, intervalSeconds=interval)
    watched = simulate(setup(K3), OpenLoop(asked), idle, lambda now: KNOWN).figures
    alone = simulate(setup(K3), OpenLoop(asked)).figures
    assert watched.mean_request_seconds == alone.mean_request_seconds
    assert watched.tpot_milliseconds_p99 == alone.tpot_milliseconds_p99


def test_clients_who_wait_are_compared_by_tokens_and_others_by_seconds() -> None:
    phase = Phase("chat", 60.0, 8, "Tell me something.", 0.0, 200, 200)
    traffic = lambda: ClosedLoop([phase], 0.0, 1)  # noqa: E731
    entrants = [Entrant(policy(rules=IDLE), K5)]
    outcomes = contest(setup(seconds=60.0), entrants, traffic, KNOWN)
    statics = static_levels(entrants)
    best = best_in_hindsight(outcomes, statics, closed_loop=True)
    most = max(outcomes[name].figures.output_tokens_per_second for name in statics)
    assert outcomes[best].figures.output_tokens_per_second == most
    assert score(outcomes[best], closed_loop=False)[1] == outcomes[best].figures.mean_request_seconds


def test_levels_of_several_policies_stand_once_each() -> None:
    other = policy("other", levels=[{"name": "k3", "drafter": "lookup", "tokens": 3}, {"name": "disabled"}])
    entrants = [Entrant(policy(), K5), Entrant(policy("twin"), K5), Entrant(other, other.ladder.levels[0])]
    assert list(static_levels(entrants)) == [
        "disabled", "static-k5", "static-k3", "static-ngram", "static-k3-of-other",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["disabled", "static-k5", BEST])
def test_a_policy_that_takes_a_contestants_name_is_refused(name: str) -> None:
    with pytest.raises(ContestError, match=name):
        contest(setup(), [Entrant(policy(name), K5)], lambda: OpenLoop([]), KNOWN)


def test_traffic_without_a_request_gives_noughts() -> None:
    figures = simulate(setup(NGRAM, seconds=30.0), OpenLoop([]), policy(), lambda now: KNOWN).figures
    assert (figures.finished_requests, figures.mean_request_seconds, figures.output_tokens_per_second) == (0, 0.0, 0.0)


def test_the_ladder_is_known_to_the_last_level() -> None:
    assert LADDER.names() == ("k5", "k3", "ngram", "disabled")
