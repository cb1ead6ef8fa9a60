"""A JSON object as text: read with its faults, and changed so that all that stays is untouched."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

BLANKS = " \t\n\r"
DEEPEST = 50
"""Lists and objects within each other that are followed; no setting needs as many."""


class JsonError(ValueError):
    """Text that is no JSON, or that readers understand differently."""


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise JsonError(f"the key {key!r} comes twice")
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise JsonError(f"{name} is no JSON")


DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)


def parse(text: str) -> Any:
    """The value of JSON text; JsonError where it is none, or where a key comes twice and readers take the last."""
    try:
        value = DECODER.decode(text)
    except JsonError:
        raise
    except (ValueError, RecursionError) as error:
        raise JsonError(f"this is no JSON ({error})") from None
    layer, depth = [value], 0
    while layer := [inner for outer in layer if isinstance(outer, list | dict) for inner in _inside(outer)]:
        depth += 1
        if depth > DEEPEST:
            raise JsonError(f"this is nested more than {DEEPEST} deep")
    return value


def _inside(outer: list[Any] | dict[str, Any]) -> Iterable[Any]:
    return outer.values() if isinstance(outer, dict) else outer


def dumps(value: Any) -> str:
    """JSON without blanks and in ASCII: no shell or template splits it."""
    return json.dumps(value, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class _Member:
    """One member in its parts: blanks, key with colon, value, blanks."""

    key: str
    value: Any
    before: str
    head: str
    body: str
    after: str = ""

    def holding(self, value: Any) -> "_Member":
        return self if dumps(self.value) == dumps(value) else replace(self, body=dumps(value))

    def __str__(self) -> str:
        return self.before + self.head + self.body + self.after


def changed_object(text: str, new: Mapping[str, Any]) -> str:
    """The text of an object, changed to hold `new`: what stays keeps its text and order, new members come last."""
    opening = text.index("{") + 1
    old = _members(text, opening)
    if not old:
        return dumps(new)
    between = replace(old[-1], after=old[0].after if len(old) > 1 else "")
    members = [member.holding(new[member.key]) for member in (*old[:-1], between) if member.key in new]
    known = {member.key for member in old}
    members += (_like(old, key, value) for key, value in new.items() if key not in known)
    if not members:
        return "{}"
    members[-1] = replace(members[-1], after=old[-1].after)
    members[0] = replace(members[0], before=old[0].before)
    closing = opening + sum(len(str(member)) + 1 for member in old) - 1
    return text[:opening] + ",".join(map(str, members)) + text[closing:]


def _like(old: list[_Member], key: str, value: Any) -> _Member:
    """A new member, with the blanks that the last one has."""
    last = old[-1]
    before = last.before if len(old) > 1 else " " * last.head.endswith(" ")
    blanks = last.head[last.head.rindex(":") :]
    return _Member(key, value, before, json.dumps(key) + blanks, dumps(value))


def _members(text: str, at: int) -> list[_Member]:
    members: list[_Member] = []
    while text[start := _after_blanks(text, at)] != "}":
        key, key_end = DECODER.raw_decode(text, start)
        value_start = _after_blanks(text, _after_blanks(text, key_end) + 1)
        value, value_end = DECODER.raw_decode(text, value_start)
        end = _after_blanks(text, value_end)
        parts = text[at:start], text[start:value_start], text[value_start:value_end], text[value_end:end]
        members.append(_Member(key, value, *parts))
        if text[end] == "}":
            break
        at = end + 1
    return members


def _after_blanks(text: str, at: int) -> int:
    while text[at] in BLANKS:
        at += 1
    return at
