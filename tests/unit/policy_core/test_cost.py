"""The cost model against published figures: the closed form, fitted lines, measured tables and two warnings."""

import pytest

from specloop_policy.cost import (
    LevelCost,
    Line,
    LineStepTimes,
    Load,
    MeasuredStepTimes,
    StepTimes,
    best_level,
    break_even_acceptance,
    break_even_tokens,
    closed_form_tokens,
    constant_survival,
    interpolate,
    level_cost,
    single_stream_speedup,
    tokens_per_step,
)
from specloop_policy.ladder import DISABLED, Drafter, Level, Method

EAGLE = Drafter("head", Method.EAGLE, "yuhuili/EAGLE-LLaMA3.1-Instruct-8B")
LOOKUP = Drafter("lookup", Method.NGRAM, lookup_min=2, lookup_max=4)


def eagle(tokens: int) -> Level:
    """An EAGLE head with K = `tokens`, `disabled` for 0."""
    return Level(f"k{tokens}", EAGLE, tokens) if tokens else DISABLED


def cost_of(times: StepTimes, level: Level, load: Load) -> LevelCost:
    """The cost of a level where it is known to be known."""
    cost = level_cost(times, level, DISABLED, load)
    assert cost is not None
    return cost


# Leviathan et al. 2023, table 4 (T5-XXL, TPU-v4, batch 1): acceptance, K, draft step per target step, expected
# speed-up; the speed-ups measured there scatter more and are not predicted by any formula.
LEVIATHAN = [
    ("EnDe small, T=0", 0.75, 7, 0.02, 3.2),
    ("EnDe base, T=0", 0.80, 7, 0.04, 3.3),
    ("EnDe large, T=0", 0.82, 7, 0.11, 2.5),
    ("EnDe small, T=1", 0.62, 7, 0.02, 2.3),
    ("EnDe base, T=1", 0.68, 5, 0.04, 2.4),
    ("EnDe large, T=1", 0.71, 3, 0.11, 2.0),
    ("CNNDM small, T=0", 0.65, 5, 0.02, 2.4),
    ("CNNDM base, T=0", 0.73, 5, 0.04, 2.6),
    ("CNNDM large, T=0", 0.74, 3, 0.11, 2.0),
    ("CNNDM small, T=1", 0.53, 5, 0.02, 1.9),
    ("CNNDM base, T=1", 0.55, 3, 0.04, 1.8),
    ("CNNDM large, T=1", 0.56, 3, 0.11, 1.6),
]


@pytest.mark.parametrize(("acceptance", "tokens", "draft_cost", "expected"), [row[1:] for row in LEVIATHAN])
def test_closed_form_gives_the_published_speed_up(
    acceptance: float, tokens: int, draft_cost: float, expected: float
) -> None:
    """Leviathan's expected column comes out within 0.1 in every row."""
    assert single_stream_speedup(acceptance, tokens, draft_cost) == pytest.approx(expected, abs=0.1)


def test_closed_form_is_the_sum_over_positions() -> None:
    """1 + .5 + .25 + .125 = 1.875 = (1 - .5^4) / (1 - .5), and an acceptance of 1 gives K + 1."""
    assert closed_form_tokens(0.5, 3) == tokens_per_step(constant_survival(0.5, 3)) == 1.875
    assert closed_form_tokens(1.0, 3) == 4.0


# vLLM issue 20780 (Llama-3.1-8B, MT-Bench, batch 1): acceptance length and milliseconds per token by K.
ISSUE_20780 = {
    "EAGLE": {2: (2.10, 4.37), 3: (2.29, 4.29), 4: (2.39, 4.48), 5: (2.43, 4.71), 6: (2.45, 4.94), 7: (2.47, 5.20)},
    "EAGLE-3": {2: (2.36, 4.32), 3: (2.79, 4.09), 4: (3.08, 4.05), 5: (3.32, 4.13), 6: (3.46, 4.20), 7: (3.54, 4.29)},
}
# The lines fitted to them, milliseconds: a step of a + b K, so a verify step of a and K draft passes of b.
FITTED = {"EAGLE": (7.69, 0.74), "EAGLE-3": (8.35, 1.02)}


def fitted(head: str) -> LineStepTimes:
    """The fitted line of one head as step times."""
    constant, per_pass = FITTED[head]
    return LineStepTimes(
        target=Line(0.0, 0.0, constant / 1e3),
        drafts=((Method.EAGLE, Line(0.0, 0.0, per_pass / 1e3)),),
        draft_passes=True,
    )


@pytest.mark.parametrize("head", ISSUE_20780)
def test_fitted_line_gives_the_measured_milliseconds(head: str) -> None:
    """A step of a + b K over the acceptance length is the measured time per token within 0.1 ms."""
    for tokens, (length, milliseconds) in ISSUE_20780[head].items():
        seconds = fitted(head).seconds(eagle(tokens), Load(1.0, 0.0))
        assert seconds is not None
        assert 1e3 * seconds / length == pytest.approx(milliseconds, abs=0.1)


@pytest.mark.parametrize(("head", "best"), [("EAGLE", 3), ("EAGLE-3", 4)])
def test_fitted_line_names_the_best_draft_length(head: str, best: int) -> None:
    """The K with the fewest measured milliseconds is the one the line names: 3 at 4.29, 4 at 4.05."""
    yields = [
        (eagle(tokens), length, cost_of(fitted(head), eagle(tokens), Load(1.0, 0.0)).seconds)
        for tokens, (length, _) in ISSUE_20780[head].items()
    ]
    assert best_level(yields) == eagle(best)


# vLLM pull request 32374 (EAGLE, Llama-3.1-8B): survival by position, and step times in ms at K = 0, 1, 3, 5 by batch.
SURVIVAL_32374 = (0.681, 0.391, 0.204, 0.101, 0.051)
STEPS_32374 = {
    1: (6.52, 7.37, 8.84, 10.33),
    4: (6.60, 7.47, 8.98, 10.40),
    16: (6.90, 7.85, 9.52, 11.20),
    64: (7.77, 9.66, 13.50, 16.83),
    256: (14.49, 27.14, 41.85, 57.40),
}
MEASURED_32374 = MeasuredStepTimes(
    Method.EAGLE,
    tuple(
        (float(batch), tokens, milliseconds / 1e3)
        for batch, row in STEPS_32374.items()
        for tokens, milliseconds in zip((0, 1, 3, 5), row, strict=True)
    ),
)


@pytest.mark.parametrize(("batch", "best"), [(1, 3), (4, 3), (16, 3), (64, 1), (256, 0)])
def test_measured_table_names_the_best_draft_length(batch: int, best: int) -> None:
    """Best K 3, 3, 3, 1, 0: tokens a step are 1, 1.681, 2.276 and 2.428 at K = 0, 1, 3, 5.

    At batch 64 that is 128.7, 174.0, 168.6 and 144.3 tokens a second and request; at 256 it is 69.0, 61.9, 54.4, 42.3.
    """
    load = Load(float(batch), 512.0)
    yields = [
        (level, tokens_per_step(SURVIVAL_32374[: level.tokens]), cost_of(MEASURED_32374, level, load).seconds)
        for level in map(eagle, (5, 3, 1, 0))
    ]
    assert best_level(yields) == eagle(best)


def test_measured_table_is_read_between_its_rows_and_never_beyond() -> None:
    """Batch 10 at K=3 lies halfway from 8.98 to 9.52; K=2 at batch 1 halfway from 7.37 to 8.84 ms."""
    assert MEASURED_32374.seconds(eagle(3), Load(10.0, 0.0)) == pytest.approx(9.25e-3)
    assert MEASURED_32374.seconds(eagle(2), Load(1.0, 0.0)) == pytest.approx(8.105e-3)
    assert MEASURED_32374.seconds(eagle(3), Load(257.0, 0.0)) is None
    assert MEASURED_32374.seconds(eagle(3), Load(0.5, 0.0)) is None
    assert MEASURED_32374.seconds(eagle(6), Load(1.0, 0.0)) is None
    assert MEASURED_32374.seconds(Level("ngram", LOOKUP, 4), Load(1.0, 0.0)) is None


def test_interpolation_needs_a_neighbour_on_either_side() -> None:
    """Nothing is read off beyond the first and the last point."""
    assert interpolate({1.0: 10.0, 3.0: 20.0}, 2.0) == 15.0
    assert interpolate({1.0: 10.0}, 2.0) is None
    assert interpolate({}, 2.0) is None


# One H100, Llama-3.1-8B in bf16 (SpecDecode-Bench), seconds: per token of context, per token computed, constant.
# The EAGLE line describes the whole proposal; n-gram look-up takes 0.5875 % of the verify time.
H100 = LineStepTimes(
    target=Line(3.92645679e-8, 2.10103129e-5, 5.88590713e-3),
    overhead_seconds=1.20683946e-3,
    drafts=((Method.EAGLE, Line(2.37768493e-9, 8.41429603e-7, 2.13526175e-3)),),
    lookup_share=0.005875,
)


@pytest.mark.parametrize(
    ("batch", "with_eagle", "with_ngram"),
    [(1, 0.24, 0.01), (8, 0.27, 0.07), (32, 0.35, 0.20), (64, 0.42, 0.30), (128, 0.50, 0.42), (256, 0.57, 0.52)],
)
def test_break_even_acceptance_on_one_h100(batch: int, with_eagle: float, with_ngram: float) -> None:
    """K=3 at 512 tokens of context; the overhead counts in the plain step as well."""
    load = Load(float(batch), 512.0)
    assert break_even_acceptance(cost_of(H100, eagle(3), load)) == pytest.approx(with_eagle, abs=0.01)
    ngram = Level("ngram", LOOKUP, 3)
    assert break_even_acceptance(cost_of(H100, ngram, load)) == pytest.approx(with_ngram, abs=0.01)


def test_long_context_lowers_the_break_even() -> None:
    """At 4,096 tokens of context EAGLE needs only .29 even at batch 256: reading the KV cache outweighs the rest."""
    assert break_even_acceptance(cost_of(H100, eagle(3), Load(256.0, 4096.0))) == pytest.approx(0.29, abs=0.01)


def test_break_even_tokens_ask_for_the_margin_and_only_on_steps_that_draft() -> None:
    """A step of 15 ms against 10: r = 1.5, with 5 % margin 1.575; where half the steps draft r is 1.25."""
    cost = LevelCost(eagle(3), 0.015, 0.010)
    assert break_even_tokens(cost, 0.05) == pytest.approx(1.575)
    assert break_even_tokens(cost, 0.0, coverage=0.5) == pytest.approx(1.25)
    assert cost.gain(1.8) == pytest.approx(0.2)


def test_best_level_takes_the_smaller_draft_length_on_a_tie() -> None:
    """Three tokens in 30 ms are as good as two in 20; nothing to choose from is no level."""
    assert best_level([(eagle(5), 3.0, 0.030), (eagle(3), 2.0, 0.020)]) == eagle(3)
    assert best_level([]) is None


def test_unknown_step_times_are_no_cost() -> None:
    """A drafter without a line has no cost, and neither has a level without a plain step to compare with."""
    mtp = Level("k1", Drafter("mtp", Method.MTP), 1)
    assert level_cost(H100, mtp, DISABLED, Load(8.0, 512.0)) is None
    speculative_only = MeasuredStepTimes(Method.EAGLE, ((1.0, 1, 7.37e-3), (1.0, 3, 8.84e-3)))
    assert level_cost(speculative_only, eagle(1), DISABLED, Load(1.0, 0.0)) is None


def test_high_acceptance_does_not_pay_when_the_step_is_dear() -> None:
    """vLLM issue 39680: MTP with K=1 and 96.6 % accepted, 128 tokens a second where off gave 342.

    1.966 tokens a step at 128 a second are 15.4 ms a step against 2.92 ms: 5.25 plain steps, a loss of 63 %.
    """
    plain = 1.0 / 342.0
    cost = LevelCost(Level("k1", Drafter("mtp", Method.MTP), 1), 1.966 / 128.0, plain)
    assert cost.ratio() == pytest.approx(5.25, abs=0.01)
    assert cost.gain(1.966) == pytest.approx(128.0 / 342.0 - 1.0)


def test_fixed_cost_a_round_makes_the_shorter_draft_worse() -> None:
    """vLLM issue 44697: 25 ms a round for pipeline parallelism, here on a plain step of 20 ms.

    Survival .7, .5: K=1 yields 1.7 / 45 ms = 38 a second, K=2 2.2 / 45 ms = 49, off 1 / 20 ms = 50.
    """
    k1, k2 = eagle(1), eagle(2)
    assert best_level([(k2, 2.2, 0.045), (k1, 1.7, 0.045)]) == k2
    assert best_level([(k2, 2.2, 0.045), (k1, 1.7, 0.045), (DISABLED, 1.0, 0.020)]) == DISABLED
