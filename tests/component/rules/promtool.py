"""Cases of alerts, and promtool, which plays them."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.monitoring.promql import read
from tests.unit.monitoring.shipped import alerts, groups

NEVER = {"expr": "vector(0) > 1"}

Labels = Mapping[str, str]
Input = Mapping[str, str]
"""Series by what they are called, with one value a scrape, in promtool's words: `0+5x30` begins at 0 and adds 5 thirty
times, `_` is a scrape that found nothing."""


@dataclass(frozen=True)
class Case:
    """What Prometheus has scraped, and what of one alert fires at a time."""

    name: str
    alert: str
    series: Input
    fires: Sequence[Labels] = ()
    """The alert's labels beside its severity, of each that fires; empty: silent."""
    says: str = ""
    """The description of each, word for word."""
    at: str = "30m"
    every: str = "1m"
    """How often Prometheus scrapes, and looks at the rules: seldom where days go by."""
    pending: bool = False
    """Whether its condition holds all the same, for too short a time to fire."""


def binary() -> str:
    """The program; where there is none, tests are skipped, or fail if they are required."""
    found = shutil.which("promtool")
    if found is None:
        reason = "no promtool: install the package prometheus"
        if os.environ.get("SPECLOOP_REQUIRE_ENGINES"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What promtool says, all of it on standard output."""
    command = [binary(), *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def document(case: Case, rule_file: Path) -> dict[str, Any]:
    """A case as a file of promtool's."""
    rule = alerts()[case.alert]
    shown = {**rule["annotations"], "description": case.says}
    expected = [{"exp_labels": {**rule["labels"], **one}, "exp_annotations": shown} for one in case.fires]
    checks: dict[str, Any] = {
        "alert_rule_test": [{"eval_time": case.at, "alertname": case.alert, "exp_alerts": expected}],
    }
    if case.pending:
        query = f'count(ALERTS{{alertname="{case.alert}", alertstate="pending"}})'
        one = [{"labels": "{}", "value": 1}]
        checks["promql_expr_test"] = [{"expr": query, "eval_time": case.at, "exp_samples": one}]
    series = [{"series": name, "values": values} for name, values in case.series.items()]
    return {
        "rule_files": [str(rule_file)],
        "evaluation_interval": case.every,
        "group_eval_order": [group["name"] for group in groups()],
        "tests": [{"interval": case.every, "input_series": series, **checks}],
    }


def play(cases: Mapping[str, Case], folder: Path, rules: Any) -> dict[str, str | None]:
    """What promtool finds wrong with each case under these groups of rules, by its name; None: all is as expected.

    One process plays them all, since it takes a second to start; each case has the groups that its alert needs.
    """
    files = {alert: folder / f"{alert}.rules.yml" for alert in {one.alert for one in cases.values()}}
    for alert, path in files.items():
        path.write_text(json.dumps({"groups": needed(alert, rules)}))
    paths = {name: folder / f"{place:03}.yml" for place, name in enumerate(cases)}
    for name, case in cases.items():
        paths[name].write_text(json.dumps(document(case, files[case.alert])))
    said = run("test", "rules", *paths.values()).stdout
    found = {}
    for name, path in paths.items():
        _, heading, rest = said.partition(f"Unit Testing:  {path}\n")
        assert heading, said
        answer = rest.partition("Unit Testing:  ")[0].strip()
        found[name] = None if answer == "SUCCESS" else answer
    return found


def needed(alert: str, rules: Any) -> list[Any]:
    """The group of an alert, and those that record what it and they ask for, whole and in their order."""
    asking = [group for group in rules if any(rule.get("alert") == alert for rule in group["rules"])]
    chosen: list[Any] = []
    while asking:
        chosen += asking
        names = {name for group in asking for rule in group["rules"] for name in read(rule["expr"]).names}
        asking = [
            group
            for group in rules
            if group not in chosen and any(rule.get("record") in names for rule in group["rules"])
        ]
    return [group for group in rules if group in chosen]


def silenced() -> Any:
    """The groups of rules with alerts that never fire."""
    return [{**group, "rules": [{**rule, **NEVER} for rule in group["rules"] if "alert" in rule]} for group in groups()]
