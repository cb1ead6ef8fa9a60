"""The chart's schema of the settings is made from them, and is no stricter than they are."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from specloop_operator.settings import OperatorSettings
from specloop_operator.settings_schema import OF_THE_CHART, settings_schema
from specloop_operator.source_settings import BasicAuthSettings, Part, PodsSettings, PrometheusSourceSettings

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "specloop" / "values.schema.json"
FIELDS = settings_schema()["properties"]
PODS, PROMETHEUS = next(iter(FIELDS["sources"]["patternProperties"].values()))["oneOf"]


def test_the_charts_schema_is_what_the_settings_say() -> None:
    """When this fails: `make docs`."""
    text = CHART.read_text(encoding="utf-8")
    assert json.loads(text)["properties"]["settings"] == settings_schema()
    assert runpy.run_path(str(ROOT / "scripts" / "generate_docs"))["values_schema"](text) == text


@pytest.mark.parametrize(
    ("schema", "part"),
    [
        ({"properties": FIELDS, "additionalProperties": False}, OperatorSettings),
        (PODS, PodsSettings),
        (PROMETHEUS, PrometheusSourceSettings),
        (PROMETHEUS["properties"]["basicAuth"], BasicAuthSettings),
    ],
    ids=["all", "pods", "prometheus", "basicAuth"],
)
def test_it_has_every_field_with_its_words_and_no_other(schema: Any, part: type[Part]) -> None:
    """And the same are required."""
    described = {name: field["description"] for name, field in schema["properties"].items() if field}
    left_out = OF_THE_CHART if part is OperatorSettings else ()
    fields = {str(field.alias): field for field in part.model_fields.values() if field.alias not in left_out}
    assert described == {name: field.description for name, field in fields.items()}
    assert schema["additionalProperties"] is False
    assert schema.get("required", []) == [name for name, field in fields.items() if field.is_required()]


def test_what_the_chart_has_values_of_its_own_for_is_refused() -> None:
    assert {name for name, field in FIELDS.items() if field is False} == set(OF_THE_CHART)


def test_what_may_be_nothing_may_be_nothing_there() -> None:
    """As YAML has it where nothing follows the name."""
    OperatorSettings.model_validate({"sources": {"default": {"type": "pods", "port": None}}})
    assert PODS["properties"]["port"]["type"] == ["integer", "null"]
