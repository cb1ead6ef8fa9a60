"""An API server on loopback that takes events, or refuses them, and keeps what it was sent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import ApiClient, Configuration


@dataclass
class FakeApi:
    """What it was sent, and the status that it answers with."""

    status: int = 201
    sent: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    """Method, path and body of each request."""

    async def answer(self, request: web.Request) -> web.Response:
        """Keep the request, and give the object back as the server does."""
        body = await request.json()
        self.sent.append((request.method, request.path, body))
        if self.status >= 400:
            problem = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": self.status}
            return web.json_response(problem, status=self.status)
        return web.json_response(body, status=self.status)

    @asynccontextmanager
    async def client(self, *traces: aiohttp.TraceConfig) -> AsyncIterator[ApiClient]:
        """A client of this server, while it runs."""
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.answer)
        async with TestServer(application) as server, client_of(str(server.make_url("")), *traces) as client:
            yield client


@asynccontextmanager
async def client_of(url: str, *traces: aiohttp.TraceConfig) -> AsyncIterator[ApiClient]:
    """A client of the server at a URL."""
    async with ApiClient(Configuration(host=url.rstrip("/"), trace_configs=list(traces))) as client:
        yield client
