"""A real Prometheus that scrapes the pods of a workload, as a monitor in a cluster would find them."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.component.sources.real import RealPrometheus
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object

LOOK_SECONDS = 0.5
LAG_SECONDS = 1
"""Scrapes take less here."""


@dataclass
class Monitor(RealPrometheus):
    """It finds pods that are not on their way out; `page` sends it to another address for all of them, "" to none."""

    cluster: Cluster = field(kw_only=True)
    labels: str = field(kw_only=True)
    page: str | None = None

    @property
    def source(self) -> Object:
        """What an operator's settings say of it."""
        url = f"http://127.0.0.1:{self.port}"
        return {"type": "prometheus", "url": url, "lagSeconds": LAG_SECONDS, "timeoutSeconds": 3}

    @property
    def targets(self) -> Path:
        """The file that it is told its targets by."""
        return self.folder / "targets.json"

    def find(self) -> None:
        """Look for pods once."""
        found = [self._target(pod) for pod in self.cluster.objects("Pod", self.labels) if _serves(pod)]
        aside = self.targets.with_suffix(".new")
        aside.write_text(json.dumps(found if self.page != "" else []))
        aside.rename(self.targets)

    def _target(self, pod: Object) -> Object:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        address = self.page or f"{pod['status']['podIP']}:8000"
        return {"targets": [address], "labels": {"namespace": namespace, "pod": name}}


def _serves(pod: Object) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and bool(pod["status"].get("podIP"))


def _config(targets: Path) -> str:
    jobs: Sequence[Object] = [{"job_name": "vllm", "file_sd_configs": [{"files": [str(targets)]}]}]
    times = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    return yaml.safe_dump({"global": times, "scrape_configs": list(jobs)})


@contextmanager
def monitored(cluster: Cluster, labels: str) -> Iterator[Monitor]:
    """A Prometheus for the length of the block."""
    folder = cluster.folder / "prometheus"
    folder.mkdir()
    monitor = Monitor(folder, cluster=cluster, labels=labels)
    monitor.find()
    (folder / "prometheus.yml").write_text(_config(monitor.targets))
    monitor.start()
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            monitor.find()

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield monitor
    finally:
        over.set()
        looking.join()
        monitor.release()
        monitor.stop()
