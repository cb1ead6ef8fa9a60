"""Monitors, alerts and dashboards are those that the chart carries, found by the labels that are given."""

from typing import Any

import pytest
import yaml

from tests.cluster.chart.conftest import CHART, NAMESPACE, Chart

LABELS = {"release": "kube-prometheus-stack"}
ON = {"enabled": True, "labels": LABELS}
MONITORS = {"PrometheusRule", "ServiceMonitor", "PodMonitor"}


def monitoring(chart: Chart, kind: str, name: str = "specloop", more: Any = None, **parts: Any) -> Any:
    """An object of these parts of the value `monitoring`, which carries the labels."""
    found = chart.one(kind, name, monitoring=parts, **(more or {}))
    assert found["metadata"]["labels"].items() >= LABELS.items()
    return found


def test_there_are_none_unless_they_are_wished_for(chart: Chart) -> None:
    """A cluster without prometheus-operator would refuse them."""
    assert not MONITORS & {one["kind"] for one in chart.render()}


def test_alerts_are_those_of_the_rules_file_word_for_word(chart: Chart) -> None:
    """Their own templates are not the chart's."""
    rules = yaml.safe_load((CHART / "files" / "rules" / "specloop.yaml").read_text(encoding="utf-8"))
    assert monitoring(chart, "PrometheusRule", rules=ON)["spec"] == rules


def test_links_of_alerts_lead_where_they_are_told_to(chart: Chart) -> None:
    """Each to the page that is called as the alert."""
    spec = monitoring(chart, "PrometheusRule", rules={**ON, "runbookUrl": "https://wiki.example.com/llm"})["spec"]
    alerts = [rule for group in spec["groups"] for rule in group["rules"] if "alert" in rule]
    assert alerts
    assert [one["annotations"]["runbook_url"] for one in alerts] == [
        f"https://wiki.example.com/llm/{one['alert']}" for one in alerts
    ]


def test_the_operators_namespace_labels_stay_as_it_says(chart: Chart) -> None:
    """A policy's namespace is another than the pod's, and would become `exported_namespace`."""
    [endpoint] = monitoring(chart, "ServiceMonitor", operatorMonitor=ON)["spec"]["endpoints"]
    assert endpoint == {"port": "http", "scheme": "http", "path": "/metrics", "honorLabels": True}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"ca": {"secret": {"name": "tls", "key": "ca.crt"}}, "serverName": f"specloop.{NAMESPACE}.svc"}),
        ({"insecureSkipVerify": True}, {"insecureSkipVerify": True}),
    ],
    ids=["by the Secret", "as told"],
)
def test_metrics_over_https_are_trusted_by_their_secret_or_as_told(chart: Chart, given: Any, expected: Any) -> None:
    monitor = monitoring(
        chart, "ServiceMonitor", more={"metrics": {"tlsSecret": "tls"}}, operatorMonitor={**ON, "tlsConfig": given}
    )
    [endpoint] = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["scheme"], endpoint["tlsConfig"]) == ("https", "https", expected)


@pytest.mark.parametrize(
    ("scope", "named", "where"),
    [
        ([], [], {"any": True}),
        (["llm"], [], {"matchNames": ["llm"]}),
        (["llm"], ["chat"], {"matchNames": ["chat"]}),
    ],
    ids=["all", "the operator's", "others"],
)
def test_engines_are_scraped_where_they_are(chart: Chart, scope: Any, named: Any, where: Any) -> None:
    selector = {"matchLabels": {"app": "llama"}}
    own = {**ON, "selector": selector, "port": "metrics", "namespaces": named}
    monitor = monitoring(chart, "PodMonitor", "specloop-engines", more={"namespaces": scope}, engineMonitor=own)
    assert monitor["spec"] == {
        "selector": selector,
        "namespaceSelector": where,
        "podMetricsEndpoints": [{"port": "metrics", "path": "/metrics"}],
    }


def test_dashboards_are_the_files_that_the_chart_carries(chart: Chart) -> None:
    """One key a file, byte for byte, with the label that Grafana's sidecar looks for."""
    files = {one.name: one.read_text(encoding="utf-8") for one in (CHART / "files" / "dashboards").glob("*.json")}
    found = monitoring(chart, "ConfigMap", "specloop-dashboards", dashboard=ON)
    assert found["data"] == files
    assert files
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
