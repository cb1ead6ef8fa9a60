"""The hub on a real Prometheus: every scrape once, whatever becomes of the server meanwhile."""

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from specloop_control.prometheus_hub import PrometheusHub
from specloop_control.prometheus_server import Prometheus
from specloop_engine.sample import Sample
from tests.component.prometheus.servers import LAG_SECONDS, READY_SECONDS, SCRAPE_SECONDS, Target, until
from tests.component.sources.real import Engine, RealPrometheus, running

pytestmark = [pytest.mark.slow, pytest.mark.engine, pytest.mark.timeout(180)]

OF_A = 'vllm:generation_tokens_total{pod="a",namespace="llm",job="vllm"}'


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPrometheus]:
    """Pod a of llm, which two jobs scrape, and its namesake elsewhere."""
    with Engine() as engine:
        threading.Thread(target=engine.serve_forever, args=(0.01,), daemon=True).start()
        address = engine.url.removeprefix("http://")
        targets = [
            Target(address, {"namespace": "llm", "pod": "a"}),
            Target(address, {"namespace": "llm", "pod": "a"}, "zz-monitor"),
            Target(address, {"namespace": "other", "pod": "a"}),
        ]
        with running(tmp_path_factory.mktemp("prometheus"), targets) as server:
            # Hubs begin two seconds back: by then the first job by name must be known to scrape the pod as well.
            until(lambda: len(server.values(OF_A)) > 2.0 * LAG_SECONDS / SCRAPE_SECONDS, "some scrapes")
            yield server
        engine.shutdown()


class Reader:
    """A policy that looks again and again; what it took is kept."""

    def __init__(self, hub: PrometheusHub, name: str = "llm/one", namespace: str = "llm") -> None:
        self.hub = hub
        self.name = name
        self.namespace = namespace
        self.taken: list[Sample] = []

    async def look(self, enough: Callable[[], bool]) -> None:
        """Look until it is enough."""
        deadline = time.monotonic() + READY_SECONDS
        while not enough():
            assert time.monotonic() < deadline, (self.hub.problem, len(self.taken))
            await self.hub.refresh(time.time(), 0.2)
            self.taken += [sample for _, sample in self.hub.take(self.name, self.namespace, ("a",))]
            await asyncio.sleep(0.1)

    async def look_for(self, more: int) -> None:
        """Look until so many more samples are there."""
        had = len(self.taken)
        await self.look(lambda: len(self.taken) >= had + more)

    def problem(self) -> str | None:
        """What is wrong now."""
        return self.hub.problem

    def shown(self) -> list[tuple[float, float | None]]:
        """What was taken as time and tokens."""
        return [(one.at, one.generation_tokens) for one in self.taken]


def stored(prometheus: RealPrometheus, shown: list[tuple[float, float | None]]) -> list[tuple[float, float]]:
    """What Prometheus has of pod a over the same span."""
    return [one for one in prometheus.values(OF_A) if shown[0][0] <= one[0] <= shown[-1][0]]


@pytest.fixture
async def hub(prometheus: RealPrometheus) -> AsyncIterator[PrometheusHub]:
    settings = prometheus.settings
    hub = PrometheusHub(settings, Prometheus(settings), wait_seconds=1.0)
    yield hub
    await hub.close()


async def test_a_reader_gets_every_scrape_once_as_prometheus_has_it(
    hub: PrometheusHub, prometheus: RealPrometheus
) -> None:
    reader, namesake = Reader(hub), Reader(hub, "other/one", "other")
    await asyncio.gather(reader.look_for(8), namesake.look_for(8))
    assert reader.shown() == stored(prometheus, reader.shown())
    assert not set(reader.shown()) & set(namesake.shown())
    assert all(one.kv_cache_percent is not None and math.isnan(one.kv_cache_percent) for one in reader.taken)
    assert hub.query.endswith("ms]")


async def test_a_hub_that_begins_anew_gets_the_same_again(hub: PrometheusHub, prometheus: RealPrometheus) -> None:
    """As after a restart of the operator."""
    reader, settings = Reader(hub), prometheus.settings
    await reader.look_for(4)
    another = PrometheusHub(settings, Prometheus(settings), back_fill_seconds=60.0)
    later = Reader(another)
    await later.look(lambda: bool(later.taken) and later.taken[-1].at >= reader.taken[-1].at)
    assert later.shown()[: later.shown().index(reader.shown()[-1]) + 1][-len(reader.taken) :] == reader.shown()
    await another.close()


async def test_a_server_that_dies_or_hangs_is_told_in_words_and_made_up_for(
    hub: PrometheusHub, prometheus: RealPrometheus
) -> None:
    reader = Reader(hub)
    await reader.look_for(2)
    prometheus.stop()
    await reader.look(lambda: hub.problem is not None)
    assert reader.problem() == f"{prometheus.settings.url} cannot be reached: connection refused"
    prometheus.start()
    await reader.look_for(2)
    assert reader.problem() is None
    prometheus.hold()
    await reader.look(lambda: hub.problem is not None)
    assert reader.problem() == f"{prometheus.settings.url} has not given everything within 1 s"
    prometheus.release()
    await reader.look_for(2)
    assert reader.shown() == stored(prometheus, reader.shown())
