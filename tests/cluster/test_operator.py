"""The loop on a real control plane: policies, decisions, roll-outs."""

import json

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.operator import Operator
from tests.support.cluster.policies import LOW, follow, policy
from tests.support.cluster.traffic import PROSE
from tests.support.cluster.workloads import ANNOTATION, bound, container, drafts, workload

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


def test_a_canary_that_serves_no_worse_is_promoted(cluster: Cluster) -> None:
    """K goes from 5 to 3 by a canary, and all pods follow."""
    cluster.apply(workload("llama", 3, [bound(container())], annotations={ANNOTATION: drafts(5)}))
    cluster.until_rolled_out("llama")
    with Operator(cluster), cluster.traffic("app=llama", PROSE) as traffic:
        traffic.change(temperature=1.0)
        chat = follow(cluster, policy("chat", "llama", mode="Enforce", rules=[LOW]))
        chat.until_level("k3")
    annotations = cluster.get("Deployment", "llama")["spec"]["template"]["metadata"]["annotations"]
    assert json.loads(annotations[ANNOTATION])["num_speculative_tokens"] == 3
