"""The operator may do what it needs and nothing else; people may edit policies where they may edit workloads."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.cluster.chart.conftest import NAMESPACE, Chart

IN_A_NAMESPACE = {
    ("specloop.dev", "specpolicies"): {"get", "list", "watch"},
    ("specloop.dev", "specpolicies/status"): {"patch"},
    ("apps", "deployments"): {"list", "watch", "patch"},
    ("apps", "statefulsets"): {"list", "watch", "patch"},
    ("apps", "replicasets"): {"list"},
    ("apps", "controllerrevisions"): {"list"},
    ("", "pods"): {"list", "watch", "delete"},
    ("events.k8s.io", "events"): {"create"},
    ("", "secrets"): {"get"},
}
"""All that the operator may do there; a change of this list is a change of what users grant it."""
OF_ITS_OWN = {("coordination.k8s.io", "leases"): {"create", "get", "update"}}
"""What it may do in the release's namespace beside that."""
OF_A_KIND = {
    "Deployment": {("apps", "deployments"), ("apps", "replicasets")},
    "StatefulSet": {("apps", "statefulsets"), ("apps", "controllerrevisions")},
}
"""Resources of one kind of target alone."""
OPERATOR = {"kind": "ServiceAccount", "name": "specloop", "namespace": NAMESPACE}
OF_THE_CLUSTER = f"specloop:{NAMESPACE}"
"""What is in no namespace is called so."""


def granted(role: Mapping[str, Any]) -> Mapping[tuple[str, str], set[str]]:
    """Verbs by API group and resource, of rules with nothing but these three; what is named is named one by one."""
    keys = {"apiGroups", "resources", "verbs"}
    found: dict[tuple[str, str], set[str]] = {}
    for rule in role["rules"]:
        secret, lease = (
            rule["resources"] == ["secrets"],
            rule["resources"] == ["leases"] and rule["verbs"] != ["create"],
        )
        assert rule.keys() == keys | ({"resourceNames"} if secret or lease else set())
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault((group, resource), set()).update(rule["verbs"])
    return found


def of_kind(kind: str, manifests: Sequence[Mapping[str, Any]]) -> Mapping[str | None, Mapping[str, Any]]:
    """The manifests of a kind by their namespace, but for those of the lease."""
    found = [one for one in manifests if one["kind"] == kind and not one["metadata"]["name"].endswith("-lease")]
    return {one["metadata"].get("namespace"): one for one in found}


def test_the_operator_of_a_cluster_may_do_exactly_what_the_list_says(chart: Chart) -> None:
    assert granted(chart.one("ClusterRole", OF_THE_CLUSTER)) == IN_A_NAMESPACE


def test_the_operator_of_some_namespaces_may_do_the_same_there_and_nothing_elsewhere(chart: Chart) -> None:
    manifests = chart.render(namespaces=["llm", "chat"], peopleRoles={"install": False})
    roles = of_kind("Role", manifests)
    assert {namespace: granted(role) for namespace, role in roles.items()} == dict.fromkeys(
        ("llm", "chat"), IN_A_NAMESPACE
    )
    assert not of_kind("ClusterRole", manifests)
    assert not of_kind("ClusterRoleBinding", manifests)


@pytest.mark.parametrize("scope", [{}, {"namespaces": ["llm"]}], ids=["cluster", "namespace"])
def test_the_lease_is_in_the_releases_own_namespace_and_no_other_can_be_changed(
    chart: Chart, scope: Mapping[str, Any]
) -> None:
    role, binding = chart.one("Role", "specloop-lease", **scope), chart.one("RoleBinding", "specloop-lease", **scope)
    assert {role["metadata"]["namespace"], binding["metadata"]["namespace"]} == {NAMESPACE}
    assert granted(role) == OF_ITS_OWN
    assert [rule.get("resourceNames") for rule in role["rules"]] == [None, ["specloop"]]
    assert (binding["roleRef"]["name"], binding["subjects"]) == ("specloop-lease", [OPERATOR])


@pytest.mark.parametrize("kind", OF_A_KIND)
def test_kinds_that_are_not_governed_are_not_granted(chart: Chart, kind: str) -> None:
    """Pods are deleted for StatefulSets alone, whose broken ones block a way back."""
    other = OF_A_KIND[next(one for one in OF_A_KIND if one != kind)]
    wanted = {what: verbs for what, verbs in IN_A_NAMESPACE.items() if what not in other}
    if kind == "Deployment":
        wanted["", "pods"] = {"list", "watch"}
    assert granted(chart.one("ClusterRole", OF_THE_CLUSTER, targetKinds=[kind])) == wanted


@pytest.mark.parametrize(("named", "readable"), [(["specloop-live"], True), (["one", "two"], True), ([], False)])
def test_secrets_are_read_by_name_alone(chart: Chart, named: Sequence[str], readable: bool) -> None:
    """And none where none is named."""
    manifests = chart.render(live={"tokenSecrets": named}, peopleRoles={"install": False})
    rules = of_kind("ClusterRole", manifests)[None]["rules"]
    found = [rule["resourceNames"] for rule in rules if "secrets" in rule["resources"]]
    assert found == ([named] if readable else [])


def test_the_cluster_role_is_bound_to_the_operator_alone(chart: Chart) -> None:
    binding = chart.one("ClusterRoleBinding", OF_THE_CLUSTER)
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("ClusterRole", OF_THE_CLUSTER)
    assert binding["subjects"] == [OPERATOR]


@pytest.mark.parametrize("scope", [{}, {"namespaces": ["llm"]}], ids=["cluster", "namespace"])
def test_two_releases_of_one_name_share_nothing_but_the_definition(chart: Chart, scope: Mapping[str, Any]) -> None:
    """Helm refuses what another release owns; what else renders the chart overwrites it, and takes the rights away."""
    found = [chart.released("specloop", namespace).render(**scope) for namespace in ("east", "west")]
    east, west = ({named(one) for one in manifests if not of_a_namespace(one)} for manifests in found)
    assert len(east) == len(west) == (3 if scope else 5)
    assert east & west == {("CustomResourceDefinition", "specpolicies.specloop.dev")}


def named(one: Mapping[str, Any]) -> tuple[str, str]:
    """Its kind and its name."""
    return one["kind"], one["metadata"]["name"]


def of_a_namespace(one: Mapping[str, Any]) -> bool:
    """Whether it is in one."""
    return "namespace" in one["metadata"]


def test_each_role_is_bound_in_its_namespace_to_the_operator_in_its_own(chart: Chart) -> None:
    bindings = of_kind("RoleBinding", chart.render(namespaces=["llm", "chat"]))
    assert bindings.keys() == {"llm", "chat"}
    for binding in bindings.values():
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("Role", "specloop")
        assert binding["subjects"] == [OPERATOR]


@pytest.mark.parametrize(
    ("name", "joins", "verbs"),
    [
        ("editor", "edit", {"get", "list", "watch", "create", "update", "patch", "delete"}),
        ("viewer", "view", {"get", "list", "watch"}),
    ],
)
def test_people_get_policies_with_the_role_that_they_have(chart: Chart, name: str, joins: str, verbs: set[str]) -> None:
    """`admin` includes `edit`, which includes `view`; so a viewer's role must not carry an editor's verbs."""
    role = chart.one("ClusterRole", f"{OF_THE_CLUSTER}:{name}")
    labels = {label for label in role["metadata"]["labels"] if label.startswith("rbac.")}
    assert labels == {f"rbac.authorization.k8s.io/aggregate-to-{joins}"}
    assert granted(role) == {("specloop.dev", "specpolicies"): verbs}


def test_no_rule_has_a_wildcard(chart: Chart) -> None:
    roles = [one for one in chart.render() if one["kind"] in ("ClusterRole", "Role")]
    assert len(roles) == 4
    assert not [rule for role in roles for rule in role["rules"] for words in rule.values() if "*" in "".join(words)]
