"""K that changes in running pods: no pod is made anew, and off takes two stages."""

import json
from collections import Counter
from pathlib import Path

import pytest

from specloop_engine.configuration import TABLE
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.live import TOKEN_REF, live_drafts, serving_live, tokens_in_force
from tests.support.cluster.llama import LABELS, LADDER, LLAMA, STORIES, deployment, generation, lives, template
from tests.support.cluster.operator import Operator
from tests.support.cluster.policies import LOW, OVERRIDE, Followed, follow, policy
from tests.support.cluster.workloads import ANNOTATION

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

NEVER = {"name": "never", "when": {"acceptance": {"belowPercent": 1}}, "action": {"type": "StepDown"}}
"""A rule that asks for nothing here: a person does."""
LOOKUP = {"name": "lookup", "method": "ngram", "lookupMin": 2, "lookupMax": 4}
WITH_LOOKUP: Object = {
    "drafters": [*LADDER["drafters"], LOOKUP],
    "levels": [*LADDER["levels"][:-1], {"name": "ngram", "drafter": "lookup", "tokens": 4}, LADDER["levels"][-1]],
}


def ask(cluster: Cluster, level: str | None) -> None:
    """A person asks for a level, or takes that back."""
    wish = None if level is None else json.dumps({"level": level, "by": "alice"})
    cluster.patch("SpecPolicy", "chat", {"metadata": {"annotations": {OVERRIDE: wish}}})


def setting(cluster: Cluster) -> str:
    """What the pod template says."""
    found: str = deployment(cluster)["spec"]["template"]["metadata"]["annotations"][ANNOTATION]
    return found


def until_tokens(cluster: Cluster, chat: Followed, tokens: int) -> None:
    """Wait until this K is in force in all pods, by their own pages."""
    chat.until(lambda: set(tokens_in_force(cluster).values()) == {tokens}, f"K = {tokens} in all pods")


def test_a_policy_changes_k_in_all_pods_and_no_pod_is_made_anew(cluster: Cluster, tmp_path: Path) -> None:
    """One pod first, which is compared; then all, and one that joins later; the template stays as it was."""
    serving_live(cluster, tmp_path)
    pods, before, edits = lives(cluster), template(cluster), generation(cluster)
    with cluster.traffic(LABELS, STORIES):
        with Operator(cluster) as operator:
            chat = follow(cluster, policy("chat", LLAMA, mode="Enforce", rules=[LOW], live=TOKEN_REF, **LADDER))
            chat.until_phase("Soaking")
            assert Counter(tokens_in_force(cluster).values()) == {5: 2, 3: 1}
            assert chat.memory["rollout"]["live"]
            chat.until_level("k3")
            assert Counter(tokens_in_force(cluster).values()) == {3: 3}
            assert chat.condition("Progressing")["reason"] == "Promoted"
            assert (lives(cluster), template(cluster), generation(cluster)) == (pods, before, edits)
            operator.kill()
        cluster.patch("Deployment", LLAMA, {"spec": {"replicas": 4}})
        cluster.until_rolled_out(LLAMA)
        assert Counter(tokens_in_force(cluster).values()) == {3: 3, 5: 1}
        with Operator(cluster):
            until_tokens(cluster, chat, 3)
            said = chat.until_condition("LiveControl", "InLine")["message"]
            assert said.startswith("4 pods are as asked, at k3")


def test_off_is_a_brake_at_once_and_then_pods_without_the_drafter(cluster: Cluster, tmp_path: Path) -> None:
    """Asked for without an end, off lasts longer than two restarts cost; back on is a restart."""
    serving_live(cluster, tmp_path, replicas=2)
    pods, before = lives(cluster), template(cluster)
    with Operator(cluster), cluster.traffic(LABELS, STORIES):
        chat = follow(cluster, policy("chat", LLAMA, mode="Enforce", rules=[NEVER], live=TOKEN_REF, **LADDER))
        chat.until_condition("LiveControl", "InLine")
        ask(cluster, "disabled")
        chat.until_level("disabled")
        assert set(tokens_in_force(cluster).values()) == {0}
        assert (lives(cluster), template(cluster)) == (pods, before)
        chat.until(lambda: (chat.memory.get("rollout") or {}).get("kind") == "Shed", "pods without the drafter")
        chat.until_level("disabled")
        chat.until(lambda: "live" not in chat.memory, "nothing held any more")
        assert not lives(cluster).keys() & pods.keys()
        assert set(tokens_in_force(cluster).values()) == {None}
        ask(cluster, "k5")
        chat.until_level("k5")
        until_tokens(cluster, chat, 5)
        assert json.loads(setting(cluster)) == json.loads(live_drafts(5))


def test_a_level_of_another_drafter_takes_a_restart_and_the_way_back_has_its_table_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    """k3 is asked for, n-gram rolled out, and k3 written with the table that the draft model had before."""
    serving_live(cluster, tmp_path, replicas=2)
    pods = lives(cluster)
    with Operator(cluster), cluster.traffic(LABELS, STORIES):
        chat = follow(cluster, policy("chat", LLAMA, mode="Enforce", rules=[NEVER], live=TOKEN_REF, **WITH_LOOKUP))
        chat.until_condition("LiveControl", "InLine")
        ask(cluster, "k3")
        chat.until_level("k3")
        assert lives(cluster) == pods
        ask(cluster, "ngram")
        chat.until_level("ngram")
        assert not lives(cluster).keys() & pods.keys()
        ask(cluster, "k3")
        chat.until_level("k3")
        table = [[1, 256, 3]]
        assert json.loads(setting(cluster))[TABLE] == table


def test_pods_without_the_plugin_are_restarted_and_that_is_said(cluster: Cluster, tmp_path: Path) -> None:
    """The token's Secret is there; what answers has no plugin."""
    serving_live(cluster, tmp_path, replicas=1)
    with Operator(cluster), cluster.traffic(LABELS, STORIES):
        manifest = policy(
            "chat", LLAMA, mode="Enforce", rules=[NEVER], live={"tokenSecretRef": {"name": "other"}}, **LADDER
        )
        chat = follow(cluster, manifest)
        said = chat.until_condition("LiveControl", "NotPossible")["message"]
        assert 'secrets "other" is forbidden' in said
        assert "live.tokenSecrets of the chart" in said
        ask(cluster, "k3")
        chat.until(lambda: chat.phase is not None, "a roll-out")
        assert not chat.memory["rollout"].get("live")
        chat.until_level("k3")
