"""What `/metrics` says about HTTP and about the process: an ASGI meter, as vLLM's instrumentator is one."""

from collections.abc import Iterator
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specloop_sim.serve.families import counter, gauge, histogram, summary
from specloop_sim.serve.tally import Tally

UNCOUNTED = frozenset({"/metrics", "/health", "/load", "/ping", "/version", "/server_info"})
"""Paths that vLLM leaves out."""
FINE_EDGES = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5),
    *(5.0, 7.5, 10.0, 30.0, 60.0),
)
COARSE_EDGES = (0.1, 0.5, 1.0)


class Clock(Protocol):
    """Tells the model's time."""

    def now(self) -> float:
        """Seconds since the epoch, the model's."""


class WebMeter:
    """Wraps an application and counts its requests; durations are the model's."""

    def __init__(self, app: ASGIApp, clock: Clock, handlers: frozenset[str]) -> None:
        self._app = app
        self._clock = clock
        self._handlers = handlers
        self._created = clock.now()
        self._first: dict[str, float] = {}
        """When each handler was first seen."""
        self._requests: dict[tuple[str, str, str], int] = {}
        self._received: dict[str, list[int]] = {}
        self._sent: dict[str, list[int]] = {}
        self._fine = Tally(FINE_EDGES)
        self._coarse: dict[tuple[str, str], Tally] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and count it."""
        if scope["type"] != "http" or scope["path"] in UNCOUNTED:
            await self._app(scope, receive, send)
            return
        started = self._clock.now()
        status, sent = 500, 0

        async def counting(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status, sent = message["status"], _content_length(message["headers"])
            await send(message)

        try:
            await self._app(scope, receive, counting)
        finally:
            self._count(scope, status, sent, started)

    def _count(self, scope: Scope, status: int, sent: int, started: float) -> None:
        now = self._clock.now()
        handler = scope["path"] if scope["path"] in self._handlers else "none"
        self._first.setdefault(handler, now)
        key = (handler, scope["method"], f"{status // 100}xx")
        self._requests[key] = self._requests.get(key, 0) + 1
        for sizes, size in ((self._received, _content_length(scope["headers"])), (self._sent, sent)):
            totals = sizes.setdefault(handler, [0, 0])
            totals[0] += 1
            totals[1] += size
        self._fine.observe(now - started)
        self._coarse.setdefault((handler, scope["method"]), Tally(COARSE_EDGES)).observe(now - started)

    def families(self) -> Iterator[Metric]:
        """The families of prometheus-fastapi-instrumentator; those with a handler are empty until the first request."""
        first = min(self._first.values(), default=self._created)
        yield counter(
            "http_requests",
            "Total number of requests by method, status and handler.",
            [
                ({"handler": handler, "method": method, "status": status}, float(count))
                for (handler, method, status), count in self._requests.items()
            ],
            first,
        )
        for name, ways, sizes in (
            ("http_request_size_bytes", "incoming requests", self._received),
            ("http_response_size_bytes", "outgoing responses", self._sent),
        ):
            documentation = (
                f"Content length of {ways} by handler. Only value of header is respected. "
                "Otherwise ignored. No percentile calculated. "
            )
            values = [({"handler": handler}, count, total) for handler, (count, total) in sizes.items()]
            yield summary(name, documentation, values, first)
        yield histogram(
            "http_request_duration_highr_seconds",
            "Latency with many buckets but no API specific labels. Made for more accurate percentile calculations. ",
            [({}, self._fine)],
            self._created,
        )
        yield histogram(
            "http_request_duration_seconds",
            "Latency with only few buckets by handler. Made to be only used if aggregation by handler is important. ",
            [({"handler": handler, "method": method}, tally) for (handler, method), tally in self._coarse.items()],
            first,
        )


def _content_length(headers: Any) -> int:
    return next((int(value) for name, value in headers if name.lower() == b"content-length"), 0)


class ProcessFamilies:
    """The `python_*` and `process_*` families: this process's own, but for its start, which is the model's."""

    def __init__(self, started: float) -> None:
        self._registry = CollectorRegistry()
        self._started = started
        GCCollector(self._registry)
        PlatformCollector(self._registry)
        self._process = ProcessCollector(registry=None)

    def families(self) -> Iterator[Metric]:
        """The families, in vLLM's order."""
        yield from self._registry.collect()
        start = gauge(_START, "Start time of the process since unix epoch in seconds.", [({}, self._started)])
        found = [start if metric.name == _START else metric for metric in self._process.collect()]
        yield from found or [start]


_START = "process_start_time_seconds"
