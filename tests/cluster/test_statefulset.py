"""StatefulSets, whose last pod is the canary and takes the place of an old one."""

import json
from dataclasses import replace

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.llama import LABELS, LLAMA, STORIES, lives
from tests.support.cluster.operator import Operator
from tests.support.cluster.policies import asked_for, follow
from tests.support.cluster.workloads import ANNOTATION, bound, container, drafts, workload

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

FEW_STORIES = replace(STORIES, clients=3)
"""One for each pod."""


def serving(cluster: Cluster, faults: Object | None = None) -> None:
    """Three Ready pods of a StatefulSet that draft five tokens."""
    one = bound(container(simulation={"SPECLOOP_SIM_FAULTS": json.dumps(faults or {})}))
    cluster.apply(workload(LLAMA, 3, [one], kind="StatefulSet", annotations={ANNOTATION: drafts(5)}))
    cluster.until_rolled_out(LLAMA, "StatefulSet")


def tokens(cluster: Cluster) -> list[int]:
    """The K on the command lines of the pods, by their numbers."""
    found = []
    for pod in sorted(lives(cluster)):
        [flag] = [word for word in cluster.kubelet.command_line(pod) if word.startswith("--speculative-config=")]
        found.append(json.loads(flag.partition("=")[2])["num_speculative_tokens"])
    return found


def partition(cluster: Cluster) -> int:
    """The number from which on pods take the latest template."""
    strategy = cluster.get("StatefulSet", LLAMA)["spec"]["updateStrategy"]
    found: int = strategy["rollingUpdate"].get("partition", 0)
    return found


def test_the_last_pod_is_the_canary_and_the_others_follow(cluster: Cluster) -> None:
    """The partition holds the others back, and is given up in the end."""
    serving(cluster)
    old_pods = lives(cluster)
    with Operator(cluster), cluster.traffic(LABELS, FEW_STORIES):
        chat = follow(cluster, asked_for("k3", LLAMA, kind="StatefulSet"))
        chat.until_phase("Soaking")
        assert (tokens(cluster), partition(cluster)) == ([5, 5, 3], 2)
        assert {name: lives(cluster)[name] for name in ("llama-0", "llama-1")}.items() <= old_pods.items()
        chat.until_condition("Progressing", "Promoted")
    assert (tokens(cluster), partition(cluster)) == ([3, 3, 3], 0)


def test_a_broken_canary_that_keeps_its_controller_from_going_back_is_deleted(cluster: Cluster) -> None:
    """The controller waits for a pod to become ready before it replaces it, and this one never does."""
    serving(cluster, {"k3": {"crashAfterSeconds": 0, "crashMessage": "ValueError: no speculator for this model"}})
    old_pods = lives(cluster)
    with Operator(cluster):
        chat = follow(cluster, asked_for("k3", LLAMA, kind="StatefulSet"))
        assert "no speculator for this model" in chat.until_condition("Progressing", "RolledBack")["message"]
    assert (tokens(cluster), partition(cluster)) == ([5, 5, 5], 0)
    now = lives(cluster)
    assert [name for name in now if now[name] == old_pods[name]] == ["llama-0", "llama-1"]
