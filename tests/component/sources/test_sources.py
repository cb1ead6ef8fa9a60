"""Sources as the operator opens them, and a Prometheus as a policy sees it."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from specloop_control.prometheus_server import PrometheusSettings
from specloop_operator.metrics import Metrics
from specloop_operator.settings import OperatorSettings
from specloop_operator.sources import Collected, HubSource, PodAddress, PodSource, open_sources
from tests.component.sources.fakes import NOW, Held, page, pod, told

INTERVAL = 15.0
URL = "http://prometheus:9090"


def pods(*names: str, namespace: str = "llm") -> Sequence[PodAddress]:
    """Pods of these names."""
    return [PodAddress(namespace, name, "10.0.0.1", 8000) for name in names]


class Cluster:
    """An operator with one source, a Prometheus in memory."""

    def __init__(self, **settings: Any) -> None:
        self.server = Held()
        self.connected: list[PrometheusSettings] = []
        source = {"type": "prometheus", "url": URL}
        self.settings = OperatorSettings.model_validate({"sources": {"main": source}, **settings})

    def connect(self, settings: PrometheusSettings) -> Held:
        """What opens a connection."""
        self.connected.append(settings)
        return self.server

    async def look(self, *looks: Sequence[PodAddress]) -> list[Collected]:
        """What a reader gets at its looks, an interval apart."""
        async with open_sources(self.settings, back_fill_seconds=60.0, connect=self.connect) as opened:
            times = [NOW + INTERVAL * place for place in range(len(looks))]
            return [
                await opened["main"].collect("llm/one", one, now, INTERVAL)
                for now, one in zip(times, looks, strict=True)
            ]


async def test_without_settings_there_is_one_source_that_scrapes_the_pods() -> None:
    async with open_sources(OperatorSettings()) as opened:
        assert {name: type(source) for name, source in opened.items()} == {"default": PodSource}


async def test_a_reader_gets_samples_and_what_was_asked() -> None:
    cluster = Cluster()
    cluster.server.scrape(pod("a"), NOW - 20.0, page(5))
    cluster.server.scrape(pod("a"), NOW, page(6))
    first, second = await cluster.look(pods("a"), pods("a"))
    assert told(first.samples) == [("a", -20.0, 5.0)]
    assert (first.until, first.problem) == (NOW - 10.0, None)
    assert first.query == cluster.connected[0].selector
    assert told(second.samples) == [("a", 0.0, 6.0)]
    assert second.until == NOW + 5.0


async def test_policies_that_look_in_one_turn_share_a_query() -> None:
    cluster = Cluster()
    async with open_sources(cluster.settings, connect=cluster.connect) as opened:
        main = opened["main"]
        await asyncio.gather(
            *(main.collect(f"llm/{one}", pods("a"), NOW + 0.007 * one, INTERVAL) for one in range(200))
        )
        asked = len(cluster.server.asked)
        await main.collect("llm/0", pods("a"), NOW + INTERVAL, INTERVAL)
    assert len(cluster.server.asked) == asked + 1


async def test_an_interval_has_a_few_turns_each_with_a_query_about_what_is_new() -> None:
    """Five turns of 15 s, 3 s apart.  What is scraped later than 10 s ago is not complete, and comes with the next."""
    cluster = Cluster()
    async with open_sources(cluster.settings, connect=cluster.connect) as opened:
        main = opened["main"]
        assert [main.turns(seconds) for seconds in (1, 3, 6, 15, 300)] == [1, 1, 2, 5, 5]
        await main.collect("llm/first", pods("a"), NOW, INTERVAL)
        cluster.server.asked.clear()
        for turn in range(1, 6):
            for one in range(40):
                await main.collect(f"llm/{turn}-{one}", pods("a"), NOW + 3.0 * turn + 0.03 * one, INTERVAL)
    assert cluster.server.asked == [(NOW - 13.0 + 3.0 * turn, NOW - 10.0 + 3.0 * turn) for turn in range(1, 6)]


async def test_pods_have_a_turn_each_second() -> None:
    async with open_sources(OperatorSettings()) as opened:
        assert opened["default"].turns(15) == 15


async def test_a_prometheus_that_scrapes_none_of_the_pods_is_told_with_what_to_look_at() -> None:
    cluster = Cluster()
    cluster.server.scrape(pod("x", "elsewhere"), NOW - 20.0, page(5))
    cluster.server.scrape(pod("y", "elsewhere"), NOW - 20.0, page(5))
    (found,) = await cluster.look(pods("a", "b"))
    assert found.problem == (
        f"{URL} has nothing of these 2 pods, though of 2 others: are they scraped, and are they named by the labels "
        "namespace and pod?"
    )


async def test_a_prometheus_without_engines_is_told_with_what_to_look_at() -> None:
    (found,) = await Cluster().look(pods("a"))
    assert found.problem == f"{URL} has nothing of any engine: are they scraped, and are prefix and matchers right?"


async def test_a_policy_without_pods_has_no_problem_with_metrics() -> None:
    (found,) = await Cluster().look([])
    assert (found.samples, found.problem) == ((), None)


async def test_a_failure_comes_before_what_an_old_answer_lacks() -> None:
    cluster = Cluster()
    cluster.server.dead = "it is away"
    (found,) = await cluster.look(pods("a"))
    assert (found.problem, found.until) == ("it is away", None)


async def test_warnings_are_logged_when_they_change(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    cluster.server.warnings = ("a store is away",)
    with caplog.at_level(logging.WARNING):
        await cluster.look(pods("a"), pods("a"))
    assert caplog.messages == [f"{URL} warns: a store is away"]


async def test_queries_are_counted_by_how_they_end_and_the_last_one_says_whether_it_is_up() -> None:
    cluster, metrics = Cluster(), Metrics("1.0")

    def shown() -> list[float | None]:
        counts = [("answered", "specloop_source_queries_total"), ("failed", "specloop_source_queries_total")]
        found = [metrics.registry.get_sample_value(name, {"source": "main", "result": end}) for end, name in counts]
        return [*found, metrics.registry.get_sample_value("specloop_source_up", {"source": "main"})]

    async with open_sources(cluster.settings, queried=metrics.queried, connect=cluster.connect) as opened:
        assert shown() == [None, None, None]
        await opened["main"].collect("llm/one", pods("a"), NOW, INTERVAL)
        first = shown()[0]
        await opened["main"].collect("llm/one", pods("a"), NOW + INTERVAL, INTERVAL)
        assert shown() == [(first or 0) + 1, 0, 1]
        cluster.server.dead = "it is away"
        await opened["main"].collect("llm/one", pods("a"), NOW + 2 * INTERVAL, INTERVAL)
        assert shown() == [(first or 0) + 1, 1, 0]


async def test_namespaces_that_are_not_the_operators_are_not_asked_for() -> None:
    cluster = Cluster(namespaces=["llm", "chat"])
    await cluster.look(pods("a"))
    assert cluster.connected[0].selector.endswith(',namespace=~"llm|chat"}')


async def test_sources_are_closed_in_the_end() -> None:
    cluster = Cluster()
    async with open_sources(cluster.settings, connect=cluster.connect) as opened:
        assert isinstance(opened["main"], HubSource)
    assert cluster.server.closed
