"""The shipped rules and dashboard on a Prometheus that looks at the rules every second and tells an Alertmanager."""

import signal
from collections.abc import Sequence
from pathlib import Path

import httpx
import yaml

from tests.support.cluster.alertmanager import Alertmanager
from tests.support.cluster.operator import CHART
from tests.support.cluster.scraping import Monitor
from tests.unit.monitoring.shipped import filled, panels

RULES = CHART / "files" / "rules" / "specloop.yaml"


def hurried(rules: Path) -> str:
    """The rules word for word, but for `for`: what has to be so for minutes has to be so for a second."""
    document = yaml.safe_load(rules.read_text())
    for group in document["groups"]:
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = "1s"
    return yaml.safe_dump(document)


def alert_by(monitor: Monitor, alertmanager: Alertmanager, operators: Sequence[str]) -> None:
    """Let a running Prometheus scrape operators too, look at the shipped rules, in a hurry, and tell of what fires."""
    (monitor.folder / "rules.yml").write_text(hurried(RULES))
    file = monitor.folder / "prometheus.yml"
    configuration = yaml.safe_load(file.read_text())
    configuration["global"]["evaluation_interval"] = "1s"
    configuration["rule_files"] = ["rules.yml"]
    own = {"job_name": "specloop", "honor_labels": True, "static_configs": [{"targets": list(operators)}]}
    configuration["scrape_configs"].append(own)
    target = {"targets": [f"127.0.0.1:{alertmanager.port}"]}
    configuration["alerting"] = {"alertmanagers": [{"static_configs": [target]}]}
    file.write_text(yaml.safe_dump(configuration))
    monitor.process.send_signal(signal.SIGHUP)
    monitor.cluster.until(lambda: _groups(monitor), "the rules in Prometheus")


def shown(monitor: Monitor, title: str, label: str) -> dict[str, float]:
    """What a panel of the shipped dashboard shows now: the values of its first query by a label."""
    [panel] = [one for one in panels() if one["title"] == title]
    query = filled(panel["targets"][0]["expr"])
    answer = httpx.get(f"http://127.0.0.1:{monitor.port}/api/v1/query", params={"query": query}, trust_env=False)
    found = answer.raise_for_status().json()["data"]["result"]
    return {one["metric"][label]: float(one["value"][1]) for one in found}


def _groups(monitor: Monitor) -> bool:
    answer = httpx.get(f"http://127.0.0.1:{monitor.port}/api/v1/rules", trust_env=False)
    return bool(answer.raise_for_status().json()["data"]["groups"])
