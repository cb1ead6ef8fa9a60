"""A real HTTP server on loopback whose answers are written byte by byte, as a failing engine or proxy would."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]
"""Writes an answer, head included; the connection is closed when it returns."""


@dataclass
class RawServer:
    """A running server: paths with their answers, and how often each was asked for."""

    url: str
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@asynccontextmanager
async def raw_server() -> AsyncIterator[RawServer]:
    """A server for the length of a block; a path without an answer is 404."""
    running, tasks = RawServer(""), set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            asked = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = asked.split(" ", 2)[1]
            running.asked.append(path)
            await running.answers.get(path, text("Not Found", status="404 Not Found"))(writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the test is over
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    running.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield running
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def head(status: str, length: int | None, more: str = "") -> bytes:
    """The head of an answer; without a length it ends with the connection."""
    lines = [f"HTTP/1.1 {status}", "Content-Type: text/plain", "Connection: close"]
    lines += [] if length is None else [f"Content-Length: {length}"]
    lines += [more] if more else []
    return "\r\n".join((*lines, "", "")).encode()


def text(body: str | bytes, *, status: str = "200 OK", more: str = "") -> Answer:
    """A whole answer."""
    content = body.encode() if isinstance(body, str) else body

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head(status, len(content), more) + content)

    return answer


def cut(body: str, after: int) -> Answer:
    """An answer that promises a whole body, and ends in the middle of it."""
    content = body.encode()

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head("200 OK", len(content)) + content[:after])

    return answer


def trickle(body: str, seconds: float) -> Answer:
    """An answer that comes a byte at a time, with so many seconds between them."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head("200 OK", None))
        for byte in body.encode():
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(seconds)

    return answer


def silent() -> Answer:
    """A request that is taken and never answered."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60.0)

    return answer


def endless(chunk: bytes) -> Answer:
    """An answer that never ends."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head("200 OK", None))
        while True:
            writer.write(chunk)
            await writer.drain()

    return answer


def raw(content: bytes) -> Answer:
    """Bytes that are no HTTP."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(content)

    return answer
