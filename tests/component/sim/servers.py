"""Simulated servers as processes on loopback."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from subprocess import Popen
from typing import Any

import httpx

from specloop_engine.reader import read_sample
from specloop_engine.sample import Sample

READY_SECONDS = 60.0
DRAFT_K5 = ("--speculative-config", '{"method": "draft_model", "model": "small", "num_speculative_tokens": 5}')
NGRAM_K4 = (
    "--speculative-config",
    '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 4}',
)
MIDDLEWARE = ("--middleware", "specloop_vllm.Middleware")


@dataclass(frozen=True)
class Server:
    """A running server."""

    url: str
    process: Popen[str]

    def page(self) -> str:
        """Its metrics page."""
        return httpx.get(f"{self.url}/metrics").text

    def sample(self) -> Sample:
        """What its page says, read as a real vLLM's."""
        return read_sample(self.page(), 0.0)

    def post(self, values: Mapping[str, object], path: str = "/v1/completions") -> httpx.Response:
        """The response to a request."""
        return httpx.post(f"{self.url}{path}", json=values, timeout=60.0)

    def complete(self, **values: object) -> dict[str, Any]:
        """The answer to a completion that must succeed."""
        response = self.post(values)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer


def command(port: int, flags: Sequence[str]) -> list[str]:
    """The command of a server on this port."""
    address = ["--host", "127.0.0.1", "--port", str(port)]
    return [sys.executable, "-m", "specloop_sim.server", "serve", "tiny", *address, *flags]


def environment(settings: dict[str, object]) -> dict[str, str]:
    """This process's environment with `SPECLOOP_SIM_*` settings, by their ends in small letters; others whole."""
    own = {name if name.isupper() else f"SPECLOOP_SIM_{name.upper()}": str(value) for name, value in settings.items()}
    return {**os.environ, "SPECLOOP_SIM_STARTUP_SECONDS": "0", **own}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def start(*flags: str, **settings: object) -> Server:
    """Start a server, which is not ready yet."""
    port = free_port()
    process = Popen(command(port, flags), env=environment(settings), stderr=subprocess.PIPE, text=True)
    return Server(f"http://127.0.0.1:{port}", process)


def wait_until_ready(server: Server) -> None:
    """Wait for the port to open."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and server.process.poll() is None:
        try:
            httpx.get(f"{server.url}/health")
        except httpx.TransportError:
            continue
        return
    raise AssertionError(f"not ready: {server.process.stderr and server.process.stderr.read()}")


def outcome(*flags: str, **settings: object) -> tuple[int, str]:
    """Exit code and error output of a server that ends by itself."""
    server = start(*flags, **settings)
    _, errors = server.process.communicate(timeout=READY_SECONDS)
    return server.process.returncode, errors


@contextmanager
def serving(*flags: str, **settings: object) -> Iterator[Server]:
    """A ready server, ended afterwards."""
    server = start(*flags, **settings)
    try:
        wait_until_ready(server)
        yield server
    finally:
        server.process.kill()
        server.process.communicate()
