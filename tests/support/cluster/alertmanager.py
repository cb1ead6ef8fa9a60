"""A real Alertmanager as a process on loopback, which sends what it hears at once to a webhook."""

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.cluster.daemons import Daemon, free_port

PROGRAM = "prometheus-alertmanager"
"""As Debian calls it."""

READY_SECONDS = 60.0
GROUP_INTERVAL = "1s"
"""Between two messages of a group; 5 min by default."""


@dataclass
class Alertmanager:
    """A running Alertmanager."""

    port: int
    daemon: Daemon

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts that it has, as its API tells them."""
        found: list[dict[str, Any]] = httpx.get(f"{self.url}/api/v2/alerts", trust_env=False).raise_for_status().json()
        return found

    def tell(self, alerts: Sequence[Mapping[str, Any]]) -> None:
        """Tell it of alerts, as Prometheus does."""
        httpx.post(f"{self.url}/api/v2/alerts", json=list(alerts), trust_env=False).raise_for_status()

    def notified(self) -> dict[str, float]:
        """How many messages it sent to webhooks, and how many of these failed."""
        page = httpx.get(f"{self.url}/metrics", trust_env=False).raise_for_status().text
        lines = [line.rpartition(" ") for line in page.splitlines() if 'integration="webhook"' in line]
        counted = {"sent": "alertmanager_notifications_total{", "failed": "alertmanager_notifications_failed_total{"}
        return {
            what: sum(float(value) for name, _, value in lines if name.startswith(family))
            for what, family in counted.items()
        }

    def ready(self) -> bool:
        """Whether it takes alerts."""
        try:
            return httpx.get(f"{self.url}/-/ready", trust_env=False).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False


@contextmanager
def alerting(
    folder: Path, webhook: str, http: Mapping[str, Any], group_by: Sequence[str], *, max_alerts: int = 0
) -> Iterator[Alertmanager]:
    """An Alertmanager that sends to the webhook at a URL for the length of the block; `http` is its `http_config`.

    A message has `max_alerts` alerts at most; 0: all of its group.
    """
    receiver = {"url": webhook, "send_resolved": True, "http_config": dict(http), "max_alerts": max_alerts}
    route = {
        "receiver": "specloop",
        "group_by": list(group_by),
        "group_wait": "0s",
        "group_interval": GROUP_INTERVAL,
        "repeat_interval": "4h",
    }
    configuration = {"route": route, "receivers": [{"name": "specloop", "webhook_configs": [receiver]}]}
    folder.mkdir(exist_ok=True)
    (folder / "alertmanager.yml").write_text(json.dumps(configuration))  # JSON is YAML
    port = free_port()
    command = [
        program(),
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    found = Alertmanager(port, Daemon(command, folder / "alertmanager.log"))
    found.daemon.start()
    try:
        _until(found)
        yield found
    finally:
        found.daemon.kill()


def program() -> str:
    """The program; where there is none, tests are skipped, or fail if they are required."""
    found = shutil.which(PROGRAM)
    if found is None:
        reason = f"no {PROGRAM}: install the package of this name"
        if os.environ.get("SPECLOOP_REQUIRE_ENGINES"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def _until(found: Alertmanager) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not found.ready():
        if time.monotonic() > deadline or not found.daemon.running:
            raise AssertionError(f"Alertmanager is not ready: {found.daemon.last_words()}")
        time.sleep(0.05)
