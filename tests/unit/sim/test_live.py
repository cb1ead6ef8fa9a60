"""K changed while an engine runs: nothing is lost, and from then on it drafts the new number of tokens."""

from dataclasses import replace

import pytest

from specloop_policy.cost import LineStepTimes
from specloop_sim.course import Drafting, course_of
from specloop_sim.engine import EngineModel
from specloop_sim.request import Finished, Request
from specloop_sim.text import Kind
from tests.unit.sim.levels import DISABLED, K3, K5, LARGE, NGRAM, requests


def drained(engine: EngineModel) -> list[Finished]:
    """Everything that is left, answered."""
    engine.advance(1e9)
    return engine.finished()


def test_a_request_goes_on_where_it_was_at_the_new_k() -> None:
    """Alone in the engine: steps at K=5 up to the change, then its own course at K=3 from that token on."""
    request = Request("r", 0.0, 100, 400, 0.0, Kind.CHAT)
    engine = EngineModel(LARGE, K5, seed=3)
    engine.submit(request)
    engine.advance(1.0)
    out = engine.emitted("r")
    steps = int(engine.counters.steps) - 1  # the first computes the prompt
    before = course_of(request, Drafting(K5, 3))
    assert before.emitted[steps] == out
    engine.set_tokens(3)
    drained(engine)
    rest = course_of(request, Drafting(K3, 3), start=out, step=steps)
    assert engine.counters.steps == 1 + steps + len(rest)
    drafting = engine.sample(1e9).drafting
    assert drafting is not None
    assert drafting.draft_tokens == 5 * steps + 3 * len(rest)
    assert drafting.drafts == steps + len(rest)


def test_no_token_is_lost_whenever_k_changes() -> None:
    asked = requests(120, per_second=8.0)
    engine = EngineModel(LARGE, K5, seed=3, max_num_seqs=12)
    for request in asked:
        engine.submit(request)
    for moment, tokens in enumerate((3, 0, 5, 1, 0, 2, 5), 1):
        engine.advance(2.0 * moment)
        engine.set_tokens(tokens)
    done = engine.finished() + drained(engine)
    assert {one.request.id: one.tokens for one in done} == {one.id: one.output_tokens for one in asked}
    sample = engine.sample(1e9)
    assert sample.generation_tokens == sum(one.output_tokens for one in asked)
    assert engine.idle


def test_a_page_shows_the_k_in_use_and_positions_above_it_stand_still() -> None:
    engine = EngineModel(LARGE, K5)
    for request in requests(40, per_second=10.0):
        engine.submit(request)
    before = engine.sample(4.0)
    assert (before.tokens, before.generation) == (5, None)
    engine.set_tokens(2)
    at_change = engine.sample(4.0)
    after = engine.sample(30.0)
    assert (after.tokens, after.generation) == (2, 1)
    assert at_change.drafting is not None
    assert after.drafting is not None
    moved = [
        late > early
        for early, late in zip(
            at_change.drafting.accepted_per_position, after.drafting.accepted_per_position, strict=True
        )
    ]
    assert moved == [True, True, False, False, False]


def test_k_of_nothing_is_a_brake_that_costs_a_pass_of_the_drafter() -> None:
    """Each decode step yields one token and takes a plain step and one pass of the draft model at batch 1."""
    engine, plain = EngineModel(LARGE, K5), EngineModel(LARGE)
    engine.set_tokens(0)
    for one in (engine, plain):
        one.submit(Request("r", 0.0, 0, 1001, 0.0, Kind.CHAT))
    (braked,), (off,) = drained(engine), drained(plain)
    assert isinstance(LARGE.times, LineStepTimes)
    line = dict(LARGE.times.drafts)["draft_model"]
    contexts = sum(range(1, 1001))
    drafting = 1000 * (line.constant + line.per_token) + contexts * line.per_context_token
    assert (braked.end - braked.first_token) - (off.end - off.first_token) == pytest.approx(drafting)  # type: ignore[operator]


@pytest.mark.parametrize("tokens", [-1, 6])
def test_a_k_that_it_was_not_started_for_is_refused(tokens: int) -> None:
    with pytest.raises(ValueError, match="started with, 5"):
        EngineModel(LARGE, K5).set_tokens(tokens)


def test_without_a_drafter_there_is_no_k_to_change() -> None:
    with pytest.raises(ValueError, match="K = 1"):
        EngineModel(LARGE, DISABLED).set_tokens(1)


def test_a_lookup_keeps_counting_matches_only() -> None:
    engine = EngineModel(LARGE, NGRAM)
    for request in requests(60, per_second=10.0, kind=Kind.REPETITION):
        engine.submit(request)
    engine.advance(3.0)
    engine.set_tokens(2)
    drained(engine)
    drafting = engine.sample(1e9).drafting
    assert drafting is not None
    assert 0.0 < (drafting.accepted_tokens or 0.0) < (drafting.draft_tokens or 0.0)


def test_a_warm_prefix_cache_saves_its_share_of_a_prompt_and_a_cold_one_nothing() -> None:
    """The cache is warm once as many prompt tokens went in as the KV cache holds: 7,500 of 30,000 make a quarter."""
    small = replace(LARGE, kv_bytes=30_000 * LARGE.kv_bytes_per_token)
    engine, without = EngineModel(small, prefix_share=0.4), EngineModel(small)
    assert engine.kv_tokens == 30_000
    for one in (engine, without):
        one.submit(Request("cold", 0.0, 7500, 1))
        one.submit(Request("warm", 100.0, 5000, 1))
    cold, warm = drained(engine)
    plain_cold, plain_warm = drained(without)
    assert cold.ttft_seconds == plain_cold.ttft_seconds
    assert isinstance(LARGE.times, LineStepTimes)
    saved = int(0.4 * 0.25 * 5000) * LARGE.times.target.per_token
    assert plain_warm.ttft_seconds - warm.ttft_seconds == pytest.approx(saved)  # type: ignore[operator]


def test_a_slow_replica_takes_longer_in_proportion_and_a_poor_drafter_accepts_less() -> None:
    request = Request("r", 0.0, 100, 3000, 0.0, Kind.CHAT)
    ends, lengths = [], []
    for values in ({}, {"speed": 0.5}, {"acceptance_factor": 0.5}):
        engine = EngineModel(LARGE, K5, seed=3, clustering=False, **values)  # type: ignore[arg-type]
        engine.submit(request)
        (done,) = drained(engine)
        drafting = engine.sample(1e9).drafting
        assert drafting is not None
        ends.append(done.end)
        lengths.append((drafting.accepted_tokens or 0.0) / (drafting.drafts or 1.0))
    assert ends[1] == pytest.approx(2.0 * ends[0])
    assert lengths[2] == pytest.approx(sum(0.375**i for i in range(1, 6)), rel=0.1)  # .75 halved at every position


@pytest.mark.parametrize("factor", [1.1, 1.5, 2.0])
def test_a_drafter_that_is_better_than_can_be_is_accepted_always_and_no_more(factor: float) -> None:
    """.75 at every position: times 1.1 it is .825, and from 1.334 on it is 1."""
    engine = EngineModel(LARGE, K5, seed=3, clustering=False, acceptance_factor=factor)
    engine.submit(Request("r", 0.0, 100, 6000, 0.0, Kind.CHAT))
    drained(engine)
    drafting = engine.sample(1e9).drafting
    assert drafting is not None
    chance = min(1.0, 0.75 * factor)
    length = (drafting.accepted_tokens or 0.0) / (drafting.drafts or 1.0)
    assert length == pytest.approx(sum(chance**i for i in range(1, 6)), rel=0.1)
