"""The schema of the settings as the chart's values hold them, so that Helm refuses what new pods would end on.

What fields decide together is in no schema: the operator says it when it starts.
"""

from collections.abc import Mapping
from typing import Any

from specloop_operator.settings import OperatorSettings

OF_THE_CHART = ("namespaces", "targetKinds", "lease", "tls", "webhook")
"""Fields for which the chart has values of its own."""
LEAST_PORT = 1024
"""Below it a container needs a capability, and has none."""
NOTHING = {"type": "null"}
FIRST = ("type", "description")
"""In the order that a reader wants."""
LEFT_OUT = {"$defs", "title", "default", "discriminator"}
"""What draft 7 does not know, and what Helm does not use."""
DESCRIPTION = (
    "The operator's settings, as in docs/reference/operator.md, but for those that the chart has values of its own for."
)

Schema = dict[str, Any]


def settings_schema() -> Schema:
    """The schema in draft 7, without references."""
    found = OperatorSettings.model_json_schema()
    fields = _plain(found, found["$defs"])["properties"]
    fields["healthPort"]["minimum"] = LEAST_PORT
    return {
        "type": "object",
        "description": DESCRIPTION,
        "additionalProperties": False,
        "properties": {name: field if name not in OF_THE_CHART else False for name, field in fields.items()},
    }


def _plain(part: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """A piece of a schema, with what it refers to in its place, and closed."""
    one = _resolved(part, definitions)
    result = {key: one[key] for key in (*FIRST, *one) if key in one and key not in LEFT_OUT}
    for key in ("properties", "patternProperties"):
        if key in one:
            result[key] = {name: _plain(field, definitions) for name, field in one[key].items()}
            result["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if isinstance(one.get(key), dict):
            result[key] = _plain(one[key], definitions)
    if "oneOf" in one:
        result["oneOf"] = [_plain(other, definitions) for other in one["oneOf"]]
    return result


def _resolved(part: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Without a reference and without an alternative to nothing; what stands beside them wins."""
    beside = {key: value for key, value in part.items() if key not in ("$ref", "anyOf")}
    if "$ref" in part:
        return {**definitions[part["$ref"].rpartition("/")[2]], **beside}
    if "anyOf" in part:
        (other,) = (one for one in part["anyOf"] if one != NOTHING)
        resolved = _resolved(other, definitions)
        return {**resolved, "type": [resolved["type"], "null"], **beside}
    return part
