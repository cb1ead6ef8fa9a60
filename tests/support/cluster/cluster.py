"""The cluster as one test sees it: a namespace and a node of its own, and the ways to change and watch them."""

import os
import secrets
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

from kubernetes.client import ApiClient, Configuration
from kubernetes.dynamic import DynamicClient

from specloop_sim.phases import Phase
from tests.support.cluster.beside import beside
from tests.support.cluster.controlplane import ControlPlane
from tests.support.cluster.environment import Object
from tests.support.cluster.kubelet import Kubelet
from tests.support.cluster.kwok import kwok_nodes
from tests.support.cluster.proxy import Proxy
from tests.support.cluster.traffic import Traffic

NODE_SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"
"""The annotation by which a namespace names the nodes of its pods (admission plugin PodNodeSelector)."""
OWNER = "specloop.test/namespace"
UNTIL_SECONDS = 60.0
"""How long anything may take on a machine with other things to do."""
READ_SECONDS = 0.1

API_VERSIONS = {
    "ConfigMap": "v1",
    "Deployment": "apps/v1",
    "Event": "v1",
    "Namespace": "v1",
    "Node": "v1",
    "Pod": "v1",
    "ReplicaSet": "apps/v1",
    "Secret": "v1",
    "ServiceAccount": "v1",
    "SpecPolicy": "specloop.dev/v1alpha1",
    "StatefulSet": "apps/v1",
}
"""Kinds that tests name without their group."""

Result = TypeVar("Result")


class ProgramFailed(Exception):
    """What a program said when it failed."""


class Cluster:
    """A namespace of a control plane for the length of a with-block; objects go in and come out as plain mappings."""

    def __init__(self, control_plane: ControlPlane, folder: Path, *, gpus: int = 8) -> None:
        self.control_plane = control_plane
        self.namespace = f"test-{secrets.token_hex(4)}"
        self.folder = folder
        self._gpus = gpus
        self._scope = ExitStack()

    def __enter__(self) -> Self:
        """Make the namespace and its node."""
        admin = self.control_plane.admin
        configuration = Configuration(host=admin.url, ssl_ca_cert=str(admin.ca))
        configuration.api_key["authorization"] = f"Bearer {admin.token}"
        with self._scope as scope:
            client = scope.enter_context(ApiClient(configuration))
            self._client: Any = DynamicClient(client, cache_file=str(self.folder / "discovery.json"))  # type: ignore[no-untyped-call]
            self._make_namespace()
            self.kubelet = scope.enter_context(self.node(gpus=self._gpus))
            scope.callback(self.delete, "Namespace", self.namespace)
            self._scope = scope.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Delete the namespace without waiting, and kill all that runs in it."""
        self._scope.close()

    def node(self, *, gpus: int, name: str | None = None) -> AbstractContextManager[Kubelet]:
        """A node for pods of this namespace alone, in the cluster while its with-block lasts."""
        name = name or f"{self.namespace}-{secrets.token_hex(2)}"
        labels = {OWNER: self.namespace}
        return beside(Kubelet(self.control_plane.admin, name, self.folder / name, labels=labels, gpus=gpus))

    def kwok(self, nodes: int) -> AbstractContextManager[None]:
        """Nodes of 110 pods each, for pods that select kwok.NODE_LABELS and only say that they run."""
        return kwok_nodes(self.control_plane, self.folder, nodes, {OWNER: self.namespace})

    def traffic(self, labels: str, phase: Phase, *, rate: float | None = None) -> AbstractContextManager[Traffic]:
        """Clients of the Ready pods with labels such as `app=llama`; with a rate an open loop, else a closed one."""
        return beside(Traffic(self.control_plane.admin, self.namespace, labels, phase, rate))

    def proxy(self) -> AbstractContextManager[Proxy]:
        """A proxy in front of the API server that counts requests, and fails on demand."""
        return beside(Proxy(self.control_plane.admin))

    def apply(self, manifest: Object, manager: str = "author", *, force: bool = False) -> Object:
        """Server-side apply; a conflict with another manager's fields raises unless forced."""
        kind, version, name = manifest["kind"], manifest["apiVersion"], manifest["metadata"]["name"]
        return _plain(
            self._resource(kind, version).server_side_apply(
                body=manifest,
                name=name,
                namespace=self._namespace_of(manifest),
                field_manager=manager,
                force_conflicts=force,
            )
        )

    def create(self, manifest: Object, **options: object) -> Object:
        """Create an object; `dry_run="All"` only asks whether it would be accepted."""
        resource = self._resource(manifest["kind"], manifest["apiVersion"])
        return _plain(resource.create(body=manifest, namespace=self._namespace_of(manifest), **options))

    def get(self, kind: str, name: str) -> Object:
        """An object as it is now."""
        return _plain(self._resource(kind).get(name=name, namespace=self.namespace))

    def objects(self, kind: str, labels: str | None = None) -> list[Object]:
        """All objects of a kind, or those with labels such as `app=llama`."""
        found = _plain(self._resource(kind).get(namespace=self.namespace, label_selector=labels))
        items: list[Object] = found["items"]
        return items

    def patch(self, kind: str, name: str, body: object, *, manager: str = "author") -> Object:
        """Merge a part into an object, or run a list of JSON patch operations on it."""
        content = "application/json-patch+json" if isinstance(body, list) else "application/merge-patch+json"
        resource = self._resource(kind)
        return _plain(
            resource.patch(body=body, name=name, namespace=self.namespace, content_type=content, field_manager=manager)
        )

    def delete(self, kind: str, name: str) -> None:
        """Delete an object, and in the background what it owns."""
        self._resource(kind).delete(name=name, namespace=self.namespace, propagation_policy="Background")

    def events(self, name: str) -> list[Object]:
        """What was said about the object of this name, oldest first."""
        events = [one for one in self.objects("Event") if one["involvedObject"]["name"] == name]
        return sorted(events, key=lambda one: one["metadata"]["creationTimestamp"])

    def until(self, read: Callable[[], Result | None], what: str, seconds: float = UNTIL_SECONDS) -> Result:
        """Read again and again until the answer is true or not empty; the answer."""
        deadline = time.monotonic() + seconds
        while not (found := read()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds:.0f} s: {what}; pods: {self._brief_pods()}")
            time.sleep(READ_SECONDS)
        return found

    def until_rolled_out(self, name: str, kind: str = "Deployment", seconds: float = UNTIL_SECONDS) -> Object:
        """Wait until all replicas of a workload are of its present template and available; the workload."""

        def rolled_out() -> Object | None:
            found = self.get(kind, name)
            status, wanted = found.get("status", {}), found["spec"]["replicas"]
            counts = {status.get(one, 0) for one in ("replicas", "updatedReplicas", "availableReplicas")}
            observed = status.get("observedGeneration") == found["metadata"]["generation"]
            return found if observed and counts == {wanted} else None

        return self.until(rolled_out, f"{kind} {name} rolled out", seconds)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """What a person's kubectl prints; raises ProgramFailed."""
        return self._run("kubectl", f"--cache-dir={self.folder / 'kubectl'}", *arguments, stdin=stdin)

    def helm(self, *arguments: str) -> str:
        """What a person's helm prints; raises ProgramFailed."""
        return self._run("helm", *arguments)

    def _run(self, program: str, *arguments: str, stdin: str = "") -> str:
        whose = [f"--kubeconfig={self.control_plane.admin.path}", f"--namespace={self.namespace}"]
        command = [str(self.control_plane.binaries[program]), *whose, *arguments]
        environment = {"HOME": str(self.folder), "PATH": os.environ["PATH"]}
        result = subprocess.run(command, input=stdin, env=environment, capture_output=True, text=True, timeout=120.0)
        if result.returncode != 0:
            raise ProgramFailed(f"{program} {' '.join(arguments)}: {result.stderr}")
        return result.stdout

    def _make_namespace(self) -> None:
        pinned = {NODE_SELECTOR: f"{OWNER}={self.namespace}"}
        metadata = {"name": self.namespace, "annotations": pinned}
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        # Pods are refused until the controllers have made their service account.
        self.until(lambda: self.objects("ServiceAccount"), "a service account")

    def _resource(self, kind: str, version: str | None = None) -> Any:
        return self._client.resources.get(kind=kind, api_version=version or API_VERSIONS[kind])

    def _namespace_of(self, manifest: Object) -> str:
        return str(manifest["metadata"].get("namespace", self.namespace))

    def _brief_pods(self) -> dict[str, object]:
        return {one["metadata"]["name"]: one.get("status", {}).get("containerStatuses") for one in self.objects("Pod")}


def _plain(answer: Any) -> Object:
    plain: Object = answer.to_dict()
    return plain
