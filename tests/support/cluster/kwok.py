"""Nodes and pods by the hundred that only say they run: kwok answers for them."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.cluster.controlplane import ControlPlane
from tests.support.cluster.daemons import Daemon

STAGES = Path(__file__).with_name("kwok-stages.yaml")
MANAGED = {"kwok.x-k8s.io/node": "fake"}
"""The annotation of the nodes that kwok answers for."""
NODE_LABELS = {"type": "kwok"}
"""What the pods meant for them must select: they have more room than real nodes."""
PODS_PER_NODE = 110
LEASE_SECONDS = 40
"""A kubelet's default; pods of nodes that renew no lease are Ready for 50 s and then not any more."""


@contextmanager
def kwok_nodes(control_plane: ControlPlane, folder: Path, count: int, labels: dict[str, str]) -> Iterator[None]:
    """So many nodes, Ready and empty, for the length of the block."""
    flags = ("--config", STAGES, "--kubeconfig", control_plane.admin.path)
    selector = ",".join(f"{name}={value}" for name, value in MANAGED.items())
    command = [control_plane.binaries["kwok"], *flags, "--manage-nodes-with-annotation-selector", selector]
    command += ["--node-lease-duration-seconds", LEASE_SECONDS]
    daemon = Daemon([*map(str, command)], folder / "kwok.log")
    names = [f"kwok-{secrets.token_hex(4)}" for _ in range(count)]
    with control_plane.client() as http:
        try:
            daemon.start()
            for name in names:
                http.post("/api/v1/nodes", json=_node(name, labels)).raise_for_status()
            yield
        finally:
            daemon.stop()
            for name in names:
                http.delete(f"/api/v1/nodes/{name}").raise_for_status()


def _node(name: str, labels: dict[str, str]) -> dict[str, object]:
    capacity = {"cpu": "1k", "memory": "1Ti", "pods": str(PODS_PER_NODE), "nvidia.com/gpu": str(PODS_PER_NODE)}
    metadata = {"name": name, "annotations": MANAGED, "labels": {**NODE_LABELS, **labels}}
    status = {"capacity": capacity, "allocatable": capacity}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
