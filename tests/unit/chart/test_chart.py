"""The chart installs the shipped definition and an operator with the given settings, and refuses what it cannot use."""

import json
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.chart.conftest import CHART, Chart, Refused

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
        "ConfigMap": 1,
        "Deployment": 1,
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
    assert not names & {("CustomResourceDefinition", CRD), ("ClusterRole", "specloop-editor")}
    assert ("ClusterRole", "specloop") in names


def test_settings_reach_the_operator_as_they_are(chart: Chart) -> None:
    given = {"sources": {"default": {"type": "pods", "maxBytes": 16_777_216}}, "logFormat": "json"}
    assert settings(chart, settings=given) == given | {"namespaces": []}
    assert "maxBytes: 16777216\n" in chart.one("ConfigMap", settings=given)["data"]["settings.yaml"]


def test_the_operator_is_told_the_namespaces_of_its_roles(chart: Chart) -> None:
    assert settings(chart, namespaces=["llm", "chat"]) == {"namespaces": ["llm", "chat"]}


def test_the_operator_reads_its_settings_from_the_mounted_file(chart: Chart) -> None:
    deployment = chart.one("Deployment")
    only = container(deployment)
    assert only["command"] + only["args"] == [
        *("python", "-m", "specloop_operator"),
        *("--config", "/etc/specloop/settings.yaml"),
    ]
    assert only["volumeMounts"] == [{"name": "settings", "mountPath": "/etc/specloop", "readOnly": True}]
    assert deployment["spec"]["template"]["spec"]["volumes"] == [
        {"name": "settings", "configMap": {"name": chart.one("ConfigMap")["metadata"]["name"]}}
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
    assert account == chart.one("ClusterRoleBinding")["subjects"][0]["name"]


def test_two_operators_never_run_at_once(chart: Chart) -> None:
    spec = chart.one("Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_the_operator_runs_with_nothing_that_it_could_abuse(chart: Chart) -> None:
    """The restricted level of the Pod Security Standards, and a root filesystem that cannot be written."""
    deployment = chart.one("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"] > 0) == (True, True)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(deployment)["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize(("given", "port"), [({}, 8080), ({"healthPort": 9090}, 9090)])
def test_probes_ask_the_port_that_the_operator_listens_on(chart: Chart, given: Mapping[str, int], port: int) -> None:
    only = container(chart.one("Deployment", settings=given))
    assert only["ports"] == [{"name": "http", "containerPort": port}]
    assert only["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert only["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}


def test_the_image_is_the_given_one_or_that_of_the_chart(chart: Chart) -> None:
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert container(chart.one("Deployment"))["image"] == f"specloop:{version}"
    assert container(chart.one("Deployment", image="registry.example/loop@sha256:0"))["image"].endswith("@sha256:0")


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("replicas", 2),
        ("image", {"repository": "specloop"}),
        ("namespaces", "llm"),
        ("namespaces", ["llm-*"]),
        ("namespaces", ["llm", "llm"]),
        ("settings", []),
        ("settings", {"namespaces": ["llm"]}),
        ("settings", {"healthPort": "8080"}),
        ("settings", {"healthPort": 80}),
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


def test_the_schema_knows_every_value() -> None:
    known = json.loads((CHART / "values.schema.json").read_text())["properties"].keys()
    assert known - {"global"} == yaml.safe_load((CHART / "values.yaml").read_text()).keys()
