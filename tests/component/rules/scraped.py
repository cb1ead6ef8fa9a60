"""A real Prometheus with the shipped rules, which scrapes simulated engines and a page of the operator."""

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from specloop_operator.families import FAMILIES
from tests.component.prometheus.servers import binary, pod, until
from tests.component.sim.servers import free_port
from tests.unit.monitoring.shipped import RULES

LABELS = {
    "namespace": "llm",
    "policy": "chat",
    "action": "StepDown",
    "kind": "observed",
    "level": "k5",
    "type": "Ready",
    "result": "failed",
    "source": "default",
    "code": "500",
}
"""What the operator's series are labelled with here, such that the dashboard's panels choose them; others are `x`."""


OPERATOR_JOBS = ("specloop", "again")
"""Two monitors that both find the operator: it counts once all the same."""


@dataclass(frozen=True)
class Server:
    """A running Prometheus."""

    url: str

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer; raises AssertionError where Prometheus refuses."""
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=30.0).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, query: str) -> list[Any]:
        """The series that a query gives now."""
        result: list[Any] = self.ask("query", query=query)["result"]
        return result


def operator_page() -> bytes:
    """Every family of the operator with one series."""
    registry = CollectorRegistry()
    for family in FAMILIES:
        made = family.made(registry)
        one = made.labels(*(LABELS.get(label, "x") for label in family.labels)) if family.labels else made
        if isinstance(one, Gauge):
            one.set(1)
        elif isinstance(one, Counter):
            one.inc()
        else:
            one.observe(1)
    return generate_latest(registry)


@contextmanager
def operator() -> Iterator[str]:
    """An operator's metrics page; where it is."""
    page = operator_page()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def config(engines: Sequence[tuple[str, Mapping[str, str]]], operator_url: str) -> str:
    """Prometheus' configuration; JSON is YAML."""
    ours = {"targets": [urlsplit(operator_url).netloc], "labels": {"namespace": "specloop", "pod": "specloop-0"}}
    every = {"scrape_interval": "500ms", "scrape_timeout": "400ms", "evaluation_interval": "1s"}
    pods = [{"targets": [address], "labels": dict(labels)} for address, labels in engines]
    return json.dumps(
        {
            "global": every,
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {"job_name": "vllm", "static_configs": pods},
                *({"job_name": one, "honor_labels": True, "static_configs": [ours]} for one in OPERATOR_JOBS),
            ],
        }
    )


@contextmanager
def scraping(folder: Path, engines: Mapping[str, str]) -> Iterator[Server]:
    """A Prometheus that scrapes engines, by the names of their pods, and an operator; ended afterwards."""
    program, port = binary(), free_port()
    with operator() as ours, (folder / "log").open("w") as log:
        targets = [pod(url, name) for name, url in engines.items()]
        path = folder / "prometheus.yml"
        path.write_text(config([(one.address, one.labels) for one in targets], ours))
        flags = (f"--config.file={path}", f"--storage.tsdb.path={folder / 'data'}")
        process = subprocess.Popen(
            [program, *flags, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=subprocess.STDOUT
        )
        server = Server(f"http://127.0.0.1:{port}")
        try:
            until(lambda: _ready(server), f"prometheus ready: {folder / 'log'}")
            yield server
        finally:
            process.kill()
            process.wait()


def _ready(server: Server) -> bool:
    try:
        return httpx.get(f"{server.url}/-/ready").status_code == 200
    except httpx.TransportError:
        return False
