"""The page about monitoring and the runbooks say what the rules say."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from specloop_policy.model import AlertActionType, SpecPolicySpec
from tests.unit.monitoring.known import SCRAPED, all_series
from tests.unit.monitoring.promql import read
from tests.unit.monitoring.shipped import PAGE, RUNBOOKS, alerts, recorded

HEADINGS = (
    "What it means",
    "How to see it",
    "Likely causes, and their mend",
    "What SpecLoop does",
    "How to silence it honestly",
)
PAGES = {path.stem: path for path in sorted(RUNBOOKS.glob("*.md"))}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama-70b"}


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def queries(name: str) -> list[str]:
    """The queries of a runbook, one a line."""
    return [line for block in blocks(PAGES[name].read_text(), "promql") for line in block.splitlines()]


def test_the_table_of_alerts_is_that_of_the_rules() -> None:
    expected = [
        f"| [{name}](runbooks/{name}.md) | {rule['labels']['severity']} | {rule['for']} "
        f"| {rule['annotations']['summary']} |"
        for name, rule in alerts().items()
    ]
    assert re.findall(r"^\| \[Spec.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE) == expected


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert PAGES.keys() == alerts().keys()


@pytest.mark.parametrize("name", PAGES)
def test_a_runbook_has_every_part(name: str) -> None:
    text = PAGES[name].read_text(encoding="utf-8")
    assert text.startswith(f"# {name}\n")
    assert tuple(re.findall(r"^## (.*)$", text, re.MULTILINE)) == HEADINGS
    causes = text.partition("|---|---|\n")[2].partition("\n\n")[0].splitlines()
    assert len(causes) >= 2
    assert queries(name)


@pytest.mark.parametrize("name", PAGES)
def test_a_runbook_asks_for_series_that_exist(name: str, tmp_path: Path) -> None:
    known = all_series(tmp_path).keys() | recorded().keys() | {"up", "process_start_time_seconds"}
    for query in queries(name):
        assert read(query).names
        assert read(query).names <= known


@pytest.mark.parametrize("name", PAGES)
def test_a_runbook_silences_its_own_alert_for_a_time_and_says_why(name: str) -> None:
    (command,) = re.findall(r"^amtool silence add (.*)$", PAGES[name].read_text(), re.MULTILINE)
    assert command.startswith(f"alertname={name} ")
    assert re.search(r"--duration=\d+[hd] --comment='[^']+'$", command)


@pytest.mark.parametrize("name", PAGES)
def test_a_runbooks_binding_is_one_that_a_policy_takes(name: str) -> None:
    """Where it says none, it says why not."""
    text = PAGES[name].read_text(encoding="utf-8")
    found = blocks(text, "yaml")
    if not found:
        assert "binding" in text
        return
    (one,) = found
    given: dict[str, Any] = yaml.safe_load(one)["spec"]
    (binding,) = SpecPolicySpec.model_validate_json(json.dumps({"targetRef": TARGET, **given})).alerts
    assert binding.match["alertname"] == name
    assert binding.action.type in AlertActionType


def test_the_page_names_every_label_that_a_scrape_must_add() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert {"namespace", "pod"} <= SCRAPED
    assert all(f"| `{label}` |" in text for label in ("namespace", "pod", "model_name"))
