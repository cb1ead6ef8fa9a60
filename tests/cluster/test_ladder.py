"""The whole loop: a Deployment that follows its traffic down the ladder, and up again."""

import pytest

from tests.support.cluster import policies
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.llama import (
    HOT_STORIES,
    HOT_SUMMARIES,
    LABELS,
    LLAMA,
    STORIES,
    SUMMARIES,
    TELLING_TEMPERATURE,
    serving,
)
from tests.support.cluster.operator import Operator
from tests.support.cluster.policies import SOON, follow, policy

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(500)]

HOT: Object = {
    "name": "hot",
    "when": {"temperature": {"above": "0.6", "sharePercent": 50}},
    "forSeconds": 2,
    "action": {"type": "SwitchTo", "level": "ngram"},
}
LOW: Object = {**policies.LOW, "when": {"acceptance": {"belowPercent": 38}}}


def test_a_deployment_goes_down_the_ladder_as_its_traffic_changes_and_up_again_by_a_probe(cluster: Cluster) -> None:
    """Fewer drafts where most are refused, look-ups for hot traffic, none where they find nothing, look-ups again."""
    serving(cluster, 5, TELLING_TEMPERATURE)
    with Operator(cluster), cluster.traffic(LABELS, STORIES) as traffic:
        # Look-ups gain 8 % even on hot stories: this author would rather have a batch without drafts then.
        gate = {**SOON["rollout"]["gate"], "maxTpotIncreasePercent": 15}
        chat = follow(cluster, policy("chat", LLAMA, mode="Enforce", rules=[HOT, LOW], rollout={"gate": gate}))
        chat.until_level("k3")
        traffic.phase = HOT_SUMMARIES
        chat.until_level("ngram")
        traffic.phase = HOT_STORIES
        chat.until_level("disabled")
        traffic.phase = SUMMARIES
        chat.until_level("ngram")
        assert chat.decisions[:5] == [
            ("low", "k5", "k3"),
            ("hot", "k3", "ngram"),
            ("low", "ngram", "disabled"),
            ("probe", "disabled", "ngram"),
            ("probe", "disabled", "ngram"),
        ]
        actions = [one["action"] for one in chat.status["decisions"]]
        assert actions[:5] == ["StepDown", "SwitchTo", "StepDown", "Probe", "StepUp"]
