"""The operator's own small web server: `/healthz`, `/readyz`, `/metrics`.

It runs in the operator's event loop, so that a blocked loop fails the liveness probe by silence.  The metrics page is
written in a thread, because a large one takes a while.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from specloop_operator.pulse import Pulse, Readiness

SHUTDOWN_SECONDS = 2
"""Given to a scrape under way when the operator ends: pages are small, and the pod's grace period is for roll-outs."""


class ListenError(OSError):
    """The address cannot be listened on; another setting, or ending who has it, helps."""


class Server:
    """Serves from entering to leaving the context; port 0 takes any free one."""

    def __init__(
        self, registry: CollectorRegistry, pulse: Pulse, readiness: Readiness, address: str, port: int
    ) -> None:
        self._registry = registry
        self._pulse = pulse
        self._readiness = readiness
        self._address = (address, port)
        self.port = port
        """The port that it listens on."""
        self._server = _Server(
            uvicorn.Config(
                self._application(),
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                interface="asgi3",
                access_log=False,
                log_config=None,
                server_header=False,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            )
        )
        self._serving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin to serve; connections are taken from now on.  Raises ListenError."""
        listening = _listen(*self._address)
        self.port = listening.getsockname()[1]
        self._serving = asyncio.create_task(self._server.serve([listening]), name="health server")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, and let a scrape under way finish."""
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving

    def _application(self) -> Starlette:
        routes = [
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/metrics", self._metrics),
        ]
        return Starlette(routes=routes)

    async def _healthz(self, request: Request) -> Response:
        return _verdict(self._pulse.stalled())

    async def _readyz(self, request: Request) -> Response:
        return _verdict(tuple([f"waiting for {one}" for one in self._readiness.missing]))

    def _metrics(self, request: Request) -> Response:
        """The page; not a coroutine, so starlette calls it in a thread."""
        encoder, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encoder(self._registry), headers={"content-type": content_type})


def _verdict(complaints: tuple[str, ...]) -> Response:
    if complaints:
        return PlainTextResponse("\n".join(complaints) + "\n", status_code=503)
    return PlainTextResponse("ok\n")


def _listen(address: str, port: int) -> socket.socket:
    """Open the port; raises ListenError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    both = address == "::" and socket.has_dualstack_ipv6()
    try:
        return socket.create_server((address, port), family=family, dualstack_ipv6=both)
    except OSError as error:
        raise ListenError(f"cannot listen on {address} port {port} for /healthz and /metrics: {error}") from error


class _Server(uvicorn.Server):
    """uvicorn without its own handling of signals: they are the operator's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield
