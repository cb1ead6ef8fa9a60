"""Alerts from the shipped rules: a Prometheus that looks at them every second and tells an Alertmanager."""

import signal
from pathlib import Path

import httpx
import yaml

from tests.support.cluster.alertmanager import Alertmanager
from tests.support.cluster.operator import CHART
from tests.support.cluster.scraping import Monitor

RULES = CHART / "files" / "rules" / "specloop.yaml"


def hurried(rules: Path) -> str:
    """The rules word for word, but for `for`: what has to be so for minutes has to be so for a second."""
    document = yaml.safe_load(rules.read_text())
    for group in document["groups"]:
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = "1s"
    return yaml.safe_dump(document)


def alert_by(monitor: Monitor, alertmanager: Alertmanager) -> None:
    """Let a running Prometheus look at the shipped rules, in a hurry, and tell of what fires."""
    (monitor.folder / "rules.yml").write_text(hurried(RULES))
    file = monitor.folder / "prometheus.yml"
    configuration = yaml.safe_load(file.read_text())
    configuration["global"]["evaluation_interval"] = "1s"
    configuration["rule_files"] = ["rules.yml"]
    target = {"targets": [f"127.0.0.1:{alertmanager.port}"]}
    configuration["alerting"] = {"alertmanagers": [{"static_configs": [target]}]}
    file.write_text(yaml.safe_dump(configuration))
    monitor.process.send_signal(signal.SIGHUP)
    monitor.cluster.until(lambda: _groups(monitor), "the rules in Prometheus")


def _groups(monitor: Monitor) -> bool:
    answer = httpx.get(f"http://127.0.0.1:{monitor.port}/api/v1/rules", trust_env=False)
    return bool(answer.raise_for_status().json()["data"]["groups"])
