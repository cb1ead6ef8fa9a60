"""An API server on loopback that knows one Lease, and fails where it is told to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.component.leadership.no_waiting import loop

PATH = "/apis/coordination.k8s.io/v1/namespaces/specloop/leases"
Spec = dict[str, Any]


def _nothing() -> None:
    pass


@dataclass
class LeaseServer:
    """Reads and writes with the optimistic locking of a real one."""

    spec: Spec | None = None
    """Of the Lease; None: there is none."""
    holders: list[str] = field(default_factory=list)
    """Who took it or had it renewed, write by write; "" where it was given away."""
    written_at: float = 0.0
    """The loop's time at the last write."""
    status: int | None = None
    """What everything is answered with, instead of being done."""
    write_status: int | None = None
    """What writes are answered with, instead of being done."""
    silent: bool = False
    """Whether requests are taken and not answered."""
    mute: bool = False
    """Whether writes are done and not answered."""
    before_write: Callable[[], None] = _nothing
    """What somebody else does right before the next write."""
    _version: int = 1

    def taken_by(self, other: str) -> None:
        """Somebody else writes itself into it."""
        assert self.spec is not None
        self.spec = {**self.spec, "holderIdentity": other}
        self._version += 1

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Its URL, while it runs."""
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        async with TestServer(application) as server:
            yield str(server.make_url("")).rstrip("/")

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else {}
        if self.silent:
            await _never()
        if self.status is not None:
            return _status(self.status)
        if request.method == "GET":
            return self._lease() if request.path == f"{PATH}/specloop" and self.spec else _status(404)
        if self.write_status is not None:
            return _status(self.write_status)
        before, self.before_write = self.before_write, _nothing
        before()
        version = body["metadata"].get("resourceVersion")
        if (version is None) != (self.spec is None) or version not in (None, str(self._version)):
            return _status(409)
        self._write(body["spec"])
        if self.mute:
            await _never()
        return self._lease()

    def _write(self, spec: Spec) -> None:
        self.spec = spec
        self._version += 1
        self.holders.append(spec["holderIdentity"])
        self.written_at = loop().time()

    def _lease(self) -> web.Response:
        metadata = {"name": "specloop", "namespace": "specloop", "resourceVersion": str(self._version)}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": self.spec}
        return web.json_response(lease)


async def _never() -> None:
    loop().wait_no_more()
    await asyncio.Event().wait()


def _status(code: int) -> web.Response:
    return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}, status=code)
