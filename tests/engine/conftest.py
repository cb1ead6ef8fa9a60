"""A real llama-server and real traffic on loopback, for tests of what no fake can promise."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol, Self

import httpx
import pytest

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "scripts" / "build-llama-server"
FORCED = HERE / "forced-llama-server"  # takes its acceptance from a file
TARGET = HERE / "models" / "target.gguf"
DRAFT_GOOD = HERE / "models" / "draft-good.gguf"

BASE_FLAGS = ("-m", str(TARGET), "--metrics", "--threads", "1", "--ctx-size", "4096", "--parallel", "2")
READY_SECONDS = 30.0
STOP_SECONDS = 10.0


def draft_flags(tokens: int, model: Path = DRAFT_GOOD) -> tuple[str, ...]:
    """Flags that make a draft model propose up to `tokens` tokens a step."""
    return ("-md", str(model), "--spec-type", "draft-simple", "--spec-draft-n-max", str(tokens))


def ngram_flags(lookup: int, tokens: int) -> tuple[str, ...]:
    """Flags for n-gram lookup: where the last `lookup` tokens stood before, propose the `tokens` that followed."""
    size = "--spec-ngram-simple-size"
    return ("--spec-type", "ngram-simple", f"{size}-n", str(lookup), f"{size}-m", str(tokens))


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def request_body(prompt: str, tokens: int, temperature: float) -> dict[str, Any]:
    """A `/completion` request whose only sampler is the temperature, run to its full length."""
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


class LlamaServer:
    """A llama-server process on a free loopback port; leaving the with-block ends it, come what may."""

    def __init__(self, command: Sequence[str | Path], log: Path, environment: dict[str, str] | None = None) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.command = [*map(str, command), "--host", "127.0.0.1", "--port", str(port)]
        self.log = log
        self.environment = {**os.environ, **(environment or {})}

    def __enter__(self) -> Self:
        """Start the process without waiting for it."""
        self.client = httpx.Client(base_url=self.url, timeout=30)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=self.environment
            )
        return self

    def __exit__(self, *_: object) -> None:
        """End the process: politely, then not (a server with requests in flight does not listen)."""
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

    def complete(self, prompt: str, tokens: int, temperature: float = 0.0) -> dict[str, Any]:
        """The answer to one `/completion`."""
        response = self.client.post("/completion", json=request_body(prompt, tokens, temperature))
        body: dict[str, Any] = response.raise_for_status().json()
        return body

    def metrics(self) -> dict[str, float]:
        """The page's values by series, without the prefix `llamacpp:`."""
        page = self.client.get("/metrics").raise_for_status().text
        series = (line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
        return {name.removeprefix("llamacpp:"): float(value) for name, value in series}

    def terminate(self) -> None:
        """Send one SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def exit_code(self) -> int:
        """Wait for the process to end; negative where a signal killed it."""
        return self.process.wait(STOP_SECONDS)

    def output(self) -> str:
        """All that the process has printed so far."""
        return self.log.read_text(errors="replace")


def varied_prompt(client: int, turn: int) -> str:
    """Another prompt each time, so that no answer repeats one before."""
    return f"Client {client} asks for the {turn}th time: {turn * 7919 % 1009}"


def repetitive_prompt(client: int, turn: int) -> str:
    """A prompt after which the target, at temperature 0, falls into a loop: what n-gram lookup lives on."""
    return "alpha beta gamma delta epsilon zeta " * 8 + varied_prompt(client, turn)


class Traffic:
    """Clients that send completions in a closed loop until the with-block ends or `seconds` have passed.

    `temperature` may be changed at any time and holds from the next request on. A server that is away (a restart)
    costs a short wait and a count in `failed`, never the loop.
    """

    def __init__(
        self,
        url: str,
        temperature: float,
        *,
        prompt: Callable[[int, int], str] = varied_prompt,
        clients: int = 2,
        tokens: int = 100,
        seconds: float = 120,
    ) -> None:
        self.url = url
        self.temperature = temperature
        self.finished = 0
        self.failed = 0
        self._prompt = prompt
        self._tokens = tokens
        self._deadline = time.monotonic() + seconds
        self._stop = threading.Event()
        self._counting = threading.Lock()
        self._clients = [threading.Thread(target=self._run, args=(client,), daemon=True) for client in range(clients)]

    def __enter__(self) -> Self:
        """Start all clients."""
        for client in self._clients:
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let every client finish its request."""
        self._stop.set()
        for client in self._clients:
            client.join()

    def wait_for(self, requests: int, seconds: float = 30) -> None:
        """Return once `requests` more have been answered; fail if that takes longer than `seconds`."""
        goal = self.finished + requests
        deadline = time.monotonic() + seconds
        while self.finished < goal:
            if time.monotonic() > deadline:
                pytest.fail(f"{goal - self.finished} requests unanswered after {seconds:.0f} s, {self.failed} failed")
            time.sleep(0.02)

    def _run(self, client: int) -> None:
        turn = 0
        with httpx.Client(base_url=self.url, timeout=20) as http:
            while not self._stop.is_set() and time.monotonic() < self._deadline:
                turn += 1
                self._send(http, self._prompt(client, turn))

    def request(self, prompt: str, tokens: int) -> tuple[str, object]:
        """Path and body of one request."""
        return "/completion", request_body(prompt, tokens, self.temperature)

    def _send(self, http: httpx.Client, prompt: str) -> None:
        try:
            path, body = self.request(prompt, self._tokens)
            http.post(path, json=body).raise_for_status()
        except httpx.HTTPError:
            with self._counting:
                self.failed += 1
            self._stop.wait(0.05)
        else:
            with self._counting:
                self.finished += 1


class StartServer(Protocol):
    """How a test starts a server: its flags beside those every server gets."""

    def __call__(self, *flags: str, ready: bool = True, forced_rates: Path | None = None) -> LlamaServer: ...


@pytest.fixture(scope="session")
def llama_server_binary() -> Path:
    """The server that scripts/build-llama-server built; where there is none, tests are skipped, or fail if required."""
    path = Path(subprocess.check_output([BUILD, "--path"], text=True).strip())
    if not os.access(path, os.X_OK):
        reason = f"no llama-server at {path}: run scripts/build-llama-server"
        if os.environ.get("SPECLOOP_REQUIRE_ENGINES"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture
def start_server(llama_server_binary: Path, tmp_path: Path) -> Iterator[StartServer]:
    """Starts real servers on the tiny target model, ready for requests unless told otherwise; ends them all."""
    with ExitStack() as servers:

        def start(*flags: str, ready: bool = True, forced_rates: Path | None = None) -> LlamaServer:
            command: list[str | Path] = [FORCED if forced_rates else llama_server_binary, *BASE_FLAGS, *flags]
            environment = {"LLAMA_SERVER": str(llama_server_binary), "FORCED_RATES_FILE": str(forced_rates)}
            log = tmp_path / f"llama-server-{time.monotonic_ns()}.log"
            server = servers.enter_context(LlamaServer(command, log, environment if forced_rates else None))
            return server.wait_until_ready() if ready else server

        yield start
