"""`specloop status` reads policies where the kubeconfig leads, and answers by its exit code."""

import pytest

from tests.component.cluster_cli.api_server import ApiServer
from tests.component.cluster_cli.conftest import Terminal
from tests.support.live_policies import condition, policy, rollout, status

READY = status()
NOT_READY = status(condition("Ready", "False", "TargetNotFound", "there is no such Deployment"))


def test_policies_of_the_contexts_namespace_are_shown(server: ApiServer, terminal: Terminal) -> None:
    """The context names llm."""
    server.add(policy(status=READY), policy("other", namespace="code"))
    code, out, err = terminal.run("status")
    assert (code, err) == (0, "")
    assert "chat-70b" in out
    assert "other" not in out


@pytest.mark.parametrize("arguments", [["-n", "code"], ["--namespace", "code"]])
def test_another_namespace_may_be_named(server: ApiServer, terminal: Terminal, arguments: list[str]) -> None:
    """As for kubectl."""
    server.add(policy(status=READY), policy("other", namespace="code"))
    assert [one["policy"] for one in terminal.document("status", *arguments)["policies"]] == ["other"]


def test_a_context_without_a_namespace_means_the_default_one(server: ApiServer, terminal: Terminal) -> None:
    """As for kubectl."""
    server.add(policy("there", namespace="default"), policy("elsewhere"))
    assert [one["policy"] for one in terminal.document("status", "--context", "default")["policies"]] == ["there"]


def test_all_namespaces_are_one_request(server: ApiServer, terminal: Terminal) -> None:
    """Sorted by namespace and name."""
    server.add(policy("b"), policy("a"), policy("z", namespace="code"))
    found = terminal.document("status", "-A")["policies"]
    assert [(one["namespace"], one["policy"]) for one in found] == [("code", "z"), ("llm", "a"), ("llm", "b")]
    assert server.asked == ["GET /apis/specloop.dev/v1alpha1/specpolicies"]


def test_a_policy_that_is_not_ready_is_exit_code_1(server: ApiServer, terminal: Terminal) -> None:
    """Any one of those shown, and only those."""
    server.add(policy("good", status=READY), policy("bad", status=NOT_READY), policy("new"))
    assert terminal.run("status")[0] == 1
    assert terminal.run("status", "bad")[0] == 1
    assert terminal.run("status", "good")[0] == 0
    assert terminal.run("status", "new")[0] == 0


def test_a_workload_names_its_policy(server: ApiServer, terminal: Terminal) -> None:
    """Everything about it is shown."""
    server.add(policy(status=NOT_READY), policy("other", "StatefulSet/coder"))
    _, out, _ = terminal.run("status", "deploy/llama-70b")
    assert "there is no such Deployment" in out


def test_the_document_is_the_status_with_what_people_asked_for(server: ApiServer, terminal: Terminal) -> None:
    """Keys in camelCase, times in RFC 3339, what is not known null."""
    override = '{"level": "k5", "until": "2020-01-01T00:00:00Z", "by": "bob"}'
    found = status(condition("Ready", "True"), memory={"rollout": rollout(canaryPods=1, isNew=True)})
    server.add(policy(status=found, annotations={"specloop.dev/override": override}))
    (one,) = terminal.document("status")["policies"]
    assert one["target"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama-70b"}
    assert (one["observedLevel"], one["desiredLevel"], one["acceptancePercent"]) == ("k3", "k3", 62)
    assert one["ready"] == "True"
    assert one["conditions"][0]["lastTransitionTime"] == "2026-11-30T11:57:00.000000Z"
    assert one["override"] == {"level": "k5", "until": "2020-01-01T00:00:00Z", "by": "bob", "expired": True}
    unknown = dict.fromkeys(("ending", "setting", "backSetting", "failedSharePercent", "live", "canary"))
    assert one["rollout"] == {**rollout(canaryPods=1), **unknown}
    assert one["recommendation"] is None
    assert one["suspended"] is False


def test_no_policies_are_an_empty_document(terminal: Terminal) -> None:
    """And no failure."""
    assert terminal.document("status") == {"policies": []}


def test_one_policy_of_all_namespaces_is_no_call(terminal: Terminal) -> None:
    """Names are unique in a namespace only."""
    assert "give --namespace, not --all-namespaces" in terminal.refusal("status", "chat-70b", "-A")


def test_an_unknown_policy_is_refused_with_what_there_is(server: ApiServer, terminal: Terminal) -> None:
    """One line."""
    server.add(policy())
    words = "no policy is called nope in namespace llm; there is chat-70b (Deployment/llama-70b)"
    assert terminal.refusal("status", "nope") == words


def test_the_server_learns_who_asks(server: ApiServer, terminal: Terminal) -> None:
    """For the audit log."""
    terminal.run("status")
    assert {agent.partition("/")[0] for agent in server.agents} == {"specloop"}
