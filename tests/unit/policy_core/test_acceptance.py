"""How much is known of acceptance: intervals that take one request for one witness, and predictions at another K."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_policy.acceptance import Pool, at_tokens, effective, extended, standard_errors, wilson
from specloop_policy.observation import Outcome, Window
from tests.support.windows import measured

EXAMPLE = Window(
    "pod-0",
    0.0,
    300.0,
    Outcome.MEASURED,
    level="k5",
    tokens=5,
    drafts=9000.0,
    draft_tokens=45000.0,
    accepted_tokens=14400.0,
    finished_requests=240.0,
)
"""The example of the command line's contract: 14,400 of 45,000 draft tokens accepted in 240 requests."""


def pool(*windows: Window, design_effect: float = 50.0, looks: int = 1) -> Pool:
    """Windows as one pool."""
    return Pool(windows, 300.0, design_effect, looks)


def test_interval_of_the_contract_s_example() -> None:
    """0.32 from 0.29 to 0.35: 45,000 / 50 = 900 independent drafts, 1.96 sqrt(.32 .68 / 900) = .030."""
    acceptance = pool(EXAMPLE).acceptance
    assert acceptance is not None
    assert acceptance.value == pytest.approx(0.32)
    assert (round(acceptance.low, 2), round(acceptance.high, 2)) == (0.29, 0.35)


def test_design_effect_is_at_most_a_request_s_own_draft_tokens() -> None:
    """45,000 draft tokens of 240 requests, 187.5 each: 50 divides in full, 660 as 187.5, and that leaves 240 requests.

    600 draft tokens of 240 requests are 2.5 each, so 50 divides as 2.5: again one witness a request.
    """
    assert effective(45000.0, 240.0, 50.0) == pytest.approx(900.0)
    assert effective(45000.0, 240.0, 660.0) == pytest.approx(240.0)
    assert effective(600.0, 240.0, 50.0) == pytest.approx(240.0)
    assert effective(100.0, 240.0, 50.0) == pytest.approx(100.0)


def test_no_finished_request_is_one_witness_at_most() -> None:
    """Drafts of requests that run on all belong to one or few: a design effect beyond them leaves one."""
    assert effective(40.0, 0.0, 50.0) == pytest.approx(1.0)


@pytest.mark.parametrize(("looks", "expected"), [(1, 1.96), (2, 2.24), (5, 2.58)])
def test_intervals_widen_with_the_looks_taken(looks: int, expected: float) -> None:
    """Bonferroni: 5 % over two looks are 2.5 % each, over five 1 %: the two-sided normal table's 2.24 and 2.58."""
    assert standard_errors(looks) == pytest.approx(expected, abs=0.005)


def test_wilson_against_a_worked_example() -> None:
    """Ten of a hundred: (.1 + .0192 ± 1.96 sqrt(.0009 + .0000960)) / 1.0384 = .055 and .174."""
    interval = wilson(10.0, 100.0, 100.0, 1)
    assert interval.low == pytest.approx(0.055, abs=0.001)
    assert interval.high == pytest.approx(0.174, abs=0.001)


def test_nothing_accepted_is_known_to_be_little() -> None:
    """Nought of a hundred is 0 to 1.96^2 / (100 + 1.96^2) = 3.7 %, not 0 to 0."""
    interval = wilson(0.0, 100.0, 100.0, 1)
    assert interval.low == 0.0
    assert interval.high == pytest.approx(0.037, abs=0.001)


@given(st.floats(0.0, 1.0), st.floats(1.0, 1e6), st.integers(1, 12))
def test_interval_holds_its_value_and_stays_a_share(share: float, weight: float, looks: int) -> None:
    """Whatever the counts, 0 <= low <= value <= high <= 1."""
    interval = wilson(share * weight, weight, weight, looks)
    assert 0.0 <= interval.low <= interval.value <= interval.high <= 1.0


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(1.0, 1e5), st.integers(1, 12))
def test_interval_rises_with_the_share(one: float, two: float, weight: float, looks: int) -> None:
    """More accepted drafts never lower either end."""
    less, more = (wilson(share * weight, weight, weight, looks) for share in sorted((one, two)))
    assert less.low <= more.low + 1e-12
    assert less.high <= more.high + 1e-12


@given(st.floats(0.0, 1.0), st.floats(1.0, 1e5), st.floats(1.0, 100.0), st.integers(1, 11))
def test_interval_narrows_with_evidence_and_widens_with_looks(
    share: float, weight: float, more: float, looks: int
) -> None:
    """More independent drafts never widen it, more looks never narrow it."""
    plain = wilson(share, 1.0, weight, looks)
    richer = wilson(share, 1.0, weight * more, looks)
    wider = wilson(share, 1.0, weight, looks + 1)
    assert richer.high - richer.low <= plain.high - plain.low + 1e-12
    assert plain.high - plain.low <= wider.high - wider.low + 1e-12


def test_pool_adds_counts_and_averages_gauges_over_time() -> None:
    """Two pods: counts are summed, running requests are the mean of 4 and 8, context 500 + half the answer."""
    one = measured((0.5, 0.25), running=4.0, requests=100.0, drafts=1000.0)
    two = measured((0.7, 0.55), running=8.0, requests=100.0, drafts=1000.0, pod="pod-1")
    both = pool(one, two)
    assert both.running == pytest.approx(6.0)
    assert both.survival == pytest.approx((0.6, 0.4))
    assert both.requests == 200.0
    # 2,000 steps, 2,000 accepted of 4,000 drafted: 1.0 of two a step.
    assert both.acceptance is not None
    assert both.acceptance.value == pytest.approx(0.5)
    assert both.acceptance_length == pytest.approx(2.0)
    # Answers: 2,000 steps + 2,000 accepted + 200 first tokens = 4,200 tokens, 21 a request; half of it is 10.5.
    assert both.context_tokens == pytest.approx(510.5)


def test_steps_without_a_draft_count_in_the_tokens_per_step() -> None:
    """n-gram with a match in a quarter of the steps and 2 of 4 accepted: 1 + .25 x 2 = 1.5 tokens a step."""
    scarce = pool(measured((0.5, 0.5, 0.5, 0.5), coverage=0.25))
    assert scarce.coverage is not None
    assert scarce.coverage.value == pytest.approx(0.25)
    assert scarce.tokens_per_step is not None
    assert scarce.tokens_per_step.value == pytest.approx(1.5)


def test_nothing_drafted_is_no_acceptance_and_one_token_a_step() -> None:
    """Without a draft there is no rate; every step yields its one token."""
    nothing = pool(replace(measured((), drafts=0.0), generation_tokens=48000.0, tokens=5))
    assert nothing.acceptance is None
    assert nothing.tokens_per_step is not None
    assert (nothing.tokens_per_step.low, nothing.tokens_per_step.high) == (1.0, 1.0)


def test_hot_share_reads_the_edge_itself_as_cool() -> None:
    """Upper edges are inclusive: a request at 0.6 is not above 0.6; between two edges the next one up is taken."""
    histogram = ((0.0, 10.0), (0.6, 60.0), (0.7, 70.0), (float("inf"), 100.0))
    counted = pool(replace(EXAMPLE, temperatures=histogram))
    shares = {limit: counted.hotter_than(limit) for limit in (0.0, 0.6, 0.65, 0.7, 2.0)}
    values = {limit: share.value for limit, share in shares.items() if share is not None}
    assert values == pytest.approx({0.0: 0.9, 0.6: 0.4, 0.65: 0.3, 0.7: 0.3, 2.0: 0.0})
    assert pool(EXAMPLE).hotter_than(0.6) is None


def test_prediction_of_a_shorter_draft_cuts_the_survival() -> None:
    """.62 .41 .28 .18 .11 at K=5 is 1.60 of 5 = .32; at K=3 the first three remain, 1.31 of 3 = .437."""
    at_five = pool(measured((0.62, 0.41, 0.28, 0.18, 0.11)))
    at_three = at_tokens(at_five, 5, 3)
    assert at_five.acceptance is not None
    assert at_five.acceptance.value == pytest.approx(0.32)
    assert at_three.acceptance is not None
    assert at_three.acceptance.value == pytest.approx(1.31 / 3)
    assert at_three.acceptance_length == pytest.approx(2.31)
    assert at_three.decode_steps == pytest.approx(at_five.decode_steps)


def test_prediction_of_a_longer_draft_goes_on_with_the_mean_acceptance() -> None:
    """.8 .64 .512 is .8 at each of three positions, so .4096 and .32768 follow."""
    assert extended((0.8, 0.64, 0.512), 5) == pytest.approx((0.8, 0.64, 0.512, 0.4096, 0.32768))
    assert extended((0.8, 0.64), 1) == (0.8,)
    assert extended((), 4) == ()


def test_prediction_without_positions_finds_the_one_acceptance_behind_the_mean() -> None:
    """llama.cpp tells no positions: 1.176 accepted of 3 is .6 + .36 + .216, so .6 at each."""
    window = replace(measured((0.6, 0.36, 0.216)), accepted_per_position=())
    at_one = at_tokens(pool(window), 3, 1)
    assert at_one.acceptance is not None
    assert at_one.acceptance.value == pytest.approx(0.6, abs=1e-6)


def test_prediction_keeps_what_the_draft_length_does_not_touch() -> None:
    """Coverage, load, context and temperature are as seen."""
    seen = pool(measured((0.5, 0.3, 0.2), coverage=0.5, hot_share=0.25, running=12.0))
    expected = at_tokens(seen, 3, 5)
    assert expected.coverage == seen.coverage
    assert expected.running == seen.running
    assert expected.context_tokens == seen.context_tokens
    assert expected.hotter_than(0.6) == seen.hotter_than(0.6)


survivals = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8).map(lambda chances: tuple(sorted(chances)[::-1]))


@given(survivals, st.floats(0.0, 1.0), st.integers(1, 8))
def test_better_acceptance_never_predicts_worse(survival: tuple[float, ...], lift: float, tokens: int) -> None:
    """Raising every position's survival raises, or keeps, what is expected at any K."""
    better = tuple(share + lift * (1.0 - share) for share in survival)
    present = len(survival)
    low, high = (at_tokens(pool(measured(one)), present, tokens).acceptance for one in (survival, better))
    assert low is not None
    assert high is not None
    assert low.value <= high.value + 1e-9
    assert low.low <= high.low + 1e-9
    assert low.high <= high.high + 1e-9


@given(survivals, st.integers(1, 8))
def test_predicted_survival_never_rises_with_the_position(survival: tuple[float, ...], tokens: int) -> None:
    """A later draft is accepted only where the one before it was."""
    shares = extended(survival, tokens)
    assert len(shares) == tokens
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(shares))
