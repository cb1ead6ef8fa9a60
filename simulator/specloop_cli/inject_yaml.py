"""YAML changed in place: keys and items are put in, changed and taken out, and every other byte stays as it is.

A `Sheet` finds values by their path and notes the changes in `Edits`; `Edits.text` is the file with all of them.  What
was put in is taken out by `remove` byte for byte, and what was changed by `restore`, from the text that `change` gave.

Refusal    a value cannot be changed here without changing something else; no use trying again before it is mended
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from specloop_cli.inject_edits import Dumper, Edits, IndentedDumper, Kept, block, flow, read_kept, scalar
from specloop_cli.yaml_file import MERGE, to_document

Path = tuple[str | int, ...]
"""Keys of mappings; in lists places, or the `name` of an item, or an item itself where it is a text."""


class Refusal(Exception):
    """What cannot be done to a manifest, and how to mend it; one sentence."""


@dataclass(slots=True)
class Sheet:
    """A value of a YAML text and all within it; `shared` are the nodes of the text that aliases stand for."""

    edits: Edits
    root: yaml.Node
    shared: frozenset[int] = frozenset()
    _dumper: type[yaml.SafeDumper] = field(init=False)

    def __post_init__(self) -> None:
        """Look how the author writes lists."""
        self._dumper = IndentedDumper if _indents_lists(self.root) else Dumper

    def find(self, path: Path) -> yaml.Node | None:
        """The value at a path; None where there is none.  Refusal where other places share it."""
        node: yaml.Node | None = self.root
        for step, key in enumerate(path):
            assert node is not None
            node = self._child(node, key)
            if node is None:
                return None
            self._check_own(node, path[: step + 1])
        return node

    def _child(self, node: yaml.Node, key: str | int) -> yaml.Node | None:
        if isinstance(node, yaml.MappingNode):
            for name, value in node.value:
                if name.tag == MERGE:
                    raise Refusal(f"{key} may come in by <<, which other places share: write the fields out")
                if name.value == key:
                    return value  # type: ignore[no-any-return]
            return None
        if isinstance(node, yaml.SequenceNode):
            place = self.place(node, key)
            return None if place is None else node.value[place]
        return None

    def _check_own(self, node: yaml.Node, path: Path) -> None:
        if id(node) in self.shared:
            raise Refusal(f"{spelt(path)} is an anchor or alias, which other places share: write it out")

    def place(self, node: yaml.SequenceNode, key: str | int) -> int | None:
        """Place of an item in a list."""
        if isinstance(key, int):
            return key if key < len(node.value) else None
        return next((place for place, item in enumerate(node.value) if _is_called(item, key)), None)

    def data(self, path: Path) -> Any:
        """The value at a path as plain data; None where there is none."""
        node = self.find(path)
        return None if node is None else to_document(node).data

    def missing(self, path: Path) -> list[Path]:
        """The path and its parents, as far as they are not there, outermost first."""
        return [path[:end] for end in range(1, len(path) + 1) if self.find(path[:end]) is None]

    # Putting in

    def add_keys(self, path: Path, values: Mapping[str, Any]) -> dict[Path, Kept]:
        """Put keys into a mapping, once for each mapping; what was there and had to go, where it had no value."""
        return self._add(path, values)

    def add_items(self, path: Path, items: Sequence[Any]) -> dict[Path, Kept]:
        """Put items at the end of a list, once for each list."""
        return self._add(path, items)

    def _add(self, path: Path, values: Mapping[str, Any] | Sequence[Any]) -> dict[Path, Kept]:
        node = self.find(path)
        if node is None:
            assert isinstance(path[-1], str)
            return self._add(path[:-1], {path[-1]: values})
        if isinstance(node, yaml.ScalarNode):
            if node.tag != "tag:yaml.org,2002:null":
                raise Refusal(f"{spelt(path)} is neither a list nor a mapping: correct it")
            return {path: self.change(path, values)}
        if isinstance(node, yaml.MappingNode) != isinstance(values, Mapping):
            raise Refusal(f"{spelt(path)} should be a {'mapping' if isinstance(values, Mapping) else 'list'}")
        if _is_flow(node):
            self._add_flow(node, values)
        else:
            self._add_block(node, values)
        return {}

    def _add_flow(self, node: yaml.Node, values: Mapping[str, Any] | Sequence[Any]) -> None:
        inner = flow(values)[1:-1]
        last = _last(node)
        if last is None:
            at = node.end_mark.index - 1
            self.edits.replace(at, at, inner)
        else:
            at = self._end(last)
            self.edits.replace(at, at, f", {inner}")

    def _add_block(self, node: yaml.Node, values: Mapping[str, Any] | Sequence[Any]) -> None:
        column: int = node.start_mark.column
        lines = "".join(" " * column + line for line in block(values, self._dumper).splitlines(keepends=True))
        last = _last(node)
        assert last is not None
        at = self._past_comments(self._next_line(last), column)
        self.edits.insert_lines(at, lines, (-column, isinstance(values, Mapping)))

    def _past_comments(self, at: int, column: int) -> int:
        """Past the lines that hold only a comment on what comes before them, which is indented deeper."""
        text = self.edits.before
        while found := re.compile(r" *(?=#)").match(text, at):
            if found.end() - at <= column:
                break
            at = self.edits.after_line(at)
        return at

    def _next_line(self, node: yaml.Node) -> int:
        """The line after a value."""
        inner = self._innermost(node)
        text, start = self.edits.before, inner.start_mark.index
        header = text[start : text.find("\n", start)]
        if isinstance(inner, yaml.ScalarNode) and inner.style in ("|", ">") and "+" in header:
            return int(inner.end_mark.index)  # blank lines at its end are part of it
        return self.edits.after_line(self._end(node))

    # Changing

    def change(self, path: Path, value: Any) -> Kept:
        """Put a value in the place of the one that a mapping has."""
        parent, node = self.find(path[:-1]), self.find(path)
        assert parent is not None
        assert node is not None
        column = None if _is_flow(parent) else parent.start_mark.column
        kept = self._kept(node, node, column)
        written = self._restyled(node, value, column, "k: ") if isinstance(value, str) else flow(value)
        blank = " " if node.start_mark.index == node.end_mark.index else ""  # nothing, right after the colon
        self.edits.replace(node.start_mark.index, self._end(node), blank + written)
        return kept

    def change_items(self, path: Path, first: int, last: int, items: Sequence[str]) -> Kept:
        """Put texts in the place of the items from `first` up to, and without, `last`; there is at least one."""
        node = self.find(path)
        assert node is not None
        old: list[yaml.Node] = node.value[first:last]
        for place, one in enumerate(old, first):
            self._check_own(one, (*path, place))
        column = None if _is_flow(node) else node.start_mark.column
        kept = self._kept(old[0], old[-1], column)
        if len(old) == len(items):
            written = [self._restyled(one, item, column, "- ") for one, item in zip(old, items, strict=True)]
        else:
            there = {one.value: self._kept(one, one, column).was for one in old}
            written = [there.get(item) or scalar(item) for item in items]
        self._write_items(old, written, column)
        return kept

    def restore(self, path: Path, kept: Kept) -> None:
        """Put back what a mapping had, word for word where it stands as it stood."""
        parent, node = self.find(path[:-1]), self.find(path)
        assert parent is not None
        assert node is not None
        column = None if _is_flow(parent) else parent.start_mark.column
        same = column == kept.column
        start, written = node.start_mark.index, kept.was if same else scalar(read_kept(kept, "k: ")["k"])
        if isinstance(node, yaml.CollectionNode) and not _is_flow(node):  # it begins on another line than its key
            start, written = self._after_colon(parent, path[-1]), f" {written}"
        elif not written and self.edits.before[start - 1] == " ":
            start -= 1  # there was nothing, right after the colon
        self.edits.replace(start, self._end(node), written)

    def _after_colon(self, parent: yaml.Node, key: str | int) -> int:
        named = next(name for name, _ in parent.value if name.value == key)
        return self.edits.before.index(":", named.end_mark.index) + 1

    def restore_items(self, path: Path, first: int, last: int, kept: Kept) -> None:
        """Put back the items of a list that were there before those from `first` up to, and without, `last`."""
        node = self.find(path)
        assert node is not None
        column = None if _is_flow(node) else node.start_mark.column
        same = column == kept.column
        written = [kept.was] if same else [scalar(item) for item in read_kept(kept, "- ")]
        self._write_items(node.value[first:last], written, column)

    def _write_items(self, old: Sequence[yaml.Node], written: Iterable[str], column: int | None) -> None:
        between = ", " if column is None else f"{self.edits.newline}{' ' * column}- "
        self.edits.replace(old[0].start_mark.index, self._end(old[-1]), between.join(written))

    def _kept(self, first: yaml.Node, last: yaml.Node, column: int | None) -> Kept:
        return Kept(self.edits.before[first.start_mark.index : self._end(last)], column)

    def _restyled(self, node: yaml.Node, value: str, column: int | None, before: str) -> str:
        """A text, in the style of the one that it replaces where that can be read as it is meant."""
        for written in (*self._in_style(node, value), scalar(value)):
            try:
                read = read_kept(Kept(written, column), before)
            except yaml.YAMLError:
                continue
            if read in ([value], {"k": value}):
                return written
        return flow(value)

    def _in_style(self, node: yaml.Node, value: str) -> Iterable[str]:
        newline = self.edits.newline
        raw = self.edits.before[node.start_mark.index : self._end(node)]
        style = getattr(node, "style", None)
        if style == "'" and "\n" not in value:
            yield "'" + value.replace("'", "''") + "'"
        elif style == '"':
            yield flow(value)
        elif style in ("|", ">"):
            header, *rest = raw.splitlines()
            indent = next((line[: len(line) - len(line.lstrip())] for line in rest if line.strip()), "")
            lines = value.rstrip("\n").split("\n")
            if style == ">":  # a line end is a blank there, and a blank line a line end
                lines = f"{newline}{newline}".join(lines).replace(" --", f"{newline}--").splitlines()
            yield newline.join([header, *(indent + line if line else "" for line in lines)])

    # Taking out

    def remove(self, paths: Iterable[Path]) -> None:
        """Take out keys and items that are there, as if they had never been."""
        members: dict[Path, set[int]] = {}
        for path in paths:
            where, place = self._member(path)
            members.setdefault(where, set()).add(place)
        for where, places in members.items():
            node = self.find(where)
            assert node is not None
            if _is_flow(node):
                self._remove_flow(node, places)
            elif where and len(places) == len(node.value) and isinstance(where[-1], str):  # it stays, empty
                parent = self.find(where[:-1])
                assert parent is not None
                empty = " {}" if isinstance(node, yaml.MappingNode) else " []"
                self.edits.replace(self._after_colon(parent, where[-1]), self._end(node), empty)
            else:
                self._remove_block(node, places)

    def _member(self, path: Path) -> tuple[Path, int]:
        """Path of what holds a value, and the value's place in it."""
        node = self.find(path[:-1])
        if isinstance(node, yaml.SequenceNode):
            place = self.place(node, path[-1])
        else:
            assert node is not None
            place = next((at for at, (name, _) in enumerate(node.value) if name.value == path[-1]), None)
        assert place is not None
        return path[:-1], place

    def _remove_flow(self, node: yaml.Node, places: set[int]) -> None:
        ends = _members(node)
        for first, last in _runs(places):
            if first > 0:
                self.edits.replace(self._end(ends[first - 1][1]), self._end(ends[last][1]), "")
            else:
                rest = ends[last + 1][0].start_mark.index if last + 1 < len(ends) else self._end(ends[last][1])
                self.edits.replace(ends[0][0].start_mark.index, rest, "")

    def _remove_block(self, node: yaml.Node, places: set[int]) -> None:
        members = _members(node)
        for first, last in _runs(places):
            begin = members[first][0].start_mark.index
            if isinstance(node, yaml.MappingNode) and self._line_of(begin)[1].strip():  # beside a list's dash
                left = members[last + 1 :]
                end = left[0][0].start_mark.index if left else self._end(members[last][1])
                self.edits.replace(begin, end, "" if left else "{}")
                continue
            for key, value in members[first : last + 1]:
                index = key.start_mark.index
                if isinstance(node, yaml.SequenceNode):
                    index = self.edits.before.rfind("-", 0, index)
                self.edits.replace(self._line_of(index)[0], self._next_line(value), "")

    def _line_of(self, index: int) -> tuple[int, str]:
        """Where the line of a place begins, and the text from there up to the place."""
        begin = self.edits.before.rfind("\n", 0, index) + 1
        return begin, self.edits.before[begin:index]

    # Where values end

    def _innermost(self, node: yaml.Node) -> yaml.Node:
        """The last value within a value; Refusal where that is an alias, for it stands somewhere else."""
        if id(node) in self.shared:
            line = node.start_mark.line + 1
            raise Refusal(f"something would be put in behind what the anchor on line {line} names: write it out there")
        last = None if isinstance(node, yaml.ScalarNode) or _is_flow(node) else _last(node)
        return node if last is None else self._innermost(last)

    def _end(self, node: yaml.Node) -> int:
        """Where a value's text ends, blank lines and comments behind it left out."""
        inner = self._innermost(node)
        start, end = inner.start_mark.index, inner.end_mark.index
        return start + len(self.edits.before[start:end].rstrip())


def shared_nodes(root: yaml.Node) -> frozenset[int]:
    """The nodes of a document that stand in more than one place."""
    seen: set[int] = set()
    shared: set[int] = set()
    rest = [root]
    while rest:
        node = rest.pop()
        if id(node) in seen:
            shared.add(id(node))
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            rest += (one for pair in node.value for one in pair)
        elif isinstance(node, yaml.SequenceNode):
            rest += node.value
    return frozenset(shared)


def spelt(path: Path) -> str:
    """A path for people: spec.containers[vllm].args."""
    words = [str(key) if isinstance(key, str) else f"[{key}]" for key in path]
    for place in range(1, len(words)):
        if words[place - 1] in ("containers", "env", "volumes"):
            words[place] = f"[{words[place]}]"
    return re.sub(r"\.\[", "[", ".".join(words))


def _indents_lists(node: yaml.Node) -> bool:
    """Whether the first list in a mapping has its dashes indented."""
    rest = [node]
    while rest:
        one = rest.pop()
        if isinstance(one, yaml.MappingNode) and not _is_flow(one):
            for name, value in one.value:
                if isinstance(value, yaml.SequenceNode) and not _is_flow(value):
                    return bool(value.start_mark.column > name.start_mark.column)
                rest.append(value)
    return False


def _is_flow(node: yaml.Node) -> bool:
    """Whether a list or mapping is written in brackets."""
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def _is_called(item: yaml.Node, name: str) -> bool:
    if isinstance(item, yaml.MappingNode):
        return any(key.value == "name" and value.value == name for key, value in item.value)
    return isinstance(item, yaml.ScalarNode) and item.value == name


def _members(node: yaml.Node) -> list[tuple[yaml.Node, yaml.Node]]:
    """Where each member begins, and its value."""
    return list(node.value) if isinstance(node, yaml.MappingNode) else [(one, one) for one in node.value]


def _last(node: yaml.Node) -> yaml.Node | None:
    members = _members(node)
    return members[-1][1] if members else None


def _runs(places: set[int]) -> Iterable[tuple[int, int]]:
    """Places one after the other, from the first to the last of each."""
    for first in sorted(one for one in places if one - 1 not in places):
        last = first
        while last + 1 in places:
            last += 1
        yield first, last
