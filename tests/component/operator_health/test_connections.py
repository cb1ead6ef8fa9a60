"""Connections that hold a port: how many there are, for how long, and that the kubelet comes in all the while."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from threading import Event
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from specloop_operator.connections import ANSWER_SECONDS, CONNECTIONS, IDLE_SECONDS
from specloop_operator.health import PAGES, SCRAPES, health
from specloop_operator.pulse import Pulse, Readiness
from specloop_operator.serving import Server, Tls
from specloop_operator.webhook import BODY_SECONDS, RECORD_SECONDS
from tests.component.sources.certificates import authority, signed
from tests.component.webhook.doors import LOOPBACK, Connection, connected

MOST = 6
PATIENCE_SECONDS = 30.0
"""What a test waits for at most: longer on a busy machine than anything here takes, shorter than asyncio's 60 s for
TLS."""
LOOK_SECONDS = 0.05


class Page(Collector):
    """A page of metrics that takes as long as a test wants, and is so long."""

    def __init__(self, lines: int = 0) -> None:
        self.lines, self.asked, self.go_on = lines, 0, Event()

    def collect(self) -> Iterable[Metric]:
        """Wait, and find so many series of 100 kB."""
        self.asked += 1
        self.go_on.wait(60.0)
        family = GaugeMetricFamily("long", "Long.", labels=["number"])
        for number in range(self.lines):
            family.add_metric([f"{number:0100000}"], 1.0)
        return [family]

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand."""
        return []


class Port:
    """The pages on a port, over TLS or not."""

    def __init__(self, server: Server, trust: ssl.SSLContext | bool) -> None:
        self.port, self._trust = server.port, trust
        self._url = f"{'https' if isinstance(trust, ssl.SSLContext) else 'http'}://{LOOPBACK}:{server.port}"

    async def get(self, path: str) -> int:
        """The status of an answer, on a connection of its own."""
        async with httpx.AsyncClient(verify=self._trust, trust_env=False, timeout=PATIENCE_SECONDS) as client:
            return (await client.get(self._url + path)).status_code

    async def healthy(self) -> bool:
        """As the kubelet asks."""
        return await self.get("/healthz") == httpx.codes.OK


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "TLS"])
def tls(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tls, ssl.SSLContext] | None:
    """A certificate, and a client's trust in it; None: neither."""
    if not request.param:
        return None
    ours = authority(tmp_path_factory.mktemp("authority"), "ours")
    pair = signed(ours, "server")
    return Tls(pair.cert, pair.key), ssl.create_default_context(cafile=str(ours.cert))


@asynccontextmanager
async def opened(
    tls: tuple[Tls, ssl.SSLContext] | None = None, page: Page | None = None, **options: Any
) -> AsyncIterator[Port]:
    """The pages of a healthy operator, where MOST may be connected at a time unless it is said otherwise."""
    registry = CollectorRegistry()
    if page is not None:
        registry.register(page)
    pages = health(registry, Pulse(), Readiness())
    files, trust = (None, True) if tls is None else tls
    async with Server(pages, PAGES, LOOPBACK, 0, files, **{"connections": MOST, **options}) as server:
        yield Port(server, trust)


@asynccontextmanager
async def silent(port: Port, count: int) -> AsyncIterator[list[Connection]]:
    """So many clients, one after the other, that are connected and say nothing."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(connected(port.port)) for _ in range(count)]


async def until_ended(connections: Iterable[Connection]) -> None:
    """Wait until the other side has hung up on all of them."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        for one in connections:
            assert await one.ended()


async def until_asked(page: Page, times: int) -> None:
    """Wait until a page was asked for so often."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if page.asked >= times:
                return
            await asyncio.sleep(LOOK_SECONDS)


async def test_clients_that_say_nothing_are_hung_up_on(tls: tuple[Tls, ssl.SSLContext] | None) -> None:
    """Whether or not TLS comes first, of which asyncio lets the first words take a minute."""
    async with opened(tls, idle_seconds=1) as port, silent(port, MOST) as connections:
        await until_ended(connections)


async def test_there_are_never_more_connections_than_there_may_be(tls: tuple[Tls, ssl.SSLContext] | None) -> None:
    """Each new one ends the first that says nothing, long before its time, and the last ones stay."""
    async with opened(tls, idle_seconds=600) as port, silent(port, 3 * MOST) as connections:
        await until_ended(connections[: 2 * MOST])
        assert not any(one.reader.at_eof() for one in connections[2 * MOST :])


async def test_the_kubelet_is_answered_however_many_say_nothing(tls: tuple[Tls, ssl.SSLContext] | None) -> None:
    """Asked after each of them, and once all that may be are there."""
    async with opened(tls, idle_seconds=600) as port, AsyncExitStack() as stack:
        for _ in range(3 * MOST):
            await stack.enter_async_context(connected(port.port))
            assert await port.healthy()


async def test_a_request_under_way_is_not_ended_by_who_says_nothing() -> None:
    """The page is written while three times as many come as may be there."""
    page = Page()
    async with opened(page=page, idle_seconds=600) as port:
        scrape = asyncio.create_task(port.get("/metrics"))
        await until_asked(page, 1)
        async with silent(port, 3 * MOST) as connections:
            await until_ended(connections[:MOST])
            page.go_on.set()
            assert await scrape == httpx.codes.OK


async def test_where_all_have_a_request_under_way_the_first_of_them_ends() -> None:
    """A kubelet that finds nobody in would end the operator."""
    page = Page()
    async with opened(page=page) as port:
        scrapes = []
        for number in range(MOST):
            scrapes.append(asyncio.create_task(port.get("/metrics")))
            await until_asked(page, number + 1)
        assert await port.healthy()
        first, *others = scrapes
        with pytest.raises(httpx.TransportError):
            await first
        page.go_on.set()
        assert await asyncio.gather(*others) == [httpx.codes.OK] * (MOST - 1)


async def test_a_page_that_is_not_taken_is_not_kept_for_ever() -> None:
    """10 MB, of which the client reads nothing."""
    page = Page(100)
    page.go_on.set()
    async with opened(page=page, idle_seconds=1, answer_seconds=0.5) as port, connected_slowly(port) as client:
        await asyncio.get_running_loop().sock_sendall(client, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(PATIENCE_SECONDS):
            with suppress(ConnectionError):  # what is sent to who has hung up is answered by a reset
                while True:
                    await asyncio.sleep(LOOK_SECONDS)
                    await asyncio.get_running_loop().sock_sendall(client, b"x")


@asynccontextmanager
async def connected_slowly(port: Port) -> AsyncIterator[socket.socket]:
    """A client that takes in next to nothing before it reads."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, (LOOPBACK, port.port))
        yield client


async def test_no_more_metrics_pages_are_kept_at_a_time_than_may_be() -> None:
    """Those who ask beyond are refused at once, probes are answered, and later it is as before."""
    page = Page()
    async with opened(page=page, connections=CONNECTIONS) as port:
        scrapes = [asyncio.create_task(port.get("/metrics")) for _ in range(SCRAPES)]
        await until_asked(page, SCRAPES)
        assert await port.get("/metrics") == httpx.codes.SERVICE_UNAVAILABLE
        assert await port.healthy()
        page.go_on.set()
        assert await asyncio.gather(*scrapes) == [httpx.codes.OK] * SCRAPES
        assert await port.get("/metrics") == httpx.codes.OK


async def test_a_page_that_is_not_taken_counts_as_under_way() -> None:
    """All of it is in memory until then."""
    page = Page(100)
    page.go_on.set()
    async with opened(page=page, connections=CONNECTIONS) as port, AsyncExitStack() as stack:
        for _ in range(SCRAPES):
            client = await stack.enter_async_context(connected_slowly(port))
            await asyncio.get_running_loop().sock_sendall(client, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        await until_asked(page, SCRAPES)
        assert await port.get("/metrics") == httpx.codes.SERVICE_UNAVAILABLE


def test_the_chart_leaves_room_for_all_connections_and_a_message_has_its_time() -> None:
    """256 KiB of asyncio and what OpenSSL has, 0.3 MB, at two ports; of 512 MiB a leader holds 126 (reliability.md)."""
    assert 2 * CONNECTIONS * 0.3e6 + 126 * 2**20 < 512 * 2**20
    assert IDLE_SECONDS < BODY_SECONDS + RECORD_SECONDS < ANSWER_SECONDS
