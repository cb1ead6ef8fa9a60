"""What a window is worth and what it counts: arithmetic on recorded pages, and one case for each outcome."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_engine.reader import read_sample
from specloop_engine.sample import Drafting, Sample
from specloop_engine.window import difference
from specloop_policy.observation import Outcome, Window
from tests.unit.engine_metrics.builders import START, draft_idle_page, draft_page, recorded, v0, v1, v1_off


def window(before: Sample, after: Sample | None, *between: Sample, tokens: int | None = None) -> Window:
    return difference("pod-0", before, after, between, levels=["k2"], tokens=tokens)


def drafting(sample: Sample, **fields: Any) -> Sample:
    """The sample with other speculation counters."""
    assert sample.drafting is not None
    return replace(sample, drafting=replace(sample.drafting, **fields))


def llamacpp(name: str, at: float, **fields: Any) -> Sample:
    return replace(read_sample(recorded(f"llamacpp-11434-{name}"), at), **fields)


def test_the_recorded_draft_pages_make_the_window_of_their_arithmetic() -> None:
    """323 of 831 draft tokens accepted: 38.9 %; 600 - 6 - 323 = 271 decode steps."""
    found = difference("pod-0", draft_idle_page(0.0), draft_page(300.0), levels=["k3"])
    assert found == Window(
        "pod-0",
        0.0,
        300.0,
        Outcome.MEASURED,
        level="k3",
        tokens=3,
        process_start=1_795_973_043.29,
        drafts=277.0,
        draft_tokens=831.0,
        accepted_tokens=323.0,
        accepted_per_position=(145.0, 93.0, 85.0),
        generation_tokens=600.0,
        prompt_tokens=78.0,
        finished_requests=6.0,
        length_requests=6.0,
        first_tokens=6.0,
        running=0.0,
        waiting=0.0,
        kv_cache_percent=0.0,
    )
    assert found.decode_steps == 271.0


def test_the_recorded_n_gram_pages_show_good_acceptance_in_few_steps() -> None:
    """98 of 120 accepted: 82 %, but 36 drafts in 600 - 6 - 98 = 496 decode steps: 7 %."""
    found = window(*(read_sample(recorded(f"vllm-0.32.0-ngram{end}"), at) for end, at in (("-idle", 0.0), ("", 60.0))))
    assert (found.accepted_tokens, found.draft_tokens) == (98.0, 120.0)
    assert (found.drafts, found.decode_steps) == (36.0, 496.0)


def test_a_window_without_traffic_is_measured_with_zeros() -> None:
    found = window(draft_page(0.0), draft_page(300.0))
    assert (found.outcome, found.draft_tokens, found.finished_requests) == (Outcome.MEASURED, 0.0, 0.0)


def test_the_process_s_life_before_the_window_is_kept_beside_it() -> None:
    found = window(v1(0.0, 1000.0), v1(300.0, 1500.0))
    assert (found.draft_tokens, found.accepted_tokens) == (1000.0, 375.0)
    assert (found.draft_tokens_before, found.accepted_tokens_before) == (2000.0, 750.0)


def test_drafts_that_stay_at_zero_while_traffic_flows_are_measured() -> None:
    after = replace(v1(300.0, survival=(0.5, 0.25)), generation_tokens=6000.0, finished_requests=60.0)
    found = window(v1(0.0), after)
    assert (found.outcome, found.drafts, found.finished_requests) == (Outcome.MEASURED, 0.0, 60.0)


def test_one_token_probes_are_no_finished_requests() -> None:
    probes = replace(v1(300.0, 1000.0), finished_requests=40.0, one_token_requests=30.0, length_requests=32.0)
    found = window(v1(0.0), probes)
    assert (found.finished_requests, found.length_requests) == (10.0, 2.0)


def test_a_window_of_probes_alone_has_no_finished_request() -> None:
    after = replace(
        v1(300.0), generation_tokens=30.0, finished_requests=30.0, one_token_requests=30.0, length_requests=30.0
    )
    found = window(v1(0.0), after)
    assert (found.outcome, found.finished_requests, found.length_requests) == (Outcome.MEASURED, 0.0, 0.0)


def test_cancelled_one_token_requests_never_make_the_count_negative() -> None:
    after = replace(v1(300.0, 1000.0), finished_requests=5.0, one_token_requests=50.0, length_requests=5.0)
    found = window(v1(0.0), after)
    assert (found.finished_requests, found.length_requests) == (0.0, 0.0)


def test_gauges_are_the_mean_of_all_samples_that_say_something() -> None:
    samples = [v1(at, at, running=running) for at, running in ((0.0, 1.0), (15.0, 6.0), (30.0, None), (45.0, math.nan))]
    found = window(samples[0], samples[3], *samples[1:3])
    assert found.running == 3.5


def test_temperatures_are_counted_inside_the_window() -> None:
    before = v1(0.0, temperatures=((0.6, 10.0), (math.inf, 12.0)))
    after = v1(300.0, 100.0, temperatures=((0.6, 14.0), (math.inf, 22.0)))
    assert window(before, after).temperatures == ((0.6, 4.0), (math.inf, 10.0))
    assert window(v1(0.0), after).temperatures == after.temperatures


@pytest.mark.parametrize(
    "temperatures",
    [
        ((0.6, 9.0), (math.inf, 22.0)),
        ((0.6, 19.0), (math.inf, 18.0)),
        ((0.6, math.nan), (math.inf, 22.0)),
        ((0.7, 14.0), (math.inf, 22.0)),
    ],
    ids=["went back", "falling", "NaN", "other edges"],
)
def test_a_histogram_of_temperatures_that_cannot_be_true_is_unknown(
    temperatures: tuple[tuple[float, float], ...],
) -> None:
    before = v1(0.0, temperatures=((0.6, 10.0), (math.inf, 12.0)))
    found = window(before, v1(300.0, 100.0, temperatures=temperatures))
    assert (found.outcome, found.temperatures) == (Outcome.MEASURED, ())


def test_a_counter_that_appears_in_the_window_began_at_zero() -> None:
    """Counters with labels appear with their first count: V0's finished requests by reason."""
    found = window(v0(0.0, 0.5, 0.0, finished_requests=None), v0(60.0, 0.5, 300.0), tokens=5)
    assert found.finished_requests == 3.0


def test_0_8_3_has_its_drafts_derived_from_k() -> None:
    before, after = drafting(v1(0.0), drafts=None), drafting(v1(300.0, 1000.0), drafts=None)
    found = window(before, after, tokens=2)
    assert (found.drafts, found.draft_tokens, found.reason) == (1000.0, 2000.0, "drafts derived: draft tokens / K = 2")


def test_0_8_3_without_k_takes_every_decode_step_for_a_draft() -> None:
    """1000 steps accept 750 tokens; 10 requests add their first tokens."""
    before, after = drafting(v1(0.0), drafts=None), drafting(v1(300.0, 1000.0), drafts=None)
    found = window(before, after)
    assert (found.drafts, found.decode_steps) == (1000.0, 1000.0)
    assert "derived" in found.reason


def test_0_8_3_without_draft_tokens_has_no_drafts() -> None:
    before, after = (drafting(v1(at, survival=(), tokens=None), drafts=None) for at in (0.0, 300.0))
    found = window(before, replace(after, generation_tokens=5000.0))
    assert (found.outcome, found.drafts, found.reason) == (Outcome.MEASURED, 0.0, "")


def test_v0_s_window_is_recovered_from_its_lifetime_rate() -> None:
    """K = 4.  Before: 2500 steps at .75 drafted 10000, accepted 7500 and made 10000 tokens.  Then 1000 steps at .25
    drafted 4000, accepted 1000, made 2000: the rate is 8500 / 14000, the window's 0.25.
    """
    found = window(v0(0.0, 0.75, 10_000.0), v0(300.0, 8500 / 14_000, 12_000.0), tokens=4)
    assert found.outcome is Outcome.MEASURED
    assert found.draft_tokens == pytest.approx(4000.0)
    assert found.accepted_tokens == pytest.approx(1000.0)
    assert found.drafts == pytest.approx(1000.0)
    assert found.draft_tokens_before == pytest.approx(10_000.0)
    assert (found.tokens, found.accepted_per_position) == (4, ())
    assert found.reason == "derived from V0's lifetime rate with K = 4"


def test_v0_before_its_first_draft_begins_at_zero() -> None:
    found = window(v0(0.0, math.nan, 0.0), v0(300.0, 0.5, 3000.0), tokens=4)
    assert (found.draft_tokens, found.accepted_tokens) == (4000.0, 2000.0)
    absent = replace(v0(0.0, math.nan, 0.0), drafting=None, tokens=0)
    assert window(absent, v0(300.0, 0.5, 3000.0), tokens=4).draft_tokens == 4000.0


def test_v0_that_never_drafted_is_measured_with_zeros() -> None:
    found = window(v0(0.0, math.nan, 0.0), v0(300.0, math.nan, 3000.0))
    assert (found.outcome, found.drafts, found.generation_tokens) == (Outcome.MEASURED, 0.0, 3000.0)


def test_v0_without_traffic_is_measured_with_zeros_though_its_gauge_lags() -> None:
    found = window(v0(0.0, 0.5, 3000.0), v0(300.0, 0.49, 3000.0), tokens=4)
    assert (found.outcome, found.draft_tokens) == (Outcome.MEASURED, 0.0)


@pytest.mark.parametrize(
    ("after", "tokens", "words"),
    [
        (v0(300.0, 0.5, 4000.0), None, "K must be known"),
        (v0(300.0, math.nan, 4000.0), 4, "went back to NaN"),
        (v0(300.0, 1.2, 4000.0), 4, "the gauge of the acceptance rate is 1.2"),
        (v0(300.0, 0.1, 4000.0), 4, "too far for the tokens in between"),
    ],
)
def test_v0_s_window_is_invalid_where_it_cannot_be_recovered(after: Sample, tokens: int | None, words: str) -> None:
    found = window(v0(0.0, 0.5, 3000.0), after, tokens=tokens)
    assert found.outcome is Outcome.INVALID
    assert words in found.reason


def test_a_small_error_of_v0_s_gauge_is_cut_off() -> None:
    """A true rate of 0 may come out slightly below it; 5 % of what was drafted is allowed for.

    3000 tokens at .5: 4000 drafted, 2000 accepted.  1990 of 8000 accepted are 8000 / 4 * (1 + 4 * .24875) tokens.
    """
    start = v0(0.0, 0.5, 3000.0)
    found = window(start, v0(300.0, 1990 / 8000, 2000.0 * 1.995), tokens=4)
    assert (found.outcome, found.accepted_tokens) == (Outcome.MEASURED, 0.0)


def test_llamacpp_before_its_first_draft_begins_at_zero() -> None:
    """945 of 2552 accepted; the positions appear with the first finished request."""
    found = window(llamacpp("draft-idle", 0.0), llamacpp("draft", 60.0))
    assert (found.outcome, found.draft_tokens, found.accepted_tokens) == (Outcome.MEASURED, 2552.0, 945.0)
    assert found.accepted_per_position == (369.0, 241.0, 183.0, 152.0)
    assert (found.finished_requests, found.tokens) == (8.0, 4)
    assert found.reason == "finished requests are predicted tokens / 200, llama.cpp counts none"


def test_llamacpp_that_shows_no_draft_is_off_unless_its_level_is_known_to_speculate() -> None:
    idle, later = llamacpp("draft-idle", 0.0), llamacpp("off", 60.0)
    assert window(idle, later).outcome is Outcome.OFF
    assert window(idle, later, tokens=0).outcome is Outcome.OFF
    found = window(idle, later, tokens=4)
    assert (found.outcome, found.drafts, found.generation_tokens, found.tokens) == (Outcome.MEASURED, 0.0, 1600.0, 4)


def test_an_old_llamacpp_that_cannot_say_whether_it_speculates_is_empty() -> None:
    samples = [llamacpp("off", at, shows_drafting=False) for at in (0.0, 60.0)]
    assert window(samples[0], samples[1]).outcome is Outcome.EMPTY
    assert window(samples[0], samples[1], tokens=4).outcome is Outcome.EMPTY
    assert window(samples[0], samples[1], tokens=0).outcome is Outcome.OFF


def test_rounded_totals_of_llamacpp_are_no_contradiction() -> None:
    """Beyond 10 million it prints hundreds: 100 drafted may have been 199, and 105 accepted of them."""
    before = llamacpp("draft", 0.0, drafting=Drafting(3e6, 1.23456e7, 9_000_000.0, (3e6, 3e6, 3e6)), tokens=3)
    after = replace(before, at=60.0, drafting=Drafting(3e6 + 40, 1.23457e7, 9_000_105.0, (3_000_035.0,) * 3))
    found = window(before, after)
    assert (found.outcome, found.draft_tokens, found.accepted_tokens) == (Outcome.MEASURED, 100.0, 100.0)
    after = replace(after, drafting=Drafting(3e6 + 80, 1.23457e7, 9_000_210.0, (3_000_070.0,) * 3))
    assert window(before, after).outcome is Outcome.INVALID


def test_a_page_without_engine_series_makes_an_empty_window() -> None:
    nothing = Sample(300.0, None)
    assert window(v1(0.0), nothing).outcome is Outcome.EMPTY
    assert window(replace(nothing, at=0.0), v1(300.0)).outcome is Outcome.EMPTY
    assert window(nothing, nothing).reason == "the page has no series of an engine"


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
@pytest.mark.parametrize("counter", ["drafts", "draft_tokens", "accepted_tokens"])
def test_a_speculation_counter_that_is_no_count_is_invalid(counter: str, value: float) -> None:
    found = window(v1(0.0), drafting(v1(300.0, 1000.0), **{counter: value}))
    assert found.outcome is Outcome.INVALID
    assert f"the counter of {counter.replace('_', ' ')} is {value:g}" == found.reason


@pytest.mark.parametrize("end", ["before", "after"])
def test_nan_at_either_end_is_invalid(end: str) -> None:
    samples = {"before": v1(0.0), "after": v1(300.0, 1000.0)}
    samples[end] = replace(samples[end], generation_tokens=math.nan)
    assert window(samples["before"], samples["after"]).outcome is Outcome.INVALID


def test_nan_between_the_ends_does_no_harm() -> None:
    assert window(v1(0.0), v1(300.0, 1000.0), v1(150.0, generation_tokens=math.nan)).outcome is Outcome.MEASURED


def test_more_accepted_than_drafted_is_invalid() -> None:
    found = window(v1(0.0), drafting(v1(300.0, 1000.0), accepted_tokens=2001.0))
    assert (found.outcome, found.reason) == (Outcome.INVALID, "2001 tokens accepted of 2000 drafted")


def test_more_accepted_at_a_position_than_there_were_drafts_is_invalid() -> None:
    found = window(v1(0.0), drafting(v1(300.0, 1000.0), drafts=400.0))
    assert (found.outcome, found.reason) == (Outcome.INVALID, "500 tokens accepted at position 0 in 400 drafts")


def test_the_noise_of_floats_is_no_contradiction() -> None:
    assert window(v1(0.0), drafting(v1(300.0, 1000.0), draft_tokens=750.0 - 1e-7)).outcome is Outcome.MEASURED


def test_one_counter_of_the_pair_is_invalid() -> None:
    after = drafting(v1(300.0, 1000.0), accepted_tokens=None)
    assert window(drafting(v1(0.0), accepted_tokens=None), after).outcome is Outcome.INVALID


@pytest.mark.parametrize(
    "counter",
    ["generation_tokens", "prompt_tokens", "finished_requests", "first_tokens", "engine_steps"],
)
def test_a_counter_that_went_back_is_a_reset(counter: str) -> None:
    smaller: dict[str, Any] = {counter: 1.0}
    found = window(v1(0.0, 1000.0), v1(300.0, 2000.0, **smaller))
    assert found.outcome is Outcome.RESET
    assert "went back from" in found.reason


def test_a_restart_shows_though_the_new_count_has_overtaken_the_old() -> None:
    found = window(v1(0.0, 1000.0), v1(300.0, 2000.0, process_start=START + 200.0))
    assert (found.outcome, found.process_start) == (Outcome.RESET, START + 200.0)
    assert found.reason == "the process restarted: its start time moved by 200 s"


def test_a_restart_in_the_middle_shows_though_the_counters_have_caught_up() -> None:
    samples = [
        replace(v1(at, steps), process_start=None) for at, steps in ((0.0, 1000.0), (150.0, 10.0), (300.0, 2000.0))
    ]
    assert window(samples[0], samples[2]).outcome is Outcome.MEASURED
    assert window(samples[0], samples[2], samples[1]).outcome is Outcome.RESET


def test_another_incarnation_is_a_reset() -> None:
    found = window(llamacpp("draft", 0.0, incarnation="1"), llamacpp("draft", 60.0, incarnation="2"))
    assert (found.outcome, found.reason) == (Outcome.RESET, "the process restarted")


def test_another_engine_is_a_reset() -> None:
    found = window(v0(0.0, 0.5, 0.0), v1(300.0, 1000.0))
    assert (found.outcome, found.reason) == (Outcome.RESET, "the process changed from vLLM V0 to vLLM V1")


def test_a_counter_that_vanished_is_a_reset() -> None:
    found = window(v1(0.0, 1000.0), v1(300.0, 2000.0, prompt_tokens=None))
    assert (found.outcome, found.reason) == (Outcome.RESET, "the counter of prompt tokens vanished")


def test_the_clock_tick_of_a_start_time_is_no_restart() -> None:
    assert window(v1(0.0), v1(300.0, 1000.0, process_start=START + 0.009)).outcome is Outcome.MEASURED


def test_requests_running_while_no_counter_moves_are_a_stall() -> None:
    found = window(v1(0.0, 1000.0), v1(300.0, 1000.0))
    assert (found.outcome, found.running) == (Outcome.STALLED, 2.0)
    assert found.reason == "2 requests are running and no counter has moved for 300 s"


def test_an_engine_that_was_idle_in_between_is_not_stalled() -> None:
    assert window(v1(0.0), v1(300.0), v1(150.0, running=0.0)).outcome is Outcome.MEASURED


def test_an_engine_that_is_off_can_stall_too() -> None:
    assert window(v1_off(0.0, 1000.0), v1_off(300.0, 1000.0)).outcome is Outcome.STALLED


def test_a_long_request_of_llamacpp_is_no_stall() -> None:
    """Its token counters move when a request ends, n_decode_total with every batch."""
    before = llamacpp("draft", 0.0, running=1.0)
    assert window(before, replace(before, at=60.0)).outcome is Outcome.STALLED
    assert window(before, replace(before, at=60.0, engine_steps=700.0)).outcome is Outcome.MEASURED


@pytest.mark.parametrize("after", [None, v1(0.0, 1000.0), v1(-1.0, 1000.0)], ids=["missing", "same time", "older"])
def test_no_newer_sample_is_stale(after: Sample | None) -> None:
    assert window(v1(0.0, 1000.0), after).outcome is Outcome.STALE


def test_another_number_of_positions_is_mixed() -> None:
    found = window(v1(0.0), v1(300.0, 1000.0, survival=(0.5, 0.25, 0.1)))
    assert (found.outcome, found.tokens) == (Outcome.MIXED, None)
    assert found.reason == "the engine showed 2 draft positions, then 3"


@pytest.mark.parametrize("ends", [(v1(0.0), v1_off(300.0, 5.0)), (v1_off(0.0), v1(300.0, 5.0))], ids=["off", "on"])
def test_speculation_that_goes_on_or_off_inside_is_mixed(ends: tuple[Sample, Sample]) -> None:
    assert window(*ends).outcome is Outcome.MIXED


def test_another_live_setting_is_mixed_also_when_it_was_taken_back() -> None:
    assert window(v1(0.0, tokens=2), v1(300.0, 9.0, tokens=1)).reason == "K changed from 2 to 1"
    assert window(v1(0.0, generation=1), v1(300.0, 9.0, generation=2)).outcome is Outcome.MIXED
    assert window(v1(0.0), v1(300.0, 9.0), v1(150.0, 5.0, tokens=1)).outcome is Outcome.MIXED


def test_several_levels_are_mixed_and_name_none() -> None:
    found = difference("pod-0", v1(0.0), v1(300.0, 9.0), levels=["k5", "k5", "k3"])
    assert (found.outcome, found.level, found.reason) == (Outcome.MIXED, "", "the level changed: k5, then k3")


@pytest.mark.parametrize("tokens", [None, 0, 5])
def test_an_engine_without_drafts_is_off_and_its_traffic_is_counted(tokens: int | None) -> None:
    idle, busy = (read_sample(recorded(f"vllm-0.32.0-off{end}"), at) for end, at in (("-idle", 0.0), ("", 300.0)))
    found = window(idle, busy, tokens=tokens)
    assert (found.outcome, found.tokens, found.drafts) == (Outcome.OFF, 0, 0.0)
    assert (found.generation_tokens, found.finished_requests, found.decode_steps) == (600.0, 6.0, 594.0)


def test_k_of_zero_is_off() -> None:
    assert window(v1(0.0, 1000.0, tokens=0), v1(300.0, 1000.0, tokens=0, running=0.0)).outcome is Outcome.OFF
    assert window(v1(0.0, 1000.0), v1(300.0, 1000.0, running=0.0), tokens=0).outcome is Outcome.OFF


def test_a_window_that_is_not_measured_counts_nothing() -> None:
    found = window(v1(0.0, 1000.0), v1(300.0, 2000.0, process_start=START + 1.0))
    assert (found.drafts, found.generation_tokens, found.finished_requests) == (0.0, 0.0, 0.0)


BEFORE = v1(0.0, 1000.0)
STILL = v1(300.0, 1000.0)
CASES = [
    (Outcome.EMPTY, BEFORE, replace(Sample(-1.0, None), generation_tokens=math.nan)),
    (Outcome.INVALID, BEFORE, v1(-1.0, 1.0, generation_tokens=math.nan, process_start=START + 1.0)),
    (Outcome.RESET, BEFORE, v1(-1.0, 10.0, process_start=START + 1.0, survival=(0.5,))),
    (Outcome.STALLED, v1_off(0.0, 1000.0), v1_off(300.0, 1000.0)),
    (Outcome.STALLED, BEFORE, replace(STILL, generation=2)),
    (Outcome.STALE, BEFORE, replace(v1(0.0, 2000.0), generation=2)),
    (Outcome.MIXED, replace(BEFORE, generation=1, tokens=0), v1(300.0, 2000.0, generation=2, tokens=0)),
    (Outcome.OFF, v1_off(0.0), v1_off(300.0, 10.0)),
]


@pytest.mark.parametrize(("outcome", "before", "after"), CASES)
def test_where_several_outcomes_fit_the_first_in_order_is_reported(
    outcome: Outcome, before: Sample, after: Sample
) -> None:
    assert window(before, after).outcome is outcome


REQUESTS = st.lists(st.tuples(st.integers(1, 400), st.floats(0.0, 1.0), st.booleans()), max_size=12)


def walk(requests: list[tuple[int, float, bool]]) -> list[Sample]:
    """Samples after each of these requests: decode steps, acceptance of K = 3, ended by length; one-token probes."""
    samples = [v1(0.0, survival=(0.0, 0.0, 0.0))]
    for steps, acceptance, by_length in requests:
        last = samples[-1]
        assert last.drafting is not None
        accepted = tuple(float(int(steps * acceptance ** (i + 1))) for i in range(3))
        old = last.drafting
        one_token = steps == 1
        steps_made = 0 if one_token else steps
        accepted = (0.0, 0.0, 0.0) if one_token else accepted
        samples.append(
            replace(
                last,
                at=last.at + 15.0,
                drafting=Drafting(
                    (old.drafts or 0.0) + steps_made,
                    (old.draft_tokens or 0.0) + 3 * steps_made,
                    (old.accepted_tokens or 0.0) + sum(accepted),
                    tuple(a + b for a, b in zip(old.accepted_per_position, accepted, strict=True)),
                ),
                generation_tokens=(last.generation_tokens or 0.0) + steps_made + sum(accepted) + 1,
                prompt_tokens=(last.prompt_tokens or 0.0) + 10,
                finished_requests=(last.finished_requests or 0.0) + 1,
                one_token_requests=(last.one_token_requests or 0.0) + one_token,
                length_requests=(last.length_requests or 0.0) + (by_length or one_token),
                first_tokens=(last.first_tokens or 0.0) + 1,
                engine_steps=(last.engine_steps or 0.0) + steps_made + 1,
            )
        )
    return samples


COUNTS = (
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "generation_tokens",
    "prompt_tokens",
    "finished_requests",
    "length_requests",
    "first_tokens",
)


@given(requests=REQUESTS.filter(bool), data=st.data())
def test_two_windows_of_a_split_span_sum_to_the_whole(
    requests: list[tuple[int, float, bool]], data: st.DataObject
) -> None:
    samples = walk(requests)
    cut = data.draw(st.integers(0, len(samples) - 1))
    whole = window(samples[0], samples[-1])
    if cut in (0, len(samples) - 1):
        return
    parts = [window(samples[0], samples[cut]), window(samples[cut], samples[-1])]
    assert {part.outcome for part in (whole, *parts)} == {Outcome.MEASURED}
    for name in COUNTS:
        assert sum(getattr(part, name) for part in parts) == getattr(whole, name)
    pairs = zip(*(part.accepted_per_position for part in parts), strict=True)
    assert tuple(map(sum, pairs)) == whole.accepted_per_position
    assert parts[1].accepted_tokens_before == parts[0].accepted_tokens_before + parts[0].accepted_tokens


@given(requests=REQUESTS, where=st.integers(0, 12), value=st.sampled_from([math.nan, math.inf, -1.0, 0.0, 1e9]))
def test_every_pair_of_samples_makes_a_window_that_never_accepts_more_than_it_drafts(
    requests: list[tuple[int, float, bool]], where: int, value: float
) -> None:
    samples = walk(requests)
    spoilt = min(where, len(samples) - 1)
    samples[spoilt] = drafting(samples[spoilt], accepted_tokens=value)
    found = window(samples[0], samples[-1], *samples[1:-1])
    if found.outcome is Outcome.MEASURED:
        assert 0.0 <= found.accepted_tokens <= found.draft_tokens * (1.0 + 1e-9)
    else:
        assert found.reason
        assert found.draft_tokens == 0.0


RATES = st.floats(0.0, 1.0)


@given(
    rates=st.tuples(RATES, RATES), steps=st.tuples(st.integers(1, 10_000), st.integers(1, 10_000)), K=st.integers(1, 8)
)
def test_v0_s_formula_undoes_the_average_over_the_life(
    rates: tuple[float, float], steps: tuple[int, int], K: int
) -> None:
    drafted = [steps[0] * K, (steps[0] + steps[1]) * K]
    accepted = [rates[0] * steps[0] * K, rates[0] * steps[0] * K + rates[1] * steps[1] * K]
    tokens = [steps[0] + accepted[0], steps[0] + steps[1] + accepted[1]]
    samples = [v0(at, accepted[i] / drafted[i], tokens[i]) for i, at in enumerate((0.0, 300.0))]
    found = window(*samples, tokens=K)
    assert found.outcome is Outcome.MEASURED
    assert found.draft_tokens == pytest.approx(steps[1] * K, rel=1e-6, abs=1e-6)
    assert found.accepted_tokens == pytest.approx(rates[1] * steps[1] * K, rel=1e-6, abs=1e-5)
