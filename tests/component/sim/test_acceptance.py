"""Acceptance over HTTP, read from the page, against the figures of the simulation."""

from collections.abc import Iterator

import pytest

from specloop_engine.sample import Drafting
from specloop_policy.ladder import Method
from specloop_sim.text import Kind, kind_of, match_share, survival
from tests.component.sim.servers import DRAFT_K5, NGRAM_K4, Server, serving

TOKENS = 4000
"""Of one answer."""
DRAFTS = 6000


def drafting(server: Server) -> Drafting:
    found = server.sample().drafting
    assert found is not None
    return found


def measure(server: Server, prompt: str, temperature: float) -> tuple[list[float], float]:
    """Survival by position over at least 6,000 drafts, and the share of decode steps that drafted."""
    before, tokens = drafting(server), 0
    while True:
        server.complete(prompt=prompt, temperature=temperature, max_tokens=TOKENS, ignore_eos=True)
        tokens += TOKENS - 1
        after = drafting(server)
        drafts = (after.drafts or 0.0) - (before.drafts or 0.0)
        if drafts >= DRAFTS:
            break
    pairs = zip(after.accepted_per_position, before.accepted_per_position, strict=True)
    accepted = (after.accepted_tokens or 0.0) - (before.accepted_tokens or 0.0)
    return [(now - then) / drafts for now, then in pairs], drafts / (tokens - accepted)


@pytest.fixture(scope="module")
def drafting_server() -> Iterator[Server]:
    with serving(*DRAFT_K5, speed=5000, clustering=0, seed=1) as server:
        yield server


@pytest.fixture(scope="module")
def lookup_server() -> Iterator[Server]:
    with serving(*NGRAM_K4, speed=5000, clustering=0, seed=1) as server:
        yield server


@pytest.mark.parametrize(
    ("prompt", "temperature"),
    [("Return the order as JSON", 0.0), ("Write a story about rain", 0.2), ("Write a story about rain", 0.9)],
)
def test_a_draft_model_survives_as_its_figures_say(drafting_server: Server, prompt: str, temperature: float) -> None:
    found, coverage = measure(drafting_server, prompt, temperature)
    expected = survival(kind_of(prompt), Method.DRAFT_MODEL, temperature, 5)
    assert found == pytest.approx(expected, abs=0.02)
    assert coverage == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(("prompt", "kind"), [("Summarise this", Kind.REPETITION), ("Hello there", Kind.CHAT)])
def test_a_lookup_survives_and_drafts_as_its_figures_say(lookup_server: Server, prompt: str, kind: Kind) -> None:
    found, coverage = measure(lookup_server, prompt, 0.0)
    assert found == pytest.approx(survival(kind, Method.NGRAM, 0.0, 4), abs=0.02)
    assert coverage == pytest.approx(match_share(kind, Method.NGRAM), abs=0.02)
