"""People beside the operator: two policies, suspension, deletion, overrides and the way back by hand."""

from collections.abc import Callable

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.command_line import asked_specloop, run_specloop
from tests.support.cluster.llama import LABELS, LADDER, LLAMA, RECORDS, deployment, generation, lives, serving, template
from tests.support.cluster.operator import Operator
from tests.support.cluster.policies import asked_for, follow, policy, until_ticks

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]


def test_the_older_of_two_policies_governs_their_target(cluster: Cluster) -> None:
    """The younger one says so and does nothing, until the older one is gone."""
    serving(cluster)
    with Operator(cluster) as operator:
        first = follow(cluster, policy("first", LLAMA, mode="Enforce", **LADDER))
        first.until_condition("Ready", "Governing")
        second = follow(cluster, asked_for("k3", LLAMA, "second", **LADDER))
        conflicted = second.until_condition("Conflicted", "OlderPolicy")
        assert conflicted["status"] == "True"
        assert "policy first is older" in conflicted["message"]
        assert first.condition("Conflicted")["status"] == "False"
        held = generation(cluster)
        until_ticks(cluster, operator, 6)
        assert generation(cluster) == held
        cluster.delete("SpecPolicy", "first")
        second.until_phase("Soaking")
        assert second.condition("Conflicted")["status"] == "False"


def by_spec(cluster: Cluster) -> None:
    """Suspend in the spec."""
    cluster.patch("SpecPolicy", "chat", {"spec": {"suspend": True}})


def by_annotation(cluster: Cluster) -> None:
    """Suspend by annotation."""
    cluster.patch("SpecPolicy", "chat", {"metadata": {"annotations": {"specloop.dev/suspend": "true"}}})


def by_rollback(cluster: Cluster) -> None:
    """Ask for the way back, and wait for it."""
    answer = asked_specloop(cluster, "rollback", "chat", "--wait=120")
    assert (answer["from"], answer["to"], answer["endsRollout"], answer["followed"]) == ("k3", "k5", True, True)


def by_clearing(cluster: Cluster) -> None:
    """Take the override back that asked for it."""
    assert asked_specloop(cluster, "override", "chat", "--clear")["before"]["level"] == "k3"


@pytest.mark.parametrize(
    ("interrupt", "ending", "suspended"),
    [
        (by_spec, "Cancelled", "BySpec"),
        (by_annotation, "Cancelled", "ByAnnotation"),
        (by_rollback, "RolledBack", "Active"),
        (by_clearing, "Cancelled", "Active"),
    ],
)
def test_a_roll_out_that_a_person_ends_is_taken_back(
    cluster: Cluster, interrupt: Callable[[Cluster], None], ending: str, suspended: str
) -> None:
    """The old template is back, nothing is paused, and the old pods never noticed."""
    serving(cluster)
    old_pods, old_template = lives(cluster), template(cluster)
    with Operator(cluster) as operator:
        chat = follow(cluster, asked_for("k3", LLAMA, **LADDER))
        chat.until_phase("Soaking")
        assert deployment(cluster)["spec"]["paused"]
        interrupt(cluster)
        chat.until_condition("Progressing", ending)
        chat.until_condition("Suspended", suspended)
        assert chat.phase is None
        held = generation(cluster)
        until_ticks(cluster, operator)
        assert generation(cluster) == held
    assert template(cluster) == old_template
    assert not deployment(cluster)["spec"].get("paused")
    assert lives(cluster) == old_pods


def test_a_policy_that_is_deleted_in_the_middle_of_a_roll_out_leaves_its_target_as_it_was(cluster: Cluster) -> None:
    """Nobody would end that roll-out any more."""
    serving(cluster)
    old_pods, old_template = lives(cluster), template(cluster)
    with Operator(cluster):
        chat = follow(cluster, asked_for("k3", LLAMA, **LADDER))
        chat.until_phase("Soaking")
        cluster.delete("SpecPolicy", "chat")
        cluster.until(lambda: not deployment(cluster)["spec"].get("paused"), "nothing paused any more")
        cluster.until_rolled_out(LLAMA)
        assert template(cluster) == old_template
        assert lives(cluster) == old_pods
        said = [one["message"] for one in cluster.events(LLAMA) if one["reason"] == "RolloutCancelled"]
        assert said == ["k3 is taken back: the policy was deleted"]


def test_a_roll_out_that_somebody_resumes_is_followed_to_its_end(cluster: Cluster) -> None:
    """`kubectl rollout resume` lets the rest follow; it is judged all the same, and nothing is paused again."""
    serving(cluster)
    with Operator(cluster), cluster.traffic(LABELS, RECORDS):
        chat = follow(cluster, asked_for("k3", LLAMA, rollout={"soakSeconds": 15}, **LADDER))
        chat.until_phase("Soaking")
        cluster.kubectl("rollout", "resume", f"deployment/{LLAMA}")
        cluster.until_rolled_out(LLAMA)
        assert not deployment(cluster)["spec"].get("paused")
        chat.until_level("k3")
        assert chat.condition("Progressing")["reason"] == "Promoted"
        assert not deployment(cluster)["spec"].get("paused")


def test_an_override_holds_until_it_ends_and_then_the_level_before_comes_back(cluster: Cluster) -> None:
    """`specloop override` sets it, `specloop status` shows it, and its expiry ends it."""
    serving(cluster)
    old_template = template(cluster)
    with Operator(cluster), cluster.traffic(LABELS, RECORDS):
        chat = follow(cluster, policy("chat", LLAMA, mode="Enforce", **LADDER))
        chat.until_condition("Ready", "Governing")
        answer = asked_specloop(cluster, "override", f"deployment/{LLAMA}", "k3")
        assert (answer["policy"], answer["override"]["level"], answer["notes"]) == ("chat", "k3", [])
        chat.until_level("k3")
        [shown] = asked_specloop(cluster, "status")["policies"]
        assert (shown["observedLevel"], shown["ready"]) == ("k3", "True")
        assert shown["forced"].items() >= {"by": "the override by admin", "backTo": "k5"}.items()
        assert "k3" in run_specloop(cluster, "status", "chat")
        assert asked_specloop(cluster, "override", "chat", "k3", "--for=3s")["before"]["level"] == "k3"
        chat.until_level("k5")
        assert [one[1:] for one in chat.decisions] == [("k5", "k3"), ("k3", "k5")]
        assert chat.status["decisions"][1]["reason"] == "the override by admin is over: back to k5"
        assert template(cluster) == old_template


def test_an_override_in_the_middle_of_a_roll_out_ends_that_one_first(cluster: Cluster) -> None:
    """The target is as it was for a moment; then the other level is rolled out."""
    serving(cluster)
    with Operator(cluster), cluster.traffic(LABELS, RECORDS) as traffic:
        traffic.requests_per_second = 0.0
        chat = follow(cluster, asked_for("k3", LLAMA, **LADDER))
        chat.until_phase("Soaking")
        traffic.requests_per_second = None
        asked_specloop(cluster, "override", "chat", "disabled")
        chat.until_level("disabled")
        assert [one[1:] for one in chat.decisions] == [("k5", "k3"), ("k3", "k5"), ("k5", "disabled")]
        assert "the override by admin asks for disabled" in chat.status["decisions"][1]["reason"]
        assert "quarantine" not in chat.memory or not chat.memory["quarantine"]


def test_a_level_that_a_person_rolls_back_is_not_tried_again_and_a_deletion_leaves_it_so(cluster: Cluster) -> None:
    """The override for it is still there, and is told why it is not followed."""
    serving(cluster)
    old_template = template(cluster)
    with Operator(cluster) as operator, cluster.traffic(LABELS, RECORDS):
        chat = follow(cluster, asked_for("k3", LLAMA, **LADDER))
        chat.until_level("k3")
        answer = asked_specloop(cluster, "rollback", f"deployment/{LLAMA}", "--wait=120")
        assert (answer["from"], answer["to"], answer["endsRollout"], answer["followed"]) == ("k3", "k5", False, True)
        cluster.until_rolled_out(LLAMA)
        assert template(cluster) == old_template
        assert [(one["level"], one["reason"]) for one in chat.memory["quarantine"]] == [("k3", "rolled back by admin")]
        held, pods = generation(cluster), lives(cluster)
        until_ticks(cluster, operator)
        assert "not tried again" in chat.status["recommendation"]["reason"]
        cluster.delete("SpecPolicy", "chat")
        cluster.until(lambda: 'policy="chat"' not in operator.get("/metrics").text, "a policy that is forgotten")
        assert (generation(cluster), lives(cluster)) == (held, pods)
