"""The reference page is made from the models."""

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_reference_page_is_what_the_models_say() -> None:
    """When this fails: `make docs`."""
    page = runpy.run_path(str(ROOT / "scripts" / "generate_docs"))["page"]()
    assert page == (ROOT / "docs" / "reference" / "specpolicy.md").read_text(encoding="utf-8")
