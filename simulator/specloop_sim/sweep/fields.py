"""Fields of a policy by the path that a user writes, with what may stand there.

A path begins below the policy's `spec`; items of lists go by their name or their number:
`rules.acceptance-low.when.acceptance.belowPercent`, `rules[0].forSeconds`.
"""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

from specloop_policy.crd import crd

Schema = Mapping[str, Any]
Where = tuple[str | int, ...]
"""Path from `spec` on; list items by number."""
Value = int | str | bool

PATH = re.compile(r"[^.\[\]=]+(\.[^.\[\]=]+|\[[0-9]+\])*")


class VaryError(ValueError):
    """A parameter that a sweep cannot vary as asked; one line that says what would do."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a policy that holds a single value."""

    path: str
    """With list items by name, where they have one."""
    where: Where
    schema: Schema
    given: Value | None
    """What the policy says, or else the schema's default; None where the field is left out and has none."""

    @property
    def is_decimal(self) -> bool:
        """Whether it is a number with one decimal, in quotes."""
        return self.schema.get("maxLength") == 3


def field_at(spec: Mapping[str, Any], path: str) -> Field:
    """The field that a path names in a policy's `spec`, as plain data.  Raises VaryError naming what is there."""
    if not PATH.fullmatch(path):
        raise VaryError(f"{path!r} is no path of a field; write it like guardrails.cooldownSeconds")
    steps = re.split(r"[.\[]", path.replace("]", ""))
    walk = _Walk(spec)
    for step in steps[1:] if steps[0] == "spec" else steps:
        walk.into(step)
    return walk.field()


def with_values(spec: Mapping[str, Any], values: Mapping[Where, Value]) -> dict[str, Any]:
    """A copy of a `spec` with some fields set; parts that are not there come into being."""
    changed = deepcopy(dict(spec))
    for where, value in values.items():
        part: Any = changed
        for step in where[:-1]:
            part = part.setdefault(step, {}) if isinstance(step, str) else part[step]
        part[where[-1]] = value
    return changed


@cache
def _spec_schema() -> Schema:
    schema: Schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


class _Walk:
    """A path on its way down, through schema and data at once."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._schema: Schema = _spec_schema()
        self._data: Any = spec
        self._where: list[str | int] = []
        self._names: list[str] = []

    def into(self, step: str) -> None:
        """One step down; raises VaryError where there is none of this name."""
        if self._schema.get("type") == "array":
            self._into_item(step)
        else:
            self._into_field(step)

    def field(self) -> Field:
        """Where the path has come to; raises VaryError where that is not one value."""
        if inner := self._schema.get("properties"):
            raise VaryError(f"{self._place()} has fields of its own; name one of them: {', '.join(inner)}")
        if self._schema.get("type") not in ("integer", "string", "boolean"):
            raise VaryError(f"{self._place()} is no single value, and cannot be varied")
        given = self._schema.get("default") if self._data is None else self._data
        return Field(self._place(), tuple(self._where), self._schema, given)

    def _into_field(self, name: str) -> None:
        fields = self._schema.get("properties", {})
        if name not in fields:
            there = f"fields there: {', '.join(fields)}" if fields else "it is a single value"
            raise VaryError(f"{self._place()} has no field {name!r}; {there}")
        self._schema = fields[name]
        self._data = self._data.get(name) if isinstance(self._data, Mapping) else None
        self._where.append(name)
        self._names.append(name)

    def _into_item(self, name: str) -> None:
        items: Sequence[Any] = self._data or ()
        names = [str(item.get("name", place)) for place, item in enumerate(items)]
        place = names.index(name) if name in names else int(name) if re.fullmatch("[0-9]{1,3}", name) else len(names)
        if place >= len(names):
            there = f"there are {', '.join(names)}" if names else "the policy lists none"
            raise VaryError(f"{self._place()} has no {name!r}; {there}")
        self._schema = self._schema["items"]
        self._data = items[place]
        self._where.append(place)
        self._names.append(names[place])

    def _place(self) -> str:
        return ".".join(self._names) or "spec"
