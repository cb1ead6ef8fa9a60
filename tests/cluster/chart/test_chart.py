"""The chart installs the shipped definition and an operator with the given settings, and refuses what it cannot use."""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from specloop_operator.settings_schema import OF_THE_CHART
from tests.cluster.chart.conftest import CHART, NAMESPACE, Chart, Refused

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "crds" / "specpolicies.specloop.dev.yaml"
CRD = "specpolicies.specloop.dev"


def container(deployment: Mapping[str, Any]) -> Any:
    """The only container of its pods."""
    (only,) = deployment["spec"]["template"]["spec"]["containers"]
    return only


def settings(chart: Chart, **values: Any) -> Any:
    """The content of settings.yaml."""
    return yaml.safe_load(chart.one("ConfigMap", **values)["data"]["settings.yaml"])


def test_helm_finds_no_fault_with_it(chart: Chart) -> None:
    assert "0 chart(s) failed" in chart.lint()


def test_it_carries_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    described = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (described["version"], described["appVersion"]) == (version, version)


def test_by_default_it_holds_these_objects(chart: Chart) -> None:
    assert Counter(one["kind"] for one in chart.render()) == {
        "CustomResourceDefinition": 1,
        "ServiceAccount": 1,
        "ClusterRole": 3,
        "ClusterRoleBinding": 1,
        "Role": 1,
        "RoleBinding": 1,
        "ConfigMap": 1,
        "Deployment": 1,
        "PodDisruptionBudget": 1,
        "Service": 1,
        "Pod": 1,
    }


def test_its_copy_of_the_definition_is_the_shipped_one() -> None:
    """A chart takes no files from outside its folder."""
    assert (CHART / "files" / SHIPPED.name).read_text() == SHIPPED.read_text()


def test_the_definition_outlives_the_release_and_is_otherwise_the_shipped_one(chart: Chart) -> None:
    rendered = chart.one("CustomResourceDefinition", CRD)
    assert rendered["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert rendered == yaml.safe_load(SHIPPED.read_text())


def test_parts_can_be_left_out(chart: Chart) -> None:
    manifests = chart.render(crds={"install": False}, peopleRoles={"install": False})
    names = {(one["kind"], one["metadata"]["name"]) for one in manifests}
    assert not names & {("CustomResourceDefinition", CRD), ("ClusterRole", f"specloop:{NAMESPACE}:editor")}
    assert ("ClusterRole", f"specloop:{NAMESPACE}") in names


def test_settings_reach_the_operator_as_they_are(chart: Chart) -> None:
    given = {"sources": {"default": {"type": "pods", "maxBytes": 16_777_216}}, "logFormat": "json"}
    assert settings(chart, settings=given).items() >= given.items()
    assert "maxBytes: 16777216\n" in chart.one("ConfigMap", settings=given)["data"]["settings.yaml"]


def test_the_settings_that_the_reference_shows_are_taken(chart: Chart) -> None:
    """But for those that the chart has values of its own for."""
    page = (ROOT / "docs" / "reference" / "operator.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    given = {name: value for name, value in yaml.safe_load(shown).items() if name not in OF_THE_CHART}
    assert given.keys() >= {"sources", "logLevel"}
    assert settings(chart, settings=given).items() >= given.items()


def test_the_operator_is_told_what_its_roles_are_for(chart: Chart) -> None:
    """The namespaces, the kinds of target, and the Lease by which operators take turns."""
    assert settings(chart, namespaces=["llm", "chat"], targetKinds=["StatefulSet"]) == {
        "namespaces": ["llm", "chat"],
        "targetKinds": ["StatefulSet"],
        "lease": {"namespace": NAMESPACE, "name": "specloop"},
    }


def test_the_operator_reads_its_settings_from_the_mounted_file(chart: Chart) -> None:
    deployment = chart.one("Deployment")
    only = container(deployment)
    assert only["command"] + only["args"] == [
        *("python", "-m", "specloop_operator"),
        *("--config", "/etc/specloop/settings.yaml"),
    ]
    assert only["volumeMounts"] == [{"name": "settings", "mountPath": "/etc/specloop", "readOnly": True}]
    config = {"configMap": {"name": chart.one("ConfigMap")["metadata"]["name"]}}
    assert deployment["spec"]["template"]["spec"]["volumes"] == [
        {"name": "settings", "projected": {"sources": [config]}}
    ]


def test_changed_settings_make_a_new_pod(chart: Chart) -> None:
    plain, json_logs = (
        chart.one("Deployment", settings={"logFormat": form})["spec"]["template"]["metadata"]["annotations"]
        for form in ("text", "json")
    )
    assert plain != json_logs


def test_files_that_settings_name_are_mounted_beside_them(chart: Chart) -> None:
    volume = {"name": "token", "secret": {"secretName": "prometheus"}}
    mount = {"name": "token", "mountPath": "/etc/prometheus"}
    deployment = chart.one("Deployment", volumes=[volume], volumeMounts=[mount])
    assert volume in deployment["spec"]["template"]["spec"]["volumes"]
    assert mount in container(deployment)["volumeMounts"]


def test_the_operator_runs_as_the_account_that_its_roles_are_bound_to(chart: Chart) -> None:
    account = chart.one("Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    assert account == chart.one("ServiceAccount")["metadata"]["name"]
    assert account == chart.one("ClusterRoleBinding", f"specloop:{NAMESPACE}")["subjects"][0]["name"]


def test_a_new_operator_is_there_before_an_old_one_goes(chart: Chart) -> None:
    """Ready is also who does not lead, or an upgrade would wait for ever for a lease that the old one holds."""
    spec = chart.one("Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (
        2,
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
    )


@pytest.mark.parametrize(("replicas", "budgets"), [(0, 0), (1, 0), (2, 1), (5, 1)])
def test_drains_leave_one_operator_where_there_are_several(chart: Chart, replicas: int, budgets: int) -> None:
    """A single one must be let go, or its node could never be drained."""
    found = [one for one in chart.render(replicas=replicas) if one["kind"] == "PodDisruptionBudget"]
    assert [one["spec"]["minAvailable"] for one in found] == [1] * budgets


def test_operators_are_spread_over_nodes_where_that_is_possible(chart: Chart) -> None:
    """One node is enough all the same."""
    [spread] = chart.one("Deployment")["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")


def test_pods_go_where_they_are_sent(chart: Chart) -> None:
    """With the words that every chart has."""
    given: dict[str, Any] = {
        "imagePullSecrets": [{"name": "registry"}],
        "priorityClassName": "high",
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
    }
    pod = chart.one("Deployment", **given)["spec"]["template"]["spec"]
    assert {name: pod[name] for name in given} == given


def test_pods_carry_further_labels_and_annotations_beside_their_own(chart: Chart) -> None:
    """Those that tell the operator's pods from others cannot be taken away."""
    own = {"app.kubernetes.io/name": "specloop", "team": "inference"}
    deployment = chart.one(
        "Deployment",
        podLabels={"app.kubernetes.io/name": "other", "team": "inference"},
        podAnnotations={"checksum/settings": "none", "note": "one"},
    )
    metadata = deployment["spec"]["template"]["metadata"]
    assert metadata["labels"].items() >= own.items()
    assert metadata["annotations"]["note"] == "one"
    assert metadata["annotations"]["checksum/settings"] != "none"


def test_the_operator_runs_with_nothing_that_it_could_abuse(chart: Chart) -> None:
    """The restricted level of the Pod Security Standards, and a root filesystem that cannot be written.

    No user is named: OpenShift's restricted-v2 refuses those outside the namespace's own range.
    """
    deployment = chart.one("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container(deployment)["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize(("given", "port"), [({}, 8080), ({"healthPort": 9090}, 9090)])
def test_probes_ask_the_port_that_the_operator_listens_on(chart: Chart, given: Mapping[str, int], port: int) -> None:
    only = container(chart.one("Deployment", settings=given))
    assert only["ports"] == [{"name": "http", "containerPort": port}]
    assert only["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http", "scheme": "HTTP"}
    assert only["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http", "scheme": "HTTP"}


def test_the_image_is_the_given_one_or_that_of_the_chart(chart: Chart) -> None:
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert container(chart.one("Deployment"))["image"] == f"specloop:{version}"
    assert container(chart.one("Deployment", image="registry.example/loop@sha256:0"))["image"].endswith("@sha256:0")


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("replicas", "2"),
        ("replicas", -1),
        ("targetKinds", []),
        ("targetKinds", ["DaemonSet"]),
        ("image", {"repository": "specloop"}),
        ("namespaces", "llm"),
        ("namespaces", ["llm-*"]),
        ("namespaces", ["llm", "llm"]),
        ("settings", []),
        ("settings", {"namespaces": ["llm"]}),
        ("settings", {"logLevl": "info"}),
        ("settings", {"logLevel": "loud"}),
        ("settings", {"maxConcurrentRollouts": 0}),
        ("settings", {"sources": {"Default": {"type": "pods"}}}),
        ("settings", {"sources": {"default": {"type": "pods", "serverNam": "vllm"}}}),
        ("settings", {"sources": {"default": {"type": "prometheus"}}}),
        ("settings", {"sources": {"default": {"type": "prometheus", "url": "http://prometheus", "headers": {"a": 1}}}}),
        ("settings", {"healthPort": "8080"}),
        ("settings", {"healthPort": 80}),
        ("settings", {"lease": {"name": "mine"}}),
        ("settings", {"webhook": {}}),
        ("settings", {"tls": {}}),
        ("settings", {"targetKinds": []}),
        ("live", {"createTokenSecret": True}),
        ("webhook", {"enabled": True, "tokenSecret": "token"}),
        ("webhook", {"port": 443}),
        ("metrics", {"tls": "secret"}),
        ("monitoring", {"rules": True}),
        ("monitoring", {"engineMonitor": {"selector": {"app": "llama"}}}),
        ("networkPolicies", {"metricsFrom": [{}]}),
        ("networkPolicies", {"metricsFrom": [{"podSelector": {"app": "prometheus"}}]}),
        ("networkPolicies", {"metricsFrom": [{"ipBlock": {"cidr": "10.0.0.0/8", "but": []}}]}),
        ("networkPolicies", {"apiServer": {"cidrs": ["10.0.0.1"]}}),
        ("podLabels", {"version": 1}),
        ("volumes", [{"secret": {}}]),
        ("volumeMounts", [{"name": "token"}]),
        ("resources", "small"),
        ("crds", {"instal": True}),
        ("crds", {"install": "no"}),
        ("peopleRoles", False),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(chart: Chart, value: str, wrong: Any) -> None:
    with pytest.raises(Refused, match=f"'/?{value}"):
        chart.render(**{value: wrong})


def test_the_schema_knows_every_value_and_says_what_it_is() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    known = {path: described for path, described in described_values(schema, schema) if path != ("global",)}
    assert known.keys() == set(paths(yaml.safe_load((CHART / "values.yaml").read_text())))
    assert [path for path, described in known.items() if not described] == []


FREE_OBJECTS = {
    "global": "values of the chart that this one is a part of, which are not this one's",
    "volumes[]": "a pod's volume",
    "volumeMounts[]": "a container's mount",
    "monitoring.operatorMonitor.tlsConfig": "a ServiceMonitor's",
    "resources": "a container's",
    "tolerations[]": "a pod's",
    "affinity": "a pod's",
}
"""Objects whose fields are not ours, and whose; the API server knows them."""


def test_a_field_that_no_value_has_is_refused_wherever_it_stands() -> None:
    """Every object is closed, or a map to what is checked, but for those of Kubernetes."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    found = dict(objects(schema, schema))
    assert len(found) > 30
    assert {path for path, one in found.items() if one.get("additionalProperties", True) is True} == FREE_OBJECTS.keys()


def objects(part: Any, schema: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every object of a schema with its path."""
    if not isinstance(part, dict):
        return
    if "$ref" in part:
        part = {**schema["definitions"][part["$ref"].rpartition("/")[2]], **part}
    if "object" in part.get("type", ()) or "properties" in part:
        yield path, part
    for name, inner in {**part.get("properties", {}), **part.get("patternProperties", {})}.items():
        yield from objects(inner, schema, f"{path}.{name}".lstrip("."))
    for number, inner in enumerate(part.get("oneOf", ())):
        yield from objects(inner, schema, f"{path}({number})")
    yield from objects(part.get("items"), schema, f"{path}[]")
    yield from objects(part.get("additionalProperties"), schema, f"{path}{{}}")


FREE = {"settings", "labels", "resources", "affinity", "nodeSelector", "podLabels", "podAnnotations", "tlsConfig"}
"""Values whose fields are their authors' own."""


def described_values(part: Any, schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Every value of a schema by its path, and whether there are words about it."""
    if "$ref" in part:
        part = {**schema["definitions"][part["$ref"].rpartition("/")[2]], **part}
    if path:
        yield path, "description" in part
    if path and (path[-1] in FREE or path[-1].lower().endswith("selector")):
        return
    for name, inner in part.get("properties", {}).items():
        yield from described_values(inner, schema, (*path, name))


def paths(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every value by its path."""
    for name, value in values.items():
        yield (*path, name)
        if isinstance(value, dict) and name not in FREE:
            yield from paths(value, (*path, name))
