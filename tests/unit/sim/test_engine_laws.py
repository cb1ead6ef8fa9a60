"""What holds of the engine model whatever is asked of it, and whatever is cancelled."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from specloop_policy.ladder import Level
from specloop_sim.engine import EngineModel
from specloop_sim.request import Finish, Request
from specloop_sim.text import Kind
from tests.unit.sim.levels import DISABLED, K5, LARGE, NGRAM

KV_TOKENS = 30_000
CROWDED = replace(LARGE, kv_bytes=KV_TOKENS * (LARGE.kv_bytes_per_token + 40_000), prefill_tokens_per_step=1000)
"""Little KV cache, and prompts that take many steps."""

REQUESTS = st.lists(
    st.tuples(st.floats(0.0, 5.0), st.integers(0, 20_000), st.integers(1, 2000), st.floats(0.0, 2.0)), max_size=12
)
CANCELS = st.lists(st.tuples(st.floats(0.0, 30.0), st.integers(0, 11)), max_size=6)


@settings(max_examples=150, deadline=None)
@given(asked=REQUESTS, cancels=CANCELS, level=st.sampled_from([DISABLED, K5, NGRAM]), places=st.integers(1, 4))
def test_every_request_ends_once_and_the_kv_cache_never_overflows(
    asked: list[tuple[float, int, int, float]], cancels: list[tuple[float, int]], level: Level, places: int
) -> None:
    engine = EngineModel(CROWDED, level, max_num_seqs=places)
    for number, (arrival, prompt, output, temperature) in enumerate(asked):
        engine.submit(Request(f"r{number}", arrival, prompt, output, temperature, Kind.CHAT))
    ended = []
    for moment, number in sorted(cancels):
        sample = engine.sample(moment)
        assert (sample.kv_cache_percent or 0.0) <= 100.0
        assert (sample.running or 0.0) <= places
        engine.cancel(f"r{number}")
        ended += engine.finished()
    engine.advance(1e9)
    ended += engine.finished()
    sample = engine.sample(1e9)
    assert sorted(one.request.id for one in ended) == sorted(f"r{number}" for number in range(len(asked)))
    assert sample.generation_tokens == sum(one.tokens for one in ended)
    assert sample.finished_requests == sum(one.finish is not Finish.ABORT for one in ended)
    assert all(one.request.arrival <= one.end for one in ended)
    assert engine.idle


@settings(max_examples=60, deadline=None)
@given(asked=REQUESTS, level=st.sampled_from([DISABLED, K5, NGRAM]), places=st.integers(1, 4))
def test_how_often_it_is_looked_at_changes_nothing(
    asked: list[tuple[float, int, int, float]], level: Level, places: int
) -> None:
    results = []
    for looks in (1, 60):
        engine = EngineModel(CROWDED, level, max_num_seqs=places)
        for number, (arrival, prompt, output, temperature) in enumerate(asked):
            engine.submit(Request(f"r{number}", arrival, prompt, output, temperature, Kind.CHAT))
        for look in range(looks):
            engine.sample(look * 0.37)
        engine.advance(1e9)
        results.append((engine.finished(), engine.sample(1e9)))
    assert results[0] == results[1]
