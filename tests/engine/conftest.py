"""A real llama-server and real traffic on loopback, for tests of what no fake can promise."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import pytest

HERE = Path(__file__).resolve().parent
TARGET = HERE / "models" / "target.gguf"
DRAFT_GOOD = HERE / "models" / "draft-good.gguf"
FORCED = HERE / "forced-llama-server"
BUILD = HERE.parents[1] / "scripts" / "build-llama-server"

BASE_FLAGS = ("-m", str(TARGET), "--metrics", "--threads", "1", "--ctx-size", "2048", "--parallel", "2")
DRAFT_FLAGS = ("-md", str(DRAFT_GOOD), "--spec-type", "draft-simple", "--spec-draft-p-min", "0")
NGRAM_FLAGS = ("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "2", "--spec-ngram-simple-size-m", "4")

READY_SECONDS = 30.0
STOP_SECONDS = 10.0


def draft_flags(tokens: int) -> tuple[str, ...]:
    """Flags that make `draft-good` propose up to `tokens` tokens a step."""
    return (*DRAFT_FLAGS, "--spec-draft-n-max", str(tokens))


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class LlamaServer:
    """One llama-server process on a free loopback port; leaving the with-block ends it, come what may."""

    def __init__(self, command: Sequence[str | Path], log: Path, environment: dict[str, str] | None = None) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.command = [*map(str, command), "--host", "127.0.0.1", "--port", str(port)]
        self.log = log
        self.environment = {**os.environ, **(environment or {})}

    def __enter__(self) -> Self:
        """Start the process without waiting for it."""
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=self.environment
            )
        self.client = httpx.Client(base_url=self.url, timeout=30)
        return self

    def __exit__(self, *_: object) -> None:
        """End the process: politely, then not."""
        self.client.close()
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def wait_until_ready(self) -> Self:
        """Return once `/health` answers 200; fail with the end of the log if it never does."""
        deadline = time.monotonic() + READY_SECONDS
        while self.health() != 200:
            if self.process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"llama-server did not become ready: {self.output()[-2000:]}")
            time.sleep(0.02)
        return self

    def health(self) -> int | None:
        """The status code of `/health`, or None where nobody listens."""
        try:
            return self.client.get("/health").status_code
        except httpx.TransportError:
            return None

    def complete(self, prompt: str, tokens: int, temperature: float = 0.0, **more: Any) -> dict[str, Any]:
        """One `/completion`, as raw as the server samples (no top-k, top-p or min-p), run to its full length."""
        response = self.client.post("/completion", json=request_body(prompt, tokens, temperature) | more)
        body: dict[str, Any] = response.raise_for_status().json()
        return body

    def metrics(self) -> dict[str, float]:
        """The page's series by name and labels, without the prefix `llamacpp:`."""
        page = self.client.get("/metrics").raise_for_status().text
        series = (line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
        return {name.removeprefix("llamacpp:"): float(value) for name, value in series}

    def stop(self) -> int:
        """Send SIGTERM and return the exit code; negative where a signal ended the process."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)

    def output(self) -> str:
        """All that the process has printed so far."""
        return self.log.read_text(errors="replace")


def request_body(prompt: str, tokens: int, temperature: float) -> dict[str, Any]:
    """A `/completion` request whose only sampler is the temperature."""
    return {
        "prompt": prompt,
        "n_predict": tokens,
        "temperature": temperature,
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
        "ignore_eos": True,
        "cache_prompt": False,
    }


class Traffic:
    """Clients that send completions in a closed loop until the with-block ends or `seconds` have passed.

    `temperature` may be changed at any time and holds from the next request on. A server that is away
    (a restart) costs a short wait and a count in `failed`, never the loop.
    """

    def __init__(self, url: str, temperature: float, *, clients: int = 2, tokens: int = 100, seconds: float = 120) -> None:
        self.url = url
        self.temperature = temperature
        self.tokens = tokens
        self.finished = 0
        self.failed = 0
        self.draft_tokens = 0
        self.accepted_tokens = 0
        self._deadline = time.monotonic() + seconds
        self._stop = threading.Event()
        self._count = threading.Lock()
        self._clients = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(clients)]

    def __enter__(self) -> Self:
        """Start all clients."""
        for client in self._clients:
            client.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Let every client finish its request, then join it."""
        self._stop.set()
        for client in self._clients:
            client.join(30)

    def wait_for(self, requests: int, seconds: float = 30) -> None:
        """Return once `requests` more have finished; fail if that takes too long."""
        self.wait_until(lambda goal=self.finished + requests: self.finished >= goal, f"{requests} requests", seconds)

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        """Return once `condition` holds while traffic flows; fail, naming `what`, after `seconds`."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"no {what} within {seconds:.0f} s ({self.finished} finished, {self.failed} failed)")
            time.sleep(0.02)

    def _run(self, number: int) -> None:
        """One client: prompts differ by client and by turn, so that no answer repeats another."""
        turn = 0
        with httpx.Client(base_url=self.url, timeout=20) as client:
            while not self._stop.is_set() and time.monotonic() < self._deadline:
                turn += 1
                self._send(client, f"Client {number} asks for the {turn}th time: {turn * 7919 % 1009}")

    def _send(self, client: httpx.Client, prompt: str) -> None:
        """One request, counted."""
        try:
            response = client.post("/completion", json=request_body(prompt, self.tokens, self.temperature))
            timings = response.raise_for_status().json()["timings"]
        except (httpx.HTTPError, ValueError):
            with self._count:
                self.failed += 1
            self._stop.wait(0.05)
            return
        with self._count:
            self.finished += 1
            self.draft_tokens += timings.get("draft_n", 0)
            self.accepted_tokens += timings.get("draft_n_accepted", 0)


StartServer = Callable[..., LlamaServer]


@pytest.fixture(scope="session")
def llama_server_binary() -> Path:
    """The real llama-server that scripts/build-llama-server has built; without it the test is skipped, or fails."""
    path = Path(subprocess.check_output([BUILD, "--path"], text=True).strip())
    if not os.access(path, os.X_OK):
        reason = f"no llama-server at {path}: run scripts/build-llama-server (six minutes, once)"
        if os.environ.get("SPECLOOP_REQUIRE_ENGINES") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture
def start_server(llama_server_binary: Path, tmp_path: Path) -> Iterator[StartServer]:
    """`start_server(*flags)` starts a real server on the tiny target model; all are ended after the test."""
    running: list[LlamaServer] = []

    def start(*flags: str, ready: bool = True, command: Path | None = None, **environment: str) -> LlamaServer:
        log = tmp_path / f"llama-server-{len(running)}.log"
        server = LlamaServer([command or llama_server_binary, *BASE_FLAGS, *flags], log, environment)
        running.append(server.__enter__())
        return server.wait_until_ready() if ready else server

    try:
        yield start
    finally:
        for server in running:
            server.__exit__()
