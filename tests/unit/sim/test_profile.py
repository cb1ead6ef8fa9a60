"""Profiles: their lines against the cost model and the data they come from, and what they make worth while."""

import numpy as np
import pytest

from specloop_policy.cost import LineStepTimes, Load, level_cost, tokens_per_step
from specloop_policy.ladder import DISABLED, Level, Method
from specloop_sim.profile import PROFILES, Profile, UnknownProfile, derived_line, profile_named
from specloop_sim.text import Kind, match_share, survival
from tests.unit.sim.levels import DRAFT, EAGLE, EAGLE_K3, K3, K5, LARGE, NGRAM, SMALL

CONTEXT = 1000.0


def gain(level: Level, running: float, kind: Kind, temperature: float = 0.0) -> float:
    """Speed gained over not speculating, every request drafting or none where there is no match."""
    assert level.drafter is not None
    cost = level_cost(LARGE.times, level, DISABLED, Load(running, CONTEXT))
    assert cost is not None
    share = match_share(kind, level.drafter.method)
    tokens = tokens_per_step(survival(kind, level.drafter.method, temperature, level.tokens))
    return cost.gain(1.0 + share * (tokens - 1.0), share)


@pytest.mark.parametrize("running", [1.0, 16.0, 64.0])
@pytest.mark.parametrize(
    ("profile", "level"),
    [(SMALL, DISABLED), (SMALL, EAGLE_K3), (SMALL, NGRAM), (LARGE, K5), (LARGE, NGRAM)],
    ids=lambda one: one.name,
)
def test_a_step_takes_what_the_cost_model_says(profile: Profile, level: Level, running: float) -> None:
    rows = np.array([[running * CONTEXT], [running], [running * (level.tokens + 1)], [0.0]])
    expected = profile.times.seconds(level, Load(running, CONTEXT))
    assert profile.timer(level).seconds(rows)[0] == pytest.approx(expected)


def test_a_lookup_without_a_match_takes_hardly_more_than_a_plain_step() -> None:
    rows = np.array([[CONTEXT], [1.0], [1.0], [0.0]])
    plain, lookup = (SMALL.timer(level).seconds(rows)[0] for level in (DISABLED, NGRAM))
    assert plain < lookup < 1.01 * plain


def test_a_draft_model_at_live_k_0_still_runs_one_pass() -> None:
    """Seen on vLLM 0.32.0; reports say 4 to 18 % slower than truly off (vLLM issue 53420)."""
    rows = np.array([[CONTEXT], [1.0], [1.0], [0.0]])
    off = LARGE.timer(DISABLED).seconds(rows)[0]
    parked = LARGE.timer(Level("parked", DRAFT, 0)).seconds(rows)[0]
    assert 1.04 <= parked / off <= 1.18


def test_the_derivation_gives_the_line_that_was_fitted_for_8b() -> None:
    assert isinstance(SMALL.times, LineStepTimes)
    derived, fitted = derived_line(8.03e9, 131_072.0, gpus=1, constant=0.0), SMALL.times.target
    assert derived.constant == pytest.approx(fitted.constant, rel=0.01)
    assert derived.per_token == pytest.approx(fitted.per_token, rel=0.01)
    assert derived.per_context_token == pytest.approx(fitted.per_context_token, rel=0.01)


@pytest.mark.parametrize("running", [1.0, 8.0, 32.0])
def test_five_drafts_pay_best_on_structured_output(running: float) -> None:
    assert gain(K5, running, Kind.STRUCTURED) > gain(K3, running, Kind.STRUCTURED) > 1.0


@pytest.mark.parametrize("running", [1.0, 8.0, 32.0])
def test_three_drafts_pay_better_than_five_on_prose(running: float) -> None:
    assert gain(K3, running, Kind.PROSE) > gain(K5, running, Kind.PROSE)
    assert gain(K3, running, Kind.PROSE) > 0.3


@pytest.mark.parametrize("level", [K5, K3], ids=["k5", "k3"])
def test_drafts_of_hot_prose_cost_more_than_they_bring_at_a_big_batch(level: Level) -> None:
    assert gain(level, 64.0, Kind.PROSE, temperature=1.0) < 0.0


@pytest.mark.parametrize("level", [K5, K3, NGRAM], ids=["k5", "k3", "ngram"])
def test_nothing_pays_on_hot_prose_at_the_full_batch(level: Level) -> None:
    assert gain(level, 256.0, Kind.PROSE, temperature=1.0) < 0.0


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_a_draft_model_takes_kv_cache_and_a_lookup_takes_none(profile: Profile) -> None:
    method = profile.methods()[0]
    drafting = profile.kv_tokens(Level("drafting", type(EAGLE)("d", method, "d"), 3))
    assert 100_000 < drafting < profile.kv_tokens(DISABLED) == profile.kv_tokens(NGRAM)


def test_unknown_names_and_drafters_are_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownProfile, match="there are h100-llama"):
        profile_named("tpu")
    with pytest.raises(UnknownProfile, match=Method.DRAFT_MODEL):
        LARGE.timer(EAGLE_K3)
