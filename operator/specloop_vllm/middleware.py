"""The ASGI middleware: a pipe with a meter beside it, and one path of its own.

    vllm serve ... --middleware specloop_vllm.Middleware

Messages pass as they come, both ways; a copy of a request's body is kept until its answer begins, and read then.
Whatever goes wrong with reading or counting is logged once, and the request goes on.
"""

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry

from specloop_vllm.control import PATH, TOKEN_FILE, Control, Reply
from specloop_vllm.exchange import FOLDER
from specloop_vllm.exchange import MOST_BYTES as MOST_WISH_BYTES
from specloop_vllm.live_metrics import LiveMetrics
from specloop_vllm.requests import MOST_BYTES, PATHS, UNREADABLE, RequestMetrics, Served, read_asked, served_by

LOG = logging.getLogger("vllm.specloop")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class Middleware:
    """Round an ASGI application."""

    def __init__(
        self,
        app: Application,
        *,
        environment: Mapping[str, str] = os.environ,
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        """vLLM gives the application alone."""
        self._app = app
        self._metrics = RequestMetrics(registry)
        self._served: Served | None = None
        self._failed = False
        folder, token_file = environment.get(FOLDER), environment.get(TOKEN_FILE)
        self._control = Control(Path(folder), Path(token_file)) if folder and token_file else None
        if folder:
            registry.register(LiveMetrics(Path(folder), self._name))

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"] == PATH and self._control is not None:
            await _answer(await _controlled(self._control, scope, receive), send)
        elif scope["path"] in PATHS and scope["method"] == "POST":
            await self._metered(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _metered(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        body: list[bytes] = []
        size = 0

        async def receiving() -> Message:
            nonlocal size
            message = await receive()
            if message["type"] == "http.request":
                part = message.get("body", b"")
                size += len(part)
                if size <= MOST_BYTES:
                    body.append(part)
                else:
                    body.clear()
            return message

        def sending(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                self._count(scope, b"".join(body) if size <= MOST_BYTES else None, message["status"])
                body.clear()
            return send(message)

        await self._app(scope, receiving, sending)

    def _count(self, scope: Mapping[str, Any], body: bytes | None, status: int) -> None:
        try:
            if self._served is None:
                self._served = served_by(scope.get("app"))
                self._metrics.introduce(self._served)
            self._metrics.count(self._served, UNREADABLE if body is None else read_asked(body), status)
        except Exception:  # nobody's answer may fail for a figure
            if not self._failed:
                LOG.exception("SpecLoop: a request could not be counted; further ones fail silently")
            self._failed = True

    def _name(self) -> str:
        return "" if self._served is None else self._served.name


async def _controlled(control: Control, scope: Mapping[str, Any], receive: Receive) -> Reply:
    """The answer on the path of our own."""
    shown = next((value for name, value in scope["headers"] if name.lower() == b"authorization"), b"")
    allowed = await asyncio.to_thread(control.allowed, shown)
    if allowed is None:
        return Reply(503, {"error": f"the token cannot be read, or is empty: see {TOKEN_FILE}"})
    if not allowed:
        return Reply(401, {"error": "a bearer token is needed, and this is none that counts"})
    if scope["method"] == "GET":
        return await asyncio.to_thread(control.get)
    if scope["method"] != "PUT":
        return Reply(405, {"error": "there are GET and PUT"})
    body = await _wish(receive)
    if body is None:
        return Reply(413, {"error": f"a wish has at most {MOST_WISH_BYTES} bytes"})
    return await asyncio.to_thread(control.put, body)


async def _wish(receive: Receive) -> bytes | None:
    """The whole body; None where it is too long, or its sender has gone."""
    body: bytes = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        part: bytes = message.get("body", b"")
        body += part
        if len(body) > MOST_WISH_BYTES:
            return None
        if not message.get("more_body", False):
            return body


async def _answer(reply: Reply, send: Send) -> None:
    body = json.dumps(reply.content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if reply.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
