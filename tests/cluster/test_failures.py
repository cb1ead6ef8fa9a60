"""Canaries that never serve, engines that are killed, and people who change the target in the middle of a roll-out."""

import json
from collections.abc import Mapping

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.operator import Operator
from tests.support.cluster.policies import Followed, asked_for, follow, until_ticks
from tests.support.cluster.workloads import ANNOTATION, bound, container, drafts, workload

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

ONE_MORE: Object = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
"""A canary beside the old pods, not in the place of one."""
SHORT: Object = {"progressDeadlineSeconds": 6, "soakSeconds": 1}


def served(cluster: Cluster, replicas: int = 2, faults: Mapping[str, Object] | None = None, gpus: int = 1) -> None:
    """Pods of the workload `llama` that serve at k5; servers have faults at the levels that say so."""
    simulation = {"SPECLOOP_SIM_FAULTS": json.dumps(faults or {})}
    one = {**bound(container(simulation=simulation)), "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    cluster.apply(workload("llama", replicas, [one], annotations={ANNOTATION: drafts(5)}, strategy=ONE_MORE))
    cluster.until_rolled_out("llama")


def lives(cluster: Cluster) -> dict[str, tuple[str, int]]:
    """Pods with the start of their process and how often it was started again."""
    found = {}
    for pod in cluster.objects("Pod", "app=llama"):
        [container] = pod["status"]["containerStatuses"]
        found[pod["metadata"]["name"]] = container["state"]["running"]["startedAt"], container["restartCount"]
    return found


def template(cluster: Cluster) -> Object:
    """The pod template now."""
    found: Object = cluster.get("Deployment", "llama")["spec"]["template"]
    return found


def rolled_back(cluster: Cluster, chat: Followed) -> str:
    """Wait for the end of a roll-out that failed, with the old pods alone; why it failed."""
    message: str = chat.until_condition("Progressing", "RolledBack")["message"]
    cluster.until_rolled_out("llama")
    assert not cluster.get("Deployment", "llama")["spec"].get("paused")
    return message


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"crashAfterSeconds": 0, "crashMessage": "ValueError: no speculator for this model"}, "no speculator for"),
        ({"neverReady": True}, "no progress within 6 s: 0 pods are ready at k3"),
    ],
    ids=["crash loop", "never ready"],
)
def test_a_canary_that_does_not_come_up_is_rolled_back(cluster: Cluster, fault: Object, said: str) -> None:
    """The old template is back word for word, the old pods never noticed, and k3 is not tried again."""
    served(cluster, faults={"k3": fault})
    old_pods, old_template = lives(cluster), template(cluster)
    with Operator(cluster) as operator:
        chat = follow(cluster, asked_for("k3", "llama", rollout=SHORT))
        assert said in rolled_back(cluster, chat)
        assert lives(cluster) == old_pods
        assert template(cluster) == old_template
        assert [(one["level"], one.get("until")) for one in chat.memory["quarantine"]] == [("k3", None)]
        held = cluster.get("Deployment", "llama")["metadata"]["generation"]
        until_ticks(cluster, operator)
        assert cluster.get("Deployment", "llama")["metadata"]["generation"] == held
