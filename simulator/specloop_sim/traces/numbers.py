"""Fields of a trace as numbers: whole columns at once, and in words what is wrong with a single one.

Each `read` turns texts into an array or raises ValueError where any of them is wrong; `fault` says what is wrong with
one, None where nothing is.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specloop_sim.traces.columns import SECONDS, Unit

MOST_TOKENS = 10_000_000
"""Tokens of a prompt or an answer: the longest context that any model claims (Llama 4 Scout)."""
FIRST_EPOCH = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
LAST_EPOCH = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
DATE_EXAMPLE = "2023-11-16 18:15:46.68"

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Reader(Protocol):
    """Reads a column of numbers."""

    def read(self, texts: Sequence[str]) -> Floats:
        """The column; ValueError where any of it is wrong."""

    def fault(self, text: str) -> str | None:
        """What is wrong with one field, and how to mend it."""


class Clock(Reader, Protocol):
    """Reads times as seconds since some moment."""

    def since_1970(self, seconds: float) -> float | None:
        """These seconds counted from 1970; None where the moment is not known."""


class Tokens:
    """Token counts: whole numbers from 0 on, however they are written."""

    def __init__(self, what: str) -> None:
        self._what = what

    def read(self, texts: Sequence[str]) -> Floats:
        """See Reader."""
        numbers = _numbers(texts)
        if not ((numbers >= 0) & (numbers <= MOST_TOKENS) & (numbers == np.floor(numbers))).all():
            raise ValueError("out of range")
        return numbers

    def fault(self, text: str) -> str | None:
        """See Reader."""
        number = number_of(text)
        if number is None:
            return f"{self._what} {short(text)}{_mend_number(text)}"
        if not 0 <= number <= MOST_TOKENS:
            return f"{self._what} {short(text)} cannot be; it is 0 to {MOST_TOKENS:,}; mend or remove the line"
        if number != int(number):
            return f"{self._what} {short(text)} is not whole; is this the right column?"
        return None


class NumberClock:
    """Times that are numbers of one unit."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit

    def read(self, texts: Sequence[str]) -> Floats:
        """See Reader."""
        seconds = _numbers(texts) * SECONDS[self._unit]
        if not ((seconds >= 0.0) & (seconds < LAST_EPOCH)).all():
            raise ValueError("out of range")
        return seconds

    def fault(self, text: str) -> str | None:
        """See Reader."""
        number = number_of(text)
        if number is None:
            mixed = DATE.fullmatch(text.strip())
            return f"time {short(text)}" + (
                " is a date, and earlier ones are numbers; write all alike" if mixed else _mend_number(text)
            )
        if not number >= 0.0:
            return f"time {short(text)} cannot be; it is a number from 0 on; mend or remove the line"
        if number * SECONDS[self._unit] >= LAST_EPOCH:
            return f"time {short(text)} in {self._unit} is beyond the year 2100; give another unit: unit=ms or unit=us"
        return None

    def since_1970(self, seconds: float) -> float | None:
        """See Clock; small numbers count from the trace's own beginning."""
        return seconds if seconds >= FIRST_EPOCH else None


class DateClock:
    """Times that are dates; those without a zone are UTC."""

    def __init__(self, first: datetime) -> None:
        self._first = first

    def read(self, texts: Sequence[str]) -> Floats:
        """See Reader; a mixture of dates with and without zone is a TypeError."""
        first = self._first
        return np.array([(_moment(text) - first).total_seconds() for text in texts])

    def fault(self, text: str) -> str | None:
        """See Reader."""
        date = date_of(text)
        if date is None:
            mixed = ", and earlier ones are dates; write all alike" if number_of(text) is not None else ""
            return f"time {short(text)} is not a date such as {DATE_EXAMPLE}{mixed or '; mend or remove the line'}"
        if (date.tzinfo is None) != (self._first.tzinfo is None):
            has, had = ("a", "none") if date.tzinfo else ("no", "one")
            return f"time {short(text)} has {has} zone, and earlier ones have {had}; write all alike"
        return None

    def since_1970(self, seconds: float) -> float | None:
        """See Clock."""
        first = self._first if self._first.tzinfo else self._first.replace(tzinfo=UTC)
        return first.timestamp() + seconds


def clock_of(text: str, unit: Unit | None) -> Clock | None:
    """The clock that the first time of a trace asks for; None where it is no time.

    Raises ValueError where it is a number and no unit is known.
    """
    if number_of(text) is not None:
        if unit is None:
            raise ValueError("a number without unit")
        return NumberClock(unit)
    date = date_of(text)
    return DateClock(date) if date is not None else None


def number_of(text: str) -> float | None:
    """The number that a field is, perhaps infinite or not a number; None where it is none."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def date_of(text: str) -> datetime | None:
    """The date that a field is, None where it is none."""
    try:
        return _moment(text)
    except ValueError:
        return None


def short(text: str) -> str:
    """A field for a message."""
    return ascii(text if len(text) <= 40 else text[:37] + "...")


def _moment(text: str) -> datetime:
    text = text.strip()
    if not DATE.fullmatch(text):
        raise ValueError(text)
    return datetime.fromisoformat(text)


def _numbers(texts: Sequence[str]) -> Floats:
    """Texts as numbers; Python's own `1_000` and the digits of other scripts are none."""
    joined = "".join(texts)
    if not joined.isascii() or "_" in joined:
        raise ValueError("not plain numbers")
    return np.fromiter(map(float, texts), np.float64, len(texts))


def _mend_number(text: str) -> str:
    if not text.strip():
        return " is missing; mend or remove the line"
    if re.fullmatch(r"\s*[0-9]{1,3}(,[0-9]{3})+\s*", text):
        return " has a comma in it; write numbers without thousands separators"
    return " is not a number; mend or remove the line"
