"""Canaries that never serve, engines that are killed, and people who change the target in the middle of a roll-out."""

import json

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.environment import Object
from tests.support.cluster.kubelet import GPU
from tests.support.cluster.llama import LABELS, LLAMA, deployment, generation, lives, serving, template
from tests.support.cluster.operator import Operator
from tests.support.cluster.policies import Followed, asked_for, follow, until_ticks
from tests.support.cluster.traffic import PROSE
from tests.support.cluster.workloads import container, workload

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

SHORT: Object = {"progressDeadlineSeconds": 6, "soakSeconds": 1}


def rolled_back(cluster: Cluster, chat: Followed) -> str:
    """Wait for the end of a roll-out that failed, with the old pods alone; why it failed."""
    message: str = chat.until_condition("Progressing", "RolledBack")["message"]
    cluster.until_rolled_out(LLAMA)
    assert not deployment(cluster)["spec"].get("paused")
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
    serving(cluster, faults={"k3": fault})
    old_pods, old_template = lives(cluster), template(cluster)
    with Operator(cluster) as operator:
        chat = follow(cluster, asked_for("k3", LLAMA, rollout=SHORT))
        assert said in rolled_back(cluster, chat)
        assert lives(cluster) == old_pods
        assert template(cluster) == old_template
        assert [(one["level"], one.get("until")) for one in chat.memory["quarantine"]] == [("k3", None)]
        held = generation(cluster)
        until_ticks(cluster, operator)
        assert generation(cluster) == held


def test_a_canary_that_no_gpu_is_left_for_is_rolled_back_with_the_words_of_the_scheduler(cluster: Cluster) -> None:
    """That is no fault of the level: it may be tried again, after a gap."""
    serving(cluster)
    neighbour = {"image": "busybox", "command": ["sleep", "600"], "args": [], "readinessProbe": None}
    cluster.apply(workload("neighbour", 1, [{**container(), **neighbour, "resources": {"limits": {GPU: "6"}}}]))
    cluster.until_rolled_out("neighbour")  # on the other six GPUs of the node
    old_pods = lives(cluster)
    with Operator(cluster):
        chat = follow(cluster, asked_for("k3", LLAMA, rollout=SHORT))
        said = rolled_back(cluster, chat)
        assert "could not be scheduled within 6 s" in said
        assert "Insufficient nvidia.com/gpu" in said
        assert lives(cluster) == old_pods
        [quarantined] = chat.memory["quarantine"]
        assert (quarantined["level"], "until" in quarantined) == ("k3", True)


def flags(cluster: Cluster, pod: str) -> int:
    """The K on the command line of the process that runs now."""
    [flag] = [word for word in cluster.kubelet.command_line(pod) if word.startswith("--speculative-config=")]
    k: int = json.loads(flag.partition("=")[2])["num_speculative_tokens"]
    return k


def test_an_old_pod_that_is_killed_beside_a_canary_comes_back_as_it_was_and_the_roll_out_goes_on(
    cluster: Cluster,
) -> None:
    """Its setting travels with its own template, not with the workload's latest."""
    serving(cluster)
    old_pods = lives(cluster)
    killed = min(old_pods)
    with Operator(cluster), cluster.traffic(LABELS, PROSE):
        chat = follow(cluster, asked_for("k3", LLAMA))
        chat.until_phase("Soaking")
        cluster.kubelet.kill(killed)
        cluster.until(lambda: ready_again(cluster, killed), "ready again")
        assert flags(cluster, killed) == 5
        assert chat.phase == "Soaking"
        chat.until_level("k3")
    assert chat.condition("Progressing")["reason"] == "Promoted"
    assert {flags(cluster, name) for name in lives(cluster)} == {3}
    assert not lives(cluster).keys() & old_pods.keys()


def ready_again(cluster: Cluster, pod: str) -> bool:
    """Whether a pod serves after one restart."""
    [status] = cluster.get("Pod", pod)["status"]["containerStatuses"]
    return bool(status["ready"] and status["restartCount"] == 1)


LONG: Object = {"soakSeconds": 600, "progressDeadlineSeconds": 900}
"""A soak during which a test may do something."""


def test_an_image_that_is_changed_beside_a_canary_stays_and_the_level_goes_back(cluster: Cluster) -> None:
    """Whoever brings a new image means all pods: what was compared is gone."""
    serving(cluster)
    with Operator(cluster):
        chat = follow(cluster, asked_for("k3", LLAMA, rollout=LONG))
        chat.until_phase("Soaking")
        newer = "specloop.test/simulated-vllm:0.32.1"
        cluster.kubectl("set", "image", "deployment/llama", f"vllm={newer}")
        said = chat.until_condition("Progressing", "Cancelled")["message"]
        assert "the target's pod template was changed meanwhile" in said
        cluster.until_rolled_out(LLAMA)
        pods = [cluster.get("Pod", name) for name in lives(cluster)]
        assert {one["spec"]["containers"][0]["image"] for one in pods} == {newer}
        assert {flags(cluster, name) for name in lives(cluster)} == {5}
        assert "quarantine" not in chat.memory or not chat.memory["quarantine"]


def test_a_workload_that_is_scaled_up_beside_a_canary_is_promoted_with_all_its_pods(cluster: Cluster) -> None:
    """`replicas` is the person's: nothing that the operator applies speaks of it."""
    serving(cluster)
    with Operator(cluster), cluster.traffic(LABELS, PROSE):
        chat = follow(cluster, asked_for("k3", LLAMA, rollout={"soakSeconds": 10}))
        chat.until_phase("Soaking")
        cluster.kubectl("scale", "deployment/llama", "--replicas=4")
        chat.until_level("k3")
        assert chat.condition("Progressing")["reason"] == "Promoted"
        cluster.until_rolled_out(LLAMA)
    assert len(lives(cluster)) == 4
    assert {flags(cluster, name) for name in lives(cluster)} == {3}
    [ours] = [one for one in managers(cluster) if one["manager"] == "specloop"]
    assert "f:replicas" not in ours["fieldsV1"]["f:spec"]


def managers(cluster: Cluster) -> list[Object]:
    """Who owns which fields of the workload."""
    found: list[Object] = deployment(cluster)["metadata"]["managedFields"]
    return found


def test_a_target_that_is_deleted_beside_a_canary_is_waited_for_and_governed_anew(cluster: Cluster) -> None:
    """The one of the same name that comes later is another: nothing of the old roll-out is carried on."""
    serving(cluster)
    with Operator(cluster) as operator:
        chat = follow(cluster, asked_for("k3", LLAMA, rollout=LONG))
        chat.until_phase("Soaking")
        cluster.delete("Deployment", LLAMA)
        chat.until_condition("TargetResolved", "TargetNotFound")
        assert chat.phase is None
        cluster.patch("SpecPolicy", "chat", {"metadata": {"annotations": None}})
        serving(cluster)
        chat.until_condition("Ready", "Governing")
        until_ticks(cluster, operator)
        assert chat.phase is None
        assert {flags(cluster, name) for name in lives(cluster)} == {5}
        assert generation(cluster) == 1


def test_a_target_that_somebody_else_paused_is_left_alone_until_it_is_let_go(cluster: Cluster) -> None:
    """The operator says so, and writes nothing."""
    serving(cluster)
    cluster.kubectl("rollout", "pause", "deployment/llama")
    with Operator(cluster) as operator:
        chat = follow(cluster, asked_for("k3", LLAMA, rollout=LONG))
        said = chat.until_condition("Progressing", "TargetPaused")["message"]
        assert said == "somebody else holds the roll-out of Deployment llama"
        until_ticks(cluster, operator)
        assert "specloop" not in {one["manager"] for one in managers(cluster)}
        cluster.kubectl("rollout", "resume", "deployment/llama")
        chat.until_phase("Soaking")


def test_a_soak_that_is_edited_under_way_counts_as_it_is_then(cluster: Cluster) -> None:
    """The roll-out goes on; only what it rolls out must stay the same."""
    serving(cluster)
    with Operator(cluster), cluster.traffic(LABELS, PROSE):
        chat = follow(cluster, asked_for("k3", LLAMA, rollout=LONG))
        chat.until_phase("Soaking")
        cluster.patch("SpecPolicy", "chat", {"spec": {"rollout": {"soakSeconds": 5}}})
        chat.until_level("k3")
        assert chat.condition("Progressing")["reason"] == "Promoted"


def test_a_level_that_is_edited_under_way_is_taken_back(cluster: Cluster) -> None:
    """What would be promoted is not what the policy says any more; the new one is tried from the start."""
    serving(cluster)
    levels = [{"name": "most", "drafter": "small", "tokens": 5}, {"name": "less", "drafter": "small", "tokens": 3}]
    last = {"name": "disabled"}
    small = {"name": "small", "method": "draft_model", "model": "small"}
    with Operator(cluster):
        asked = asked_for("less", LLAMA, rollout=LONG, drafters=[small], levels=[*levels, last])
        chat = follow(cluster, asked)
        chat.until_phase("Soaking")
        edited = [levels[0], {**levels[1], "tokens": 2}, last]
        cluster.patch("SpecPolicy", "chat", {"spec": {"levels": edited}})

        def tried() -> bool:
            return 2 in {flags(cluster, name) for name in lives(cluster)}

        cluster.until(tried, "a canary with K = 2", 120)
        assert [one[2] for one in chat.decisions] == ["less", "most", "less"]
