"""A real Prometheus as a process on loopback, and traffic for the simulated servers that it scrapes."""

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from specloop_control.prometheus_server import PrometheusSettings
from tests.component.sim.servers import free_port

READY_SECONDS = 60.0
SCRAPE_SECONDS = 0.5
"""Often, so that a test has windows after seconds."""
LAG_SECONDS = 2.0
"""Far more than a scrape may take here: the machine may have other things to do."""


@dataclass(frozen=True)
class Target:
    """What Prometheus scrapes: an address such as 127.0.0.1:8000, and the labels that it adds."""

    address: str
    labels: Mapping[str, str]
    job: str = "vllm"


def pod(url: str, name: str, job: str = "vllm") -> Target:
    """The engine at a URL as the pod of this name."""
    return Target(urlsplit(url).netloc, {"namespace": "llm", "pod": name}, job)


def binary() -> str:
    """The program; where there is none, tests are skipped, or fail if they are required."""
    found = shutil.which("prometheus")
    if found is None:
        reason = "no prometheus: install the package of this name"
        if os.environ.get("SPECLOOP_REQUIRE_ENGINES"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def config(targets: Sequence[Target]) -> str:
    """Prometheus' configuration; JSON is YAML."""
    jobs = {target.job: [one for one in targets if one.job == target.job] for target in targets}
    return json.dumps(
        {
            "global": {"scrape_interval": f"{SCRAPE_SECONDS * 1000:.0f}ms", "scrape_timeout": "400ms"},
            "scrape_configs": [
                {
                    "job_name": job,
                    "static_configs": [{"targets": [one.address], "labels": dict(one.labels)} for one in ones],
                }
                for job, ones in jobs.items()
            ],
        }
    )


@contextmanager
def prometheus(folder: Path, targets: Sequence[Target], *flags: str) -> Iterator[PrometheusSettings]:
    """A Prometheus that scrapes these targets, ended afterwards; where to ask it."""
    program, port = binary(), free_port()
    (folder / "prometheus.yml").write_text(config(targets))
    command = [
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        *flags,
    ]
    url = f"http://127.0.0.1:{port}"
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        until(lambda: _ready(url), f"prometheus ready: {folder / 'prometheus.log'}")
        yield PrometheusSettings(url, namespace="llm", lag_seconds=LAG_SECONDS)
    finally:
        process.kill()
        process.wait()


def _ready(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/-/ready").status_code == 200
    return False


def until(condition: Callable[[], bool], what: str, seconds: float = READY_SECONDS) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.05)


@contextmanager
def traffic(*urls: str, clients: int = 2, tokens: int = 60, seconds: float = 60.0) -> Iterator[None]:
    """Clients of every server that send one completion after the other; a server that is away costs a short wait."""
    stop = threading.Event()
    deadline = time.monotonic() + seconds

    def send(url: str) -> None:
        body = {"model": "tiny", "prompt": "Once upon a time", "max_tokens": tokens, "temperature": 0.2}
        with httpx.Client(timeout=20.0) as client:
            while not stop.is_set() and time.monotonic() < deadline:
                try:
                    client.post(f"{url}/v1/completions", json=body)
                except httpx.HTTPError:
                    stop.wait(0.1)

    threads = [threading.Thread(target=send, args=(url,), daemon=True) for url in urls for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
