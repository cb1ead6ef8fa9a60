"""The reference pages name everything that the operator shows, and are made from the code."""

import re
import runpy
from pathlib import Path

import pytest

from specloop_operator.decision_log import FIELDS
from specloop_operator.events import Reason
from specloop_operator.families import FAMILIES

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "docs" / "reference"


def first_column(name: str) -> list[str]:
    """What the table of a page is about, row by row."""
    return re.findall(r"^\| `(\w+)` \|", (REFERENCE / name).read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("name", ["metrics.md", "events.md", "logs.md"])
def test_a_reference_page_is_what_the_code_says(name: str) -> None:
    """When this fails: `make docs`."""
    pages = runpy.run_path(str(ROOT / "scripts" / "generate_docs"))["pages"]()
    assert pages[name] == (REFERENCE / name).read_text(encoding="utf-8")


def test_every_metric_family_is_on_its_page() -> None:
    """Also none that there is not."""
    assert first_column("metrics.md") == [family.name for family in FAMILIES]


def test_every_event_reason_is_on_its_page() -> None:
    """Also none that there is not."""
    assert first_column("events.md") == [reason.value for reason in Reason]


def test_every_field_of_a_decisions_line_is_on_its_page() -> None:
    """Also none that there is not."""
    assert first_column("logs.md") == list(FIELDS)
