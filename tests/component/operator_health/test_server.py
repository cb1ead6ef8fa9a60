"""Probes and metrics as the kubelet and Prometheus ask for them, over HTTP on loopback."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from specloop_operator.health import PAGES, health
from specloop_operator.metrics import Metrics
from specloop_operator.pulse import Pulse, Readiness
from specloop_operator.serving import ListenError, Server
from specloop_operator.settings import load_settings
from tests.support.fakes import ManualClock

LOOPBACK, LOOPBACK_OF_IPV6 = "127.0.0.1", "::1"


@dataclass
class Operator:
    """What a server shows, with time moved by hand."""

    clock: ManualClock = field(default_factory=ManualClock)
    readiness: Readiness = field(default_factory=lambda: Readiness("the caches", "the first ticks"))
    registry: CollectorRegistry = field(default_factory=lambda: Metrics("1.2.3").registry)

    def __post_init__(self) -> None:
        self.pulse = Pulse(self.clock.now)

    def server(self, port: int = 0, address: str = LOOPBACK, **options: Any) -> Server:
        """On loopback, unless another address is given."""
        return Server(health(self.registry, self.pulse, self.readiness), PAGES, address, port, **options)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client of the running server."""
        async with (
            self.server() as server,
            httpx.AsyncClient(base_url=f"http://{LOOPBACK}:{server.port}") as client,
        ):
            yield client


async def test_an_operator_whose_loops_beat_is_healthy() -> None:
    """With nothing expected as well."""
    operator = Operator()
    async with operator.served() as client:
        assert (await client.get("/healthz")).status_code == 200
        operator.pulse.expect("the ticks", 60.0)
        answer = await client.get("/healthz")
        assert (answer.status_code, answer.text) == (200, "ok\n")


async def test_a_stalled_loop_fails_the_liveness_probe_and_says_which_and_since_when() -> None:
    """It recovers when the loop does."""
    operator = Operator()
    operator.pulse.expect("the watch of pods", 60.0)
    async with operator.served() as client:
        operator.clock.time += 95.0
        answer = await client.get("/healthz")
        assert answer.status_code == 503
        assert answer.text == "the watch of pods: stalled, not heard of for 95 s (limit 60 s)\n"
        operator.pulse.beat("the watch of pods")
        assert (await client.get("/healthz")).status_code == 200


async def test_ready_is_when_everything_awaited_happened() -> None:
    """Until then the answer says what is missing; the operator is healthy all the while."""
    operator = Operator()
    async with operator.served() as client:
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.text) == (503, "waiting for the caches\nwaiting for the first ticks\n")
        assert (await client.get("/healthz")).status_code == 200
        operator.readiness.done("the caches")
        operator.readiness.done("the first ticks")
        assert (await client.get("/readyz")).status_code == 200


async def test_metrics_are_served_as_prometheus_asks_for_them() -> None:
    """Without a wish as plain text, with one as OpenMetrics."""
    async with Operator().served() as client:
        plain = await client.get("/metrics")
        names = {family.name for family in text_string_to_metric_families(plain.text)}
        open_metrics = await client.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert plain.headers["content-type"].startswith("text/plain")
    assert {"specloop_build_info", "specloop_ticks", "process_resident_memory_bytes"} <= names
    assert open_metrics.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert open_metrics.text.endswith("# EOF\n")


async def test_no_page_says_when_its_series_began() -> None:
    """Such samples would nearly double it."""
    async with Operator().served() as client:
        assert "_created" not in (await client.get("/metrics")).text


async def test_other_paths_are_not_there() -> None:
    """Nor other methods."""
    async with Operator().served() as client:
        assert (await client.get("/")).status_code == 404
        assert (await client.post("/healthz")).status_code == 405


class SlowCollector(Collector):
    """A registry that takes as long as a test wants."""

    def __init__(self) -> None:
        self.asked, self.go_on = Event(), Event()

    def collect(self) -> Iterable[Metric]:
        """Wait, and find nothing."""
        self.asked.set()
        self.go_on.wait(60.0)
        return []

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand either."""
        return []


async def test_a_page_that_takes_long_delays_no_probe() -> None:
    """The page is under way when the probe is answered."""
    operator, slow = Operator(), SlowCollector()
    operator.registry.register(slow)
    async with operator.served() as client:
        scrape = asyncio.create_task(client.get("/metrics"))
        assert await asyncio.to_thread(slow.asked.wait, 60.0)
        assert (await client.get("/healthz")).status_code == 200
        assert not scrape.done()
        slow.go_on.set()
        assert (await scrape).status_code == 200


async def test_a_server_that_ended_has_given_its_port_back() -> None:
    """A client that keeps its connection open does not hold it up."""
    operator = Operator()
    async with httpx.AsyncClient() as client:
        async with operator.server(0) as server:
            await client.get(f"http://{LOOPBACK}:{server.port}/healthz")
        async with operator.server(server.port):
            assert (await client.get(f"http://{LOOPBACK}:{server.port}/healthz")).status_code == 200


async def test_a_port_that_is_taken_is_refused_in_words() -> None:
    """The sentence names address and port."""
    operator = Operator()
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ListenError, match=rf"cannot listen on 127.0.0.1 port {port}"):
            async with operator.server(port):
                pass


def has_ipv6() -> bool:
    """Whether this machine has an address of IPv6, if only that of loopback."""
    try:
        socket.create_server((LOOPBACK_OF_IPV6, 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


async def healthy_at(address: str, port: int) -> bool:
    """As a kubelet asks a pod that has this address."""
    async with httpx.AsyncClient(trust_env=False) as client:
        host = f"[{address}]" if ":" in address else address
        return (await client.get(f"http://{host}:{port}/healthz")).status_code == 200


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
async def test_by_default_a_pod_is_found_at_its_addresses_of_ipv4_and_of_ipv6() -> None:
    """Of a cluster that has IPv6 alone the kubelet asks at the latter."""
    async with Operator().server(address=load_settings(None, {}).health_address) as server:
        assert await healthy_at(LOOPBACK, server.port)
        assert await healthy_at(LOOPBACK_OF_IPV6, server.port)


async def test_by_default_a_pod_is_found_where_there_is_no_ipv6() -> None:
    """As on a node whose kernel was started without it."""
    address = load_settings(None, {}).health_address
    async with Operator().server(address=address, dual_stack=lambda: False) as server:
        assert await healthy_at(LOOPBACK, server.port)
        with pytest.raises(httpx.ConnectError):
            await healthy_at(LOOPBACK_OF_IPV6, server.port)
