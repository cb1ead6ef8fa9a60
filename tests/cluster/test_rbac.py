"""The operator's roles are what it needs and no more: each verb in them is used, and nothing it asks is refused."""

import json
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any

import httpx
import pytest
import yaml

from tests.support.alerts import LOW, alert_json, message_json
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.daemons import free_port
from tests.support.cluster.environment import Object
from tests.support.cluster.live import SECRET, TOKEN_REF, live_drafts
from tests.support.cluster.llama import LLAMA, ONE_MORE
from tests.support.cluster.operator import CHART, ROLES, Operator, rights
from tests.support.cluster.policies import Followed, asked_for, follow, until_ticks
from tests.support.cluster.proxy import Proxy
from tests.support.cluster.workloads import ANNOTATION, bound, container, drafts, workload

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

SHORT: Object = {"progressDeadlineSeconds": 20, "soakSeconds": 1}
NEVER_UP = json.dumps({"k3": {"crashAfterSeconds": 0, "crashMessage": "no speculator for this model"}})
"""What a server does that is started at k3."""
ALERTS = [{"match": {"alertname": LOW}, "action": {"type": "EvaluateNow"}}]

REFUSED = {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}

Use = tuple[str, str]
"""A verb and a resource, such as ("patch", "specpolicies/status")."""


def rendered(cluster: Cluster) -> list[Object]:
    """The chart for one namespace."""
    values = ["--set", f"namespaces={{{cluster.namespace}}}", "--set", "crds.install=false"]
    return [one for one in yaml.safe_load_all(cluster.helm("template", "specloop", str(CHART), *values)) if one]


def granted(found: Iterable[Mapping[str, Any]]) -> set[Use]:
    """Every verb on every resource in these roles."""
    rules = [rule for role in found for rule in role["rules"]]
    return {(verb, resource) for rule in rules for verb in rule["verbs"] for resource in rule["resources"]}


def used(proxy: Proxy) -> set[Use]:
    """What was asked of the API server and answered, without what anybody may ask: `/apis`, `/version`."""
    return {(one.verb, one.resource) for one in proxy.asked if one.status < 400 and not one.resource.startswith("/")}


def broken(kind: str, name: str, setting: str, replicas: int) -> Object:
    """A workload at k5 whose pods never come up at k3."""
    one = bound(container(simulation={"SPECLOOP_SIM_FAULTS": NEVER_UP}))
    strategy = {"strategy": ONE_MORE} if kind == "Deployment" else {}
    return workload(name, replicas, [one], kind=kind, annotations={ANNOTATION: setting}, nodes=None, **strategy)


def rolled_back(chat: Followed) -> None:
    """Wait until it was tried and taken back."""
    assert "no speculator for this model" in chat.until_condition("Progressing", "RolledBack")["message"]


def post(door: int, token: str, message: bytes) -> int:
    """What the webhook answers."""
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.post(f"http://127.0.0.1:{door}/alerts", content=message, headers=headers, timeout=30.0).status_code


def test_every_right_is_used_and_none_is_missing(cluster: Cluster) -> None:
    """A Deployment whose pods are asked live and then restarted, a StatefulSet whose canary blocks its way back, an
    alert that fires and ends, and a Lease."""
    all_is_used(cluster, {"namespaces": [cluster.namespace]})


def test_every_right_of_one_kind_of_target_is_used_and_none_is_missing(cluster: Cluster) -> None:
    """The same without a StatefulSet."""
    all_is_used(cluster, {"namespaces": [cluster.namespace], "targetKinds": ["Deployment"]})


def test_every_right_in_the_whole_cluster_is_used_and_none_is_missing(empty: Cluster) -> None:
    """The same by one ClusterRole, in a cluster of its own."""
    empty.control_plane.install_crds()
    all_is_used(empty, {"namespaces": []})


def all_is_used(cluster: Cluster, scope: Object) -> None:
    """Have an operator do all that there is to do, with the roles for these settings."""
    kinds = scope.get("targetKinds", ("Deployment", "StatefulSet"))
    cluster.apply(SECRET)
    cluster.apply(broken("Deployment", LLAMA, live_drafts(5), 1))
    cluster.until_rolled_out(LLAMA)
    if "StatefulSet" in kinds:
        cluster.apply(broken("StatefulSet", "ordered", drafts(5), 2))
        cluster.until_rolled_out("ordered", "StatefulSet")
    door, token = free_port(), secrets.token_hex(16)
    (cluster.folder / "webhook-token").write_text(token)
    settings = {
        **scope,
        "maxConcurrentRollouts": 2,
        "lease": {"namespace": cluster.namespace, "name": "specloop"},
        "webhook": {"port": door, "tokenFile": str(cluster.folder / "webhook-token")},
    }
    with cluster.proxy() as proxy, Operator(cluster, settings, url=proxy.url) as operator:
        followed = [follow(cluster, asked_for("k3", LLAMA, rollout=SHORT, live=TOKEN_REF, alerts=ALERTS))]
        if "StatefulSet" in kinds:
            fields = {"kind": "StatefulSet", "rollout": SHORT, "alerts": ALERTS}
            followed.append(follow(cluster, asked_for("k3", "ordered", name="ordered", **fields)))
        for one in followed:
            rolled_back(one)
        for firing in (True, False):
            alert = alert_json(firing=firing, starts_at=time.time() - 60.0, namespace=cluster.namespace)
            assert post(door, token, message_json(alert)) == httpx.codes.OK
        wanted = granted(one for one in rights(cluster, settings) if one["kind"] in ROLES)
        until_ticks(cluster, operator)
        assert [one for one in proxy.asked if one.status in REFUSED] == []
        assert used(proxy) == wanted


EDITOR, VIEWER = "erin", "vera"


def may(cluster: Cluster, who: str, verb: str, resource: str, *, name: str = "", namespace: str = "") -> bool:
    """Whether the API server would let somebody do something, in the test's namespace unless another is named."""
    group, _, plural = resource.rpartition("/") if resource.startswith(("apps", "specloop")) else ("", "", resource)
    plural, _, part = plural.partition(":")
    attributes = {"group": group, "resource": plural, "subresource": part, "verb": verb, "name": name}
    spec = {"user": who, "resourceAttributes": {**attributes, "namespace": namespace or cluster.namespace}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    with cluster.control_plane.client() as http:
        answer = http.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json=body)
    return bool(answer.raise_for_status().json()["status"]["allowed"])


def bind(cluster: Cluster, role: str, who: str) -> None:
    """Give somebody a role in the test's namespace."""
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": who}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": who}}
    cluster.apply({**binding, "roleRef": ref, "subjects": [subject]})


def test_nobody_has_more_rights_than_the_table_of_the_threat_model_says(cluster: Cluster) -> None:
    """Asked of the API server's own authoriser: people write policies and no status, the operator the other way."""
    for one in rendered(cluster):
        if one["kind"] in ("ClusterRole", "Role", "RoleBinding", "ServiceAccount"):
            cluster.apply(one)
    bind(cluster, f"specloop:{cluster.namespace}:editor", EDITOR)
    bind(cluster, f"specloop:{cluster.namespace}:viewer", VIEWER)
    operator = f"system:serviceaccount:{cluster.namespace}:specloop"
    policies, status = "specloop.dev/specpolicies", "specloop.dev/specpolicies:status"
    cluster.until(lambda: may(cluster, EDITOR, "create", policies), "roles in force")
    cluster.until(lambda: may(cluster, operator, "list", policies), "roles in force")

    assert all(may(cluster, EDITOR, verb, policies) for verb in ("get", "create", "update", "patch", "delete"))
    assert not any(may(cluster, EDITOR, verb, status) for verb in ("update", "patch"))
    assert not may(cluster, EDITOR, "get", "secrets", name="specloop-live")
    assert not may(cluster, EDITOR, "patch", "apps/deployments")
    assert may(cluster, VIEWER, "get", policies)
    assert not any(may(cluster, VIEWER, verb, policies) for verb in ("create", "update", "patch", "delete"))

    assert may(cluster, operator, "patch", status)
    assert not any(may(cluster, operator, verb, policies) for verb in ("create", "update", "patch", "delete"))
    assert may(cluster, operator, "get", "secrets", name="specloop-live")
    assert not any(may(cluster, operator, "get", "secrets", name=name) for name in ("", "other", ".."))
    assert not any(may(cluster, operator, verb, "secrets", name="specloop-live") for verb in ("list", "watch", "patch"))
    assert not any(may(cluster, operator, verb, "pods") for verb in ("create", "patch", "get"))
    assert not any(may(cluster, operator, "create", f"pods:{part}") for part in ("exec", "portforward", "proxy"))
    assert not any(may(cluster, operator, verb, "apps/deployments") for verb in ("create", "update", "delete"))
    for resource in (policies, status, "apps/deployments", "secrets", "pods"):
        assert not any(
            may(cluster, operator, verb, resource, namespace="kube-system")
            for verb in ("get", "list", "patch", "delete")
        )
