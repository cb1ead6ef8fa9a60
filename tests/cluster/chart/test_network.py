"""NetworkPolicies let through what the operator needs, and to the engines' port whom their owner names."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster.chart.conftest import NAMESPACE, Chart

PEER = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
LLAMA = {"matchLabels": {"app": "llama"}}
OPERATOR = {"app.kubernetes.io/name": "specloop", "app.kubernetes.io/instance": "specloop"}


def policies(chart: Chart, **values: Any) -> Mapping[tuple[str, str], Any]:
    """The specs of all NetworkPolicies, by namespace and name."""
    found = (one for one in chart.render(**values) if one["kind"] == "NetworkPolicy")
    return {(one["metadata"]["namespace"], one["metadata"]["name"]): one["spec"] for one in found}


def own(chart: Chart, policy: Mapping[str, Any], **values: Any) -> Any:
    """The operator's own policy."""
    return policies(chart, networkPolicies={"enabled": True, **policy}, **values)[NAMESPACE, "specloop"]


def ports(rule: Mapping[str, Any]) -> Sequence[int]:
    """The ports of a rule."""
    return [port["port"] for port in rule["ports"]]


def test_there_are_none_unless_they_are_wished_for(chart: Chart) -> None:
    assert not policies(chart)


def test_by_default_anybody_may_scrape_and_nobody_else_comes_in(chart: Chart) -> None:
    """A rule without peers is for all."""
    [rule] = own(chart, {})["ingress"]
    assert (ports(rule), "from" in rule) == ([8080], False)


def test_whoever_may_scrape_is_named_and_the_chart_s_own_test_goes_on(chart: Chart) -> None:
    [rule] = own(chart, {"metricsFrom": [PEER]})["ingress"]
    [peer, test] = rule["from"]
    assert peer == PEER
    assert test["podSelector"]["matchLabels"].items() <= chart.one("Pod", "specloop-test")["metadata"]["labels"].items()


def test_alerts_come_from_who_is_named(chart: Chart) -> None:
    webhook = {"enabled": True, "tokenSecret": {"name": "token"}}
    [_, rule] = own(chart, {"webhookFrom": [PEER]}, webhook=webhook)["ingress"]
    assert (ports(rule), rule["from"]) == ([8443], [PEER])


def test_the_operator_reaches_names_the_api_server_and_engines_of_all_namespaces(chart: Chart) -> None:
    """Both ends are limited: what has no rule of a direction that is named is shut."""
    policy = own(chart, {})
    dns, server, engines = policy["egress"]
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    assert names(dns)
    assert (ports(server), "to" in server) == ([443, 6443], False)
    assert (ports(engines), engines["to"]) == ([8000, 8080], [{"namespaceSelector": {}}])


def names(rule: Mapping[str, Any]) -> bool:
    """Whether it lets names be asked for: by RFC 1035 on 53, and on 5353, where OpenShift's servers listen."""
    asked = {(port["protocol"], port["port"]) for port in rule["ports"]}
    return "to" not in rule and asked == {(protocol, port) for protocol in ("UDP", "TCP") for port in (53, 5353)}


def test_the_chart_s_own_test_reaches_the_operator_where_all_is_shut(chart: Chart) -> None:
    """And nothing else; its policy is there before its pod, and goes with it."""
    values: Mapping[str, Any] = {"networkPolicies": {"enabled": True}, "settings": {"healthPort": 9090}}
    policy, pod = chart.one("NetworkPolicy", "specloop-test", **values), chart.one("Pod", "specloop-test", **values)
    dns, operator = policy["spec"]["egress"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert (policy["spec"]["policyTypes"], policy["spec"].get("ingress", [])) == (["Ingress", "Egress"], [])
    assert names(dns)
    assert (ports(operator), operator["to"]) == ([9090], [{"podSelector": {"matchLabels": OPERATOR}}])
    said = policy["metadata"]["annotations"]
    assert (said["helm.sh/hook"], int(said["helm.sh/hook-weight"]) < 0) == ("test", True)
    assert said["helm.sh/hook-delete-policy"] == pod["metadata"]["annotations"]["helm.sh/hook-delete-policy"]


def test_what_is_known_narrows_it_down(chart: Chart) -> None:
    """The namespaces, the API server's address, the engines' ports, and a Prometheus."""
    policy = {
        "apiServer": {"cidrs": ["10.0.0.1/32"], "ports": [6443]},
        "enginePorts": [8000],
        "prometheus": {"to": [PEER], "ports": [9090]},
    }
    _, server, engines, prometheus = own(chart, policy, namespaces=["llm", "chat"])["egress"]
    assert (ports(server), server["to"]) == ([6443], [{"ipBlock": {"cidr": "10.0.0.1/32"}}])
    [peer] = engines["to"]
    [named] = peer["namespaceSelector"]["matchExpressions"]
    assert (ports(engines), named["operator"], named["values"]) == ([8000], "In", ["llm", "chat"])
    assert (ports(prometheus), prometheus["to"]) == ([9090], [PEER])


def test_the_engines_port_is_open_to_the_operator_and_to_who_is_named(chart: Chart) -> None:
    """In each namespace that is governed, whether the operator has a policy of its own or not."""
    engines = {"enabled": True, "podSelector": LLAMA, "from": [PEER]}
    found = policies(chart, namespaces=["llm", "chat"], networkPolicies={"engines": engines, "enginePorts": [8000]})
    assert found.keys() == {("llm", "specloop-engines"), ("chat", "specloop-engines")}
    for policy in found.values():
        [rule] = policy["ingress"]
        assert (policy["podSelector"], policy["policyTypes"], ports(rule)) == (LLAMA, ["Ingress"], [8000])
        assert rule["from"] == [
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
                "podSelector": {"matchLabels": OPERATOR},
            },
            PEER,
        ]
