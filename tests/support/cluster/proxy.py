"""A reverse proxy in front of the API server that counts who asks for what, and fails where it is told to.

It speaks plain HTTP to its clients, passes tokens on, and streams, so that watches work.
"""

import asyncio
import contextlib
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from aiohttp import ClientConnectionError, ClientPayloadError, ClientSession, ClientTimeout, web

from tests.support.cluster.daemons import free_port
from tests.support.cluster.kubeconfig import Kubeconfig

REASONS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
HOP_BY_HOP = frozenset({"connection", "content-length", "host", "keep-alive", "transfer-encoding", "upgrade"})
VERBS = {"DELETE": "delete", "PATCH": "patch", "POST": "create", "PUT": "update"}
BODY_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: whose, what for, and the answer's status."""

    agent: str
    verb: str
    """get, list, watch, create, update, patch or delete."""
    resource: str
    """Plural, and a subresource after a slash; the path of what is no resource."""
    status: int


@dataclass(slots=True)
class Fault:
    """An answer that the next requests of a kind get instead of the API server's."""

    status: int
    left: int
    method: str
    path: str

    def strikes(self, method: str, path: str) -> bool:
        """Whether it hits this request; counts down if so."""
        if self.left == 0 or method != self.method or not re.search(self.path, path):
            return False
        self.left -= 1
        return True


Wanted = Callable[[str, str, bytes], bool]
"""Whether a request is one of those that are meant, by its method, path and body."""


@dataclass(slots=True)
class Hold:
    """Requests of a kind that wait until their client is gone, and so never reach the API server."""

    wanted: Wanted
    waiting: bool = False

    async def keep(self) -> None:
        """Wait for ever."""
        self.waiting = True
        try:
            await asyncio.Event().wait()
        finally:
            self.waiting = False


class Proxy:
    """A proxy for the length of an async block."""

    def __init__(self, upstream: Kubeconfig) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self.asked: list[Asked] = []
        self._upstream = upstream
        self._faults: list[Fault] = []
        self._holds: list[Hold] = []

    async def __aenter__(self) -> Self:
        """Listen."""
        application = web.Application(client_max_size=BODY_BYTES)
        application.router.add_route("*", "/{path:.*}", self._pass_on)
        # A watch whose client is gone must end, and none may hold up the end of a test.
        self._runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        self._session = ClientSession(auto_decompress=False, timeout=ClientTimeout())
        self._trust = ssl.create_default_context(cafile=self._upstream.ca)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", int(self.url.rpartition(":")[2])).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Hang up on everybody."""
        await self._runner.cleanup()
        await self._session.close()

    def fail(self, status: int, *, times: int, method: str, path: str) -> Fault:
        """Answer the next requests of a method, whose path a pattern finds, with this status; how many are left."""
        fault = Fault(status, times, method, path)
        self._faults.append(fault)
        return fault

    def hold(self, wanted: Wanted) -> Hold:
        """Let no request pass that is wanted; each is asked about once."""
        hold = Hold(wanted)
        self._holds.append(hold)
        return hold

    def count(self, accepts: Callable[[Asked], bool]) -> int:
        """How many requests so far were like this."""
        return sum(map(accepts, self.asked))

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        fault = next((one for one in self._faults if one.strikes(request.method, request.path)), None)
        if fault is not None:
            self._note(request, fault.status)
            return _refusal(fault.status, "the test says so")
        body = await request.read()
        for hold in self._holds:
            if hold.wanted(request.method, request.path, body):
                await hold.keep()
        url, headers = f"{self._upstream.url}{request.path_qs}", _end_to_end(request.headers)
        try:
            async with self._session.request(
                request.method, url, data=body or None, headers=headers, ssl=self._trust
            ) as answer:
                self._note(request, answer.status)
                response = web.StreamResponse(status=answer.status, headers=_end_to_end(answer.headers))
                await response.prepare(request)
                with contextlib.suppress(ClientPayloadError):  # an API server that stops in the middle of a watch
                    async for chunk in answer.content.iter_any():
                        await response.write(chunk)
                return response
        except ClientConnectionError:
            self._note(request, 503)
            return _refusal(503, "no API server")

    def _note(self, request: web.Request, status: int) -> None:
        verb, resource = verb_and_resource(request.method, request.path, "watch" in request.query)
        self.asked.append(Asked(request.headers.get("User-Agent", ""), verb, resource, status))


def verb_and_resource(method: str, path: str, watches: bool) -> tuple[str, str]:
    """What a request is, in the words of RBAC."""
    prefix, *rest = path.strip("/").split("/")
    parts = rest[{"api": 1, "apis": 2}.get(prefix, len(rest)) :]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    if not parts:
        return "get", path
    read = "watch" if watches else "get" if len(parts) > 1 else "list"
    return VERBS.get(method, read), "/".join(parts[:1] + parts[2:])


def _end_to_end(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """Headers that are not for one hop alone."""
    return [(name, value) for name, value in headers.items() if name.lower() not in HOP_BY_HOP]


def _refusal(status: int, message: str) -> web.Response:
    """A failure as an API server words it."""
    reason = REASONS[status]
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status}
    headers = {"Retry-After": "1"} if status == 429 else None
    return web.json_response({**body, "message": message}, status=status, headers=headers)
