"""Every alert says what it means, of whom, and where to read on; names are as Prometheus' users expect them."""

import re

import pytest

from tests.unit.monitoring.shipped import alerts, groups, recorded, rules

ALERTS = alerts()
SEVERITIES = {"warning", "critical"}
RECORDED_NAME = re.compile(r"specloop:(?:pod|model|siblings)_[a-z_]+:[a-z]+(?:\d+[mh])?")
"""level:metric:operations, with the house's name before the level."""


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_all_that_somebody_needs_who_is_woken_by_it(name: str) -> None:
    """A summary without figures, so that alerts group by it; value or names, and the first thing to do, are below."""
    rule = ALERTS[name]
    shown = rule["annotations"]
    assert rule["labels"].keys() == {"severity"}
    assert rule["labels"]["severity"] in SEVERITIES
    assert shown.keys() == {"summary", "description", "runbook_url"}
    assert "{{" not in shown["summary"]
    assert "$labels.namespace" in shown["description"]
    assert " First: " in shown["description"]
    assert shown["description"].endswith(".")
    assert shown["runbook_url"] == f"https://specloop.dev/runbooks/{name}"


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_waits_for_at_least_four_scrapes_of_half_a_minute(name: str) -> None:
    """One look is no evidence."""
    found = re.fullmatch(r"(\d+)m", ALERTS[name]["for"])
    assert found
    assert int(found[1]) >= 2


def test_names_are_taken_once() -> None:
    names = [rule.get("record") or rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    assert len({group["name"] for group in groups()}) == len(groups())


@pytest.mark.parametrize("name", recorded())
def test_recorded_series_are_named_by_level_metric_and_operations(name: str) -> None:
    assert RECORDED_NAME.fullmatch(name)


@pytest.mark.parametrize("name", ALERTS)
def test_names_say_whom_an_alert_is_about(name: str) -> None:
    assert re.fullmatch(r"Spec(?:Decode|Loop)[A-Z][A-Za-z]+", name)
