"""Who answers with another address is not followed there, and no secret goes where it was not meant to go."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from specloop_control.live import LiveControl, Standing
from specloop_control.prometheus_server import Prometheus, PrometheusError, PrometheusSettings
from specloop_operator.settings import OperatorSettings
from specloop_operator.source_settings import PodsSettings
from specloop_operator.sources import PodAddress, open_sources
from specloop_vllm.control import PATH
from specloop_vllm.tables import constant
from tests.component.prometheus.test_answers import Everywhere
from tests.support.raw_server import RawServer, head, raw_server, text

SECRET = "s3cret-s3cret-s3cret"
STATUSES = ["301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect"]


@dataclass
class Stranger:
    """A server that keeps the heads of all requests, and answers them with nothing."""

    url: str = ""
    heads: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one request."""
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(head("200 OK", 2) + b"{}")
        writer.close()
        await writer.wait_closed()


@pytest.fixture
async def stranger() -> AsyncIterator[Stranger]:
    """Whom nobody means to ask: the API server, a cloud's metadata, another pod."""
    found = Stranger()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield found
    server.close()


@pytest.fixture
async def pod() -> AsyncIterator[RawServer]:
    async with raw_server() as server:
        yield server


@pytest.mark.parametrize("status", STATUSES)
async def test_a_pod_that_sends_the_scraper_elsewhere_is_not_followed(
    pod: RawServer, stranger: Stranger, tmp_path: Path, status: str
) -> None:
    """The token for metrics stays with the pod that it was for."""
    (tmp_path / "token").write_text(SECRET)
    pod.answers["/metrics"] = text("", status=status, more=f"Location: {stranger.url}/latest/meta-data")
    host, _, port = pod.url.partition("://")[2].rpartition(":")
    settings = PodsSettings.model_validate({"type": "pods", "tokenFile": str(tmp_path / "token")})
    async with open_sources(OperatorSettings(sources={"default": settings})) as sources:
        found = await sources["default"].collect("llm/chat", [PodAddress("llm", "a", host, int(port))], 0.0, 15.0)
    assert found.problem == f"1 of 1 pods gave no metrics; a: it answers with status {status[:3]}"
    assert (len(pod.asked), stranger.heads) == (1, [])


@pytest.mark.parametrize("status", STATUSES)
async def test_a_pod_that_sends_live_control_elsewhere_is_not_followed(
    pod: RawServer, stranger: Stranger, status: str
) -> None:
    """The bearer token of live control goes to the pod alone."""
    pod.answers[PATH] = text("", status=status, more=f"Location: {stranger.url}{PATH}")
    async with httpx.AsyncClient(trust_env=False) as client:
        control = LiveControl(client, {"Authorization": f"Bearer {SECRET}"})
        found = await control.bring({"pod": pod.url}, constant(3))
    assert found["pod"].standing is Standing.UNREACHABLE
    assert (len(pod.asked), stranger.heads) == (1, [])


@pytest.mark.parametrize("status", STATUSES)
async def test_a_prometheus_that_sends_on_keeps_the_token_to_itself(
    pod: RawServer, stranger: Stranger, tmp_path: Path, status: str
) -> None:
    """Proxies in front of one do redirect, so that it is followed; the credentials are not for the other host."""
    (tmp_path / "token").write_text(SECRET)
    answer = text("", status=status, more=f"Location: {stranger.url.replace('127.0.0.1', 'localhost')}/api/v1/query")
    pod.answers = Everywhere(answer)
    settings = PrometheusSettings(pod.url, token_file=tmp_path / "token", timeout_seconds=20.0)
    with closing(Prometheus(settings)) as prometheus, pytest.raises(PrometheusError):
        await asyncio.to_thread(prometheus.values, "up", 0.0, 1.0)
    assert len(stranger.heads) == 1
    assert SECRET not in stranger.heads[0]
