"""What the operator says of itself: `/healthz`, `/readyz`, `/metrics`.

The metrics page is written in a thread, because a large one takes a while.
"""

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from specloop_operator.pulse import Pulse, Readiness

PAGES = "/healthz, /readyz and /metrics"


def health(registry: CollectorRegistry, pulse: Pulse, readiness: Readiness) -> Starlette:
    """The three pages."""

    async def healthz(request: Request) -> Response:
        return _verdict(pulse.stalled())

    async def readyz(request: Request) -> Response:
        return _verdict(tuple([f"waiting for {one}" for one in readiness.missing]))

    def metrics(request: Request) -> Response:
        """Not a coroutine, so starlette calls it in a thread."""
        encoder, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encoder(registry), headers={"content-type": content_type})

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)])


def _verdict(complaints: tuple[str, ...]) -> Response:
    if complaints:
        return PlainTextResponse("\n".join(complaints) + "\n", status_code=503)
    return PlainTextResponse("ok\n")
