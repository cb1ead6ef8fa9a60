"""A real vLLM on the processor, as a process on loopback, with the plugin where a test asks for it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from specloop_engine.reader import read_sample
from specloop_engine.sample import Sample

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "scripts" / "build-vllm"
MODELS = ROOT / "tests" / "engine" / "models" / "transformers"
READY_SECONDS = 240.0
"""It took 42 to 52 s: three processes import vLLM one after the other, twelve seconds of the processor each."""
TOKEN = "secret"
QUICK_START = ("--enforce-eager", "--num-gpu-blocks-override", "300", "--disable-uvicorn-access-log")
"""Nothing is compiled, and the cache holds what 32 requests of 1,024 tokens need: a gigabyte takes four seconds."""
ON_THE_PROCESSOR = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


def find_python() -> Path | None:
    """The Python of the environment that has it; None where nobody has installed it."""
    found = subprocess.run([sys.executable, str(BUILD), "--find"], stdout=subprocess.PIPE, text=True)
    return Path(found.stdout.strip()) if found.returncode == 0 else None


def vllm_python() -> Path:
    """The same, for a test, which is skipped where there is none."""
    python = find_python()
    if python is None and os.environ.get("SPECLOOP_REQUIRE_ENGINES"):
        pytest.fail("there is no real vLLM, and SPECLOOP_REQUIRE_ENGINES asks for it: run scripts/build-vllm")
    if python is None:
        pytest.skip("there is no real vLLM here: make test-engine installs it")
    return python


@dataclass
class Vllm:
    """One that runs."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path
    folder: Path
    """Of live control."""

    def end(self) -> None:
        """At once, with all its processes; again does no harm."""
        with suppress(ProcessLookupError):  # all of them have gone
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def sample(self) -> Sample:
        """What its own page says."""
        return read_sample(self.page(), 0.0)

    def page(self) -> str:
        """Its metrics."""
        return httpx.get(f"{self.url}/metrics", timeout=10.0).text

    def live(self) -> dict[str, Any]:
        """What is wanted and in force."""
        answer = httpx.get(f"{self.url}/specloop/v1/speculation", headers=authorized(), timeout=10.0)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def want(self, **wish: Any) -> httpx.Response:
        """Ask for a K or a table, with the next generation."""
        shown = self.live()["desired"]
        wish = {"generation": (shown["generation"] if shown else 0) + 1, **wish}
        return httpx.put(f"{self.url}/specloop/v1/speculation", json=wish, headers=authorized(), timeout=10.0)

    def complete(self, prompt: str = "a b c", tokens: int = 60, **values: Any) -> str:
        """The text of a completion at temperature 0, run to its full length."""
        body = {"model": "target", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
        answer = httpx.post(f"{self.url}/v1/completions", json={**body, **values}, timeout=120.0)
        assert answer.status_code == 200, answer.text
        text: str = answer.json()["choices"][0]["text"]
        return text

    def moved(self, tokens: int = 120) -> tuple[float, ...]:
        """How far accepted tokens move by position while one request is served."""
        before = self.sample().drafting
        self.complete(tokens=tokens)
        after = self.sample().drafting
        assert before is not None
        assert after is not None
        pairs = zip(before.accepted_per_position, after.accepted_per_position, strict=True)
        return tuple(later - earlier for earlier, later in pairs)


def authorized() -> dict[str, str]:
    """Headers of who knows the token."""
    return {"Authorization": f"Bearer {TOKEN}"}


def drafts(tokens: int, table: Sequence[Sequence[int]] | None = None) -> tuple[str, str]:
    """The flag for the draft model."""
    config: dict[str, Any] = {"method": "draft_model", "model": str(MODELS / "draft-good")}
    return _flag({**config, "num_speculative_tokens": tokens}, table)


def lookups(tokens: int, table: Sequence[Sequence[int]] | None = None) -> tuple[str, str]:
    """The flag for n-gram lookup."""
    config = {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 4}
    return _flag({**config, "num_speculative_tokens": tokens}, table)


def _flag(config: dict[str, Any], table: Sequence[Sequence[int]] | None) -> tuple[str, str]:
    if table is not None:
        config["num_speculative_tokens_per_batch_size"] = table
    return "--speculative-config", json.dumps(config)


def command(python: Path, port: int, flags: Sequence[str]) -> list[str]:
    """Its command line."""
    own = ("--served-model-name", "target", "--max-model-len", "1024", "--max-num-seqs", "32", "--dtype", "float32")
    program = [str(python.parent / "vllm"), "serve", str(MODELS / "target"), "--host", "127.0.0.1"]
    return [*program, "--port", str(port), *own, *QUICK_START, *flags]


def environment(folder: Path) -> Mapping[str, str]:
    """What it runs with: the plugin can be imported, and may be controlled."""
    token = folder / "token"
    token.write_text(TOKEN)
    live = {"SPECLOOP_LIVE_FOLDER": str(folder / "live"), "SPECLOOP_LIVE_TOKEN_FILE": str(token)}
    return {**os.environ, **ON_THE_PROCESSOR, **live, "PYTHONPATH": str(ROOT / "operator")}


@contextmanager
def running(folder: Path, *flags: str) -> Iterator[Vllm]:
    """A ready one, ended afterwards with all its processes."""
    python = vllm_python()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / f"vllm-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command(python, port, flags),
            env=environment(folder),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    found = Vllm(f"http://127.0.0.1:{port}", process, log, folder / "live")
    try:
        _wait_until_ready(found)
        yield found
    finally:
        found.end()


def _wait_until_ready(found: Vllm) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and found.process.poll() is None:
        try:
            if httpx.get(f"{found.url}/health", timeout=2.0).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.5)
    raise AssertionError(f"not ready: {found.log.read_text(errors='replace')[-4000:]}")
