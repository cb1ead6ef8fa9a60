"""The shipped rules and dashboard on a Prometheus that looks at the rules every second and tells an Alertmanager."""

import math
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.support.cluster.alertmanager import Alertmanager
from tests.support.cluster.operator import CHART
from tests.support.cluster.release import HERE
from tests.support.cluster.scraping import Monitor
from tests.unit.monitoring.shipped import dashboard, filled, panels

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
    pods = [{"targets": [one], "labels": {"namespace": HERE, "pod": one}} for one in operators]
    own = {"job_name": "specloop", "honor_labels": True, "static_configs": pods}
    configuration["scrape_configs"].append(own)
    target = {"targets": [f"127.0.0.1:{alertmanager.port}"]}
    configuration["alerting"] = {"alertmanagers": [{"static_configs": [target]}]}
    file.write_text(yaml.safe_dump(configuration))
    monitor.process.send_signal(signal.SIGHUP)
    monitor.cluster.until(lambda: _groups(monitor), "the rules in Prometheus")


def shown(monitor: Monitor, title: str, label: str) -> dict[str, float]:
    """What a panel of the shipped dashboard shows now: the values of its first query by a label."""
    [panel] = [one for one in panels() if one["title"] == title]
    found = _asked(monitor, "query", query=filled(panel["targets"][0]["expr"]))["result"]
    return {one["metric"][label]: float(one["value"][1]) for one in found}


def panels_with_figures(monitor: Monitor, seconds: float) -> set[str]:
    """The panels of the shipped dashboard, by title, of which a query gives a number within the last seconds.

    Raises httpx.HTTPStatusError where Prometheus refuses a query.
    """
    queries = {panel["title"]: [target["expr"] for target in panel["targets"]] for panel in panels()}
    found = {title: [_has_figures(monitor, one, seconds) for one in each] for title, each in queries.items()}
    return {title for title, each in found.items() if any(each)}


def annotations_with_figures(monitor: Monitor, seconds: float) -> set[str]:
    """The same of annotations, by name."""
    queries = {one["name"]: one["expr"] for one in dashboard()["annotations"]["list"] if "expr" in one}
    return {name for name, query in queries.items() if _has_figures(monitor, query, seconds)}


def _has_figures(monitor: Monitor, query: str, seconds: float) -> bool:
    now = time.time()
    span = {"start": f"{now - seconds:.3f}", "end": f"{now:.3f}", "step": "1"}
    found = _asked(monitor, "query_range", query=filled(query), **span)["result"]
    return any(math.isfinite(float(value)) for series in found for _, value in series["values"])


def _groups(monitor: Monitor) -> bool:
    return bool(_asked(monitor, "rules")["groups"])


def _asked(monitor: Monitor, path: str, **parameters: str) -> Any:
    """The data of an answer."""
    url = f"http://127.0.0.1:{monitor.port}/api/v1/{path}"
    return httpx.get(url, params=parameters, timeout=30.0, trust_env=False).raise_for_status().json()["data"]
