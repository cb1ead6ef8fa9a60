"""One Prometheus for many policies: fetched together, taken one by one, and never waited for too long."""

import asyncio
import math
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_control.prometheus_hub import KEEP_SECONDS, PrometheusHub
from tests.component.sources.fakes import NOW, SETTINGS, Held, page, pod, told

FRESH = 7.5
"""Half of the default interval."""
HOUR = 3600.0
TASTE = (NOW - 25.0, NOW - 10.0)
"""The first fetch looks at 15 s, to see how much there is."""
FIRST = (NOW - 190.0, NOW - 10.0)
"""Then it goes back over the 60 s that are wanted, and 120 s more, in which every job that scrapes a pod is heard."""


@pytest.fixture
def server() -> Held:
    """Pods a and b of llm and a namesake elsewhere, scraped 40, 25 and 10 s ago; what is younger is not complete."""
    server = Held()
    for ago in (40, 25, 10, -5):
        for place, labels in enumerate((pod("a"), pod("b"), pod("a", "other"))):
            server.scrape(labels, NOW - ago - 0.5 - place * 0.25, page(1000 * place - ago))
    return server


@pytest.fixture
async def hub(server: Held) -> AsyncIterator[PrometheusHub]:
    hub = PrometheusHub(SETTINGS, server, back_fill_seconds=60.0)
    yield hub
    await hub.close()


def problem(hub: PrometheusHub) -> str | None:
    """What is wrong now."""
    return hub.problem


async def landed() -> None:
    """Wait until the fetch under way is done, however long callers would have waited."""
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))


async def test_callers_at_the_same_time_share_one_fetch(hub: PrometheusHub, server: Held) -> None:
    server.gate.clear()
    callers = [asyncio.create_task(hub.refresh(NOW + 0.1 * place, FRESH)) for place in range(20)]
    await asyncio.sleep(0)
    server.gate.set()
    await asyncio.gather(*callers)
    assert server.asked == [TASTE, FIRST]


async def test_nothing_is_fetched_while_the_last_fetch_is_fresh(hub: PrometheusHub, server: Held) -> None:
    for passed in (0.0, 3.0, 7.4, 7.5, 14.9, 15.0):
        await hub.refresh(NOW + passed, FRESH)
    assert server.asked == [TASTE, FIRST, (NOW - 10.0, NOW - 2.5), (NOW - 2.5, NOW + 5.0)]


async def test_a_clock_that_was_set_back_does_not_stop_fetches(hub: PrometheusHub, server: Held) -> None:
    await hub.refresh(NOW + HOUR, FRESH)
    await hub.refresh(NOW, FRESH)
    await hub.refresh(NOW + HOUR + 20.0, FRESH)
    assert server.asked[-1] == (NOW + HOUR - 10.0, NOW + HOUR + 10.0)


async def test_a_reader_takes_what_it_has_not_had_oldest_first(hub: PrometheusHub) -> None:
    await hub.refresh(NOW, FRESH)
    assert told(hub.take("llm/one", "llm", ("b", "a"))) == [
        ("b", -40.75, 960.0),
        ("a", -40.5, -40.0),
        ("b", -25.75, 975.0),
        ("a", -25.5, -25.0),
        ("b", -10.75, 990.0),
        ("a", -10.5, -10.0),
    ]
    assert hub.take("llm/one", "llm", ("a", "b")) == []
    await hub.refresh(NOW + 15.0, FRESH)
    assert told(hub.take("llm/one", "llm", ("a", "b"))) == [("b", 4.25, 1005.0), ("a", 4.5, 5.0)]


async def test_every_reader_takes_for_itself(hub: PrometheusHub) -> None:
    await hub.refresh(NOW, FRESH)
    first = hub.take("llm/one", "llm", ("a",))
    assert len(first) == 3
    assert hub.take("llm/two", "llm", ("a",)) == first


async def test_a_pod_that_is_asked_for_later_gives_all_that_is_there(hub: PrometheusHub) -> None:
    await hub.refresh(NOW, FRESH)
    hub.take("llm/one", "llm", ("a",))
    assert {name for name, _ in hub.take("llm/one", "llm", ("a", "b"))} == {"b"}


async def test_a_namesake_in_another_namespace_is_another_pod(hub: PrometheusHub) -> None:
    await hub.refresh(NOW, FRESH)
    assert [one.generation_tokens for _, one in hub.take("other/one", "other", ("a",))] == [1960.0, 1975.0, 1990.0]
    assert hub.take("nobody/one", "nobody", ("a",)) == []
    assert hub.heard("other", ("a", "b")) == {"a"}
    assert hub.size == 3


async def test_what_nobody_takes_is_dropped_after_a_while(hub: PrometheusHub) -> None:
    await hub.refresh(NOW, FRESH)
    await hub.refresh(NOW + KEEP_SECONDS, FRESH)
    assert len(hub.take("llm/early", "llm", ("a",))) == 4
    await hub.refresh(NOW + KEEP_SECONDS + FRESH, FRESH)
    assert told(hub.take("llm/late", "llm", ("a",))) == [("a", 4.5, 5.0)]


async def test_samples_wait_for_readers_with_a_long_interval(hub: PrometheusHub) -> None:
    """Somebody with an interval of 600 s takes at 0 and 600 s, while others fetch every 15 s."""
    await hub.refresh(NOW, 300.0)
    for passed in range(15, 601, 15):
        await hub.refresh(NOW + passed, FRESH)
    assert len(hub.take("llm/slow", "llm", ("a",))) == 4


async def test_a_pod_counts_once_however_many_jobs_scrape_it(hub: PrometheusHub, server: Held) -> None:
    server.scrape(pod("a", job="zz-monitor"), NOW - 20.0, page(1))
    await hub.refresh(NOW, FRESH)
    assert [at for _, at, _ in told(hub.take("llm/one", "llm", ("a",)))] == [-40.5, -25.5, -10.5]


async def test_a_source_of_one_namespace_has_its_pods(server: Held) -> None:
    settings = type(SETTINGS)("http://prometheus:9090", namespace="llm", lag_seconds=10.0)
    hub = PrometheusHub(settings, server, back_fill_seconds=60.0)
    await hub.refresh(NOW, FRESH)
    assert len(hub.take("llm/one", "llm", ("b",))) == 3
    assert hub.take("other/one", "other", ("b",)) == []
    await hub.close()


async def test_a_value_that_is_no_number_is_a_sample_all_the_same(hub: PrometheusHub, server: Held) -> None:
    """What it is worth is for the windows to say."""
    server.scrape(pod("c"), NOW - 20.0, page("NaN"))
    await hub.refresh(NOW, FRESH)
    ((_, sample),) = hub.take("llm/one", "llm", ("c",))
    assert sample.generation_tokens is not None
    assert math.isnan(sample.generation_tokens)


async def test_an_empty_answer_is_an_answer() -> None:
    hub = PrometheusHub(SETTINGS, Held(), back_fill_seconds=60.0)
    await hub.refresh(NOW, FRESH)
    assert (hub.problem, hub.until, hub.size) == (None, NOW - 10.0, 0)
    assert hub.take("llm/one", "llm", ("a",)) == []
    await hub.close()


async def test_a_server_that_hangs_delays_nobody_beyond_the_limit(server: Held) -> None:
    """The gate stays shut until all of them are back."""
    hub = PrometheusHub(SETTINGS, server, back_fill_seconds=60.0, wait_seconds=0.05)
    server.gate.clear()
    await hub.refresh(NOW, FRESH)
    assert problem(hub) == "http://prometheus:9090 has not given everything within 0.05 s"
    assert hub.take("llm/one", "llm", ("a",)) == []
    for passed in range(15, 150, 15):
        await hub.refresh(NOW + passed, FRESH)
    server.gate.set()
    await landed()
    assert (problem(hub), server.asked) == (None, [TASTE, FIRST])
    assert len(hub.take("llm/one", "llm", ("a",))) == 3
    await hub.close()


async def test_a_server_that_is_slow_is_no_problem_until_its_answers_are_two_intervals_late(server: Held) -> None:
    """15 s are half an interval of 30 s, and everything up to 10 s before now was there."""
    hub = PrometheusHub(SETTINGS, server, wait_seconds=0.05)
    await hub.refresh(NOW, FRESH)
    await landed()
    server.gate.clear()
    problems = []
    for passed in (15.0, 30.0, 60.0, 61.5):
        await hub.refresh(NOW + passed, 15.0)
        problems.append(hub.problem is not None)
    assert problems == [False, False, False, True]
    server.gate.set()
    await hub.close()


async def test_a_failure_is_told_in_words_and_made_up_for(hub: PrometheusHub, server: Held) -> None:
    server.dead = "http://prometheus:9090 cannot be reached: connection refused"
    await hub.refresh(NOW, FRESH)
    assert (problem(hub), hub.until) == (server.dead, None)
    await hub.refresh(NOW + 1.0, FRESH)
    server.dead = None
    await hub.refresh(NOW + 15.0, FRESH)
    assert (problem(hub), server.asked) == (None, [(NOW - 10.0, NOW + 5.0), (FIRST[0], NOW + 5.0)])
    server.dead = "gone again"
    await hub.refresh(NOW + 30.0, FRESH)
    assert (problem(hub), hub.until) == ("gone again", NOW + 5.0)
    server.dead = None
    await hub.refresh(NOW + 45.0, FRESH)
    assert server.asked[2:] == [(NOW + 5.0, NOW + 35.0)]


async def test_warnings_and_pages_that_contradict_themselves_are_told(hub: PrometheusHub, server: Held) -> None:
    server.warnings = ("a store is away",)
    bad = (
        'vllm:spec_decode_num_drafts_total{model_name="tiny"} 1\n'
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name="tiny",position="x"} 1\n'
    )
    server.scrape(pod("c"), NOW - 20.0, page(1) + bad)
    await hub.refresh(NOW, FRESH)
    first, second = hub.warnings
    assert first == "a store is away"
    assert second.startswith("a page of llm/c cannot be read: position 'x'")
    server.warnings = ()
    await hub.refresh(NOW + 15.0, FRESH)
    assert hub.warnings == ()


async def test_queries_do_not_grow_with_pods(hub: PrometheusHub, server: Held) -> None:
    for place in range(500):
        server.scrape(pod(f"pod-{place}", f"team-{place % 9}"), NOW - 20.0 + 0.01 * place, page(place))
    await hub.refresh(NOW, FRESH)
    assert (server.asked, hub.size) == ([TASTE, FIRST], 503)


async def test_the_first_fetch_goes_back_over_what_evidence_needs() -> None:
    """A pod scraped every 15 s for two hours: an hour has 3600 / 15 = 240 scrapes."""
    server = Held()
    for ago in range(0, 7200, 15):
        server.scrape(pod("a"), NOW - 10.0 - ago, page(ago))
    hub = PrometheusHub(SETTINGS, server, back_fill_seconds=HOUR)
    await hub.refresh(NOW, FRESH)
    assert len(hub.take("llm/one", "llm", ("a",))) == 240
    await hub.close()


@pytest.mark.parametrize("outage", [False, True])
async def test_there_is_no_more_caught_up_with_than_memory_is_meant_for(outage: bool) -> None:
    """10,000 values every 15 s: the 20,000 of one query are 30 s, the 300,000 of all 450 s, fifteen times that."""
    server = Held(heavy=True)
    for ago in range(0, 7200, 15):
        server.scrape(pod("a"), NOW - 10.0 - ago, page(ago))
    hub = PrometheusHub(SETTINGS, server, back_fill_seconds=0.0 if outage else HOUR)
    if outage:
        await hub.refresh(NOW - HOUR, FRESH)
        server.asked.clear()
    await hub.refresh(NOW, FRESH)
    assert server.asked[:2] == [TASTE, (NOW - 460.0, NOW - 430.0)]
    assert server.asked[-1] == (NOW - 40.0, NOW - 10.0)
    assert len(server.asked) == 1 + 15
    assert len(hub.take("llm/one", "llm", ("a",))) == 450 / 15
    await hub.close()


async def test_closing_ends_what_is_under_way(server: Held) -> None:
    hub = PrometheusHub(SETTINGS, server, back_fill_seconds=60.0, wait_seconds=0.0)
    server.gate.clear()
    await hub.refresh(NOW, FRESH)
    await hub.close()
    assert server.closed
    server.gate.set()


@given(st.lists(st.sampled_from(["refresh", "one", "two"]), max_size=40))
def test_whoever_comes_when_every_reader_gets_every_sample_once(calls: list[str]) -> None:
    """4 s pass from call to call; what was fetched waits for 160 s, as long as the longest list takes."""

    async def follow() -> None:
        server = Held()
        for ago in range(200, -200, -3):
            server.scrape(pod("a"), NOW - ago, page(ago))
        hub = PrometheusHub(SETTINGS, server, back_fill_seconds=60.0)
        await hub.refresh(NOW, 160.0 / 4.0)
        taken: dict[str, list[float]] = {"one": [], "two": []}
        for place, call in enumerate([*calls, "one", "two"]):
            if call == "refresh":
                await hub.refresh(NOW + 4.0 * place, 5.0)
            else:
                taken[call] += [sample.at for _, sample in hub.take(call, "llm", ("a",))]
        assert hub.until is not None
        every = [NOW - ago for ago in range(200, -200, -3) if NOW - 70.0 < NOW - ago <= hub.until]
        assert taken == {"one": every, "two": every}
        await hub.close()

    asyncio.run(follow())
