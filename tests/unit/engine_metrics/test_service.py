"""How a process served between two samples, by recorded pages and the laws of adding up."""

import math
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_engine.reader import read_sample
from specloop_engine.sample import Dialect, Sample, Served
from specloop_engine.service import service
from specloop_policy.gate import add
from specloop_policy.observation import Service
from tests.unit.engine_metrics.builders import START, changed, draft_idle_page, draft_page, recorded, without

DRAFT = "vllm-0.32.0-draft"
SIX = Service(
    decode_seconds=7.69235920500023,
    decode_tokens=594.0,
    first_token_seconds=0.2251119613647461,
    first_tokens=6.0,
    finished_requests=6.0,
    output_tokens=600.0,
    generated_tokens=600.0,
    length_requests=6.0,
    failed_requests=0.0,
    cache_queries=78.0,
    cache_hits=0.0,
    preemptions=0.0,
)
"""The recorded draft page since its process started: six requests of 100 tokens, 600 - 6 of them after the first."""


def since_start(page: str) -> Service | None:
    """How the process of a recorded draft page, changed or not, served since before its first request."""
    return service(draft_idle_page(0.0), read_sample(page, 60.0))


def with_reasons(page: str, **reasons: int) -> str:
    for reason, count in reasons.items():
        page = changed(page, f'vllm:request_success_total{{engine="0",finished_reason="{reason}"', str(count))
    return page


def test_the_recorded_page_served_six_requests_of_a_hundred_tokens() -> None:
    assert since_start(recorded(DRAFT)) == SIX


def test_health_probes_change_no_figure_but_first_tokens() -> None:
    """Four more requests of one token: 10 that ended with 604 tokens, 4 of them in the bucket of one token."""
    page = with_reasons(recorded(DRAFT), length=10)
    for name, value in {
        "vllm:request_generation_tokens_count": "10",
        "vllm:request_generation_tokens_sum": "604",
        "vllm:request_generation_tokens_bucket": "4",
        "vllm:time_to_first_token_seconds_count": "10",
        "vllm:generation_tokens_total": "604",
    }.items():
        page = changed(page, name, value)
    assert since_start(page) == replace(SIX, first_tokens=10.0)


def test_llamacpp_says_how_fast_answers_came_and_little_else() -> None:
    """1600 tokens in 1.30132 s; 1600 / 200 stand in for the 8 requests, as in windows."""
    before, after = (read_sample(recorded(f"llamacpp-11434-draft{end}"), 0.0) for end in ("-idle", ""))
    assert service(before, after) == Service(
        decode_seconds=1.30132, decode_tokens=1600.0, first_tokens=8.0, finished_requests=8.0, generated_tokens=1600.0
    )


FIVE_FAILED = 'http_requests_total{handler="/v1/completions",method="POST",status="5xx"} 5.0\n'


@pytest.mark.parametrize(("errors", "failed"), [(0, 5.0), (4, 5.0), (7, 7.0)])
def test_an_error_that_is_answered_with_a_500_is_one_failure(errors: int, failed: float) -> None:
    """Five answers of 5xx, and so many requests that the engine ended by error or abort: the larger of the two."""
    found = since_start(with_reasons(recorded(DRAFT), error=errors // 2, abort=errors - errors // 2) + FIVE_FAILED)
    assert found is not None
    assert (found.failed_requests, found.finished_requests) == (failed, 6.0)


def test_without_a_count_of_responses_the_engine_s_own_failures_count() -> None:
    found = since_start(without(with_reasons(recorded(DRAFT), error=2), "http_requests"))
    assert found is not None
    assert found.failed_requests == 2.0


def test_what_the_page_does_not_say_is_none() -> None:
    page, idle = (without(recorded(name), "vllm:request_decode_time") for name in (DRAFT, f"{DRAFT}-idle"))
    assert service(read_sample(idle, 0.0), read_sample(page, 1.0)) == replace(SIX, decode_seconds=None)


@pytest.mark.parametrize(
    "series",
    [
        "vllm:request_decode_time_seconds_sum",
        "vllm:request_generation_tokens_sum",
        "vllm:request_generation_tokens_count",
        "vllm:time_to_first_token_seconds_sum",
        "vllm:prefix_cache_queries_total",
        "vllm:num_preemptions_total",
        "vllm:generation_tokens_total",
        "vllm:spec_decode_num_drafts_total",
    ],
)
@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1"])
def test_a_counter_that_is_no_number_or_went_back_makes_it_none(series: str, value: str) -> None:
    page = recorded(DRAFT)
    wrong = read_sample(changed(page, series, value), 60.0)
    assert service(draft_idle_page(0.0), wrong) is None
    assert service(wrong, replace(draft_page(60.0), at=90.0)) is None
    back = read_sample(changed(page, series, "1000"), 60.0)
    assert service(back, draft_page(90.0)) is None


def test_a_restart_makes_it_none_however_it_shows() -> None:
    before = draft_idle_page(0.0)
    assert service(before, replace(draft_page(60.0), process_start=START + 30.0)) is None
    told = replace(before, incarnation="one"), replace(draft_page(60.0), incarnation="two")
    assert service(*told) is None
    assert service(before, read_sample(recorded("llamacpp-11434-draft"), 60.0)) is None
    assert service(before, read_sample(without(recorded(DRAFT), "vllm:request_decode_time"), 60.0)) is None


def test_a_page_of_no_engine_and_a_recording_from_before_say_nothing() -> None:
    assert service(draft_idle_page(0.0), Sample(60.0, None)) is None
    assert service(draft_idle_page(0.0), replace(draft_page(60.0), served=None)) is None


OWN = ("finished_requests", "one_token_requests", "length_requests", "first_tokens")
SERVED = tuple(one.name for one in fields(Served))
GROWTH = st.integers(0, 10**6).map(lambda n: n / 1024.0)
"""Sums of 1024ths are exact."""


@st.composite
def processes(draw: st.DrawFn) -> list[Sample]:
    """Three samples of one process whose counters grow each as it likes; some are never there."""
    there = {name: draw(st.booleans()) for name in (*OWN, *SERVED)}
    values: dict[str, float] = dict.fromkeys((name for name in there if there[name]), 0.0)
    samples = []
    for at in range(3):
        values = {name: value + draw(GROWTH) for name, value in values.items()}
        counted = {name: value for name, value in values.items() if name in OWN}
        served = Served(**{name: value for name, value in values.items() if name in SERVED})
        samples.append(Sample(float(at), Dialect.VLLM_V1, START, served=served, **counted))  # type: ignore[arg-type]
    return samples


@given(processes())
def test_parts_add_up_to_the_whole(samples: list[Sample]) -> None:
    first, second, third = samples
    whole, one, other = service(first, third), service(first, second), service(second, third)
    assert whole is not None
    assert one is not None
    assert other is not None
    parts = add([one, other])
    assert replace(parts, failed_requests=None) == replace(whole, failed_requests=None)


@given(processes())
def test_failures_in_parts_are_no_fewer_than_in_the_whole_and_none_is_invented(samples: list[Sample]) -> None:
    """The larger of two counts in every part is at least the larger over the whole, and at most their sum."""
    first, second, third = samples
    one, other, whole = (service(*ends) for ends in ((first, second), (second, third), (first, third)))
    assert one is not None
    assert other is not None
    assert whole is not None
    found = add([one, other]).failed_requests
    assert (found is None) == (whole.failed_requests is None)
    if found is None or whole.failed_requests is None:
        return
    assert first.served is not None
    assert third.served is not None
    both = [
        (getattr(third.served, name) or 0.0) - (getattr(first.served, name) or 0.0)
        for name in ("failed_requests", "failed_responses")
    ]
    assert whole.failed_requests <= found <= math.fsum(both)


def test_no_part_at_all_says_nothing() -> None:
    assert add([]) == Service()
