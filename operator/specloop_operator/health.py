"""What the operator says of itself: `/healthz`, `/readyz`, `/metrics`.

The metrics page is written in a thread, because a large one takes a while, and for so many at a time, because each is
held until it is taken: who asks for pages and reads none would fill the memory with them, or keep the probes waiting.
"""

from collections.abc import AsyncIterator

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from specloop_operator.pulse import Pulse, Readiness

PAGES = "/healthz, /readyz and /metrics"

SCRAPES = 8
"""Metrics pages at a time; what is beyond gets 503.  Two of each of a few Prometheus servers, should one be slow."""

PIECE_BYTES = 64 * 1024
"""Of a page at once: uvicorn waits for the reader above so many (`HIGH_WATER_LIMIT`)."""


def health(registry: CollectorRegistry, pulse: Pulse, readiness: Readiness) -> Starlette:
    """The three pages."""

    async def healthz(request: Request) -> Response:
        return _verdict(pulse.stalled())

    async def readyz(request: Request) -> Response:
        return _verdict(tuple([f"waiting for {one}" for one in readiness.missing]))

    def metrics(request: Request) -> Response:
        """Not a coroutine, so starlette calls it in a thread."""
        encoder, content_type = choose_encoder(request.headers.get("accept", ""))
        page = encoder(registry)
        headers = {"content-type": content_type, "content-length": str(len(page))}
        return StreamingResponse(_pieces(page), headers=headers)

    few = [Middleware(_FewAtATime, most=SCRAPES)]
    return Starlette(
        routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics, middleware=few)]
    )


class _FewAtATime:
    """Refuses a request while so many are under way, to their last byte."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app, self._most, self._under_way = app, most, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._under_way >= self._most:
            await PlainTextResponse("too many at a time\n", status_code=503)(scope, receive, send)
            return
        self._under_way += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way -= 1


async def _pieces(page: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(page), PIECE_BYTES):
        yield page[at : at + PIECE_BYTES]


def _verdict(complaints: tuple[str, ...]) -> Response:
    if complaints:
        return PlainTextResponse("\n".join(complaints) + "\n", status_code=503)
    return PlainTextResponse("ok\n")
