"""YAML text: how values are written and read where they stand, and changes to a text that do not overlap."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml

from specloop_cli.yaml_file import LOADER

LOOKS_LIKE_A_NUMBER = re.compile(r"(?=.*\d)[-+.\d][-+.\d_:a-fox]*", re.IGNORECASE)
"""Readers of YAML differ over some texts, such as 1e3 and 0o7."""


class Dumper(yaml.SafeDumper):
    """Lists as `kubectl` writes them, with the dash below their key."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write a value out wherever it occurs again."""
        return True


class IndentedDumper(Dumper):
    """Lists with the dash indented."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Never leave the indentation out."""
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if "\n" in text else "'" if LOOKS_LIKE_A_NUMBER.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


Dumper.add_representer(str, _represent_text)


def block(data: Any, dumper: type[yaml.SafeDumper] = Dumper) -> str:
    """A value in lines of its own, each of its texts on one."""
    written: str = yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True, width=float("inf"))
    return written


def scalar(value: Any) -> str:
    """A scalar that means the same within brackets and without."""
    written = block([value])[2:-1]
    plain = written[:1] not in ("'", '"')
    return json.dumps(value, ensure_ascii=False) if plain and set(",[]{}") & set(written) else written


def flow(value: Any) -> str:
    """A value in one line, in brackets and quotes."""
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class _Span:
    """Text that comes in the place of what stands from `start` to `end`."""

    start: int
    end: int
    text: str
    order: tuple[int, int] = (0, 0)
    """Of several that are put in at one place: deeper ones first, items before keys."""


class Edits:
    """Changes to one text, which do not overlap."""

    def __init__(self, text: str) -> None:
        self.before = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self._spans: list[_Span] = []

    def replace(self, start: int, end: int, text: str) -> None:
        """Put text in the place of other text."""
        self._spans.append(_Span(start, end, text))

    def insert_lines(self, at: int, lines: str, order: tuple[int, int]) -> None:
        """Put whole lines before the line that begins at `at`; at the end of the text it need not be a line's begin."""
        lines = lines.replace("\n", self.newline)
        if at == len(self.before) and not self.before.endswith("\n"):
            lines = self.newline + lines.removesuffix(self.newline)
        self._spans.append(_Span(at, at, lines, order))

    @property
    def text(self) -> str:
        """With all changes."""
        parts, at = [], 0
        for one in self._joined():
            parts += [self.before[at : one.start], one.text]
            at = one.end
        return "".join([*parts, self.before[at:]])

    def _joined(self) -> Iterable[_Span]:
        """In their order, lines that go one after the other as one: the last line of a text may have no line end."""
        spans: list[_Span] = []
        for one in sorted(self._spans, key=lambda span: (span.start, span.end, span.order)):
            if spans and spans[-1].end == one.start and not spans[-1].text and not one.text:
                one = _Span(spans.pop().start, one.end, "")
            spans.append(one)
        return [self._whole(one) for one in spans]

    def _whole(self, span: _Span) -> _Span:
        before = self.before[: span.start]
        gone = not span.text and span.start < span.end == len(self.before)
        if gone and not self.before.endswith("\n") and before.endswith("\n"):
            return _Span(len(before) - (2 if before.endswith("\r\n") else 1), span.end, "")
        return span

    def after_line(self, index: int) -> int:
        """Where the next line begins; the text's end after the last."""
        return self.before.find("\n", index) + 1 or len(self.before)


@dataclass(slots=True)
class Kept:
    """Text of values before a change, with what is needed to put it back."""

    was: str
    column: int | None
    """Of the dash or the key; None within brackets."""


def read_kept(kept: Kept, before: str) -> Any:
    """What text means where it stands: after a dash or a key, or within brackets."""
    if kept.column is None:
        text = f"{{{before}{kept.was}}}" if before == "k: " else f"[{kept.was}]"
    else:
        text = f"{' ' * kept.column}{before}{kept.was}\n"
    return yaml.load(text, Loader=LOADER)
