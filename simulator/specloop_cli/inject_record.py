"""A plan carried out on a manifest, with a record in the manifest of what was put in and changed, and the way back.

The record is an annotation of the pod template, so that it travels with the revision that it tells of.  It names what
was added, and what was changed keeps its text: the way back gives the manifest as it was, byte for byte, and leaves
alone what others have put beside it since.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specloop_cli.inject_additions import Plan
from specloop_cli.inject_edits import Kept
from specloop_cli.inject_yaml import Path, Refusal, Sheet, spelt
from specloop_cli.yaml_file import to_document

RECORD = "specloop.dev/injected"
ANNOTATIONS: Path = ("metadata", "annotations")

Where = Annotated[tuple[str, ...], Field(min_length=1)]


class Changed(BaseModel):
    """A value, or items of a list one after the other, in the place of others."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Where
    now: tuple[str, ...]
    """Marks of what was written, one for each item; of the value alone where it is no list's."""
    was: str
    column: int | None = None
    place: int | None = None
    """Of the first item; None for what is no list's."""


class Record(BaseModel):
    """What was done to a pod template."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    added: tuple[Where, ...] = ()
    created: tuple[Where, ...] = ()
    """Lists and mappings that were not there: they go where nothing else is in them by then."""
    changed: tuple[Changed, ...] = ()


def is_injected(sheet: Sheet) -> bool:
    """Whether a template has a record."""
    return sheet.find((*ANNOTATIONS, RECORD)) is not None


def carry_out(sheet: Sheet, plan: Plan) -> None:
    """Note the edits that a plan takes, and the record of them."""
    added: list[Path] = []
    created: list[Path] = []
    changed: list[Changed] = []
    for path, items in plan.items.items():
        if not items:
            continue
        created += sheet.missing(path)
        changed += _filled(sheet.add_items(path, items), items)
        added += ((*path, one if isinstance(one, str) else one["name"]) for one in items)
    for path, values in plan.keys.items():
        created += sheet.missing(path)
        changed += _filled(sheet.add_keys(path, values), values)
        added += ((*path, key) for key in values)
    for path, value in plan.values.items():
        kept = sheet.change(path, value)
        changed.append(_changed(path, [value], kept))
    for run in plan.runs:
        kept = sheet.change_items(run.path, run.first, run.last, run.items)
        changed.append(_changed(run.path, run.items, kept, run.place))
    _add_annotations(sheet, plan, added, created, changed)


def _add_annotations(sheet: Sheet, plan: Plan, added: list[Path], created: list[Path], changed: list[Changed]) -> None:
    created += sheet.missing(ANNOTATIONS)
    for path in (ANNOTATIONS[:1], ANNOTATIONS):
        if isinstance(sheet.find(path), yaml.ScalarNode):  # the record cannot hold its own mark
            raise Refusal(f"{spelt(path)} of the pod template has no value: remove it, or write {{}}")
    added += ((*ANNOTATIONS, key) for key in (*plan.annotations, RECORD))
    record = Record(added=tuple(map(_texts, added)), created=tuple(map(_texts, created)), changed=tuple(changed))
    text = record.model_dump_json(exclude_defaults=True, exclude={"version"})
    sheet.add_keys(ANNOTATIONS, {**plan.annotations, RECORD: '{"version":1,' + text[1:]})


def _filled(kept: dict[Path, Kept], value: Any) -> Iterable[Changed]:
    return (_changed(path, [value], one) for path, one in kept.items())


def _changed(path: Path, now: Sequence[Any], kept: Kept, place: int | None = None) -> Changed:
    return Changed(path=_texts(path), now=tuple(map(_mark, now)), was=kept.was, column=kept.column, place=place)


def _texts(path: Path) -> tuple[str, ...]:
    return tuple(map(str, path))


def _mark(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def undo(sheet: Sheet) -> None:
    """Note the edits that give back what was there; Refusal where what was changed has been changed again."""
    record = _read(sheet)
    filled = {one.path for one in record.changed if one.place is None}
    for one in record.changed:
        _restore(sheet, one)
    gone = {_exact(sheet, path) for path in record.added if not any(path[: len(one)] == one for one in filled)}
    gone.discard(None)
    for path in sorted(record.created, key=len, reverse=True):
        exact = _exact(sheet, path)
        if exact is not None and _inside(sheet, exact) <= gone:
            gone.add(exact)
    whole = {one for one in gone if one is not None}
    sheet.remove(one for one in whole if not any(one[:end] in whole for end in range(1, len(one))))


def _read(sheet: Sheet) -> Record:
    text = sheet.data((*ANNOTATIONS, RECORD))
    try:
        return Record.model_validate_json(str(text))
    except ValidationError as error:
        said = error.errors()[0]["msg"]
        raise Refusal(f"the annotation {RECORD} cannot be read ({said}): take out by hand what was added") from error


def _restore(sheet: Sheet, changed: Changed) -> None:
    kept, node = Kept(changed.was, changed.column), sheet.find(changed.path)
    again = Refusal(f"{spelt(changed.path)} was changed after the injection: put back what was there by hand")
    if node is None:
        raise again
    if changed.place is None:
        if _mark(to_document(node).data) != changed.now[0]:
            raise again
        sheet.restore(changed.path, kept)
        return
    marks = [_mark(to_document(one).data) for one in node.value] if isinstance(node, yaml.SequenceNode) else []
    size = len(changed.now)
    places = [at for at in range(len(marks)) if tuple(marks[at : at + size]) == changed.now]
    if not places:
        raise again
    at = changed.place  # equal ones may stand elsewhere
    first = min(places, key=lambda one: abs(one - at))
    sheet.restore_items(changed.path, first, first + size, kept)


def _exact(sheet: Sheet, path: Path) -> Path | None:
    """A path with places for the names of items; None where it leads nowhere any more."""
    exact: Path = ()
    for key in path:
        node = sheet.find(exact)
        place = sheet.place(node, key) if isinstance(node, yaml.SequenceNode) else key
        if place is None or sheet.find((*exact, place)) is None:
            return None
        exact = *exact, place
    return exact


def _inside(sheet: Sheet, path: Path) -> set[Path | None]:
    node = sheet.find(path)
    if isinstance(node, yaml.SequenceNode):
        return {(*path, place) for place in range(len(node.value))}
    return {(*path, key.value) for key, _ in node.value} if isinstance(node, yaml.MappingNode) else set()
