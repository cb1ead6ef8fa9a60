"""Which columns of a trace hold what: as the caller says, or as the headers of public traces are recognised."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

Unit = Literal["s", "ms", "us"]
SECONDS: dict[Unit, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6}

SPELLING = "--columns time=NAME,input=NAME,output=NAME,unit=s"
BY_POSITION = "--columns time=0,input=1,output=2,unit=s"
ROLES = ("time", "input", "output")


class ColumnsError(ValueError):
    """A description of columns that cannot be followed; the message says how to write it."""


class NoSuchColumn(ColumnsError):
    """A header that lacks a column, or has two of the name."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns by name, or by position from 0 on; without a unit times are dates or the format says it."""

    time: str | int
    input: str | int
    output: str | int
    unit: Unit | None = None

    @property
    def by_position(self) -> bool:
        """Whether no header is needed."""
        return all(isinstance(one, int) for one in (self.time, self.input, self.output))


AZURE = Columns("TIMESTAMP", "ContextTokens", "GeneratedTokens")
"""Azure LLM inference traces 2023 and 2024: dates."""
MOONCAKE = Columns("timestamp", "input_length", "output_length", "ms")
"""Mooncake's traces, which are JSON lines."""
BURSTGPT = Columns("Timestamp", "Request tokens", "Response tokens", "s")
KNOWN = (AZURE, MOONCAKE, BURSTGPT)


def parse_columns(text: str) -> Columns:
    """Columns from `time=TIMESTAMP,input=ContextTokens,output=GeneratedTokens,unit=s`; the unit may be left out.

    Whole numbers are positions.  Raises ColumnsError.
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value or key not in (*ROLES, "unit"):
            raise ColumnsError(f"{part.strip()!r} is no part of columns; write {SPELLING[10:]}")
        if key in found:
            raise ColumnsError(f"{key} is given twice; write {SPELLING[10:]}")
        found[key] = value
    if missing := [role for role in ROLES if role not in found]:
        raise ColumnsError(f"{' and '.join(missing)} is missing; write {SPELLING[10:]}")
    time, prompt, output = (_name_or_position(found[role]) for role in ROLES)
    columns = Columns(time, prompt, output, _unit(found.get("unit")))
    if len({columns.time, columns.input, columns.output}) < 3:
        raise ColumnsError("two of time, input and output are the same column; each has one of its own")
    return columns


def _name_or_position(text: str) -> str | int:
    if re.fullmatch(r"-[0-9]+", text):
        raise ColumnsError(f"{text} is no position; positions count from 0")
    return int(text) if re.fullmatch(r"[0-9]{1,6}", text) else text


def _unit(text: str | None) -> Unit | None:
    if text is not None and text not in get_args(Unit):
        raise ColumnsError(f"unit={text} is not known; times are in s, ms or us, or dates without any unit")
    return cast("Unit | None", text)


def recognise(header: Sequence[str]) -> Columns | None:
    """The known format whose three columns this header has, case and spaces aside."""
    names = {_plain(name) for name in header}
    return next(
        (one for one in KNOWN if {_plain(str(name)) for name in (one.time, one.input, one.output)} <= names), None
    )


def places(columns: Columns, header: Sequence[str]) -> tuple[int, int, int]:
    """Positions of time, input and output under this header.  Raises NoSuchColumn."""
    time, prompt, output = (_place(one, header) for one in (columns.time, columns.input, columns.output))
    if len({time, prompt, output}) < 3:
        raise NoSuchColumn("two of time, input and output are the same column; each has one of its own")
    return time, prompt, output


def _place(wanted: str | int, header: Sequence[str]) -> int:
    if isinstance(wanted, int):
        if wanted >= len(header):
            raise NoSuchColumn(f"there is no column {wanted}, only 0 to {len(header) - 1}; positions count from 0")
        return wanted
    for same in (lambda name: name.strip() == wanted, lambda name: _plain(name) == _plain(wanted)):
        found = [place for place, name in enumerate(header) if same(name)]
        if len(found) > 1:
            raise NoSuchColumn(f"{len(found)} columns are called {wanted!r}; give the position of one, from 0 on")
        if found:
            return found[0]
    raise NoSuchColumn(f"no column {wanted!r}; there are {listed(header)}; name them: {SPELLING}")


def listed(names: Iterable[str]) -> str:
    """Names for a message: printable, and not too many."""
    shown = [re.sub(r"[^\x20-\x7e]", "?", name.strip())[:40] for name in names]
    return ", ".join([*shown[:20], *(["..."] if len(shown) > 20 else [])]) or "none"


def _plain(name: str) -> str:
    return re.sub(r"[\s_]+", "", name).lower()
