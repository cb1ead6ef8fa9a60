"""Scraping over real HTTP: a good page becomes windows, and whatever goes wrong is a sample that did not come."""

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from specloop_control.scrape import Scraper, fetch_page, fetch_sample
from specloop_engine.history import History
from specloop_policy.ladder import DISABLED, Drafter, Level, Method
from specloop_policy.observation import Outcome
from tests.support.fakes import ManualClock
from tests.support.pages import idle, page
from tests.support.raw_server import Answer, RawServer, cut, endless, raw, raw_server, silent, text, trickle

K5 = Level("k5", Drafter("small", Method.DRAFT_MODEL, "draft"), 5)
START = idle(5)
LATER = START.after((0.6, 0.4, 0.3, 0.2, 0.1), drafts=9000, requests=240)
LIMIT_SECONDS = 0.3
"""How long a page may take in these tests."""

BAD: dict[str, Answer] = {
    "an error": text("out of order\n", status="500 Internal Server Error"),
    "an error with a good page": text(page(START), status="503 Service Unavailable"),
    "another address": text("", status="307 Temporary Redirect", more="Location: /elsewhere"),
    "nothing": text(""),
    "HTML": text("<html><body>502 Bad Gateway</body></html>\n"),
    "JSON": text('{"detail": "Not Found"}\n'),
    "binary": text(b"\x7fELF\x00\x01\x02\xff"),
    "no UTF-8": text(page(START).encode() + b'other{label="\xff"} 1\n'),
    "half a page": text(page(START)[:-30]),
    "an answer cut off": cut(page(START), 400),
    "no HTTP": raw(b"220 mail.example.org ESMTP\r\n"),
    "no answer": silent(),
    "an answer that trickles": trickle(page(START), 0.02),
    "an answer that never ends": endless(b"# HELP x y\n" * 10_000),
    "compressed rubbish": text(b"\x1f\x8b\x08\x00rubbish", more="Content-Encoding: gzip"),
}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient() as client:
        yield client


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with raw_server() as server:
        yield server


async def test_a_page_becomes_a_sample_of_the_time_at_which_it_was_there(
    client: httpx.AsyncClient, server: RawServer
) -> None:
    server.answers["/metrics"] = text(page(LATER))
    sample = await fetch_sample(client, server.url, lambda: 1234.5)
    assert sample is not None
    assert (sample.at, sample.tokens, sample.running) == (1234.5, 5, 8.0)
    assert server.asked == ["/metrics"]


@pytest.mark.parametrize("name", BAD)
async def test_whatever_goes_wrong_is_no_sample(client: httpx.AsyncClient, server: RawServer, name: str) -> None:
    server.answers["/metrics"] = BAD[name]
    assert await fetch_sample(client, server.url, lambda: 0.0, seconds=LIMIT_SECONDS) is None


async def test_an_engine_that_is_gone_is_no_sample(client: httpx.AsyncClient) -> None:
    async with raw_server() as server:
        url = server.url
    assert await fetch_sample(client, url, lambda: 0.0) is None


@pytest.mark.parametrize("name", ["no answer", "an answer that trickles", "an answer that never ends"])
async def test_a_slow_page_is_given_up_after_its_time(client: httpx.AsyncClient, server: RawServer, name: str) -> None:
    """A page of 3 kB at 50 bytes a second would take a minute; each byte of it comes in time.

    What is asserted is the order of magnitude alone.
    """
    server.answers["/metrics"] = BAD[name]
    began = time.monotonic()
    with pytest.raises(httpx.HTTPError):
        await fetch_page(client, f"{server.url}/metrics", seconds=LIMIT_SECONDS)
    assert time.monotonic() - began < 20.0


class Pods:
    """Three pods on one server, and a scraper with windows of ten seconds."""

    def __init__(self, client: httpx.AsyncClient, server: RawServer) -> None:
        self.server = server
        self.clock = ManualClock(1_796_000_000.0)
        self.levels: dict[str, Level | None] = dict.fromkeys("abc", K5)
        urls = {pod: f"{server.url}/{pod}" for pod in "abc"}
        history = History(10.0, 100.0)
        self.scraper = Scraper(client, urls, self.levels.__getitem__, history, self.clock.now, seconds=LIMIT_SECONDS)

    async def poll(self, **answers: Answer) -> None:
        """Ten seconds pass, and every pod is scraped."""
        self.clock.time += 10.0
        for pod, answer in answers.items():
            self.server.answers[f"/{pod}/metrics"] = answer
        await self.scraper.poll()

    def outcomes(self) -> dict[str, Outcome]:
        """The newest window's outcome by pod."""
        return {window.pod: window.outcome for window in self.scraper.windows()}


@pytest.fixture
def pods(client: httpx.AsyncClient, server: RawServer) -> Pods:
    return Pods(client, server)


async def test_two_scrapes_make_a_window_a_pod(pods: Pods) -> None:
    await pods.poll(**dict.fromkeys("abc", text(page(START))))
    assert pods.scraper.windows() == ()
    await pods.poll(**dict.fromkeys("abc", text(page(LATER))))
    windows = pods.scraper.windows()
    assert {window.pod for window in windows} == {"a", "b", "c"}
    assert {(window.outcome, window.level, window.drafts) for window in windows} == {(Outcome.MEASURED, "k5", 9000.0)}


async def test_one_pod_that_fails_hurts_no_other(pods: Pods) -> None:
    await pods.poll(**dict.fromkeys("abc", text(page(START))))
    await pods.poll(a=text(page(LATER)), b=text("", status="500 Oops"), c=silent())
    assert pods.outcomes()["a"] is Outcome.MEASURED
    assert pods.scraper.latest["a"] is not None
    assert pods.scraper.latest["b"] is None
    assert pods.scraper.latest["c"] is None


async def test_a_pod_that_stays_away_becomes_stale_and_comes_back_as_another(pods: Pods) -> None:
    await pods.poll(**dict.fromkeys("abc", text(page(START))))
    for _ in range(3):
        await pods.poll(a=text(page(LATER)), b=raw(b""))
    assert pods.outcomes()["b"] is Outcome.STALE
    await pods.poll(b=text(page(START)))
    await pods.poll(b=text(page(LATER)))
    assert pods.outcomes()["b"] is Outcome.MEASURED


async def test_a_pod_that_restarted_is_reset(pods: Pods) -> None:
    await pods.poll(**dict.fromkeys("abc", text(page(LATER))))
    await pods.poll(a=text(page(START)), b=text(page(LATER)), c=text(page(LATER)))
    assert pods.outcomes()["a"] is Outcome.RESET


async def test_a_header_tells_a_llama_server_that_restarted_even_where_its_counters_went_on(pods: Pods) -> None:
    """Its page says nothing of the start; the header holds another number after a restart."""

    def shown(tokens: int, start: str) -> Answer:
        page = f"llamacpp:tokens_predicted_total {tokens}\nllamacpp:spec_decode_num_draft_tokens_total 0\n"
        return text(page, more=f"Process-Start-Time-Unix: {start}")

    await pods.poll(**dict.fromkeys("abc", shown(1000, "111")))
    await pods.poll(a=shown(2000, "111"), b=shown(2000, "222"), c=shown(2000, "111"))
    assert pods.outcomes()["b"] is Outcome.RESET
    assert Outcome.RESET not in (pods.outcomes()["a"], pods.outcomes()["c"])


async def test_a_pod_whose_level_changes_while_its_page_is_on_the_way_is_at_neither(pods: Pods) -> None:
    """The page is asked for at k5 and comes once the pod is at disabled."""

    async def slowly(writer: asyncio.StreamWriter) -> None:
        pods.levels["a"] = DISABLED
        await text(page(LATER))(writer)

    await pods.poll(**dict.fromkeys("abc", text(page(START))))
    await pods.poll(a=slowly)
    assert {window.level for window in pods.scraper.windows() if window.pod == "a"} == {""}
    assert pods.outcomes()["a"] is Outcome.MIXED


async def test_a_pod_that_is_being_changed_is_at_no_level(pods: Pods) -> None:
    await pods.poll(**dict.fromkeys("abc", text(page(START))))
    pods.levels["a"] = None
    await pods.poll(**dict.fromkeys("abc", text(page(LATER))))
    assert {window.pod: window.level for window in pods.scraper.windows()} == {"a": "", "b": "k5", "c": "k5"}
