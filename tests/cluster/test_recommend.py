"""Policies that only say what they would do, and targets that are left alone."""

import pytest

from specloop_policy.ladder import DISABLED, Ladder
from specloop_policy.policy import field_report_rules
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.llama import LABELS, LADDER, LLAMA, STORIES, deployment, lives, serving
from tests.support.cluster.operator import Operator
from tests.support.cluster.policies import asked_for, follow, policy, until_ticks, until_windows

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

OWN_RULES = [
    rule.model_copy(update={"for_seconds": 2}).model_dump(mode="json", by_alias=True, exclude_none=True)
    for rule in field_report_rules(Ladder((DISABLED,)))
]
"""The rules of a policy that names none, with durations of seconds."""


def managers(workload: Object) -> set[str]:
    """Who has ever written a field of it."""
    return {one["manager"] for one in workload["metadata"]["managedFields"]}


def test_a_policy_with_only_a_target_recommends_and_writes_nothing(cluster: Cluster) -> None:
    """It derives its ladder, says which level it would go to and why, and what that costs."""
    serving(cluster, 5, simulation={"SPECLOOP_SIM_STARTUP_SECONDS": "40"})  # two seconds of the wall, at its speed
    before, pods = deployment(cluster), lives(cluster)
    with Operator(cluster) as operator, cluster.traffic(LABELS, STORIES):
        bare = policy("chat", LLAMA)
        chat = follow(cluster, {**bare, "spec": {"targetRef": bare["spec"]["targetRef"]}})
        chat.until_condition("Ready", "Recommending")
        assert [one["name"] for one in chat.status["levels"]] == ["k5", "k3", "ngram", "disabled"]
        assert chat.status["recommendation"]["level"] == "k5"

        follow(cluster, policy("chat", LLAMA, rules=OWN_RULES))
        advice = chat.until(lambda: (one := chat.status["recommendation"])["level"] == "k3" and one, "advice")
        assert advice["reason"].endswith("(rule acceptance-low): from k5 to k3")
        assert advice["restartCostSeconds"] >= 2
        assert chat.decisions == [("acceptance-low", "k5", "k3")]
        assert chat.status["decisions"][0]["reason"].startswith("recommended: ")
        until_windows(cluster, operator)
        assert chat.decisions == [("acceptance-low", "k5", "k3")]
        assert (chat.status["observedLevel"], chat.phase) == ("k5", None)
    assert "specloop" not in managers(deployment(cluster))
    assert deployment(cluster)["metadata"]["generation"] == before["metadata"]["generation"]
    assert lives(cluster) == pods


def test_a_setting_that_is_no_level_of_the_ladder_is_left_alone(cluster: Cluster) -> None:
    """Even an override does not touch what somebody set by hand to something else."""
    serving(cluster, 4)
    before, pods = deployment(cluster), lives(cluster)
    with Operator(cluster) as operator, cluster.traffic(LABELS, STORIES):
        chat = follow(cluster, asked_for("k3", LLAMA, rules=OWN_RULES, **LADDER))
        ready = chat.until_condition("Ready", "Unmanaged")
        assert ready["status"] == "False"
        assert "(k5, k3, disabled)" in ready["message"]
        assert chat.status["observedLevel"] == "Unmanaged"
        until_ticks(cluster, operator)
        assert chat.decisions == []
    assert "specloop" not in managers(deployment(cluster))
    assert deployment(cluster)["metadata"]["generation"] == before["metadata"]["generation"]
    assert lives(cluster) == pods
