"""A real Prometheus that scrapes the pods of a workload, and all that may go wrong with what it has of them."""

import json
import math
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx

from tests.component.sources.real import RealPrometheus
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object

LOOK_SECONDS = 0.3
PAGE_SECONDS = 5.0
SCRAPE_SECONDS = 1
LAG_SECONDS = 1
"""No scrape may take longer."""


class Pages(ThreadingHTTPServer):
    """Between Prometheus and the pods: `/127.1.2.3` is the page of the pod there, with its values or without."""

    daemon_threads = True
    values = True
    """Whether they are numbers; else each is NaN."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _PageHandler)

    def handle_error(self, *_: object) -> None:
        """A Prometheus that waits no longer, or is killed, hangs up."""

    def page(self, address: str) -> str:
        """The page of a pod, as it is now."""
        text = httpx.get(f"http://{address}:8000/metrics", timeout=PAGE_SECONDS).raise_for_status().text
        return text if self.values else re.sub(r"^([^#].*) \S+$", r"\1 NaN", text, flags=re.MULTILINE)


class _PageHandler(BaseHTTPRequestHandler):
    server: Pages

    def do_GET(self) -> None:
        """Answer with the page of a pod, or not at all where the pod does not answer."""
        try:
            body = self.server.page(self.path.strip("/")).encode()
        except httpx.HTTPError:
            self.send_error(502)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@dataclass
class Monitoring:
    """A Prometheus that knows the pods with some labels, as long as it is told of them."""

    cluster: Cluster
    labels: str
    pages: Pages
    prometheus: RealPrometheus
    told: bool = True
    """Whether it is told of any pod."""

    @property
    def source(self) -> Object:
        """It as the operator's settings name it."""
        return {"type": "prometheus", "url": self.prometheus.settings.url, "lagSeconds": LAG_SECONDS}

    def tell(self) -> None:
        """Tell it of the pods that there are now."""
        pods = self.cluster.objects("Pod", self.labels) if self.told else []
        found = [self._target(pod["metadata"], pod["status"]["podIP"]) for pod in pods if "podIP" in pod["status"]]
        new = self._targets.with_suffix(".new")
        new.write_text(json.dumps(found))
        new.rename(self._targets)

    def shows_nan(self) -> bool:
        """Whether the values that it has scraped lately are NaN."""
        values = self._values()
        return bool(values) and all(math.isnan(one) for one in values)

    def shows_nothing(self) -> bool:
        """Whether it has no values any more."""
        return not self._values()

    def _values(self) -> list[float]:
        answer = httpx.get(
            f"{self.prometheus.settings.url}/api/v1/query", params={"query": "vllm:generation_tokens_total"}
        )
        return [float(one["value"][1]) for one in answer.json()["data"]["result"]]

    def configure(self) -> None:
        """Write its configuration; JSON is YAML."""
        job = {"job_name": "pods", "file_sd_configs": [{"files": [str(self._targets)], "refresh_interval": "1s"}]}
        every = {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": f"{LAG_SECONDS}s"}
        text = json.dumps({"global": every, "scrape_configs": [job]})
        (self.prometheus.folder / "prometheus.yml").write_text(text)

    @property
    def _targets(self) -> Path:
        return self.prometheus.folder / "targets.json"

    def _target(self, pod: Object, address: str) -> Object:
        labels = {"__metrics_path__": f"/{address}", "namespace": pod["namespace"], "pod": pod["name"]}
        return {"targets": [f"127.0.0.1:{self.pages.server_port}"], "labels": labels}


@contextmanager
def monitoring(cluster: Cluster, labels: str) -> Iterator[Monitoring]:
    """A Prometheus for the length of a block, told of the pods with labels such as `app=llama` again and again."""
    folder = cluster.folder / "prometheus"
    folder.mkdir()
    with Pages() as pages:
        found = Monitoring(cluster, labels, pages, RealPrometheus(folder))
        found.configure()
        over = threading.Event()

        def telling() -> None:
            while not over.wait(LOOK_SECONDS):
                found.tell()

        threads = [threading.Thread(target=pages.serve_forever), threading.Thread(target=telling)]
        for thread in threads:
            thread.start()
        try:
            found.prometheus.start()
            yield found
        finally:
            over.set()
            pages.shutdown()
            for thread in threads:
                thread.join()
            found.prometheus.stop()
