"""The webhook as the operator serves it, on loopback, with an API server made of a dictionary behind it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from specloop_operator.pulse import Readiness
from specloop_operator.serving import Server, Tls
from specloop_operator.webhook import BODY_SECONDS, RECORD_SECONDS, Bucket, Doorkeeper, webhook
from tests.support.alerts import STEP_DOWN, Hearing, policy_body

LOOPBACK = "127.0.0.1"
TOKEN = "open sesame"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
RATE, BURST = 1.0, 3.0
"""Of a bucket whose clock stands still unless a test moves it."""


@dataclass
class Door:
    """What a webhook is made of; by default it takes any message of any client, at any rate."""

    token_file: Path | None = None
    hearing: Hearing = field(default_factory=lambda: Hearing(policy_body(STEP_DOWN)))
    readiness: Readiness = field(default_factory=Readiness)
    burst: float = 1e9
    body_seconds: float = BODY_SECONDS
    record_seconds: float = RECORD_SECONDS
    tls: Tls | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the server."""
    port: int = 0
    """Where it is while it is open."""

    def server(self) -> Server:
        """It, on a free port."""
        bucket = Bucket(RATE, self.burst, self.hearing.clock.now)
        doorkeeper = Doorkeeper(self.token_file)
        pages = webhook(
            self.hearing.book,
            doorkeeper,
            bucket,
            self.readiness,
            self.hearing.metrics,
            body_seconds=self.body_seconds,
            record_seconds=self.record_seconds,
        )
        return Server(pages, "/alerts", LOOPBACK, 0, self.tls, **self.options)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[httpx.AsyncClient]:
        """A client of the running webhook."""
        async with self.server() as server, httpx.AsyncClient(base_url=f"http://{LOOPBACK}:{server.port}") as client:
            self.port = server.port
            yield client

    def answered(self) -> dict[int, int]:
        """How many messages were answered with which status."""
        counted = self.hearing.metrics.registry.get_sample_value
        codes = (200, 400, 401, 413, 415, 503)
        counts = {code: counted("specloop_webhook_requests_total", {"code": str(code)}) for code in codes}
        return {code: int(count) for code, count in counts.items() if count}


@dataclass
class Connection:
    """A connection on which bytes go as they are written."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Send them."""
        self.writer.write(data)
        await self.writer.drain()

    async def status(self) -> int:
        """The status that is answered with."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1])

    async def ended(self) -> bool:
        """Wait until the other side has hung up."""
        with suppress(ConnectionResetError):
            while await self.reader.read(65536):
                pass
        return True


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Connection]:
    """A connection to a port on loopback."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):  # the other side was first
            await writer.wait_closed()
