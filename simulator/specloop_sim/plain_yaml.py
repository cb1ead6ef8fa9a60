"""A small YAML document as plain data with the line of every value."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

MOST_VALUES = 10_000
"""Values with aliases written out: a workload has some dozens, so this is a bomb."""
DEEPEST = 20
"""Levels of nesting: a workload has four."""

EXPONENT = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]{1,3}")
"""Numbers such as 3e-5, which YAML 1.1 takes for text unless there is a point and a sign."""
Where = tuple[str | int, ...]
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONSTRUCTOR = SafeConstructor()
_SCALARS = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float")}
"""Tags read as what they are; all else, dates too, is text as it was written."""


class BadYaml(ValueError):
    """Text that is not one plain YAML document."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass(slots=True)
class Document:
    """Plain data, and the line of every value and key in it."""

    data: Any = None
    lines: dict[Where, int] = field(default_factory=dict)

    def line(self, where: Where) -> int:
        """Line of a value, or of the nearest one around it."""
        while where and where not in self.lines:
            where = where[:-1]
        return self.lines.get(where, 1)


def read_document(text: str) -> Document:
    """The one document in a text.  Raises BadYaml."""
    try:
        _refuse_depth(text)
        node = yaml.compose(text, Loader=LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        line = min(mark.line + 1, text.count("\n") + 1) if mark else 1
        raise BadYaml(line, f"not YAML: {problem}; mend the syntax here or above") from None
    document = Document()
    if node is not None:
        document.data = _read(node, (), node.start_mark.line + 1, document.lines)
    return document


def _refuse_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise BadYaml(line, f"nested more than {DEEPEST} deep; is this the right file?")


def _read(node: yaml.Node, where: Where, line: int, lines: dict[Where, int]) -> Any:
    if len(lines) >= MOST_VALUES or len(where) > DEEPEST:
        raise BadYaml(line, f"more than {MOST_VALUES:,} values, aliases written out; write it plainly")
    lines[where] = line
    if isinstance(node, yaml.MappingNode):
        return _read_mapping(node, where, lines)
    if isinstance(node, yaml.SequenceNode):
        return [_read(one, (*where, at), one.start_mark.line + 1, lines) for at, one in enumerate(node.value)]
    return _scalar(node, line)


def _read_mapping(node: yaml.MappingNode, where: Where, lines: dict[Where, int]) -> Mapping[str, Any]:
    result: dict[str, Any] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
            raise BadYaml(line, "a key must be a name, and << is not supported; write the fields out")
        if key.value in result:
            raise BadYaml(line, f"{key.value} is given twice; remove one of them")
        result[key.value] = _read(value, (*where, key.value), line, lines)
    return result


def _scalar(node: yaml.Node, line: int) -> Any:
    if node.tag not in _SCALARS:
        plain = isinstance(node, yaml.ScalarNode) and node.style is None
        return float(node.value) if plain and EXPONENT.fullmatch(node.value) else node.value
    try:
        return _CONSTRUCTOR.construct_object(node)
    except (ValueError, KeyError, IndexError):
        raise BadYaml(line, f"{node.value[:40]!r} cannot be read; if it is a text, put it in quotes") from None
