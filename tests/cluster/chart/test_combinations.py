"""Whatever is chosen, the parts fit: what one object names is there in another, and the operator takes its settings."""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from specloop_operator.settings import load_settings
from tests.cluster.chart.conftest import NAMESPACE, Chart
from tests.support.cluster.chart_values import Values, pairwise, rows

Manifests = Sequence[Mapping[str, Any]]

ROWS = list(rows("llm"))
GIVEN_SECRETS = {"prometheus", "webhook-token", "webhook-tls", "operator-tls"}
"""Those that the combinations name, which their users make."""


def test_every_two_options_meet() -> None:
    """Of columns of 2, 3 and 2 options: 2 × 3 + 2 × 2 + 3 × 2 = 16 pairs, in no fewer than 3 × 2 rows."""
    found = pairwise([2, 3, 2])
    pairs = {(one, other, row[one], row[other]) for row in found for one in range(3) for other in range(one + 1, 3)}
    assert len(pairs) == 16
    assert 6 <= len(found) < 2 * 3 * 2


@pytest.mark.parametrize("values", ROWS, ids=map(str, range(len(ROWS))))
def test_the_parts_of_a_release_fit(chart: Chart, values: Values, tmp_path: Path) -> None:
    manifests = chart.render(**values)
    check_names(manifests)
    check_selectors(manifests)
    check_ports(manifests)
    check_settings(manifests, tmp_path)


@pytest.mark.parametrize("like", ["2024", "true", "null"])
@pytest.mark.parametrize("everywhere", [True, False], ids=["all that may be", "the release and its namespace"])
def test_names_that_look_like_something_else_stay_texts(chart: Chart, like: str, everywhere: bool) -> None:
    """What is rendered differs from what is rendered with a plain word in this word alone."""
    word = "a-plain-word"
    plain, found = (
        comparable(chart.released(one, one).render(**(named_everywhere(one) if everywhere else {})))
        for one in (word, like)
    )
    assert found == replaced(plain, word, like)
    assert json.dumps(found).count(f'"{like}"') > 20


def named_everywhere(name: str) -> Values:
    """Values in which every name and text is this one that may be."""
    on = {"enabled": True, "labels": {name: name}}
    selector, peer = {"matchLabels": {name: name}}, {"namespaceSelector": {"matchLabels": {name: name}}}
    return {
        "image": name,
        "imagePullSecrets": [{"name": name}],
        "namespaces": [name],
        "settings": {"sources": {name: {"type": "pods", "tokenFile": name}}},
        "volumes": [{"name": name, "secret": {"secretName": name}}],
        "volumeMounts": [{"name": name, "mountPath": name}],
        "live": {"tokenSecrets": [name], "createTokenSecrets": True},
        "webhook": {
            "enabled": True,
            "tokenSecret": {"name": name, "key": name},
            "tls": {"secretName": name, "clientCa": True},
        },
        "metrics": {"tlsSecret": name},
        "monitoring": {
            "rules": on,
            "operatorMonitor": on,
            "engineMonitor": {**on, "selector": selector, "port": name, "namespaces": [name]},
            "dashboard": on,
        },
        "networkPolicies": {
            "enabled": True,
            "metricsFrom": [peer],
            "webhookFrom": [peer],
            "prometheus": {"to": [peer]},
            "engines": {"enabled": True, "podSelector": selector, "from": [peer]},
        },
        "priorityClassName": name,
        "nodeSelector": {name: name},
        "tolerations": [{"key": name, "operator": "Equal", "value": name}],
        "podLabels": {name: name},
        "podAnnotations": {name: name},
    }


def replaced(part: Any, old: str, new: str) -> Any:
    """The same with another word in all texts."""
    if isinstance(part, dict):
        return {replaced(key, old, new): replaced(value, old, new) for key, value in part.items()}
    if isinstance(part, list):
        return [replaced(one, old, new) for one in part]
    return part.replace(old, new) if isinstance(part, str) else part


def comparable(manifests: Manifests) -> list[Any]:
    """With settings as they are read, and without their digest and the tokens, which chance makes."""
    found: list[Any] = deepcopy(list(manifests))
    for one in found:
        match one:
            case {"kind": "ConfigMap", "data": {"settings.yaml": text}}:
                one["data"] = yaml.safe_load(text)
            case {"kind": "Deployment"}:
                del one["spec"]["template"]["metadata"]["annotations"]["checksum/settings"]
            case {"kind": "Secret"}:
                del one["data"]
            case _:
                pass
    return found


def check_names(manifests: Manifests) -> None:
    """No object twice; roles, accounts, ConfigMaps and Secrets that are named are there."""
    names = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in manifests]
    assert len(names) == len(set(names))
    for binding in (one for one in manifests if one["kind"].endswith("Binding")):
        namespace, role = binding["metadata"].get("namespace"), binding["roleRef"]
        assert (role["kind"], namespace, role["name"]) in names
        [subject] = binding["subjects"]
        assert ("ServiceAccount", subject["namespace"], subject["name"]) in names
    pod = of(manifests, "Deployment")["spec"]["template"]["spec"]
    assert ("ServiceAccount", NAMESPACE, pod["serviceAccountName"]) in names
    for kind, name in parts(pod):
        assert name in GIVEN_SECRETS if kind == "secret" else ("ConfigMap", NAMESPACE, name) in names
    [container] = pod["containers"]
    mounted = [mount["name"] for mount in container["volumeMounts"]]
    assert sorted(mounted) == sorted(volume["name"] for volume in pod["volumes"])


def parts(pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Kinds and names of what a pod's volumes are made of."""
    for volume in pod["volumes"]:
        for source in volume.get("projected", {}).get("sources", [volume]):
            for kind in source.keys() & {"secret", "configMap"}:
                yield kind, source[kind].get("name") or source[kind]["secretName"]


def check_selectors(manifests: Manifests) -> None:
    """All that selects the operator's pods does, and not the pod of `helm test`."""
    labels = of(manifests, "Deployment")["spec"]["template"]["metadata"]["labels"].items()
    test = of(manifests, "Pod")["metadata"]["labels"].items()
    found = [selector for one in manifests for selector in selectors(one)]
    assert len(found) >= 3
    for selector in found:
        assert selector.items() <= labels
        assert not selector.items() <= test


def selectors(one: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    """How an object selects the operator's pods or its Service, which has the same labels."""
    spec = one.get("spec", {})
    match one["kind"]:
        case "Service":
            yield spec["selector"]
        case "Deployment":
            yield spec["selector"]["matchLabels"]
            for spread in spec["template"]["spec"]["topologySpreadConstraints"]:
                yield spread["labelSelector"]["matchLabels"]
        case "PodDisruptionBudget" | "ServiceMonitor":
            yield spec["selector"]["matchLabels"]
        case "NetworkPolicy" if one["metadata"]["name"] == "specloop":
            yield spec["podSelector"]["matchLabels"]
        case "NetworkPolicy" if one["metadata"]["name"] == "specloop-test":
            yield spec["egress"][-1]["to"][0]["podSelector"]["matchLabels"]
        case "NetworkPolicy":
            yield spec["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
        case _:
            pass


def check_ports(manifests: Manifests) -> None:
    """Probes, Service, monitor, network and test lead to ports that the operator listens on."""
    [container] = of(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    listens = {port["name"]: port["containerPort"] for port in container["ports"]}
    service = of(manifests, "Service")["spec"]["ports"]
    assert {port["name"]: port["port"] for port in service} == listens
    assert all(port["targetPort"] == port["name"] for port in service)
    named = [container[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")]
    named += [end for one in manifests if one["kind"] == "ServiceMonitor" for end in one["spec"]["endpoints"]]
    for one in named:
        assert one["port"] in listens
        assert one["scheme"].lower() == one["port"]
    [port] = listens.keys() - {"webhook"}
    asked = of(manifests, "Pod")["spec"]["containers"][0]["args"]
    assert asked == [f"{port}://specloop.{NAMESPACE}.svc:{listens[port]}/readyz"]
    for one in manifests:
        if (one["kind"], one["metadata"]["name"]) == ("NetworkPolicy", "specloop"):
            admitted = [port["port"] for rule in one["spec"]["ingress"] for port in rule["ports"]]
            assert sorted(admitted) == sorted(listens.values())


def check_settings(manifests: Manifests, folder: Path) -> None:
    """The operator reads them, and every file that they name is mounted."""
    text = next(one for one in manifests if one["kind"] == "ConfigMap" and one["metadata"]["name"] == "specloop")
    file = folder / "settings.yaml"
    file.write_text(text["data"]["settings.yaml"])
    assert load_settings(file, {}).lease is not None
    [settings] = [
        one for one in of(manifests, "Deployment")["spec"]["template"]["spec"]["volumes"] if "projected" in one
    ]
    sources = [source["secret"]["items"] for source in settings["projected"]["sources"] if "secret" in source]
    own = {f"/etc/specloop/{item['path']}" for items in sources for item in items}
    assert {name for name in files(yaml.safe_load(file.read_text())) if name.startswith("/etc/specloop/")} == own


def files(settings: Any) -> Iterator[str]:
    """The values of all fields that name a file."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from files(value)
        elif name.endswith("File"):
            yield value


def of(manifests: Manifests, kind: str) -> Mapping[str, Any]:
    """The only object of a kind."""
    [only] = [one for one in manifests if one["kind"] == kind]
    return only
