"""Who else writes to a workload: releases of a Helm chart, and Argo CD healing what is not as Git has it."""

import copy
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

import httpx
import yaml

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object

CHART = Path(__file__).parent / "charts" / "llama"
ARGO = "argocd-controller"
"""The field manager of Argo CD's server-side applies."""
HEAL_SECONDS = 0.2


SURVIVAL = {
    # who writes: what becomes of an annotation that Git does not have, of one that Git has, and of flags
    "helm upgrade --server-side=true": ("kept", "refused", "refused"),
    "helm upgrade --server-side=true --force-conflicts": ("kept", "reverted", "reverted"),
    "helm upgrade --server-side=false": ("kept", "reverted", "reverted"),
    "helm upgrade --server-side=false --force-replace": ("dropped", "reverted", "reverted"),
    "helm rollback": ("kept", "refused", "refused"),
    "kubectl apply": ("kept", "reverted", "reverted"),
    "kubectl apply --server-side": ("kept", "refused", "refused"),
    "kubectl apply --server-side --force-conflicts": ("kept", "reverted", "reverted"),
    "kubectl replace": ("dropped", "reverted", "reverted"),
    "kubectl rollout restart": ("kept", "kept", "kept"),
}
"""What becomes of a setting that the operator wrote when somebody else writes the whole workload."""


def survival_table() -> str:
    """The same in Markdown, for docs/gitops.md."""
    rows = [f"| `{who}` | {' | '.join(fates)} |" for who, fates in SURVIVAL.items()]
    return "\n".join(
        ("| who writes | annotation, not in Git | annotation, in Git too | flags |", "|---|---|---|---|", *rows)
    )


class Release:
    """A release of the chart `llama`, whose Deployment has the spec of a manifest."""

    def __init__(self, cluster: Cluster, manifest: Object) -> None:
        self._cluster = cluster
        self._name: str = manifest["metadata"]["name"]
        self._values = cluster.folder / "values.yaml"
        self.spec: Object = manifest["spec"]

    def upgrade(self, *flags: str, tier: str = "silver") -> str:
        """Install it, or upgrade it to the spec and label of now; what helm says."""
        self._values.write_text(yaml.safe_dump({"spec": self.spec, "tier": tier}))
        return self._cluster.helm("upgrade", "--install", self._name, str(CHART), "-f", str(self._values), *flags)

    def roll_back(self) -> str:
        """Back to the first revision; what helm says."""
        return self._cluster.helm("rollback", self._name, "1")


Ignore = Callable[[Object, Object], None]
"""Puts the live values (of its second argument) of what is ignored into a manifest (its first)."""


class SelfHeal:
    """Argo CD, with automated self-heal and server-side apply, for the length of a with-block.

    It asks the server what applying Git's manifest would make of the object, and applies it where that is another.  Of
    what it ignores it applies the live values (ignoreDifferences with RespectIgnoreDifferences=true).
    """

    def __init__(self, cluster: Cluster, manifest: Object, ignore: Ignore | None = None) -> None:
        self.healed = 0
        """How often the object was put right."""
        self._manifest = manifest
        self._ignore = ignore
        self._http = cluster.control_plane.client()
        self._url = f"/apis/apps/v1/namespaces/{cluster.namespace}/deployments/{manifest['metadata']['name']}"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="self-heal")

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Come to an end."""
        self._ended.set()
        self._thread.join()
        self._http.close()

    def _run(self) -> None:
        while not self._ended.wait(HEAL_SECONDS):
            self._look()

    def _look(self) -> None:
        live = self._http.get(self._url).json()
        wanted = copy.deepcopy(self._manifest)
        wanted["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
        if self._ignore is not None:
            self._ignore(wanted, live)
        made = self._apply(wanted, dryRun="All")
        if made is not None and _own(made) != _own(live) and self._apply(wanted) is not None:
            self.healed += 1

    def _apply(self, manifest: Object, **options: str) -> Object | None:
        """Apply by force; None where somebody else has written meanwhile."""
        headers = {"Content-Type": "application/apply-patch+yaml"}
        query = {"fieldManager": ARGO, "force": "true", **options}
        answer = self._http.patch(self._url, params=query, headers=headers, content=json.dumps(manifest))
        if answer.status_code == httpx.codes.CONFLICT:
            return None
        applied: Object = answer.raise_for_status().json()
        return applied


def _own(body: Object) -> Object:
    """What a manifest says of an object."""
    return {"labels": body["metadata"].get("labels"), "spec": body["spec"]}
