"""Everything that is wrong with one policy, not only what its first mistake lets through.

pydantic says what is wrong with single fields and stops before fields are compared.  So each wrong field is replaced
by values that would have been right, until the whole is valid, and the contradictions are asked for.  One counts when
it stays whatever the wrong fields may have meant; what comes and goes with them is their fault, and not said.
"""

import copy
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from specloop_cli.candidates import candidates
from specloop_cli.tree import ABSENT, Absent, get, has_parent, put
from specloop_cli.wording import EMPTY, Flaw, intended
from specloop_cli.yaml_file import Where
from specloop_policy.contradictions import CHECKS, Contradiction
from specloop_policy.model import SpecPolicy

MAX_FLAWS = 100
"""Wrong fields beyond which contradictions are not worth looking for."""
MAX_ROUNDS = 200
"""Replacements tried before giving up on contradictions; each mends one more field or its parent."""


@dataclass(frozen=True, slots=True)
class Examined:
    """A valid policy, or all that is wrong with it."""

    policy: SpecPolicy | None
    flaws: tuple[Flaw, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()


def examine(data: Any) -> Examined:
    """Judge plain data as a SpecPolicy; whatever the data, never an exception."""
    valid = validate(data)
    if isinstance(valid, SpecPolicy) and not any(_empty_fields(data)):
        found = tuple(one for check in CHECKS for one in check(valid.spec))
        return Examined(None if found else valid, (), found)
    mending = _Mending(copy.deepcopy(data))
    mended = mending.to_the_end()
    return Examined(None, tuple(mending.flaws), tuple(_lasting(mending)) if mended else ())


def validate(data: Any) -> SpecPolicy | list[Flaw]:
    """The policy, or what pydantic finds wrong with single fields."""
    # By way of JSON: only there does pydantic's strict mode take words for enumerations, as an API server does.
    text = json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")
    try:
        return SpecPolicy.model_validate_json(text, by_alias=True, by_name=False)
    except ValidationError as error:
        found = error.errors(include_url=False)
        flaws = [Flaw(_path(one["loc"]), one["type"], one["input"], one.get("ctx") or {}) for one in found]
        return [one for one in flaws if not _only_seems_short(one)]


def _path(loc: tuple[int | str, ...]) -> Where:
    return loc[:-1] if loc[-1:] == ("[key]",) else loc


def _only_seems_short(flaw: Flaw) -> bool:
    """pydantic leaves invalid entries out and then calls their list too short."""
    return flaw.kind == "too_short" and len(flaw.value) >= flaw.details.get("min_length", 0)


def _empty_fields(data: Any) -> Iterator[Where]:
    """Fields without a value: pydantic takes them for absent ones, an API server refuses them."""
    if isinstance(data, dict):
        yield from ((name,) for name in ("apiVersion", "kind", "spec") if name in data and data[name] is None)
        yield from (("spec", *rest) for rest in _nulls(data.get("spec")))


def _nulls(value: Any) -> Iterator[Where]:
    entries: Any = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, inner in entries:
        if inner is None:
            yield (key,)
        else:
            yield from ((key, *rest) for rest in _nulls(inner))


@dataclass(slots=True)
class _Mending:
    """Data being made valid, field by field, and what had to be mended."""

    data: Any
    flaws: list[Flaw] = field(default_factory=list)
    instead: dict[Where, list[Any]] = field(default_factory=dict)
    """For each mended field the values that it may have meant."""
    tried: dict[Where, int] = field(default_factory=dict)
    moved: dict[Where, Where] = field(default_factory=dict)
    """Fields that have the value of a misspelt one, each with the path of that."""

    def to_the_end(self) -> bool:
        """Mend until the data is valid; whether that was reached."""
        found: SpecPolicy | list[Flaw] = [Flaw(where, EMPTY) for where in _empty_fields(self.data)]
        for _ in range(MAX_ROUNDS):
            if isinstance(found, SpecPolicy):
                return True
            self._note(found)
            if len(self.flaws) > MAX_FLAWS:
                return False
            for flaw in found:
                self._mend(flaw)
            found = validate(self.data)
        return False

    def _note(self, found: list[Flaw]) -> None:
        """Keep what does not follow from something that was mended before."""
        meant = {(*one.where[:-1], intended(one)) for one in found if one.kind == "extra_forbidden"}
        for flaw in found:
            if not self._follows(flaw) and not (flaw.kind == "missing" and flaw.where in meant):
                self.flaws.append(replace(flaw, shown=self._as_written(flaw.where)))

    def _follows(self, flaw: Flaw) -> bool:
        """Whether a flaw may come from what was mended before: not when it is in a value that was only renamed."""
        return any(
            _related(flaw.where, other) and not (self._is_moved(other) and flaw.where[: len(other)] == other)
            for other in self.instead
        )

    def _is_moved(self, where: Where) -> bool:
        return where in self.moved and self.tried[where] == 1

    def _as_written(self, where: Where) -> Where:
        """The path in the file, where a misspelt field has kept its name."""
        for new, old in reversed(self.moved.items()):
            if where[: len(new)] == new:
                where = (*old, *where[len(new) :])
        return where

    def _mend(self, flaw: Flaw) -> None:
        where = flaw.where
        if flaw.kind == "extra_forbidden":
            self._take_out(flaw)
            return
        while where and where in self.instead and self.tried[where] >= len(self.instead[where]):
            where = where[:-1]  # nothing fits here, so the mistake is in what is around it
        if where not in self.instead:
            values = candidates(where, flaw if where == flaw.where else None, self.data)
            self._replace(where, values)
        elif where:
            put(self.data, where, self.instead[where][self.tried[where]])
            self.tried[where] += 1

    def _take_out(self, flaw: Flaw) -> None:
        """Drop an unknown field; where it looks like a known one, that one gets its value."""
        value = get(self.data, flaw.where)
        self._forget(flaw.where)
        self.flaws = [
            one for one in self.flaws if one.where == flaw.where or one.where[: len(flaw.where)] != flaw.where
        ]
        put(self.data, flaw.where, ABSENT)
        meant = intended(flaw)
        if meant is not None:
            where = (*flaw.where[:-1], meant)
            if isinstance(get(self.data, where), Absent):
                self.moved[where] = flaw.where
                self._replace(where, [value, *candidates(where, None, self.data)])

    def _forget(self, where: Where) -> None:
        """What was mended inside a field does not matter once the field itself is replaced."""
        for inner in [one for one in self.instead if one[: len(where)] == where]:
            del self.instead[inner]

    def _replace(self, where: Where, values: list[Any]) -> None:
        self._forget(where)
        self.instead[where] = values
        self.tried[where] = 1
        self.data = put(self.data, where, values[0])


def _related(one: Where, other: Where) -> bool:
    """Whether one field is, holds or is in the other."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _lasting(mending: _Mending) -> Iterator[Contradiction]:
    """Contradictions that stay whatever the mended fields may have meant."""
    turns = [_contradictions(mending, turn) for turn in range(_turns(mending))]
    everywhere = Counter(key for found in turns for key in found)
    for key, count in everywhere.items():
        where = ("spec", *key[1])
        if count == len(turns) and not any(_related(where, other) for other in mending.instead):
            # Its words may name a mended value: the most frequent words are those that do not.
            yield Counter(found[key] for found in turns).most_common(1)[0][0]


def _turns(mending: _Mending) -> int:
    return max((len(values) for values in mending.instead.values()), default=1)


def _contradictions(mending: _Mending, turn: int) -> dict[tuple[str, Where], Contradiction]:
    """Contradictions when every mended field has its value of this turn."""
    data = copy.deepcopy(mending.data)
    for where, values in mending.instead.items():
        if has_parent(data, where):
            data = put(data, where, values[turn % len(values)])
    policy = validate(data)
    if not isinstance(policy, SpecPolicy):
        policy = _as_far_as_valid(mending, turn)
    return {(check.__name__, one.field): one for check in CHECKS for one in check(policy.spec)}


def _as_far_as_valid(mending: _Mending, turn: int) -> SpecPolicy:
    """The policy with those values of this turn that go together; the others stay as mended."""
    data = mending.data
    policy = validate(data)
    for where, values in mending.instead.items():
        if not has_parent(data, where):
            continue
        changed = put(copy.deepcopy(data), where, values[turn % len(values)])
        if isinstance(valid := validate(changed), SpecPolicy):
            data, policy = changed, valid
    assert isinstance(policy, SpecPolicy)  # mended to the end
    return policy
