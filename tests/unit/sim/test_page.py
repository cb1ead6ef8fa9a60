"""The page of a simulated engine, read back by what reads real pages."""

import pytest
from prometheus_client import generate_latest
from prometheus_client.core import Metric

from specloop_engine.reader import read_sample
from specloop_policy.ladder import Level
from specloop_sim.engine import EngineModel
from specloop_sim.serve.page import EnginePage, Tallies
from specloop_sim.serve.tally import Tally, one_two_five
from tests.unit.sim.levels import DISABLED, K5, LARGE, NGRAM, requests


class Collected:
    """Families to be written out."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def watched(level: Level) -> tuple[EngineModel, Tallies, EnginePage]:
    tallies = Tallies(LARGE.max_model_len)
    engine = EngineModel(LARGE, level, max_num_seqs=16, watcher=tallies)
    return engine, tallies, EnginePage(engine, tallies, "demo")


@pytest.mark.parametrize("level", [DISABLED, K5, NGRAM], ids=lambda level: level.name)
@pytest.mark.parametrize("at", [0.0, 3.3, 9.0, 500.0])
def test_the_page_says_what_the_sample_says(level: Level, at: float) -> None:
    engine, _, page = watched(level)
    for request in requests(60, per_second=6.0):
        engine.submit(request)
    text = generate_latest(Collected(list(page.families(at)))).decode()
    read, sample = read_sample(text, at), engine.sample(at)
    for name in (
        *("at", "dialect", "drafting", "tokens", "generation_tokens", "prompt_tokens", "finished_requests"),
        *("one_token_requests", "length_requests", "first_tokens", "engine_steps", "running", "waiting"),
    ):
        assert getattr(read, name) == getattr(sample, name), name
    assert read.kv_cache_percent == pytest.approx(sample.kv_cache_percent)


@pytest.mark.parametrize("level", [DISABLED, K5, NGRAM], ids=lambda level: level.name)
def test_histograms_add_up_to_what_was_served(level: Level) -> None:
    engine, tallies, _ = watched(level)
    asked = requests(80, per_second=6.0)
    for request in asked:
        engine.submit(request)
    engine.advance(1e9)
    done = engine.finished()
    tokens = sum(request.output_tokens for request in asked)
    assert tallies.e2e.sum == pytest.approx(sum(finished.e2e_seconds for finished in done))
    assert tallies.queue.sum + tallies.prefill.sum + tallies.decode.sum == pytest.approx(tallies.e2e.sum)
    assert tallies.generation.sum == tokens
    assert tallies.iteration.sum == tokens + sum(request.prompt_tokens for request in asked)
    assert tallies.inter_token.sum == pytest.approx(tallies.decode.sum)
    assert tallies.iteration.count == engine.counters.steps


def test_under_speculation_inter_token_latency_rises_while_serving_gets_faster() -> None:
    """Why nobody should judge by it: one sample per event, and an event carries several tokens."""
    means, seconds = [], []
    for level in (DISABLED, K5):
        engine, tallies, _ = watched(level)
        for request in requests(40, per_second=2.0):
            engine.submit(request)
        engine.advance(1e9)
        means.append(tallies.inter_token.sum / tallies.inter_token.count)
        seconds.append(tallies.e2e.sum)
    assert means[1] > means[0]
    assert seconds[1] < seconds[0]


def test_a_tally_counts_a_value_on_an_edge_at_or_below_it() -> None:
    tally = Tally((0.1, 0.5))
    for value in (0.1, 0.3, 7.0):
        tally.observe(value)
    assert list(tally.cumulative()) == [("0.1", 1), ("0.5", 2), ("+Inf", 3)]


def test_token_edges_end_below_the_longest_text() -> None:
    assert one_two_five(1024) == [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
