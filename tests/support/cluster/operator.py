"""The operator as it ships: its own process, under the roles of the chart, and never as an administrator."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import httpx
import yaml

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.kubeconfig import Kubeconfig

CHART = Path(__file__).parents[3] / "charts" / "specloop"
START_SECONDS = 90.0
STOP_SECONDS = 20.0
LOG_CHARACTERS = 8000
LEASE = "specloop"
"""The one that the chart's role is about, in a release of this name."""
ROLES, BINDINGS = ("Role", "ClusterRole"), ("RoleBinding", "ClusterRoleBinding")
FORBIDDEN = ("Merge-patching finished with inconsistencies", "Traceback (most recent call last)")
"""What no log of the operator may ever say."""


class Operator:
    """An operator, mostly of one namespace, from `start` to `stop` or `kill`; its log is one file for all its lives."""

    def __init__(
        self, cluster: Cluster, settings: Object | None = None, *, url: str | None = None, replica: str | None = None
    ) -> None:
        """`url` is where it finds the API server, such as a proxy in front of it; replicas take turns by a Lease."""
        self._cluster = cluster
        self._port = _free_port()
        own = {"namespaces": [cluster.namespace], "healthAddress": "127.0.0.1", "healthPort": self._port}
        lease = {} if replica is None else {"lease": {"namespace": cluster.namespace, "name": LEASE}}
        folder = cluster.folder / (replica or "")
        folder.mkdir(exist_ok=True)
        self._settings = folder / "settings.yaml"
        all_settings = {**own, **lease, **(settings or {})}
        self._settings.write_text(yaml.safe_dump(all_settings))
        self.kubeconfig = _account(cluster, all_settings, url)
        self.log_file = folder / "operator.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop it, and look at its log; where something else went wrong, pytest shows the end of it."""
        self.stop()
        if kind is None:
            self.check_log()
        else:
            print(self.log_file.read_text()[-LOG_CHARACTERS:])

    def start(self) -> None:
        """Start it, and wait until it says that it is ready."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._cluster.folder),
            "KUBECONFIG": str(self.kubeconfig.path),
        }
        command = [sys.executable, "-m", "specloop_operator", "--config", str(self._settings)]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise AssertionError(f"the operator is not ready: {self.log_file.read_text()[-4000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """End it as a node that fails does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as a rolling update does; it must end by itself."""
        if self._process is not None and self._process.poll() is None:
            self._end(signal.SIGTERM)

    def terminate(self) -> None:
        """Ask it to end, without waiting for that."""
        self._signal(signal.SIGTERM)

    def freeze(self) -> None:
        """Stop it in the middle of what it does, as a machine that is suspended does."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on where it was."""
        self._signal(signal.SIGCONT)

    def until_ended(self) -> int:
        """Wait until it has ended by itself; its exit code."""
        assert self._process is not None
        return self._process.wait(STOP_SECONDS)

    @property
    def leads(self) -> bool:
        """Whether it says that it is the one that acts."""
        [found] = re.findall(r"^specloop_leader (\S+)$", self.get("/metrics").text, re.MULTILINE)
        return float(found) == 1.0

    @property
    def address(self) -> str:
        """Where its own pages are."""
        return f"127.0.0.1:{self._port}"

    def get(self, path: str) -> httpx.Response:
        """One of its own pages."""
        return httpx.get(f"http://{self.address}{path}", timeout=5.0)

    def lines(self) -> list[Object]:
        """What it logged."""
        return [json.loads(line) for line in self.log_file.read_text().splitlines() if line.startswith("{")]

    def check_log(self) -> None:
        """No line may say what none should."""
        text = self.log_file.read_text()
        found = [one for one in FORBIDDEN if one in text]
        assert not found, f"{found} in the log: {text[-6000:]}"

    def _end(self, number: signal.Signals) -> None:
        self._signal(number)
        self._signal(signal.SIGCONT)  # one that is frozen would not end
        self.until_ended()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _ready(self) -> bool:
        try:
            return self.get("/readyz").status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False


def rights(cluster: Cluster, settings: Object) -> list[Object]:
    """The chart's own service account for an operator with these settings, with the chart's own roles, bound to it."""
    values = {one: settings[one] for one in ("namespaces", "targetKinds") if one in settings}
    chosen = (f"--set-json={name}={json.dumps(value)}" for name, value in values.items())
    off = ("--set=crds.install=false", "--set=peopleRoles.install=false")
    rendered = yaml.safe_load_all(cluster.helm("template", "specloop", str(CHART), *off, *chosen))
    return [one for one in rendered if one and one["kind"] in ("ServiceAccount", *ROLES, *BINDINGS)]


def _account(cluster: Cluster, settings: Object, url: str | None) -> Kubeconfig:
    """A kubeconfig with a token of that service account."""
    found = rights(cluster, settings)
    for manifest in found:
        cluster.apply(manifest)
    name = next(one["metadata"]["name"] for one in found if one["kind"] == "ServiceAccount")
    return cluster.control_plane.service_account(cluster.namespace, name, url=url)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
