"""What the plugin's middleware costs a request, and a chunk of a stream, round an application that does nothing.

    python -P benchmarks/middleware.py [-o json]

Without a network: the application is called as a web server calls it, once bare and once with the middleware round it,
in turns within one run.  A request has a body of two kilobytes; a stream has a thousand chunks.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from typing import Any

from prometheus_client import CollectorRegistry

from specloop_vllm.middleware import Application, Message, Middleware

ROUNDS, REQUESTS, CHUNKS = 15, 2000, 1000
BODY = json.dumps({"model": "m", "temperature": 0.7, "max_tokens": 100, "prompt": "x" * 2000}).encode()


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Take the body, and give a short answer."""
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


async def stream(scope: Any, receive: Any, send: Any) -> None:
    """Take the body, and give a thousand chunks."""
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(CHUNKS):
        await send({"type": "http.response.body", "body": b"data: x\n\n", "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def receive() -> Message:
    """The whole body at once."""
    return {"type": "http.request", "body": BODY, "more_body": False}


async def send(message: Message) -> None:
    """Nobody listens."""


async def seconds(application: Application, requests: int) -> float:
    """What so many requests take, each."""
    began = time.perf_counter()
    for _ in range(requests):
        await application({"type": "http", "method": "POST", "path": "/v1/completions", "headers": []}, receive, send)
    return (time.perf_counter() - began) / requests


async def measure() -> dict[str, float]:
    """Medians over rounds, bare and wrapped in turns; microseconds."""
    wrapped_answer = Middleware(answer, environment={}, registry=CollectorRegistry())
    wrapped_stream = Middleware(stream, environment={}, registry=CollectorRegistry())
    request, chunk = [], []
    for _ in range(ROUNDS):
        bare, wrapped = await seconds(answer, REQUESTS), await seconds(wrapped_answer, REQUESTS)
        request.append(wrapped - bare)
        bare, wrapped = await seconds(stream, 20), await seconds(wrapped_stream, 20)
        chunk.append((wrapped - bare - request[-1]) / CHUNKS)
    return {
        "requestMicroseconds": round(1e6 * statistics.median(request), 1),
        "chunkMicroseconds": round(1e6 * statistics.median(chunk), 3),
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What the plugin's middleware costs.")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    given = parser.parse_args()
    figures = asyncio.run(measure())
    if given.output == "json":
        print(json.dumps(figures))
        return 0
    for name, figure in figures.items():
        print(f"{name:24} {figure:12,.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
