"""Alerts come in by a Service, over HTTPS where there is a certificate, and never from everybody."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from tests.cluster.chart.conftest import Chart, Refused

TOKEN = {"tokenSecret": {"name": "token"}}
TLS = {"tls": {"secretName": "tls"}}
CLIENTS = {"tls": {"secretName": "tls", "clientCa": True}}
PROMETHEUS = {"type": "prometheus", "url": "http://prometheus.monitoring:9090"}
FILES = {"certificateFile": "/etc/specloop/webhook/tls.crt", "keyFile": "/etc/specloop/webhook/tls.key"}


def webhook(chart: Chart, **values: Any) -> Any:
    """What the operator is told of it."""
    config = chart.one("ConfigMap", webhook={"enabled": True, **values})
    return yaml.safe_load(config["data"]["settings.yaml"])["webhook"]


def test_there_is_none_unless_it_is_wished_for(chart: Chart) -> None:
    config = yaml.safe_load(chart.one("ConfigMap", webhook=TOKEN)["data"]["settings.yaml"])
    assert "webhook" not in config
    assert [port["name"] for port in chart.one("Service", webhook=TOKEN)["spec"]["ports"]] == ["http"]


@pytest.mark.parametrize(
    ("given", "doors"),
    [
        (TOKEN, {"tokenFile": "/etc/specloop/webhook/token"}),
        (TOKEN | TLS, {"tokenFile": "/etc/specloop/webhook/token", "tls": FILES}),
        (CLIENTS, {"tls": FILES | {"clientCaFile": "/etc/specloop/webhook/ca.crt"}}),
    ],
    ids=["token", "token over HTTPS", "client certificate"],
)
def test_the_operator_is_told_where_tokens_and_certificates_are(
    chart: Chart, given: Mapping[str, Any], doors: Mapping[str, Any]
) -> None:
    where = {"port": 8443, "namespaceLabel": "namespace", "podLabel": "pod"}
    assert webhook(chart, **given) == {**where, **doors}


def test_labels_that_alerts_carry_reach_the_operator(chart: Chart) -> None:
    found = webhook(chart, **TOKEN, namespaceLabel="kubernetes_namespace", podLabel="kubernetes_pod_name")
    assert (found["namespaceLabel"], found["podLabel"]) == ("kubernetes_namespace", "kubernetes_pod_name")


@pytest.mark.parametrize(("given", "protocol"), [(TOKEN, "http"), (CLIENTS, "https")])
def test_the_service_says_what_its_port_speaks(chart: Chart, given: Mapping[str, Any], protocol: str) -> None:
    [_, port] = chart.one("Service", webhook={"enabled": True, "port": 9443, **given})["spec"]["ports"]
    assert (port["port"], port["appProtocol"]) == (9443, protocol)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"webhook": {"enabled": True}},
            "webhook.enabled needs webhook.tokenSecret.name or webhook.tls.clientCa, or anybody could post alerts",
        ),
        ({"webhook": {"enabled": True, **TLS}}, "or anybody could post alerts"),
        (
            {"webhook": {"tls": {"clientCa": True}}},
            "webhook.tls.clientCa needs webhook.tls.secretName: the Secret with tls.crt, tls.key and the ca.crt",
        ),
        ({"webhook": {"enabled": True, "port": 8080, **TOKEN}}, "webhook.port and settings.healthPort must differ"),
        ({"live": {"createTokenSecrets": True}}, "live.createTokenSecrets needs namespaces"),
        (
            {"networkPolicies": {"enabled": True}, "webhook": {"enabled": True, **TOKEN}},
            "networkPolicies.webhookFrom must name who may post alerts",
        ),
        (
            {"networkPolicies": {"enabled": True}, "settings": {"sources": {"main": PROMETHEUS}}},
            "networkPolicies.prometheus.to must name the Prometheus of settings.sources.main",
        ),
        (
            {"networkPolicies": {"engines": {"enabled": True, "podSelector": {"matchLabels": {"app": "llama"}}}}},
            "networkPolicies.engines.enabled needs namespaces",
        ),
        (
            {"namespaces": ["llm"], "networkPolicies": {"engines": {"enabled": True}}},
            "networkPolicies.engines.podSelector must say which pods are engines",
        ),
        (
            {"monitoring": {"engineMonitor": {"enabled": True}}},
            "monitoring.engineMonitor.selector must say which pods are engines",
        ),
    ],
)
def test_values_that_do_not_go_together_are_refused_in_one_sentence(
    chart: Chart, values: Mapping[str, Any], said: str
) -> None:
    with pytest.raises(Refused) as refused:
        chart.render(**values)
    assert said in str(refused.value)
