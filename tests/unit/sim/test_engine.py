"""The engine model against arithmetic, and the laws it keeps."""

import math
from dataclasses import replace

import pytest

from specloop_policy.cost import LineStepTimes, Load, tokens_per_step
from specloop_policy.ladder import Level
from specloop_sim.engine import Draining, EngineModel, Refused, TooLong
from specloop_sim.profile import Profile
from specloop_sim.request import Finish, Finished, Request
from specloop_sim.text import Kind, survival
from tests.unit.sim.levels import DISABLED, EAGLE_K3, K3, K5, LARGE, NGRAM, SMALL, requests

ALL_LEVELS = pytest.mark.parametrize("level", [DISABLED, K3, K5, NGRAM], ids=lambda level: level.name)


def one(name: str = "r", arrival: float = 0.0, prompt: int = 100, output: int = 100, **values: object) -> Request:
    return Request(name, arrival, prompt, output, **values)  # type: ignore[arg-type]


def run(engine: EngineModel, asked: list[Request]) -> list[Finished]:
    for request in asked:
        engine.submit(request)
    engine.advance(math.inf)
    return engine.finished()


@pytest.mark.parametrize(
    ("profile", "level"), [(SMALL, DISABLED), (SMALL, EAGLE_K3), (LARGE, K3), (LARGE, K5)], ids=lambda it: it.name
)
def test_alone_a_request_runs_at_tokens_per_step_over_seconds_per_step(profile: Profile, level: Level) -> None:
    output = 100_000
    (done,) = run(EngineModel(profile, level, clustering=False), [one(output=output, kind=Kind.PROSE)])
    tokens = 1.0
    if level.drafter is not None:
        tokens = tokens_per_step(survival(Kind.PROSE, level.drafter.method, 0.0, level.tokens))
    seconds = profile.times.seconds(level, Load(1.0, 100 + output / 2))
    assert seconds is not None
    assert 1.0 / done.tpot_seconds == pytest.approx(tokens / seconds, rel=0.01)


def test_the_first_token_comes_when_the_prompt_is_computed() -> None:
    """A prompt of two and a half steps' tokens takes three steps."""
    room = SMALL.prefill_tokens_per_step
    prompt = room * 5 // 2
    (done,) = run(EngineModel(SMALL), [one(arrival=3.0, prompt=prompt, output=1)])
    assert isinstance(SMALL.times, LineStepTimes)
    line, overhead = SMALL.times.target, SMALL.times.overhead_seconds
    expected = sum(line.seconds(prompt, tokens) + overhead for tokens in (room, room, room // 2))
    assert done.ttft_seconds == pytest.approx(expected)
    assert done.tpot_seconds == 0.0


def test_requests_in_the_system_are_arrivals_times_time_spent() -> None:
    """Little's law, over a stretch that begins and ends empty: the sum over moments is the sum over requests."""
    asked = requests(800, per_second=2.0)
    engine = EngineModel(LARGE, K3, max_num_seqs=6)
    for request in asked:
        engine.submit(request)
    present, now, done = 0.0, 0.0, list[Finished]()
    while len(done) < len(asked):
        now += 0.1
        sample = engine.sample(now)
        present += 0.1 * ((sample.running or 0.0) + (sample.waiting or 0.0))
        done += engine.finished()
    assert max((finished.admitted or 0.0) - finished.request.arrival for finished in done) > 1.0  # some have waited
    assert present == pytest.approx(sum(finished.e2e_seconds for finished in done), rel=0.01)


@ALL_LEVELS
def test_no_token_is_lost_and_none_is_made_up(level: Level) -> None:
    asked = requests(150, per_second=8.0)
    engine = EngineModel(LARGE, level, max_num_seqs=20)
    done = run(engine, asked)
    sample = engine.sample(1e9)
    assert {finished.request.id: finished.tokens for finished in done} == {a.id: a.output_tokens for a in asked}
    assert sample.generation_tokens == sum(request.output_tokens for request in asked)
    assert sample.prompt_tokens == sum(request.prompt_tokens for request in asked)
    assert sample.finished_requests == sample.first_tokens == len(asked)
    assert sample.one_token_requests == sum(request.output_tokens == 1 for request in asked)
    assert (sample.running, sample.waiting, sample.kv_cache_percent) == (0.0, 0.0, 0.0)
    assert engine.idle


@ALL_LEVELS
def test_counters_never_fall_and_agree_at_every_moment(level: Level) -> None:
    engine = EngineModel(LARGE, level, max_num_seqs=8)
    for request in requests(60, per_second=4.0):
        engine.submit(request)
    before = engine.sample(0.0)
    for moment in range(1, 60):
        sample = engine.sample(moment * 0.7)
        assert (sample.generation_tokens or 0.0) >= (before.generation_tokens or 0.0)
        assert (sample.engine_steps or 0.0) >= (before.engine_steps or 0.0)
        assert (sample.running or 0.0) <= 8.0
        if level.speculates:
            assert sample.drafting is not None
            assert sample.drafting.accepted_tokens == sum(sample.drafting.accepted_per_position)
            assert sample.drafting.draft_tokens == level.tokens * (sample.drafting.drafts or 0.0)
        before = sample


def test_speculation_off_has_no_counters_of_it_and_on_has_them_at_0() -> None:
    off, on = EngineModel(LARGE).sample(5.0), EngineModel(LARGE, K3).sample(5.0)
    assert (off.drafting, off.tokens) == (None, 0)
    assert on.drafting is not None
    assert (on.drafting.drafts, on.drafting.accepted_per_position, on.tokens) == (0.0, (0.0, 0.0, 0.0), 3)


@ALL_LEVELS
def test_the_same_seed_gives_the_same_results_and_another_seed_others(level: Level) -> None:
    asked = requests(60, per_second=6.0)
    first, again, other = (run(EngineModel(LARGE, level, seed=seed), asked) for seed in (1, 1, 2))
    assert first == again
    assert (first == other) is (level is DISABLED)


def test_a_request_meets_the_same_luck_alone_and_in_a_crowd() -> None:
    asked = requests(40, per_second=20.0)
    crowd = EngineModel(LARGE, K5, seed=3)
    run(crowd, asked)
    alone = [EngineModel(LARGE, K5, seed=3) for _ in asked]
    for engine, request in zip(alone, asked, strict=True):
        run(engine, [request])
    drafts = [engine.sample(1e9).drafting for engine in (crowd, *alone)]
    assert drafts[0] is not None
    assert drafts[0].accepted_tokens == sum(one.accepted_tokens or 0.0 for one in drafts[1:] if one)


def test_requests_queue_for_places_in_order_of_arrival() -> None:
    done = run(EngineModel(LARGE, max_num_seqs=2), [one(f"r{place}", arrival=place * 0.01) for place in range(6)])
    assert [finished.request.id for finished in done] == [f"r{place}" for place in range(6)]
    assert done[-1].admitted is not None
    assert done[-1].admitted >= done[1].end


def test_a_request_submitted_late_is_admitted_at_once() -> None:
    """As when a router has kept it: its time in the queue counts from its arrival."""
    engine = EngineModel(LARGE)
    engine.submit(one("first", output=3000))
    engine.advance(10.0)
    engine.submit(one("late", arrival=5.0))
    engine.advance(20.0)
    (late,) = engine.finished()
    assert late.admitted == pytest.approx(10.0, abs=0.1)
    assert (late.ttft_seconds or 0.0) > 5.0


def test_the_kv_cache_never_overflows_and_makes_requests_queue() -> None:
    profile = replace(SMALL, kv_bytes=10_000 * SMALL.kv_bytes_per_token)
    engine = EngineModel(profile)
    for place in range(40):
        engine.submit(one(f"r{place}", prompt=900, output=300))
    fullest = queued = 0.0
    for moment in range(1, 200):
        sample = engine.sample(moment * 0.1)
        fullest, queued = max(fullest, sample.kv_cache_percent or 0.0), max(queued, sample.waiting or 0.0)
    assert 80.0 < fullest <= 100.0
    assert queued > 0.0
    engine.advance(math.inf)
    assert len(engine.finished()) == 40


def test_a_request_that_can_never_fit_is_refused_with_its_size() -> None:
    engine = EngineModel(SMALL, max_model_len=1000)
    with pytest.raises(TooLong, match=r"1001 tokens \(901 in the prompt\)"):
        engine.submit(one(prompt=901, output=100))
    engine.submit(one(prompt=900, output=100))


@pytest.mark.parametrize("request_", [one(output=0), one(prompt=-1)], ids=["no answer", "negative prompt"])
def test_what_is_no_request_is_refused(request_: Request) -> None:
    with pytest.raises(Refused, match="no request"):
        EngineModel(SMALL).submit(request_)


def test_two_requests_of_one_name_are_refused_while_the_first_is_under_way() -> None:
    engine = EngineModel(SMALL)
    engine.submit(one())
    with pytest.raises(Refused, match="r is under way"):
        engine.submit(one())
    engine.advance(math.inf)
    engine.submit(one(arrival=10.0))


def test_draining_takes_nothing_new_and_ends_what_is_there() -> None:
    engine = EngineModel(LARGE, K3)
    for request in requests(10, per_second=100.0):
        engine.submit(request)
    engine.advance(0.1)
    engine.drain()
    with pytest.raises(Draining):
        engine.submit(one())
    engine.advance(math.inf)
    assert [finished.finish for finished in engine.finished()] == [Finish.STOP] * 10
    assert engine.idle


def test_stopping_loses_what_runs_and_what_waits() -> None:
    engine = EngineModel(LARGE, K3, max_num_seqs=1)
    engine.submit(one("runs", output=5000))
    engine.submit(one("waits"))
    engine.advance(5.0)
    tokens = engine.emitted("runs")
    lost = {finished.request.id: finished for finished in engine.stop()}
    assert {name: finished.finish for name, finished in lost.items()} == {"runs": Finish.ABORT, "waits": Finish.ABORT}
    assert (lost["runs"].tokens, lost["waits"].tokens) == (tokens, 0)
    assert 0 < tokens < 5000
    assert lost["waits"].first_token is None
    sample = engine.sample(6.0)
    assert (sample.finished_requests, sample.running, sample.waiting) == (0.0, 0.0, 0.0)
    assert sample.generation_tokens == tokens
    assert engine.idle


def test_a_cancelled_request_makes_room_and_time_for_the_others() -> None:
    asked = [one(f"r{place}", output=2000) for place in range(3)]
    engines = EngineModel(LARGE, K3, max_num_seqs=2), EngineModel(LARGE, K3, max_num_seqs=2)
    for engine in engines:
        for request in asked:
            engine.submit(request)
        engine.advance(2.0)
    engines[1].cancel("r0")
    engines[1].cancel("unknown")
    ends = []
    for engine in engines:
        engine.advance(math.inf)
        ends.append({finished.request.id: finished.end for finished in engine.finished()})
    assert ends[1]["r2"] < ends[0]["r2"]
    assert ends[1]["r0"] <= 2.0


@pytest.mark.parametrize("moment", [0.0, 0.3, 1.0, 3.0, 5.0])
def test_what_a_cancelled_request_leaves_is_as_if_it_had_never_been(moment: float) -> None:
    """Also when it is cancelled while its prompt is computed, which here takes all of the KV cache."""
    profile = replace(LARGE, kv_bytes=120_000 * LARGE.kv_bytes_per_token)
    untouched, engine = EngineModel(profile), EngineModel(profile)
    engine.submit(one("gone", prompt=100_000, output=5000))
    engine.advance(moment)
    engine.cancel("gone")
    later = one("later", arrival=20.0, prompt=110_000, output=300)
    (found,) = [finished for finished in run(engine, [later]) if finished.request is later]
    assert [found] == run(untouched, [later])


def test_a_cancelled_request_that_waits_never_runs() -> None:
    engine = EngineModel(LARGE, max_num_seqs=1)
    engine.submit(one("runs"))
    engine.submit(one("waits"))
    engine.advance(0.1)
    engine.cancel("waits")
    engine.advance(math.inf)
    assert [finished.finish for finished in engine.finished()] == [Finish.ABORT, Finish.STOP]


def test_progress_rises_to_the_answer_and_ends_with_it() -> None:
    engine = EngineModel(LARGE, K5)
    engine.submit(one(output=300))
    seen = []
    for moment in range(40):
        engine.advance(moment * 0.1)
        seen.append(engine.emitted("r"))
    assert seen[0] == seen[-1] == 0
    rising = [tokens for tokens in seen if tokens]
    assert rising == sorted(rising)
    assert len(set(rising)) > 5


def test_temperatures_are_counted_from_the_arrival_on() -> None:
    engine = EngineModel(LARGE, max_num_seqs=1)
    for place, temperature in enumerate((0.0, 0.25, 0.6, 2.5)):
        engine.submit(one(f"r{place}", arrival=float(place), temperature=temperature))
    counted = dict(engine.sample(2.5).temperatures)
    assert (counted[0.0], counted[0.2], counted[0.3], counted[0.6], counted[math.inf]) == (1, 1, 2, 3, 3)
    assert dict(engine.sample(4.0).temperatures)[2.0] == 3
    assert dict(engine.sample(4.0).temperatures)[math.inf] == 4


def test_busy_seconds_are_the_time_spent_in_steps() -> None:
    """One request after the other, far apart: from arrival to end each time."""
    engine = EngineModel(SMALL)
    done = run(engine, [one(f"r{place}", arrival=100.0 * place) for place in range(5)])
    assert engine.counters.busy_seconds == pytest.approx(sum(finished.e2e_seconds for finished in done))
