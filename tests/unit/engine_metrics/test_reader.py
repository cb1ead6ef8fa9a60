"""What a page says of its engine, by the recorded pages and by the facts of each release."""

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_engine.page import PageError
from specloop_engine.reader import read_sample
from specloop_engine.sample import Dialect, Drafting, Sample, Served
from tests.unit.engine_metrics.builders import RECORDED, changed, draft_idle_page, draft_page, recorded, without

ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"


def read(page: str) -> Sample:
    return read_sample(page, 0.0)


def test_the_recorded_draft_page_is_read_as_it_stands() -> None:
    assert draft_page(7.0) == Sample(
        7.0,
        Dialect.VLLM_V1,
        process_start=1_795_973_043.29,
        drafting=Drafting(277.0, 831.0, 323.0, (145.0, 93.0, 85.0)),
        tokens=3,
        generation_tokens=600.0,
        prompt_tokens=78.0,
        finished_requests=6.0,
        one_token_requests=0.0,
        length_requests=6.0,
        first_tokens=6.0,
        engine_steps=283.0,
        running=0.0,
        waiting=0.0,
        kv_cache_percent=0.0,
        served=Served(7.69235920500023, 600.0, 6.0, 0.2251119613647461, 0.0, 0.0, 78.0, 0.0, 0.0),
    )


def test_before_the_first_request_every_counter_is_zero_and_none_is_absent() -> None:
    idle = draft_idle_page(0.0)
    assert idle.drafting == Drafting(0.0, 0.0, 0.0, (0.0, 0.0, 0.0))
    assert (idle.generation_tokens, idle.finished_requests, idle.first_tokens) == (0.0, 0.0, 0.0)


def test_with_speculation_off_v1_has_no_series_of_it() -> None:
    off = read(recorded("vllm-0.32.0-off"))
    assert (off.dialect, off.drafting, off.tokens) == (Dialect.VLLM_V1, None, 0)
    assert (off.generation_tokens, off.engine_steps) == (600.0, 600.0)


def test_absent_zero_and_nan_are_three_different_things() -> None:
    page = recorded("vllm-0.32.0-draft")
    absent = read(without(page, "vllm:spec_decode"))
    zero = read(changed(page, ACCEPTED, "0.0"))
    nan = read(changed(page, ACCEPTED, "NaN"))
    assert absent.drafting is None
    assert zero.drafting is not None
    assert zero.drafting.accepted_tokens == 0.0
    assert nan.drafting is not None
    assert nan.drafting.accepted_tokens is not None
    assert math.isnan(nan.drafting.accepted_tokens)


def test_0_8_3_counts_tokens_and_nothing_else() -> None:
    page = without(without(recorded("vllm-0.32.0-draft"), "vllm:spec_decode_num_drafts"), ACCEPTED[:-6] + "_per_pos")
    sample = read(page)
    assert sample.dialect is Dialect.VLLM_V1
    assert sample.drafting == Drafting(None, 831.0, 323.0)
    assert sample.tokens is None


def test_the_ranks_of_one_process_are_summed_and_their_caches_averaged() -> None:
    """Two ranks: the recorded one, and one with 0.3 of its cache in use and 5 requests running."""
    page = changed(recorded("vllm-0.32.0-draft"), "vllm:kv_cache_usage_perc", "0.1")
    other = changed(changed(page, "vllm:kv_cache_usage_perc", "0.3"), "vllm:num_requests_running", "5")
    lines = [line for line in other.splitlines(keepends=True) if line.startswith("vllm:")]
    sample = read(page + "".join(lines).replace('engine="0"', 'engine="1"'))
    assert sample.drafting == Drafting(554.0, 1662.0, 646.0, (290.0, 186.0, 170.0))
    assert (sample.tokens, sample.running, sample.finished_requests) == (3, 5.0, 12.0)
    assert sample.kv_cache_percent == pytest.approx(20.0)


def test_two_models_of_one_process_are_summed() -> None:
    page = recorded("vllm-0.32.0-draft")
    lines = [line for line in page.splitlines(keepends=True) if line.startswith("vllm:")]
    sample = read(page + "".join(lines).replace('model_name="tiny"', 'model_name="other"'))
    assert sample.generation_tokens == 1200.0


def test_a_router_s_series_of_the_same_name_is_left_out() -> None:
    router = 'vllm:num_requests_running{server="http://10.0.0.7:8000"} 99\n'
    assert read(recorded("vllm-0.32.0-draft") + router) == draft_page(0.0)
    assert read(router).dialect is None


def test_another_prefix_is_a_setting() -> None:
    page = recorded("vllm-0.32.0-draft").replace("vllm:", "kserve_vllm:")
    assert read_sample(page, 0.0, prefix="kserve_vllm:") == draft_page(0.0)
    assert read(page).dialect is None


def test_a_page_without_engine_series_is_a_sample_of_none() -> None:
    page = "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 5\n"
    assert read(page) == Sample(0.0, None, process_start=5.0)


def test_aborted_and_failed_requests_are_not_finished() -> None:
    page = recorded("vllm-0.32.0-draft")
    for reason, count in {"stop": 40, "length": 10, "repetition": 1, "abort": 500, "error": 3}.items():
        page = changed(page, f'vllm:request_success_total{{engine="0",finished_reason="{reason}"', str(count))
    sample = read(page)
    assert (sample.finished_requests, sample.length_requests) == (51.0, 10.0)


@pytest.mark.parametrize("edge", ["1.0", "1"])
def test_one_token_requests_come_from_the_first_bucket_of_answer_lengths(edge: str) -> None:
    page = recorded("vllm-0.32.0-draft").replace('le="1.0"', f'le="{edge}"')
    page = changed(page, f'vllm:request_generation_tokens_bucket{{engine="0",le="{edge}"', "4.0")
    assert read(page).one_token_requests == 4.0


def test_the_old_name_of_the_cache_usage_is_read_until_the_new_one_is_there() -> None:
    page = changed(recorded("vllm-0.32.0-draft"), "vllm:kv_cache_usage_perc", "0.25")
    old = page.replace("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
    assert read(old).kv_cache_percent == 25.0
    assert read(page + 'vllm:gpu_cache_usage_perc{engine="0",model_name="tiny"} 0.5\n').kv_cache_percent == 25.0


def served(page: str) -> Served:
    found = read(page).served
    assert found is not None
    return found


@pytest.mark.parametrize(("status", "failed"), [("5xx", 3.0), ("503", 3.0), ("4xx", 0.0), ("2xx", 0.0)])
def test_failed_responses_are_those_of_completions_with_a_status_of_5xx(status: str, failed: float) -> None:
    page = recorded("vllm-0.32.0-draft")
    own = f'http_requests_total{{handler="/v1/chat/completions",method="POST",status="{status}"}} 3.0\n'
    other = 'http_requests_total{handler="/v1/models",method="GET",status="5xx"} 50.0\n'
    assert served(page + own + other).failed_responses == failed
    assert served(page + own.replace('handler="/v1/chat/completions",', "")).failed_responses == failed


def test_before_the_first_request_nothing_is_known_of_responses() -> None:
    assert served(recorded("vllm-0.32.0-draft-idle")).failed_responses is None


def test_requests_that_ended_by_abort_or_error_have_failed() -> None:
    page = recorded("vllm-0.32.0-draft")
    for reason, count in {"abort": 5, "error": 3, "repetition": 2}.items():
        page = changed(page, f'vllm:request_success_total{{engine="0",finished_reason="{reason}"', str(count))
    assert served(page).failed_requests == 8.0


def test_the_prefix_cache_of_early_v1_has_gpu_in_its_names() -> None:
    page = changed(changed(recorded("vllm-0.32.0-draft"), "vllm:prefix_cache_q", "90"), "vllm:prefix_cache_h", "60")
    old = page.replace("vllm:prefix_cache", "vllm:gpu_prefix_cache")
    assert (served(old).cache_queries, served(old).cache_hits) == (90.0, 60.0)
    both = page + 'vllm:gpu_prefix_cache_queries_total{engine="0",model_name="tiny"} 70.0\n'
    assert served(both).cache_queries == 90.0


V0_PAGE = """\
vllm:num_requests_running{model_name="tiny"} 2.0
vllm:gpu_cache_usage_perc{model_name="tiny"} 0.5
vllm:generation_tokens_total{model_name="tiny"} 600.0
vllm:request_success_total{finished_reason="stop",model_name="tiny"} 6.0
vllm:time_to_first_token_seconds_count{model_name="tiny"} 6.0
"""
V0_SPECULATING = """\
vllm:spec_decode_draft_acceptance_rate{model_name="tiny"} 0.6
vllm:spec_decode_efficiency{model_name="tiny"} 0.7
vllm:spec_decode_num_accepted_tokens_total{model_name="tiny"} 123456.0
vllm:spec_decode_num_draft_tokens_total{model_name="tiny"} 234567.0
"""


def test_v0_s_gauge_is_read_and_its_wrong_counters_are_not() -> None:
    sample = read(V0_PAGE + V0_SPECULATING)
    assert (sample.dialect, sample.drafting) == (Dialect.VLLM_V0, Drafting(lifetime_rate=0.6))
    assert (sample.tokens, sample.kv_cache_percent) == (None, 50.0)


def test_v0_s_gauge_is_nan_before_the_first_draft() -> None:
    drafting = read(V0_PAGE + V0_SPECULATING.replace("} 0.6", "} NaN")).drafting
    assert drafting is not None
    assert drafting.lifetime_rate is not None
    assert math.isnan(drafting.lifetime_rate)


def test_v0_shows_reasons_of_ending_once_they_happened_and_no_counters_of_its_cache() -> None:
    assert served(V0_PAGE) == Served(failed_requests=0.0)


def test_v0_with_speculation_off_is_told_from_v1_by_its_missing_label() -> None:
    assert (read(V0_PAGE).dialect, read(V0_PAGE).drafting) == (Dialect.VLLM_V0, None)


def test_llamacpp_with_a_draft_model_is_read_with_stand_ins_for_requests() -> None:
    """1600 tokens / 200 are the 8 requests that were sent; 1600 - 8 - 945 leaves 647 decode steps for 643 drafts."""
    sample = read(recorded("llamacpp-11434-draft"))
    assert sample == Sample(
        0.0,
        Dialect.LLAMACPP,
        drafting=Drafting(643.0, 2552.0, 945.0, (369.0, 241.0, 183.0, 152.0)),
        tokens=4,
        generation_tokens=1600.0,
        prompt_tokens=46.0,
        finished_requests=8.0,
        first_tokens=8.0,
        engine_steps=655.0,
        running=0.0,
        waiting=0.0,
        served=Served(decode_seconds=1.30132, answer_tokens=1600.0),
    )


@pytest.mark.parametrize("name", ["llamacpp-11434-off", "llamacpp-11434-draft-idle"])
def test_llamacpp_looks_the_same_when_off_and_before_its_first_draft(name: str) -> None:
    sample = read(recorded(name))
    assert (sample.dialect, sample.shows_drafting, sample.drafting) == (Dialect.LLAMACPP, True, None)
    assert sample.tokens is None


def test_llamacpp_n_gram_lookup_shows_its_48_positions() -> None:
    sample = read(recorded("llamacpp-11434-ngram"))
    assert sample.tokens == 48
    assert sample.drafting is not None
    assert (sample.drafting.drafts, sample.drafting.draft_tokens, sample.drafting.accepted_tokens) == (1.0, 46.0, 3.0)


def test_an_old_llamacpp_says_nothing_of_speculation() -> None:
    sample = read(without(recorded("llamacpp-11434-draft"), "llamacpp:spec_decode"))
    assert (sample.shows_drafting, sample.drafting) == (False, None)


def test_accepted_tokens_of_llamacpp_are_exact_beyond_a_million() -> None:
    """The total is printed as 1.23457e+06, the positions in full."""
    page = changed(recorded("llamacpp-11434-draft"), "llamacpp:spec_decode_num_accepted_tokens_total", "1.23457e+06")
    page = changed(page, 'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="0"}', "1233991")
    drafting = read(page).drafting
    assert drafting is not None
    assert drafting.accepted_tokens == 1_233_991 + 241 + 183 + 152


def test_temperatures_are_summed_over_models_with_edges_rising() -> None:
    lines = "".join(
        f'specloop_request_temperature_bucket{{le="{edge}",model_name="{model}"}} {count}\n'
        for model in ("tiny", "adapter")
        for edge, count in (("0.0", 1), ("+Inf", 9), ("0.1", 4))
    )
    sample = read(recorded("vllm-0.32.0-draft") + lines)
    assert sample.temperatures == ((0.0, 2.0), (0.1, 8.0), (math.inf, 18.0))


def test_the_process_start_is_the_page_s_else_the_caller_s() -> None:
    page = recorded("llamacpp-11434-draft")
    assert read_sample(page, 0.0, process_start=9.0, incarnation="2002339339").process_start == 9.0
    assert read_sample(page, 0.0, incarnation="2002339339").incarnation == "2002339339"
    assert read_sample(recorded("vllm-0.32.0-draft"), 0.0, process_start=9.0).process_start == 1_795_973_043.29


PER_POSITION = 'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="tiny",position="%s"} 1\n'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (PER_POSITION % "x", "position 'x' of vllm:spec_decode"),
        (PER_POSITION % "-1", "is no whole number below 10000"),
        (PER_POSITION % "99999", "is no whole number below 10000"),
        (PER_POSITION % "4", "has 4 positions, but none is 3"),
        (
            'specloop_request_temperature_bucket{le="hot"} 1\n',
            "le='hot' of specloop_request_temperature_bucket is no upper",
        ),
        ("specloop_request_temperature_bucket 1\n", "le='' of specloop_request_temperature_bucket is no upper edge"),
    ],
)
def test_labels_that_make_no_sense_are_a_page_error_with_their_line(line: str, words: str) -> None:
    page = recorded("vllm-0.32.0-draft")
    with pytest.raises(PageError) as raised:
        read(page + line)
    assert words in str(raised.value)
    assert raised.value.line == page.count("\n") + 1


@given(data=st.data())
def test_a_mutated_real_page_is_a_sample_or_a_page_error(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([name for name in RECORDED if name.startswith("llama")]))
    page = bytearray(recorded(name.removesuffix(".txt")).encode())
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.integers(0, len(page) - 1))
        page[place : place + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    with suppress(PageError):
        read_sample(bytes(page), 0.0)


LIVE = """\
specloop_live_generation{model_name="x",side="desired"} 4
specloop_live_generation{model_name="x",side="applied"} 3
specloop_live_tokens{model_name="x",side="desired",requests="1"} 1
specloop_live_tokens{model_name="x",side="applied",requests="1"} 3
specloop_live_tokens{model_name="x",side="applied",requests="9"} 2
"""


def test_what_the_plugin_shows_to_be_in_force_is_the_k_of_the_page() -> None:
    """The page has positions for K = 5, which the engine was started for; a wish that waits is not in force."""
    page = recorded("vllm-0.32.0-draft")
    assert read_sample(page, 0.0).generation is None
    live = read_sample(page + LIVE, 0.0)
    assert (live.tokens, live.generation) == (3, 3)
    assert read_sample(page + LIVE.replace('side="applied"', 'side="other"'), 0.0).generation is None
    hostile = read_sample(page + LIVE.replace("} 3", "} NaN").replace("} 2", "} 0.5"), 0.0)
    assert (hostile.tokens, hostile.generation) == (read_sample(page, 0.0).tokens, None)
