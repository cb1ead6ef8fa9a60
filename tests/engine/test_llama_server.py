"""What SpecLoop believes about llama.cpp, asked of a real llama-server (build 11434) on two tiny models."""

import threading
import time

import httpx
import pytest

from .conftest import DRAFT_FLAGS, DRAFT_GOOD, FORCED, LlamaServer, StartServer, Traffic, draft_flags, ngram_flags

pytestmark = pytest.mark.timeout(60)

TOTALS = (
    "spec_decode_num_draft_tokens_total",
    "spec_decode_num_accepted_tokens_total",
    "spec_decode_num_drafts_total",
)
ALWAYS_THERE = (
    *TOTALS,
    "tokens_predicted_total",
    "tokens_predicted_seconds_total",
    "prompt_tokens_total",
    "prompt_seconds_total",
    "requests_processing",
    "requests_deferred",
    "n_busy_slots_per_decode",
)
PROMPT = "Tell me, in as many words as it takes, what a speculative decoder does."


def by_position(page: dict[str, float]) -> list[float]:
    """Accepted tokens by draft position; empty where the page has no such series."""
    name = "spec_decode_num_accepted_tokens_per_pos_total"
    positions = sum(series.startswith(name) for series in page)
    return [page[f'{name}{{position="{position}"}}'] for position in range(positions)]


def acceptance(page: dict[str, float]) -> float:
    """Accepted tokens per draft token since the server started."""
    drafted, accepted, _ = (page[name] for name in TOTALS)
    assert drafted > 0
    return accepted / drafted


def survival(page: dict[str, float]) -> list[float]:
    """Share of drafts that were accepted up to and including each position."""
    return [accepted / page["spec_decode_num_drafts_total"] for accepted in by_position(page)]


def after_traffic(server: LlamaServer, temperature: float, requests: int = 60) -> dict[str, float]:
    """The page once `requests` requests at `temperature` have been answered."""
    with Traffic(server.url, temperature) as traffic:
        traffic.wait_for(requests)
    return server.metrics()


def test_a_drafting_server_has_every_family_and_a_series_for_each_position(start_server: StartServer) -> None:
    page = after_traffic(start_server(*draft_flags(4)), temperature=0, requests=10)
    assert set(ALWAYS_THERE) <= page.keys()
    accepted = by_position(page)
    assert len(accepted) == 4
    assert accepted == sorted(accepted, reverse=True)
    assert sum(accepted) == page["spec_decode_num_accepted_tokens_total"]


def test_before_the_first_request_totals_are_zero_and_positions_absent(start_server: StartServer) -> None:
    page = start_server(*draft_flags(4)).metrics()
    assert [page[name] for name in TOTALS] == [0, 0, 0]
    assert by_position(page) == []
