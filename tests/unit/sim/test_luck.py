"""Chance: dealt by name, spread as published, its mean kept."""

import numpy as np
import pytest
from numpy.typing import NDArray

from specloop_policy.ladder import Method
from specloop_sim.luck import Spread, deal, deal_normal
from specloop_sim.text import CHARACTERS, Kind, match_share, survival

SHARES = (np.arange(4000) + 0.5) / 4000


def requests_of(kind: Kind, method: Method, tokens: int) -> NDArray[np.float64]:
    """Survival by position of evenly spaced requests, easiest first."""
    share = match_share(kind, method)
    spread = Spread(survival(kind, method, 0.0, tokens), share, CHARACTERS[kind].spread_shape)
    return np.array([spread.survival(spread.place(one)) for one in SHARES])


def test_more_numbers_begin_with_the_same_ones() -> None:
    assert (deal(1, "r1", 10) == deal(1, "r1", 500)[:10]).all()


def test_seed_and_request_each_change_the_numbers() -> None:
    assert len({deal(seed, name, 1)[0] for seed in (1, 2) for name in ("r1", "r2")}) == 4


def test_normal_numbers_have_mean_0_and_deviation_1() -> None:
    numbers = [deal_normal(0, f"r{place}") for place in range(4000)]
    assert np.mean(numbers) == pytest.approx(0.0, abs=0.05)  # three standard errors
    assert np.std(numbers) == pytest.approx(1.0, abs=0.04)


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("method", [Method.DRAFT_MODEL, Method.EAGLE, Method.NGRAM])
def test_over_all_drafts_the_mean_at_every_position_is_the_given_survival(kind: Kind, method: Method) -> None:
    """A request makes drafts in inverse proportion to the tokens that its steps yield."""
    survivals = requests_of(kind, method, 5)
    drafts = 1.0 / (1.0 + match_share(kind, method) * survivals.sum(axis=1))
    means = (drafts[:, None] * survivals).sum(axis=0) / drafts.sum()
    assert means == pytest.approx(survival(kind, method, 0.0, 5), abs=0.005)


@pytest.mark.parametrize(
    ("kind", "draft_tokens", "published", "tolerance"),
    [(Kind.CHAT, 315, 55.0, 8.0), (Kind.STRUCTURED, 70, 1.6, 0.2)],
)
def test_the_design_effect_is_that_of_published_traces(
    kind: Kind, draft_tokens: int, published: float, tolerance: float
) -> None:
    """1 + (n - 1) correlation, with EAGLE at K=3; structured output stands where maths was measured."""
    rates = requests_of(kind, Method.EAGLE, 3).mean(axis=1)
    correlation = rates.var() / (rates.mean() * (1.0 - rates.mean()))
    assert 1.0 + (draft_tokens - 1) * correlation == pytest.approx(published, abs=tolerance)


def test_an_easy_request_is_easy_at_every_position() -> None:
    survivals = requests_of(Kind.CHAT, Method.EAGLE3, 5)
    assert (np.diff(survivals, axis=0) <= 0.0).all()
    assert (np.diff(survivals, axis=1) <= 0.0).all()
