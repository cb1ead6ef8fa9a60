"""Canaries that serve: what is promoted and what is rolled back, beside the figures of the pods' own pages."""

from collections.abc import Collection
from dataclasses import replace

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.llama import LABELS, LADDER, LLAMA, RECORDS, TALK, generation, lives, serving, template
from tests.support.cluster.operator import Operator
from tests.support.cluster.pages import Served, served
from tests.support.cluster.policies import Followed, follow, policy, until_windows

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

DOWN = {"name": "down", "when": {"acceptance": {"belowPercent": 60}}, "forSeconds": 2, "action": {"type": "StepDown"}}
UP = {"name": "up", "when": {"acceptance": {"abovePercent": 60}}, "forSeconds": 2, "action": {"type": "StepUp"}}


def compared(cluster: Cluster, chat: Followed, old: Collection[str], ending: str) -> tuple[Served, Served]:
    """Wait for the end of a roll-out; what its canary and the old pods had served when they were last compared."""
    readings: list[tuple[Served, Served]] = []

    def ended() -> bool:
        if chat.phase == "Soaking":
            sides = served(cluster, lives(cluster).keys() - set(old)), served(cluster, old)
            readings.extend([sides] if sides[0].requests else [])
        return chat.condition("Progressing").get("reason") == ending

    chat.until(ended, f"a roll-out that is {ending}")
    return readings[-1]


def test_a_canary_that_takes_longer_per_token_is_rolled_back_though_its_gaps_are_shorter(cluster: Cluster) -> None:
    """k3 costs 10 % more per token here, and its inter-token latency looks better than that of k5."""
    serving(cluster, 5, faults={"k3": {"stepFactor": 1.07}})  # 7.8 * 1.07 is 11 % above 7.5; 21 * 1.07 is below 24
    old_pods, old_template = lives(cluster), template(cluster)
    with Operator(cluster), cluster.traffic(LABELS, TALK):
        chat = follow(cluster, policy("chat", LLAMA, mode="Enforce", rules=[DOWN], **LADDER))
        canary, old = compared(cluster, chat, old_pods, "RolledBack")
        assert canary.seconds_per_token > 1.05 * old.seconds_per_token
        assert canary.seconds_between_outputs < old.seconds_between_outputs
        assert "time per output token" in chat.condition("Progressing")["message"]
        assert [(one["level"], "until" in one) for one in chat.memory["quarantine"]] == [("k3", True)]
        assert lives(cluster) == old_pods
        assert template(cluster) == old_template


def test_a_canary_that_takes_less_per_token_is_promoted_though_its_gaps_are_longer(cluster: Cluster) -> None:
    """k5 brings more tokens at a time, and so waits longer between two outputs."""
    serving(cluster, 3)
    old_pods = lives(cluster)
    with Operator(cluster), cluster.traffic(LABELS, RECORDS):
        chat = follow(cluster, policy("chat", LLAMA, mode="Enforce", rules=[UP], **LADDER))
        canary, old = compared(cluster, chat, old_pods, "Promoted")
        assert canary.seconds_per_token < old.seconds_per_token
        assert canary.seconds_between_outputs > old.seconds_between_outputs
        assert chat.decisions == [("up", "k3", "k5")]
    cluster.until_rolled_out(LLAMA)
    assert not lives(cluster).keys() & old_pods.keys()


@pytest.mark.parametrize(
    ("fault", "said"),
    [({"outputFactor": 0.2}, "answers of "), ({"errorShare": 0.5}, "of requests failed")],
    ids=["short answers", "errors"],
)
def test_a_faster_canary_that_does_harm_is_rolled_back_and_not_tried_again(
    cluster: Cluster, fault: Object, said: str
) -> None:
    """The old template and the old pods are as they were, and stay so though the rule still holds."""
    serving(cluster, 3, faults={"k5": fault})
    old_pods, old_template = lives(cluster), template(cluster)
    with Operator(cluster) as operator, cluster.traffic(LABELS, RECORDS):
        chat = follow(cluster, policy("chat", LLAMA, mode="Enforce", rules=[UP], **LADDER))
        canary, old = compared(cluster, chat, old_pods, "RolledBack")
        assert canary.seconds_per_token < old.seconds_per_token
        assert said in chat.condition("Progressing")["message"]
        assert [(one["level"], one.get("until")) for one in chat.memory["quarantine"]] == [("k5", None)]
        held = generation(cluster)
        until_windows(cluster, operator)
        chat.until(lambda: [one["rule"] for one in chat.memory["holdsSince"]] == ["up"], "the rule that holds still")
        assert generation(cluster) == held
        assert lives(cluster) == old_pods
        assert template(cluster) == old_template


def test_a_promoted_level_whose_engines_die_is_left_at_once_and_not_tried_again(cluster: Cluster) -> None:
    """Two restarts are more than chance: all pods go back, and stay there though the rule still holds."""
    serving(cluster, 3)
    old_template = template(cluster)
    with Operator(cluster) as operator, cluster.traffic(LABELS, RECORDS):
        watched = {"watchSeconds": 600}
        chat = follow(cluster, policy("chat", LLAMA, mode="Enforce", rules=[UP], rollout=watched, **LADDER))
        chat.until_level("k5")
        cluster.until_rolled_out(LLAMA)
        for pod in lives(cluster):
            cluster.kubelet.kill(pod)
        chat.until_level("k3")
        assert chat.decisions == [("up", "k3", "k5"), ("SwitchTo", "k5", "k3")]
        [failed] = chat.memory["quarantine"]
        assert (failed["level"], failed["reason"]) == ("k5", "2 restarts of its engines since it was promoted")
        assert [one["reason"] for one in cluster.events("chat") if one["reason"] == "WatchFailed"]
        held = generation(cluster)
        until_windows(cluster, operator)
        chat.until(lambda: [one["rule"] for one in chat.memory["holdsSince"]] == ["up"], "the rule that holds still")
        assert generation(cluster) == held
    cluster.until_rolled_out(LLAMA)
    assert template(cluster) == old_template


def test_a_canary_that_is_all_there_is_is_compared_with_what_was_before_it(cluster: Cluster) -> None:
    """One replica that is stopped before the next one starts leaves no pod to compare with."""
    serving(cluster, 3, replicas=1, strategy={"type": "Recreate"})
    # Answers so long that what clients take between two of them is nothing beside: the load is the same throughout.
    with Operator(cluster), cluster.traffic(LABELS, replace(RECORDS, output_tokens=3000)):
        chat = follow(cluster, policy("chat", LLAMA, mode="Enforce", rules=[UP], **LADDER))
        assert chat.until_condition("Progressing", "NoControl")["status"] == "True"
        chat.until_level("k5")
        assert "at most +5 % is allowed" in chat.condition("Progressing")["message"]
