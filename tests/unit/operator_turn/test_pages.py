"""The pages on conditions and on precedence are made from the code."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", ["conditions.md", "precedence.md"])
def test_a_reference_page_is_what_the_code_says(name: str) -> None:
    """When this fails: `make docs`."""
    pages = runpy.run_path(str(ROOT / "scripts" / "generate_docs"))["pages"]()
    assert pages[name] == (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
