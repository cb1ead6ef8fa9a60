"""Policies that are governed by what a real Prometheus says of their pods, and by nothing where it says nothing."""

from dataclasses import replace

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.llama import LABELS, LLAMA, STORIES, generation, serving
from tests.support.cluster.monitoring import monitoring
from tests.support.cluster.operator import Operator
from tests.support.cluster.policies import LOW, Followed, follow, policy, until_ticks

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

HOT_STORIES = replace(STORIES, temperature=0.9, clients=3)
"""Of which little is guessed: 15.5 ms a token at k5, and 13.6 at k3."""


def test_a_roll_out_waits_for_a_prometheus_that_says_nothing_and_then_goes_on(cluster: Cluster) -> None:
    """Dead, slow, empty or full of NaN: the canary is neither promoted nor taken back, and a condition says why."""
    serving(cluster)
    with monitoring(cluster, LABELS) as watched, cluster.traffic(LABELS, HOT_STORIES):
        prometheus = watched.prometheus
        with Operator(cluster, {"sources": {"default": watched.source}}) as operator:
            patient = {"progressDeadlineSeconds": 900}
            chat = follow(cluster, policy("chat", LLAMA, mode="Enforce", rules=[LOW], rollout=patient))
            chat.until_condition("MetricsAvailable", "Heard")
            chat.until_phase("Soaking")
            held = generation(cluster)

            prometheus.stop()
            assert "connection refused" in without_metrics(cluster, operator, chat, "SourceFailed")

            watched.told = False
            watched.tell()
            prometheus.start()
            assert without_metrics(cluster, operator, chat, "NotHeard")

            watched.pages.values, watched.told = False, True
            assert without_metrics(cluster, operator, chat, "NotHeard")

            prometheus.hold()
            assert "has not given everything within" in without_metrics(cluster, operator, chat, "SourceFailed")
            assert generation(cluster) == held

            watched.pages.values = True
            prometheus.release()
            chat.until_condition("MetricsAvailable", "Heard")
            chat.until_condition("Progressing", "Promoted")
    assert chat.decisions[0] == ("low", "k5", "k3")


def without_metrics(cluster: Cluster, operator: Operator, chat: Followed, reason: str) -> str:
    """Wait until the policy says that there are no metrics, and for some looks after that; why there are none."""
    message: str = chat.until_condition("MetricsAvailable", reason)["message"]
    until_ticks(cluster, operator)
    assert chat.phase == "Soaking"
    return message
