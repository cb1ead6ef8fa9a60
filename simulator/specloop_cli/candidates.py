"""Values that a wrong field of a policy may have meant."""

from collections.abc import Mapping
from typing import Any

from specloop_cli.tree import ABSENT, get
from specloop_cli.wording import Flaw, schema_at
from specloop_cli.yaml_file import Where

VALID: Mapping[str, Any] = {
    "acceptance": {"belowPercent": 40},
    "coverage": {"belowPercent": 40},
    "gain": {"belowPercent": 0},
    "kvCache": {"abovePercent": 90},
    "running": {"above": 1},
    "when": {"running": {"above": 1}},
}
"""Valid values of parts whose schema alone does not say what is valid."""


def candidates(where: Where, flaw: Flaw | None, data: Any) -> list[Any]:
    """Values that a wrong field may have meant, the first one of them harmless."""
    last = where[-1] if where else ""
    value = get(data, where)
    if last in VALID:
        return [VALID[str(last)]]
    if flaw is not None and flaw.kind == "value_error" and isinstance(value, dict) and "when" in value:
        return [{**value, "when": VALID["when"]}]
    names = _names(data)
    if last in ("drafters", "levels", "rules"):
        drafters = [{"name": name, "method": "mtp"} for name in names[:16]]
        return [ABSENT, drafters] if last == "drafters" and drafters else [ABSENT]
    if last in ("name", "level", "drafter"):
        return [_unused(where, names), "disabled", *names]
    if isinstance(last, int):
        return [_sample(schema_at(where), name) for name in (_unused(where, names), "disabled", *names)]
    return _samples(schema_at(where), _unused(where, names))


def _unused(where: Where, names: list[str]) -> str:
    """A name that differs from field to field and from every name in the policy."""
    place = "-".join(str(key) for key in where if isinstance(key, int)) or "0"
    return next(name for n in range(len(names) + 1) if (name := f"unnamed-{place}-{n}") not in names)


def _names(data: Any) -> list[str]:
    """Every text that names a level or a drafter somewhere in the policy."""
    found: dict[str, None] = {}

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            found.update(
                (inner, None)
                for key, inner in value.items()
                if key in ("name", "level", "drafter") and isinstance(inner, str)
            )
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            collect(inner)

    if isinstance(data, dict):
        collect(data.get("spec"))
    return list(found)[:64]


def _samples(schema: Mapping[str, Any], name: str) -> list[Any]:
    """Valid values of a schema, all of them where they are few."""
    if "enum" in schema:
        return list(schema["enum"])
    if schema.get("type") == "integer":
        low, high = schema["minimum"], schema["maximum"]
        return list(range(low, high + 1)) if high - low < 16 else [schema.get("default", low), low, high]
    if schema.get("type") == "boolean":
        return [False, True]
    return [_sample(schema, name)]


def _sample(schema: Mapping[str, Any], name: str) -> Any:
    """A valid list, mapping or text of a schema, called `name` where it has a name."""
    if schema.get("type") == "array":
        return []
    if "additionalProperties" in schema:
        return {"label": "value"}
    if schema.get("type") == "object":
        required = {field: schema["properties"][field] for field in schema.get("required", ())}
        return {field: VALID.get(field) or _samples(inner, name)[0] for field, inner in required.items()}
    return "0.6" if schema.get("maxLength") == 3 else name
