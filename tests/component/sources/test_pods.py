"""Pods scraped one by one: what comes is taken, and what does not come is told in words."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from specloop_operator.settings import OperatorSettings
from specloop_operator.source_settings import PodsSettings
from specloop_operator.sources import SCRAPES_AT_ONCE, Collected, PodAddress, open_sources
from tests.component.sim.servers import free_port
from tests.component.sources.certificates import Pair, authority, signed
from tests.component.sources.fakes import NOW, page, told
from tests.component.sources.servers import serving
from tests.support.raw_server import Answer, RawServer, endless, raw, raw_server, silent, text

INTERVAL = 15.0


def at(name: str, url: str) -> PodAddress:
    """The pod of this name at a URL."""
    host, _, port = url.partition("://")[2].rpartition(":")
    return PodAddress("llm", name, host, int(port))


async def collect(*pods: PodAddress, seconds: float = INTERVAL, **settings: Any) -> Collected:
    """What one look at these pods brings."""
    sources = {"default": PodsSettings.model_validate({"type": "pods", **settings})}
    async with open_sources(OperatorSettings(sources=sources)) as opened:
        return await opened["default"].collect("llm/one", pods, NOW, seconds)


@pytest.fixture
async def servers() -> AsyncIterator[Mapping[str, RawServer]]:
    """Engines a and b."""
    async with AsyncExitStack() as stack:
        found = {name: await stack.enter_async_context(raw_server()) for name in "ab"}
        for place, server in enumerate(found.values()):
            server.answers["/metrics"] = text(page(place))
        yield found


async def test_every_pod_gives_a_sample_of_the_moment_when_it_was_asked(servers: Mapping[str, RawServer]) -> None:
    found = await collect(*(at(name, server.url) for name, server in servers.items()))
    assert told(found.samples) == [("a", 0.0, 0.0), ("b", 0.0, 1.0)]
    assert (found.until, found.problem, found.query) == (NOW, None, None)


async def test_scrapes_are_counted_by_how_they_end(servers: Mapping[str, RawServer]) -> None:
    servers["b"].answers["/metrics"] = text("no engine")
    asked, settings = [], OperatorSettings()
    async with open_sources(settings, queried=lambda *one: asked.append(one)) as opened:
        await opened["default"].collect("llm/one", [at(name, one.url) for name, one in servers.items()], NOW, INTERVAL)
        await opened["default"].collect("llm/two", [], NOW, INTERVAL)
    assert asked == [("default", 1, 1)]


async def test_a_pod_without_an_address_is_not_asked(servers: Mapping[str, RawServer]) -> None:
    found = await collect(PodAddress("llm", "new", None, 8000), at("a", servers["a"].url))
    assert [name for name, _ in found.samples] == ["a"]
    assert found.problem is None


async def test_metrics_may_be_on_another_port_and_path(servers: Mapping[str, RawServer]) -> None:
    servers["a"].answers["/engine/metrics"] = text(page(7))
    port = int(servers["a"].url.rpartition(":")[2])
    found = await collect(PodAddress("llm", "a", "127.0.0.1", 1), port=port, path="/engine/metrics")
    assert told(found.samples) == [("a", 0.0, 7.0)]


async def test_a_llama_server_is_told_from_the_next_by_its_header(servers: Mapping[str, RawServer]) -> None:
    servers["a"].answers["/metrics"] = text("llamacpp:tokens_predicted_total 5\n", more="Process-Start-Time-Unix: 111")
    ((_, sample),) = (await collect(at("a", servers["a"].url))).samples
    assert sample.incarnation == "111"


SILENT: dict[str, tuple[Answer, str]] = {
    "an error": (text("no", status="500 Internal Server Error"), "it answers with status 500"),
    "a redirection": (text("", status="307 Temporary Redirect", more="Location: /x"), "it answers with status 307"),
    "no answer": (silent(), "it does not answer in time"),
    "too much": (endless(b"# HELP x y\n" * 1000), "is above 2048 bytes"),
    "HTML": (text("<html>\n"), "its page cannot be read: line 1: this is HTML"),
    "another program": (text("up 1\n"), "its page has no metrics of an engine; is the port right?"),
    "no HTTP": (raw(b"220 mail.example.org ESMTP\r\n"), "it cannot be reached"),
}


@pytest.mark.parametrize("case", SILENT)
async def test_a_pod_that_gives_nothing_is_told_in_words_beside_the_others(
    servers: Mapping[str, RawServer], case: str
) -> None:
    servers["b"].answers["/metrics"], words = SILENT[case]
    pods = [at(name, server.url) for name, server in servers.items()]
    found = await collect(*pods, timeoutSeconds=0.5, maxBytes=2048)
    assert [name for name, _ in found.samples] == ["a"]
    assert found.problem is not None
    assert found.problem.startswith("1 of 2 pods gave no metrics; b: ")
    assert words in found.problem


async def test_an_interval_is_never_longer_than_its_pods_take(servers: Mapping[str, RawServer]) -> None:
    servers["a"].answers["/metrics"] = silent()
    found = await collect(at("a", servers["a"].url), seconds=0.2, timeoutSeconds=60.0)
    assert found.problem == "1 of 1 pods gave no metrics; a: it does not answer in time"


async def test_nobody_there_is_told_as_well() -> None:
    found = await collect(at("a", f"http://127.0.0.1:{free_port()}"))
    assert found.problem == "1 of 1 pods gave no metrics; a: it cannot be reached"


async def test_only_so_many_pages_are_under_way_at_a_time(servers: Mapping[str, RawServer]) -> None:
    """Each answer waits until as many have been asked for as may be at a time."""
    under_way, most, full = 0, 0, asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == SCRAPES_AT_ONCE:
            full.set()
        await full.wait()
        under_way -= 1
        await text(page(1))(writer)

    servers["a"].answers["/metrics"] = answer
    found = await collect(*(at(f"pod-{place:03d}", servers["a"].url) for place in range(3 * SCRAPES_AT_ONCE)))
    assert (len(found.samples), found.problem, most) == (3 * SCRAPES_AT_ONCE, None, SCRAPES_AT_ONCE)


async def test_a_proxy_of_the_environment_is_not_asked_for_pods(
    servers: Mapping[str, RawServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    assert (await collect(at("a", servers["a"].url))).problem is None


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return authority(tmp_path_factory.mktemp("ours"), "ours")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return authority(tmp_path_factory.mktemp("theirs"), "theirs")


async def test_https_with_an_authority_of_our_own(ours: Pair) -> None:
    with serving(page(3), signed(ours, "pod")) as server:
        found = await collect(at("a", server.url), scheme="https", caFile=str(ours.cert))
    assert told(found.samples) == [("a", 0.0, 3.0)]


@pytest.mark.parametrize("file", [None, "theirs"])
async def test_a_pod_that_others_vouch_for_is_told_in_words(ours: Pair, theirs: Pair, file: str | None) -> None:
    trusted: dict[str, Any] = {} if file is None else {"caFile": str(theirs.cert)}
    with serving(page(3), signed(ours, "pod")) as server:
        found = await collect(at("a", server.url), scheme="https", **trusted)
        assert server.asked == []
    assert found.problem is not None
    assert found.problem.startswith("1 of 1 pods gave no metrics; a: its certificate is not trusted: unable to get")


async def test_any_certificate_will_do_where_the_settings_say_so(ours: Pair) -> None:
    with serving(page(3), signed(ours, "pod", "DNS:elsewhere.test")) as server:
        assert (await collect(at("a", server.url), scheme="https", insecureSkipVerify=True)).problem is None


async def test_certificates_may_have_the_name_of_a_service(ours: Pair) -> None:
    own: dict[str, Any] = {"scheme": "https", "caFile": str(ours.cert)}
    with serving(page(3), signed(ours, "service", "DNS:llama.llm.svc")) as server:
        assert (await collect(at("a", server.url), serverName="llama.llm.svc", **own)).problem is None
        found = await collect(at("a", server.url), **own)
    assert found.problem is not None
    assert "IP address mismatch" in found.problem


async def test_tokens_and_authorities_are_read_again_at_every_look(ours: Pair, theirs: Pair, tmp_path: Path) -> None:
    ca, token = tmp_path / "ca.pem", tmp_path / "token"
    source = PodsSettings(type="pods", scheme="https", ca_file=str(ca), token_file=str(token))
    with serving(page(3), signed(ours, "pod")) as server:
        async with open_sources(OperatorSettings(sources={"default": source})) as opened:

            async def problem() -> str | None:
                return (await opened["default"].collect("llm/one", [at("a", server.url)], NOW, INTERVAL)).problem

            assert f"cannot read certificates in {ca}" in str(await problem())
            shutil.copy(theirs.cert, ca)
            assert f"cannot read the token in {token}" in str(await problem())
            token.write_text("one")
            assert "not trusted" in str(await problem())
            shutil.copy(ours.cert, ca)
            assert await problem() is None
            token.write_text("two")
            assert await problem() is None
        assert [asked["Authorization"] for asked in server.asked] == ["Bearer one", "Bearer two"]
