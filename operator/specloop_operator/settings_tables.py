"""The tables of docs/reference/operator.md, made from the settings."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from specloop_operator.door_settings import LeaseSettings, TlsSettings, WebhookSettings, WebhookTlsSettings
from specloop_operator.settings import PREFIX, OperatorSettings
from specloop_operator.source_settings import BasicAuthSettings, Part, PodsSettings, PrometheusSourceSettings

SECTIONS: tuple[tuple[str, type[Part]], ...] = (
    ("All settings", OperatorSettings),
    ("`tls`", TlsSettings),
    ("`lease`", LeaseSettings),
    ("`webhook`", WebhookSettings),
    ("`webhook.tls`", WebhookTlsSettings),
    ("`sources.NAME` with `type: pods`", PodsSettings),
    ("`sources.NAME` with `type: prometheus`", PrometheusSourceSettings),
    ("`sources.NAME.basicAuth`", BasicAuthSettings),
)

KINDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "list of texts",
    "object": "mapping",
}

Schema = Mapping[str, Any]


def settings_tables() -> str:
    """Every setting with what it may be and what it means, section by section."""
    return "\n\n".join(_section(title, part) for title, part in SECTIONS)


def _section(title: str, part: type[Part]) -> str:
    schema = part.model_json_schema()
    rows = [_row(part, name, field, schema) for name, field in schema["properties"].items()]
    head = ["| field | allowed | meaning |", "|---|---|---|"]
    return "\n".join([f"## {title}", "", part.__doc__ or "", "", *head, *rows])


def _row(part: type[Part], name: str, field: Schema, schema: Schema) -> str:
    required = " Required." if name in schema.get("required", ()) else ""
    variable = f" `{PREFIX}{_snake(name)}`." if part is OperatorSettings else ""
    cells = (f"`{name}`", ", ".join(_allowed(field)), f"{field['description']}{required}{variable}")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _allowed(field: Schema) -> Iterator[str]:
    """What a value may be, its bounds included."""
    one = next((kind for kind in field.get("anyOf", ()) if kind.get("type") != "null"), field)
    if "const" in one or "enum" in one:
        yield from (f"`{value}`" for value in one.get("enum", [one.get("const")]))
        return
    yield KINDS[one.get("type", "object")]
    low, high = one.get("minimum"), one.get("maximum")
    if "exclusiveMinimum" in one:
        yield f"above {one['exclusiveMinimum']:g} and up to {high:g}"
    elif low is not None:
        yield f"{low:g} to {high}" if isinstance(high, int) else f"{low:g} to {high:g}"


def _snake(name: str) -> str:
    return re.sub("([A-Z])", r"_\1", name).upper()
