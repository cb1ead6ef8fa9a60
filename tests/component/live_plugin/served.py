"""A small server with the plugin's middleware round it, on loopback."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from specloop_vllm.control import TOKEN_FILE
from specloop_vllm.exchange import FOLDER
from specloop_vllm.middleware import Middleware

TOKEN = "secret"
CHUNKS = 5


@dataclass
class Server:
    """What runs, and what it has seen."""

    url: str
    folder: Path
    registry: CollectorRegistry
    bodies: list[bytes] = field(default_factory=list)
    """As they reached the application."""
    next_chunk: asyncio.Event = field(default_factory=asyncio.Event)
    """Lets the stream go on by one."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether a client left in the middle of a stream."""

    def value(self, name: str, **labels: str) -> float | None:
        """A metric of it."""
        return self.registry.get_sample_value(name, {"model_name": "", **labels})

    @property
    def authorized(self) -> dict[str, str]:
        """Headers of who knows the token."""
        return {"Authorization": f"Bearer {TOKEN}"}


@asynccontextmanager
async def served(folder: Path, *, controlled: bool = True) -> AsyncIterator[tuple[Server, httpx.AsyncClient]]:
    """The server, and a client of it."""
    registry = CollectorRegistry()
    server = Server("", folder, registry)

    async def complete(request: Request) -> Response:
        server.bodies.append(await request.body())
        return JSONResponse({"ok": True}, status_code=int(request.headers.get("x-status", "200")))

    async def stream(request: Request) -> Response:
        server.bodies.append(await request.body())

        async def chunks() -> AsyncIterator[str]:
            try:
                for number in range(CHUNKS):
                    await server.next_chunk.wait()
                    server.next_chunk.clear()
                    yield f"data: {number}\n\n"
            finally:
                server.gone.set()

        return StreamingResponse(chunks(), media_type="text/event-stream")

    async def echo(socket: WebSocket) -> None:
        await socket.accept()
        await socket.close()

    app = Starlette(
        routes=[
            Route("/v1/completions", complete, methods=["POST"]),
            Route("/v1/chat/completions", stream, methods=["POST"]),
            Route("/v1/audio/transcriptions", complete, methods=["POST"]),
            WebSocketRoute("/v1/realtime", echo),
        ]
    )
    token_file = folder / "token"
    token_file.write_text(TOKEN)
    environment = {FOLDER: str(folder), TOKEN_FILE: str(token_file)} if controlled else {}
    wrapped = Middleware(app, environment=environment, registry=registry)
    config = uvicorn.Config(wrapped, port=0, log_level="critical", lifespan="off", ws="none")
    web = uvicorn.Server(config)
    running = asyncio.create_task(web.serve())
    while not web.started:  # noqa: ASYNC110 (uvicorn has no event for it)
        await asyncio.sleep(0.01)
    port = web.servers[0].sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
        yield server, client
    web.should_exit = True
    await running


def completion(**fields: Any) -> bytes:
    """A request's body."""
    return json.dumps({"model": "m", "prompt": "x", **fields}).encode()
