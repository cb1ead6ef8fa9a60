"""YAML documents with the line of every value, read from files that nobody vouches for.

What cannot be read at all (missing, a folder, no permission) raises InputError.  What can be read and is wrong becomes
a `Mistake` with its line: other encodings, control characters, syntax, keys given twice, aliases that grow without end.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from specloop_cli.errors import InputError, cannot

MAX_BYTES = 1 << 20
"""Largest file; Kubernetes itself takes no larger object."""
MAX_DEPTH = 100
MAX_VALUES = 10_000
"""Most values in one document once its aliases are written out."""

Where = tuple[str | int, ...]
"""Path of a value in a document, such as ("spec", "levels", 1, "tokens")."""

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong in a file, where, and how to mend it."""

    field: str
    line: int
    message: str
    hint: str


class BadFile(Exception):
    """A file that was read and is not YAML, so that nothing more can be said about it."""

    def __init__(self, line: int, message: str, hint: str) -> None:
        super().__init__(message)
        self.mistake = Mistake("", line, message, hint)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands, and a scalar's text as it was written."""

    line: int
    written: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file as plain data, with the place of every value."""

    data: Any
    places: Mapping[Where, Place]
    mistakes: tuple[Mistake, ...] = ()

    def line(self, where: Where) -> int:
        """Line of a value, or of the nearest one around it."""
        while where and where not in self.places:
            where = where[:-1]
        return self.places[where].line

    def written(self, where: Where) -> str | None:
        """A scalar's text as it stands in the file; None for anything else."""
        place = self.places.get(where)
        return place.written if place else None


def spell(where: Where) -> str:
    """A path in the spelling of Kubernetes: `spec.levels[1].tokens`."""
    result = ""
    for key in where:
        if isinstance(key, int):
            result += f"[{key}]"
        elif re.fullmatch(r"[\w-]+", key):
            result += f".{key}" if result else key
        else:
            result += f"[{key!r}]"
    return result


def read_text(path: str) -> str:
    """Text of a file; `-` is standard input.

    Raises InputError when it cannot be read, BadFile when what was read is no text.
    """
    data = _read(path)
    if len(data) > MAX_BYTES:
        raise BadFile(1, "the file is larger than 1 MiB", "a policy takes a few kilobytes; is this the right file?")
    if data.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        raise BadFile(1, "the file is UTF-16 or UTF-32", "save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadFile(line, f"byte 0x{data[error.start]:02x} is not UTF-8", "save the file as UTF-8") from None
    if found := yaml.reader.Reader.NON_PRINTABLE.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise BadFile(line, f"control character U+{ord(found[0]):04X}", "remove it; is this a text file?")
    return text


def _read(path: str) -> bytes:
    try:
        if path == "-":
            return os.fdopen(0, "rb", closefd=False).read(MAX_BYTES + 1)
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise cannot("read", path, error) from error
    except ValueError as error:  # a NUL in the name
        raise InputError(f"cannot read {path!r}: {error}") from error


def read_nodes(text: str) -> Iterator[yaml.Node]:
    """The root of every document that is not empty.  Raises BadFile at the first syntax error."""
    try:
        with suppress(yaml.YAMLError):  # said below, after the documents before it
            _refuse_depth(text)
        for node in yaml.compose_all(text, Loader=LOADER):
            if node.tag != "tag:yaml.org,2002:null":
                yield node
    except yaml.YAMLError as error:
        raise _syntax(error, text) from None


def _refuse_depth(text: str) -> None:
    """Composing recurses and counting does not, so deep nesting is refused before it can hurt."""
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            line = event.start_mark.line + 1 if event.start_mark else 1
            raise BadFile(line, f"nested more than {MAX_DEPTH} deep", "is this the right file?")


SYNTAX_HINTS = (
    ("found character '\\t'", "indent with spaces: YAML allows no tabs there"),
    ("mapping values are not allowed", 'put a text that contains ": " in quotes'),
    ("could not find expected ':'", "a line here lacks its colon, or the one above its closing quote"),
    ("found unexpected end of stream", "a quote or bracket is never closed"),
    ("did not find expected key", "check the indentation and the line above"),
    ("did not find expected '-'", "check the indentation and the line above"),
    ("found undefined alias", "no anchor (&name) of this name comes before it"),
    ("nesting depth", "is this the right file?"),
)


def _syntax(error: yaml.YAMLError, text: str) -> BadFile:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = " ".join(str(getattr(error, "problem", None) or error).split())
    lines = text.splitlines() or [""]
    line = min(mark.line + 1, len(lines)) if mark else 1
    indent = lines[line - 1][: -len(lines[line - 1].lstrip()) or None]
    if "\t" in indent:
        problem = "found character '\\t' in the indentation"
    hint = next((hint for start, hint in SYNTAX_HINTS if start in problem), "mend the syntax here or above")
    return BadFile(line, f"not YAML: {problem}", hint)


def peek(node: yaml.Node, key: str) -> str | None:
    """A text at the top of a document, without reading the rest."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((one.value for name, one in pairs if name.value == key and isinstance(one, yaml.ScalarNode)), None)


def to_document(node: yaml.Node) -> Document:
    """A document as plain data.  Raises BadFile when its aliases grow too large."""
    reader = _Reader()
    data = reader.read(node, (), node.start_mark.line + 1)
    return Document(data, reader.places, tuple(reader.mistakes))


@dataclass(slots=True)
class _Reader:
    """Turns nodes into data; aliases are written out, so their size is counted."""

    places: dict[Where, Place] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)

    def read(self, node: yaml.Node, where: Where, line: int) -> Any:
        if len(self.places) >= MAX_VALUES or len(where) > MAX_DEPTH:
            raise BadFile(
                line,
                f"more than {MAX_VALUES} values, aliases written out",
                "a policy has some hundreds; write it plainly",
            )
        if isinstance(node, yaml.ScalarNode):
            self.places[where] = Place(line, node.value)
            return self._scalar(node, where, line)
        self.places[where] = Place(line)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(one, (*where, at), one.start_mark.line + 1) for at, one in enumerate(node.value)]
        return self._mapping(node, where)

    def _mapping(self, node: yaml.Node, where: Where) -> dict[str, Any]:
        result: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.tag == MERGE:
                result = {**self._merged(value, where, line), **result}
            elif not isinstance(key, yaml.ScalarNode):
                self._wrong(where, line, "a key must be a text", "write a name before the colon")
            else:
                if key.value in lines:
                    first = lines[key.value]
                    self._wrong(
                        (*where, key.value), line, f"given twice, on lines {first} and {line}", "remove one of them"
                    )
                lines[key.value] = line
                result[key.value] = self.read(value, (*where, key.value), line)
        return result

    def _merged(self, node: yaml.Node, where: Where, line: int) -> dict[str, Any]:
        """Fields that `<<` brings in; those of the mapping itself win."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        result: dict[str, Any] = {}
        for source in reversed(sources):
            if isinstance(source, yaml.MappingNode):
                result |= self._mapping(source, where)
            else:
                self._wrong(where, line, "<< takes a mapping, or a list of them", "write the fields out")
        return result

    def _scalar(self, node: yaml.ScalarNode, where: Where, line: int) -> Any:
        read = SCALARS.get(node.tag)
        if read is None:
            self._wrong(where, line, f"the tag {node.tag} is not supported", "remove it")
            return ""
        try:
            return read(node)
        except (ValueError, KeyError, IndexError):
            self._wrong(where, line, f"{_short(node.value)} cannot be read", "if it is a text, put it in quotes")
            return ""

    def _wrong(self, where: Where, line: int, message: str, hint: str) -> None:
        self.mistakes.append(Mistake(spell(where), line, message, hint))


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _text(node: yaml.ScalarNode) -> str:
    node.value.encode()  # a lone surrogate, written as an escape, is no text
    return str(node.value)


def _integer(node: yaml.ScalarNode) -> int:
    number = int(_CONSTRUCTOR.construct_yaml_int(node))
    if abs(number) >= 1 << 63:
        raise ValueError("no API takes an integer of more than 64 bits")
    return number


_CONSTRUCTOR = SafeConstructor()
SCALARS = {
    "tag:yaml.org,2002:str": _text,
    "tag:yaml.org,2002:timestamp": _text,  # JSON has no dates, and so Kubernetes has none
    "tag:yaml.org,2002:value": _text,
    "tag:yaml.org,2002:null": lambda node: None,
    "tag:yaml.org,2002:bool": _CONSTRUCTOR.construct_yaml_bool,
    "tag:yaml.org,2002:int": _integer,
    "tag:yaml.org,2002:float": _CONSTRUCTOR.construct_yaml_float,
}
"""Readers of scalars by the tag that YAML gives them."""
