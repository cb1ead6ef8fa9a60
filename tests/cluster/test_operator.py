"""The loop on a real control plane: policies, decisions, roll-outs."""

import json

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.operator import Operator
from tests.support.cluster.traffic import PROSE
from tests.support.cluster.workloads import ANNOTATION, bound, container, drafts, workload

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

SOON: Object = {
    "intervalSeconds": 1,
    "signals": {"windowSeconds": 2, "settleSeconds": 1, "minRequests": 10, "maxEvidenceSeconds": 20},
    "rollout": {"soakSeconds": 6, "minRequests": 10, "progressDeadlineSeconds": 60, "watchSeconds": 5},
    "guardrails": {"cooldownSeconds": 1, "probe": {"afterSeconds": 10, "maxSeconds": 60}},
}
LOW = {"name": "low", "when": {"acceptance": {"belowPercent": 40}}, "forSeconds": 2, "action": {"type": "StepDown"}}


def policy(name: str, target: str, **spec: object) -> Object:
    """A policy for a Deployment that decides within seconds."""
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    return {
        "apiVersion": "specloop.dev/v1alpha1",
        "kind": "SpecPolicy",
        "metadata": {"name": name},
        "spec": {"targetRef": ref, **SOON, **spec},
    }


def test_a_canary_that_serves_no_worse_is_promoted(cluster: Cluster) -> None:
    """K goes from 5 to 3 by a canary, and all pods follow."""
    cluster.apply(workload("llama", 3, [bound(container())], annotations={ANNOTATION: drafts(5)}))
    cluster.until_rolled_out("llama")
    with Operator(cluster), cluster.traffic("app=llama", PROSE) as traffic:
        traffic.change(temperature=1.0)
        cluster.apply(policy("chat", "llama", mode="Enforce", rules=[LOW]))

        def promoted() -> bool:
            status = cluster.get("SpecPolicy", "chat").get("status", {})
            return "rollout" not in status.get("memory", {"rollout"}) and status["observedLevel"] == "k3"

        cluster.until(promoted, "k3 on all pods", 120)
    annotations = cluster.get("Deployment", "llama")["spec"]["template"]["metadata"]["annotations"]
    assert json.loads(annotations[ANNOTATION])["num_speculative_tokens"] == 3
