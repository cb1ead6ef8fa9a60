"""The chart in a cluster that has never heard of SpecLoop, as its owner sees it: helm, kubectl, the operator's pods."""

import json
import re
from pathlib import Path

import httpx
import yaml

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.daemons import free_port
from tests.support.cluster.environment import Object
from tests.support.cluster.operator import FORBIDDEN

CHART = Path(__file__).parents[3] / "charts" / "specloop"
HERE = "specloop"
"""The release's name, and its namespace."""
DEFINITION = "specpolicies.specloop.dev"
ROOT_ONLY = "the operator's volumes are mounted by root alone; run the tests as root"


class Release:
    """The release in a namespace that admits nothing but restricted pods."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.port = free_port()
        """The operators' health port: the default may be taken on a machine where other things run."""
        cluster.kubectl("create", "namespace", HERE)
        cluster.kubectl("label", "namespace", HERE, "pod-security.kubernetes.io/enforce=restricted")

    def helm(self, command: str, *arguments: str) -> str:
        """Run helm on the release, and wait until all that it changed is ready."""
        return self._cluster.helm("--namespace", HERE, command, HERE, *arguments, "--timeout=90s")

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl in the release's namespace."""
        return self._cluster.kubectl("--namespace", HERE, *arguments)

    def values(self, *chosen: str) -> list[str]:
        """Arguments for helm: the test's own namespace is governed, and what is chosen."""
        own = (f"namespaces={{{self._cluster.namespace}}}", f"settings.healthPort={self.port}")
        return [f"--set={one}" for one in (*own, *chosen)]

    def pods(self) -> dict[str, Object]:
        """The operator's pods that are not on their way out, by name."""
        found = json.loads(self.kubectl("get", "pods", "-o=json", f"--selector=app.kubernetes.io/name={HERE}"))
        pods = (one for one in found["items"] if "deletionTimestamp" not in one["metadata"])
        return {one["metadata"]["name"]: one for one in pods}

    def until_all_new(self, old: dict[str, Object]) -> dict[str, Object]:
        """Wait until two pods are ready, none of which is an old one."""

        def found() -> dict[str, Object] | None:
            pods = self.pods()
            ready = [one for one in pods.values() if _conditions(one).get("Ready") == "True"]
            return pods if len(ready) == len(pods) == 2 and not pods.keys() & old.keys() else None

        return self._cluster.until(found, "two new operators")

    def until_one_leads(self) -> tuple[str, str]:
        """Wait until one of the pods says that it leads, and the other that it does not; their addresses."""

        def found() -> tuple[str, str] | None:
            pods = [one["status"]["podIP"] for one in self.pods().values()]
            leading = sorted(((self.figure(pod, "specloop_leader"), pod) for pod in pods), reverse=True)
            return (leading[0][1], leading[1][1]) if [value for value, _ in leading] == [1.0, 0.0] else None

        return self._cluster.until(found, "one leader of two")

    def figure(self, address: str, sample: str) -> float:
        """A sample on the metrics page of the operator's pod at an address."""
        page = httpx.get(f"http://{address}:{self.port}/metrics", timeout=5.0, trust_env=False).text
        [value] = re.findall(rf"^{re.escape(sample)} (\S+)$", page, re.MULTILINE)
        return float(value)

    def columns(self) -> list[str]:
        """The columns of the definition that is installed."""
        definition = json.loads(self.kubectl("get", "crd", DEFINITION, "-o=json"))
        return [one["name"] for one in definition["spec"]["versions"][0]["additionalPrinterColumns"]]

    def settings(self) -> Object:
        """The operator's settings as they are in the cluster."""
        found: Object = yaml.safe_load(
            json.loads(self.kubectl("get", "configmap", HERE, "-o=json"))["data"]["settings.yaml"]
        )
        return found

    def logs(self) -> list[str]:
        """What each operator's container has written so far."""
        return [one.read_text() for one in self._cluster.folder.rglob(f"{HERE}-*/operator/log")]

    def complaints(self) -> list[str]:
        """What no log of an operator may hold, and does."""
        return [one for log in self.logs() for one in FORBIDDEN if one in log]


def _conditions(one: Object) -> dict[str, str]:
    """The statuses of an object's conditions, by their types."""
    return {condition["type"]: condition["status"] for condition in one.get("status", {}).get("conditions", ())}
