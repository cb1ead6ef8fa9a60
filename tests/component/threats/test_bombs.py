"""Answers that never end, or grow a thousandfold when unpacked: none takes more memory than it may be long.

Memory is what Python's own allocator counts, so that it is the same on every machine.
"""

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import httpx
import pytest

from specloop_control.live import LiveControl, Standing
from specloop_control.prometheus_server import ANSWER_BYTES, Prometheus, PrometheusError, PrometheusSettings
from specloop_control.scrape import INCARNATION_CHARACTERS, fetch_page, fetch_sample
from specloop_operator.settings import OperatorSettings
from specloop_operator.sources import PodAddress, open_sources
from specloop_vllm.control import PATH
from specloop_vllm.tables import constant
from tests.component.prometheus.test_answers import Everywhere
from tests.support.raw_server import Answer, RawServer, endless, raw_server, text
from tests.support.threats import HOSTILE, MEBIBYTE, packed, packed_twice, steers

PAGE_BYTES = 4 * MEBIBYTE
"""What the operator's settings let a page have by default."""

BOMB_MEBIBYTES = 300
"""Unpacked; far above every limit here."""

GZIP, TWICE = "Content-Encoding: gzip", "Content-Encoding: gzip, gzip"


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False) as client:
        yield client


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with raw_server() as server:
        yield server


@pytest.fixture(scope="module")
def bombs() -> dict[str, Answer]:
    """One answer packed once, one packed twice."""
    return {
        "packed": text(packed(BOMB_MEBIBYTES), more=GZIP),
        "packed twice": text(packed_twice(BOMB_MEBIBYTES), more=TWICE),
    }


@dataclass
class Memory:
    """What was taken at most inside a block, in bytes."""

    most: int = 0


@contextmanager
def memory() -> Iterator[Memory]:
    """Count what is taken."""
    found = Memory()
    tracemalloc.start()
    try:
        yield found
    finally:
        found.most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()


@pytest.mark.parametrize("bomb", ["packed", "packed twice"])
async def test_a_page_that_grows_when_unpacked_is_never_unpacked(
    client: httpx.AsyncClient, server: RawServer, bombs: dict[str, Answer], bomb: str
) -> None:
    """The pod was asked for its page as it is; what it sends all the same is no page."""
    server.answers["/metrics"] = bombs[bomb]
    with memory() as taken:
        assert await fetch_sample(client, server.url, lambda: 0.0) is None
    assert taken.most < PAGE_BYTES


async def test_a_page_that_comes_packed_is_told_in_words(server: RawServer) -> None:
    """A proxy in front of an engine may pack without being asked."""
    server.answers["/metrics"] = text(packed(1), more=GZIP)
    host, _, port = server.url.partition("://")[2].rpartition(":")
    async with open_sources(OperatorSettings()) as sources:
        found = await sources["default"].collect("llm/chat", [PodAddress("llm", "a", host, int(port))], 0.0, 15.0)
    assert found.problem is not None
    assert found.problem.endswith("is compressed, which it was asked not to be")


async def test_a_pod_is_asked_for_its_page_as_it_is(client: httpx.AsyncClient) -> None:
    """So that one whose server can pack does not: prometheus_client's packs for whoever takes gzip."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        await fetch_page(client, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics")
    assert "\r\naccept-encoding: identity\r\n" in asked[0]
    assert "gzip" not in asked[0]


async def test_a_page_that_never_ends_takes_no_more_than_a_page_may_have(
    client: httpx.AsyncClient, server: RawServer
) -> None:
    """Twice the limit: what came last is in memory beside what came before."""
    server.answers["/metrics"] = endless(b"# HELP x y\n" * 1000)
    with memory() as taken, pytest.raises(httpx.TransportError, match="is above 4194304 bytes"):
        await fetch_page(client, f"{server.url}/metrics", seconds=60.0, max_bytes=PAGE_BYTES)
    assert taken.most < 2 * PAGE_BYTES


async def test_a_header_that_is_kept_with_every_sample_is_kept_short(
    client: httpx.AsyncClient, server: RawServer
) -> None:
    """A pod may send one of 50 kB, and be asked once a second for an hour of windows."""
    server.answers["/metrics"] = text(
        "llamacpp:tokens_predicted_total 5\n", more=f"Process-Start-Time-Unix: {'9' * 50_000}"
    )
    _, incarnation = await fetch_page(client, f"{server.url}/metrics")
    assert incarnation == "9" * INCARNATION_CHARACTERS


def shown(**fields: object) -> str:
    """What a pod with the plugin shows, with some fields as an attacker has them."""
    return json.dumps({"desired": None, "applied": None, "live": True, "pending": False, **fields})


async def bring(client: httpx.AsyncClient, server: RawServer, answer: Answer) -> tuple[Standing, str, int | None]:
    """How a pod stands that answers like this when it is to be brought to K = 3."""
    server.answers[PATH] = answer
    control = LiveControl(client, {"Authorization": "Bearer secret"})
    found = (await control.bring({"pod": server.url}, constant(3)))["pod"]
    return found.standing, found.reason, found.tokens


@pytest.mark.parametrize("bomb", ["packed", "packed twice", "endless"])
async def test_an_answer_of_live_control_takes_no_memory_either(
    client: httpx.AsyncClient, server: RawServer, bombs: dict[str, Answer], bomb: str
) -> None:
    """256 KiB are read at most, in pieces of 64 KiB."""
    answer = endless(b" " * 65536) if bomb == "endless" else bombs[bomb]
    with memory() as taken:
        standing, _, _ = await bring(client, server, answer)
    assert standing is Standing.UNREACHABLE
    assert taken.most < MEBIBYTE * 2


async def test_brackets_without_end_are_no_answer_of_live_control(client: httpx.AsyncClient, server: RawServer) -> None:
    """Neither where it shows something nor where it refuses."""
    deep = "[" * 100_000
    assert await bring(client, server, text(deep)) == (Standing.UNREACHABLE, "its answer cannot be read", None)
    refused = await bring(client, server, text(f'{{"error": {deep}', status="409 Conflict"))
    assert refused == (Standing.REFUSED, "it answers with status 409", None)


NUMBERS = {
    "a generation of 400 digits": shown(desired={"generation": 10**400, "k": 3}),
    "a generation below nought": shown(desired={"generation": -1, "k": 3}),
    "no number": shown(desired={"generation": 1, "k": float("nan")}),
    "a K of 400 digits": shown(applied={"generation": 1, "table": [[1, 8, 10**400]]}),
    "a K below nought": shown(applied={"generation": 1, "table": [[1, 8, -1]]}),
    "ten thousand ranges": shown(applied={"generation": 1, "table": [[1, 2, 3]] * 10_000}),
}


@pytest.mark.parametrize("case", NUMBERS)
async def test_numbers_that_no_plugin_shows_are_no_answer(
    client: httpx.AsyncClient, server: RawServer, case: str
) -> None:
    """The plugin's own limits: 2**53 wishes, 65536 requests, 64 ranges."""
    standing, reason, tokens = await bring(client, server, text(NUMBERS[case]))
    assert (standing, reason, tokens) == (Standing.UNREACHABLE, "its answer cannot be read", None)


@pytest.mark.parametrize(
    "answer",
    [
        text(shown(live=False, reason=HOSTILE * 100)),
        text(json.dumps({"error": HOSTILE * 100}), status="409 Conflict"),
    ],
    ids=["shown", "refused"],
)
async def test_a_pods_reason_is_one_short_line_that_steers_nothing(
    client: httpx.AsyncClient, server: RawServer, answer: Answer
) -> None:
    """It stands in a condition, in events and in the log."""
    standing, reason, _ = await bring(client, server, answer)
    assert standing is Standing.REFUSED
    assert reason.startswith("boom ")
    assert not steers(reason)
    assert len(reason) <= 300


@pytest.mark.parametrize("bomb", ["packed", "packed twice"])
async def test_an_answer_of_a_prometheus_that_grows_when_unpacked_is_cut_off_by_its_size(
    server: RawServer, bombs: dict[str, Answer], bomb: str
) -> None:
    """Compression is welcome there: answers of labels pack well.  Doubled, as a buffer that grows is."""
    server.answers = Everywhere(bombs[bomb])
    settings = PrometheusSettings(server.url, timeout_seconds=60.0)
    with (
        closing(Prometheus(settings)) as prometheus,
        memory() as taken,
        pytest.raises(PrometheusError, match="the answer is above 256 MB"),
    ):
        await asyncio.to_thread(prometheus.values, "x", 1.0, 2.0)
    assert taken.most < 2 * ANSWER_BYTES
