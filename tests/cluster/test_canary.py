"""Canaries that serve: what is promoted and what is rolled back, beside the figures of the pods' own pages."""

import json
from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.operator import Operator
from tests.support.cluster.pages import Served, served
from tests.support.cluster.policies import Followed, follow, lives, policy, until_windows
from tests.support.cluster.traffic import HOT, STRUCTURED
from tests.support.cluster.workloads import ANNOTATION, bound, container, drafts, workload

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

ONE_MORE: Object = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
LADDER: Object = {
    "drafters": [{"name": "small", "method": "draft_model", "model": "small"}],
    "levels": [
        {"name": "k5", "drafter": "small", "tokens": 5},
        {"name": "k3", "drafter": "small", "tokens": 3},
        {"name": "disabled"},
    ],
}
DOWN = {"name": "down", "when": {"acceptance": {"belowPercent": 60}}, "forSeconds": 2, "action": {"type": "StepDown"}}
UP = {"name": "up", "when": {"acceptance": {"abovePercent": 60}}, "forSeconds": 2, "action": {"type": "StepUp"}}

RECORDS = replace(STRUCTURED, output_tokens=800)
"""Time per token and between outputs, two requests in the batch, in ms: 4.8 and 25 at k5, 5.8 and 21 at k3."""
TALK = replace(HOT, name="talk", temperature=0.0, output_tokens=800)
"""7.5 and 24 ms at k5, 7.8 and 21 at k3."""


def serving(cluster: Cluster, tokens: int, faults: Mapping[str, Object] | None = None) -> None:
    """Two pods of the workload `llama`; servers have faults at the levels that say so."""
    # All requests are equally easy to guess: what levels differ by shows in seconds.
    simulation = {"SPECLOOP_SIM_FAULTS": json.dumps(faults or {}), "SPECLOOP_SIM_CLUSTERING": "0"}
    one = bound(container(simulation=simulation))
    cluster.apply(workload("llama", 2, [one], annotations={ANNOTATION: drafts(tokens)}, strategy=ONE_MORE))
    cluster.until_rolled_out("llama")


def template(cluster: Cluster) -> str:
    """The pod template now, byte for byte."""
    return json.dumps(cluster.get("Deployment", "llama")["spec"]["template"], sort_keys=True)


def compared(cluster: Cluster, chat: Followed, old: Collection[str], ending: str) -> tuple[Served, Served]:
    """Wait for the end of a roll-out; what its canary and the old pods had served when they were last compared."""
    readings: list[tuple[Served, Served]] = []

    def ended() -> bool:
        if chat.phase == "Soaking":
            new = lives(cluster, "llama").keys() - set(old)
            sides = served(cluster, new), served(cluster, old)
            readings.extend([sides] if sides[0].requests else [])
        return chat.condition("Progressing").get("reason") == ending

    cluster.until(ended, f"a roll-out that is {ending}; {chat.condition('Progressing')}", 120)
    return readings[-1]


def test_a_canary_that_takes_longer_per_token_is_rolled_back_though_its_gaps_are_shorter(cluster: Cluster) -> None:
    """k3 costs 10 % per token here, and its inter-token latency looks better than that of k5."""
    serving(cluster, 5, {"k3": {"stepFactor": 1.07}})  # 7.8 * 1.07 is 10 % above 7.5; 21 * 1.07 is below 24
    old_pods, old_template = lives(cluster, "llama"), template(cluster)
    with Operator(cluster), cluster.traffic("app=llama", TALK):
        chat = follow(cluster, policy("chat", "llama", mode="Enforce", rules=[DOWN], **LADDER))
        canary, old = compared(cluster, chat, old_pods, "RolledBack")
        assert canary.seconds_per_token > 1.05 * old.seconds_per_token
        assert canary.seconds_between_outputs < old.seconds_between_outputs
        assert "time per output token" in chat.condition("Progressing")["message"]
        assert [one["level"] for one in chat.memory["quarantine"]] == ["k3"]
        assert lives(cluster, "llama") == old_pods
        assert template(cluster) == old_template


def test_a_canary_that_takes_less_per_token_is_promoted_though_its_gaps_are_longer(cluster: Cluster) -> None:
    """k5 brings more tokens at a time, and so waits longer between two outputs."""
    serving(cluster, 3)
    old_pods = lives(cluster, "llama")
    with Operator(cluster), cluster.traffic("app=llama", RECORDS):
        chat = follow(cluster, policy("chat", "llama", mode="Enforce", rules=[UP], **LADDER))
        canary, old = compared(cluster, chat, old_pods, "Promoted")
        assert canary.seconds_per_token < old.seconds_per_token
        assert canary.seconds_between_outputs > old.seconds_between_outputs
        assert chat.decisions == [("up", "k3", "k5")]
    cluster.until_rolled_out("llama")
    assert not lives(cluster, "llama").keys() & old_pods.keys()


@pytest.mark.parametrize(
    ("fault", "said"),
    [({"outputFactor": 0.2}, "answers of "), ({"errorShare": 0.5}, "of requests failed")],
    ids=["short answers", "errors"],
)
def test_a_faster_canary_that_does_harm_is_rolled_back_and_not_tried_again(
    cluster: Cluster, fault: Object, said: str
) -> None:
    """The old template and the old pods are as they were, and stay so though the rule still holds."""
    serving(cluster, 3, {"k5": fault})
    old_pods, old_template = lives(cluster, "llama"), template(cluster)
    with Operator(cluster) as operator, cluster.traffic("app=llama", RECORDS):
        chat = follow(cluster, policy("chat", "llama", mode="Enforce", rules=[UP], **LADDER))
        canary, old = compared(cluster, chat, old_pods, "RolledBack")
        assert canary.seconds_per_token < old.seconds_per_token
        assert said in chat.condition("Progressing")["message"]
        assert [(one["level"], one.get("until")) for one in chat.memory["quarantine"]] == [("k5", None)]
        generation = cluster.get("Deployment", "llama")["metadata"]["generation"]
        until_windows(cluster, operator)
        assert [one["rule"] for one in chat.memory["holdsSince"]] == ["up"]
        assert cluster.get("Deployment", "llama")["metadata"]["generation"] == generation
        assert lives(cluster, "llama") == old_pods
        assert template(cluster) == old_template
