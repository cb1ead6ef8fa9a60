"""The files of monitoring as they are shipped, and the queries in them."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
RULES = ROOT / "charts" / "specloop" / "files" / "rules" / "specloop.yaml"
DASHBOARD = ROOT / "charts" / "specloop" / "files" / "dashboards" / "specloop.json"
RUNBOOKS = ROOT / "docs" / "runbooks"
PAGE = ROOT / "docs" / "monitoring.md"

VARIABLES = {
    "$__rate_interval": "5m",
    "$__interval": "1m",
    "$namespace": ".*",
    "$policy": ".*",
    "$model": ".*",
    "$temperature": "0.6",
}
"""What Grafana puts in place of its variables: everything, where there is a choice."""


def groups() -> Any:
    """The groups of the rule file."""
    return yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]


def rules() -> list[dict[str, Any]]:
    """Every rule, in order."""
    return [rule for group in groups() for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    """The alerts by name."""
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def recorded() -> dict[str, str]:
    """The recording rules: name and query."""
    return {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}


def dashboard() -> Any:
    """The dashboard."""
    return json.loads(DASHBOARD.read_text(encoding="utf-8"))


def panels() -> list[dict[str, Any]]:
    """The panels that show something."""
    return [one for one in dashboard()["panels"] if one["type"] != "row"]


def dashboard_queries() -> Iterator[tuple[str, str]]:
    """Where a query of the dashboard is, and the query with its variables filled in."""
    shown = dashboard()
    for panel in panels():
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", filled(target["expr"])
    for one in shown["annotations"]["list"]:
        if "expr" in one:
            yield f"annotation {one['name']}", filled(one["expr"])


def variable_queries() -> Iterator[tuple[str, str, str]]:
    """Of each variable that asks Prometheus: its name, the selector that it asks for, and the label."""
    for one in dashboard()["templating"]["list"]:
        if one["type"] == "query":
            found = re.fullmatch(r"label_values\((.+), (\w+)\)", one["query"]["query"])
            assert found, one
            yield one["name"], filled(found[1]), found[2]


def filled(query: str, values: Mapping[str, str] = VARIABLES) -> str:
    """A query of the dashboard as Prometheus gets it."""
    for name in sorted(values, key=len, reverse=True):
        query = query.replace(name, values[name])
    assert "$" not in query, query
    return query
