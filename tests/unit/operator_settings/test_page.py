"""The reference page of the settings is made from them."""

import re
import runpy
from pathlib import Path

import pytest

from specloop_operator.settings import load_settings
from specloop_operator.settings_tables import SECTIONS, settings_tables
from specloop_operator.source_settings import Part, PrometheusSourceSettings

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "reference" / "operator.md").read_text(encoding="utf-8")


def test_the_page_is_what_the_settings_say() -> None:
    """When this fails: `make docs`."""
    assert runpy.run_path(str(ROOT / "scripts" / "generate_docs"))["pages"]()["operator.md"] == PAGE


@pytest.mark.parametrize("part", [part for _, part in SECTIONS])
def test_every_field_is_described_on_the_page(part: type[Part]) -> None:
    for name, field in part.model_fields.items():
        assert field.description, name
        assert f"| `{field.alias}` |" in settings_tables()
        assert field.description.replace("|", "\\|") in PAGE


def test_the_example_on_the_page_is_read(tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert found
    (tmp_path / "settings.yaml").write_text(found[1], encoding="utf-8")
    settings = load_settings(tmp_path / "settings.yaml", {})
    assert isinstance(settings.sources["default"], PrometheusSourceSettings)
    assert set(settings.sources) == {"default", "direct"}
