"""A real Prometheus that a test may stop, hold up and start again, and an engine's page that tells scrapes apart."""

import json
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from specloop_control.prometheus_server import PrometheusSettings
from tests.component.prometheus.servers import LAG_SECONDS, Target, binary, config, until
from tests.component.sim.servers import free_port
from tests.component.sources.fakes import page
from tests.component.sources.servers import Server

NAN = 'vllm:kv_cache_usage_perc{model_name="tiny",engine="0"} NaN\n'


class Engine(Server):
    """Its page counts how often it was asked for, so that every scrape is told from the others."""

    @property
    def body(self) -> bytes:  # type: ignore[override]
        """The page now."""
        return (page(len(self.asked)) + NAN).encode()


@dataclass
class RealPrometheus:
    """A process on loopback; its data survive it."""

    folder: Path
    port: int = field(default_factory=free_port)

    @property
    def settings(self) -> PrometheusSettings:
        """Where to ask it."""
        return PrometheusSettings(f"http://127.0.0.1:{self.port}", lag_seconds=LAG_SECONDS)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [
            binary(),
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]
        with (self.folder / "prometheus.log").open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        until(self._ready, f"prometheus ready: {self.folder / 'prometheus.log'}")

    def stop(self) -> None:
        """End it as a machine that fails would."""
        self.process.kill()
        self.process.wait()

    def hold(self) -> None:
        """It still takes connections, and answers none."""
        self.process.send_signal(signal.SIGSTOP)

    def release(self) -> None:
        """It goes on."""
        self.process.send_signal(signal.SIGCONT)

    def values(self, selector: str) -> list[tuple[float, float]]:
        """All that it has of one series, asked without any code of ours."""
        params = {"query": f"{selector}[10m]"}
        answer = json.loads(httpx.get(f"{self.settings.url}/api/v1/query", params=params).content)
        return [(at, float(value)) for series in answer["data"]["result"] for at, value in series["values"]]

    def _ready(self) -> bool:
        try:
            return httpx.get(f"{self.settings.url}/-/ready").status_code == 200
        except httpx.TransportError:
            return False


@contextmanager
def running(folder: Path, targets: Sequence[Target]) -> Iterator[RealPrometheus]:
    """A Prometheus that scrapes these targets, ended afterwards."""
    server = RealPrometheus(folder)
    (folder / "prometheus.yml").write_text(config(targets))
    server.start()
    try:
        yield server
    finally:
        server.stop()
