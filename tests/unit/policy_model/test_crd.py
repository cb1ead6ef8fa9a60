"""The custom resource definition is one that an API server takes, with the models' own bounds and defaults."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from specloop_policy.crd import RULES, crd
from specloop_policy.model import SpecPolicySpec

ROOT = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama-70b"}


def schemas(schema: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every schema inside a schema, each with its path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from schemas(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from schemas(schema[key], f"{path}[]")


EVERY = [one for part in ("spec", "status") for one in schemas(ROOT["properties"][part], part)]
SPEC = [(path, schema) for path, schema in EVERY if path.startswith("spec")]


def test_it_carries_the_published_names() -> None:
    names = crd()["spec"]["names"]
    assert (names["kind"], names["plural"], names["singular"]) == ("SpecPolicy", "specpolicies", "specpolicy")
    assert names["shortNames"] == ["specpol"]
    assert "categories" not in names
    assert crd()["metadata"]["name"] == "specpolicies.specloop.dev"


def test_the_printer_columns_are_those_that_operators_look_for() -> None:
    columns = crd()["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [one["name"] for one in columns] == ["Target", "Mode", "Level", "Acceptance", "Ready", "Age"]


def test_the_status_is_a_subresource() -> None:
    assert crd()["spec"]["versions"][0]["subresources"] == {"status": {}}


@pytest.mark.parametrize("word", ["$ref", "$defs", "anyOf", "allOf", "oneOf", "exclusiveMinimum", "title", "const"])
def test_no_schema_has_a_word_that_a_structural_schema_refuses(word: str) -> None:
    assert [path for path, schema in EVERY if word in schema] == []


def test_every_schema_has_one_type() -> None:
    assert [path for path, schema in EVERY if not isinstance(schema.get("type"), str)] == []


def test_no_object_has_both_fields_and_free_keys() -> None:
    assert [path for path, schema in EVERY if "properties" in schema and "additionalProperties" in schema] == []


def test_every_field_is_described() -> None:
    fields = [(path, schema) for path, schema in EVERY if not path.endswith("[]")]
    assert [path for path, schema in fields if not schema.get("description")] == []


def test_every_number_and_list_and_text_of_the_spec_is_bounded() -> None:
    for path, schema in SPEC:
        if schema["type"] == "integer":
            assert {"minimum", "maximum"} <= set(schema), path
        if schema["type"] == "array":
            assert schema["maxItems"] == 16, path
        if schema["type"] == "string":
            assert "enum" in schema or "maxLength" in schema, path


def test_lists_are_atomic_but_for_conditions() -> None:
    kinds = {path: schema["x-kubernetes-list-type"] for path, schema in EVERY if schema["type"] == "array"}
    assert {path for path, kind in kinds.items() if kind != "atomic"} == {"status.conditions"}
    assert ROOT["properties"]["status"]["properties"]["conditions"]["x-kubernetes-list-map-keys"] == ["type"]


def test_keys_of_the_list_map_are_required() -> None:
    assert "type" in ROOT["properties"]["status"]["properties"]["conditions"]["items"]["required"]


def test_there_is_no_fraction_in_the_spec() -> None:
    assert [path for path, schema in SPEC if schema["type"] == "number"] == []


def filled_in(schema: Any, value: Any) -> Any:
    """A value with the defaults that an API server would add: only where the parent is there."""
    if schema["type"] != "object" or "properties" not in schema:
        return value
    with_defaults = dict(value)
    for name, field in schema["properties"].items():
        if name not in with_defaults and "default" in field:
            with_defaults[name] = field["default"]
        if name in with_defaults:
            with_defaults[name] = filled_in(field, with_defaults[name])
    return with_defaults


def test_an_api_server_fills_in_the_defaults_of_the_models() -> None:
    given = {"targetRef": TARGET}
    spec = SpecPolicySpec.model_validate_json(json.dumps(given))
    ours = json.loads(spec.model_dump_json(by_alias=True, exclude_none=True))
    assert filled_in(ROOT["properties"]["spec"], given) == ours


def test_no_status_field_has_a_default() -> None:
    assert [path for path, schema in EVERY if path.startswith("status") and "default" in schema] == []


def test_every_rule_has_a_message_of_one_line() -> None:
    messages = [one.message for rules in RULES.values() for one in rules]
    assert all(message and "\n" not in message for message in messages)
