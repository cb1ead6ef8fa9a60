"""The figures behind the simulation, against their sources."""

from statistics import NormalDist, fmean, median

import pytest

from specloop_policy.cost import closed_form_tokens, constant_survival, tokens_per_step
from specloop_policy.ladder import Method
from specloop_sim.text import (
    Kind,
    UnknownText,
    answer_tokens,
    kind_of,
    match_share,
    survival,
    temperature_factor,
)


def rate(kind: Kind, method: Method, tokens: int, temperature: float = 0.0) -> float:
    """Accepted over drafted tokens."""
    return sum(survival(kind, method, temperature, tokens)) / tokens


def test_eagle_on_chat_survives_as_vllm_pull_request_32374_measured() -> None:
    assert survival(Kind.CHAT, Method.EAGLE, 0.0, 5) == pytest.approx((0.681, 0.391, 0.204, 0.101, 0.051), abs=0.001)


def test_eagle3_on_chat_has_the_lengths_of_vllm_issue_20780() -> None:
    lengths = [tokens_per_step(survival(Kind.CHAT, Method.EAGLE3, 0.0, tokens)) for tokens in range(2, 8)]
    assert lengths == pytest.approx([2.36, 2.79, 3.08, 3.32, 3.46, 3.54], abs=0.02)


def test_mtp_begins_with_the_83_percent_of_vllm_issue_48892() -> None:
    assert survival(Kind.CHAT, Method.MTP, 0.0, 1) == pytest.approx((0.834,))


def test_structured_output_is_accepted_above_75_percent_at_five_tokens() -> None:
    assert rate(Kind.STRUCTURED, Method.DRAFT_MODEL, 5) > 0.75


def test_prose_stays_below_50_percent_and_crosses_40_percent_between_three_and_five_tokens() -> None:
    assert 0.40 < rate(Kind.PROSE, Method.DRAFT_MODEL, 3) < 0.50
    assert rate(Kind.PROSE, Method.DRAFT_MODEL, 5) < 0.40


def test_lookup_on_repetition_is_accepted_at_58_to_64_percent() -> None:
    assert 0.58 <= rate(Kind.REPETITION, Method.NGRAM, 4) <= 0.64


@pytest.mark.parametrize(("kind", "gain"), [(Kind.REPETITION, 2.66), (Kind.CHAT, 1.60)])
def test_lookup_gains_what_spec_bench_measured_at_batch_1(kind: Kind, gain: float) -> None:
    """E = 1 + m (E(a, K) - 1), drafts for nothing."""
    drafted = tokens_per_step(survival(kind, Method.NGRAM, 0.0, 4))
    assert 1.0 + match_share(kind, Method.NGRAM) * (drafted - 1.0) == pytest.approx(gain, abs=0.1)


def test_greedy_drafts_fall_from_72_to_25_percent_as_in_the_field_report() -> None:
    cold = 0.875  # (.875 + .875^2 + .875^3 + .875^4) / 4 = .724
    assert sum(constant_survival(cold, 4)) / 4 == pytest.approx(0.72, abs=0.01)
    hot = cold * temperature_factor(Method.DRAFT_MODEL, 0.9)
    assert sum(constant_survival(hot, 4)) / 4 == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("kind", [Kind.CHAT, Kind.STRUCTURED])
@pytest.mark.parametrize("tokens", [3, 5, 7])
def test_sampled_drafts_lose_4_to_21_percent_of_their_length_at_temperature_1(kind: Kind, tokens: int) -> None:
    cold = tokens_per_step(survival(kind, Method.EAGLE3, 0.0, tokens, probabilistic=True))
    hot = tokens_per_step(survival(kind, Method.EAGLE3, 1.0, tokens, probabilistic=True))
    assert 0.04 <= 1.0 - hot / cold <= 0.21


def test_survival_beyond_the_table_goes_on_with_its_last_figure() -> None:
    assert tokens_per_step(survival(Kind.CHAT, Method.DRAFT_MODEL, 0.0, 10)) == pytest.approx(
        closed_form_tokens(0.75, 10)
    )


def test_no_temperature_is_too_high() -> None:
    assert survival(Kind.CHAT, Method.EAGLE, 1e308, 2) == (0.0, 0.0)


def test_a_method_without_figures_is_refused_by_name() -> None:
    with pytest.raises(UnknownText, match="medusa"):
        survival(Kind.CHAT, Method.MEDUSA, 0.0, 3)


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ("Return the order as JSON.", Kind.STRUCTURED),
        ("Write a Python function that sorts.", Kind.STRUCTURED),
        ("Tell me a long story about rain.", Kind.PROSE),
        ("Summarize the following report: ...", Kind.REPETITION),
        ("Please SUMMARISE this essay.", Kind.REPETITION),
        ("Extract the names from this table.", Kind.REPETITION),
        ("What is the capital of France?", Kind.CHAT),
        ("How do I spell historystory?", Kind.CHAT),
        ("", Kind.CHAT),
        ("x" * 4000 + " JSON", Kind.CHAT),
    ],
)
def test_the_kind_is_read_from_the_words_of_the_prompt(prompt: str, kind: Kind) -> None:
    assert kind_of(prompt) is kind


def test_answers_have_the_median_and_mean_of_the_azure_conversation_trace() -> None:
    """Standard normal numbers at evenly spaced shares stand in for chance."""
    normals = NormalDist().quantiles(2000)
    lengths = [answer_tokens(Kind.CHAT, normal) for normal in normals]
    assert median(lengths) == pytest.approx(129, abs=1)
    assert fmean(lengths) == pytest.approx(211, rel=0.02)
