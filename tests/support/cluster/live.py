"""Workloads that were started with the plugin, so that K changes without a restart, and what their pods say of it."""

import base64
import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import httpx

from specloop_engine.configuration import TABLE
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.command_line import PROGRAM
from tests.support.cluster.environment import Object
from tests.support.cluster.llama import LABELS, LLAMA, ONE_MORE
from tests.support.cluster.workloads import ANNOTATION, bound, container, drafts, workload

TOKEN = "open sesame"
SECRET: Object = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "specloop-live"},
    "data": {"token": base64.b64encode(TOKEN.encode()).decode()},
}
TOKEN_REF: Object = {"tokenSecretRef": {"name": "specloop-live", "key": "token"}}
"""What a policy says of it."""
PLUGIN = ("--middleware=specloop_vllm.Middleware", "--scheduler-cls=specloop_vllm.LiveAsyncScheduler")


def live_drafts(tokens: int) -> str:
    """The setting of a draft model with a table that live control can change."""
    return drafts(tokens)[:-1] + f', "{TABLE}": [[1, 256, {tokens}]]}}'


def live_workload(folder: Path, *flags: str, replicas: int = 3, simulation: Mapping[str, str] | None = None) -> Object:
    """A Deployment at k5 with the plugin; a folder of this machine has the token and each pod's files."""
    (folder / "token").write_text(TOKEN)
    one = bound(container(*PLUGIN, *flags, simulation={"SPECLOOP_SIM_CLUSTERING": "0", **(simulation or {})}))
    one["env"] += [
        {"name": "POD", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}}},
        {"name": "SPECLOOP_LIVE_FOLDER", "value": f"{folder}/$(POD)"},
        {"name": "SPECLOOP_LIVE_TOKEN_FILE", "value": f"{folder}/token"},
    ]
    annotations = {ANNOTATION: live_drafts(5)}
    return workload(LLAMA, replicas, [one], annotations=annotations, strategy=ONE_MORE)


def serving_live(cluster: Cluster, folder: Path, *flags: str, replicas: int = 3) -> None:
    """Ready pods at k5 whose K changes without a restart, and the Secret with their token."""
    cluster.apply(SECRET)
    cluster.apply(live_workload(folder, *flags, replicas=replicas))
    cluster.until_rolled_out(LLAMA)


def serving_injected(cluster: Cluster, *, replicas: int) -> None:
    """The same from a manifest that knows nothing of SpecLoop, by `specloop inject`; the Secret is somebody else's."""
    plain = container(f"--speculative-config={drafts(5)}", simulation={"SPECLOOP_SIM_CLUSTERING": "0"})
    manifest = json.dumps(workload(LLAMA, replicas, [plain], strategy=ONE_MORE))
    command = [str(PROGRAM), "inject", "-f", "-", "--container=vllm", "--vllm-version=0.32.0"]
    injected = subprocess.run(command, input=manifest, capture_output=True, text=True, check=True)
    cluster.kubectl("apply", "-f", "-", stdin=injected.stdout)
    cluster.until_rolled_out(LLAMA)


def tokens_in_force(cluster: Cluster) -> dict[str, int | None]:
    """K in force in each running pod, as its own page has it; None where the page has none."""
    found: dict[str, int | None] = {}
    for pod in cluster.objects("Pod", LABELS):
        if "deletionTimestamp" in pod["metadata"] or "podIP" not in pod["status"]:
            continue
        page = httpx.get(f"http://{pod['status']['podIP']}:8000/metrics", trust_env=False, timeout=10.0).text
        shown = re.search(r'^specloop_live_tokens\{[^}]*side="applied"[^}]*\} (\S+)', page, re.MULTILINE)
        found[pod["metadata"]["name"]] = None if shown is None else int(float(shown[1]))
    return found
