"""Traces: when requests came, and how long their prompts and answers were; read from CSV and JSON lines.

Whoever reads a trace gets it whole and in order with every repair in words, or one error that names the line: a
trace is never half understood.  Rows become numbers a chunk at a time, so memory is that of the arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import BinaryIO

import numpy as np

from specloop_sim.traces.columns import SPELLING, Columns, ColumnsError, Unit, parse_columns
from specloop_sim.traces.lines import Lines, TraceError
from specloop_sim.traces.numbers import (
    DATE_EXAMPLE,
    Clock,
    Floats,
    Integers,
    Reader,
    Tokens,
    clock_of,
    short,
)
from specloop_sim.traces.rows import Row, Rows

__all__ = ["Columns", "ColumnsError", "Trace", "TraceError", "parse_columns", "read_trace"]

MOST_ROWS = 20_000_000
"""Rows: .7 GB of arrays and line numbers; assumed more than anyone simulates."""
CHUNK_ROWS = 1 << 16
LONG_GAP_SECONDS = 3600.0
LONGEST_SECONDS = 400 * 86_400.0
"""More than a year, assumed: BurstGPT, the longest public trace, has less.  Beyond this the unit is wrong."""
SHORTEST_SECONDS = 1.0
MANY_ROWS = 100
"""More rows than this within a second are a wrong unit rather than traffic."""

PROMPT, OUTPUT = Tokens("input tokens"), Tokens("output tokens")


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests in order of arrival, at least one."""

    name: str
    arrivals: Floats
    """Seconds after the first request, rising."""
    prompt_tokens: Integers
    output_tokens: Integers
    """At least 1."""
    start: float | None = None
    """Epoch seconds of the first request, where times are dates or count from 1970; dates without a zone are UTC."""
    repairs: tuple[str, ...] = ()
    """Everything that was mended or may surprise, in words."""

    @property
    def seconds(self) -> float:
        """From the first arrival to the last."""
        return float(self.arrivals[-1])

    def __len__(self) -> int:
        return len(self.arrivals)

    def cut(self, seconds: float) -> "Trace":
        """Its first seconds."""
        count = int(self.arrivals.searchsorted(seconds, side="right"))
        return replace(
            self,
            arrivals=self.arrivals[:count],
            prompt_tokens=self.prompt_tokens[:count],
            output_tokens=self.output_tokens[:count],
        )


def read_trace(stream: BinaryIO, name: str, columns: Columns | None = None) -> Trace:
    """A trace from a file that is open for bytes, packed by gzip or not; without columns its header is recognised.

    Raises TraceError for everything that cannot be repaired, OSError when reading fails.
    """
    lines = Lines(stream, name)
    rows = Rows(lines, columns)
    table = _Table(lines)
    source = iter(rows)
    while chunk := list(islice(source, CHUNK_ROWS)):
        table.add(chunk, rows.unit)
    return table.trace((*rows.repairs(), *lines.repairs()))


class _Table:
    """Rows as numbers, chunk by chunk, and then the trace that they make."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._clock: Clock | None = None
        self._chunks: list[tuple[Integers, Floats, Integers, Integers]] = []
        """Line, seconds, input and output tokens."""
        self._rows = 0
        self._without_answer = 0
        self._first_without = 0

    def add(self, rows: Sequence[Row], unit: Unit | None) -> None:
        """Take on some rows.  Raises TraceError at the first field that is wrong."""
        numbers, times, prompts, outputs = zip(*rows, strict=True)
        self._rows += len(rows)
        if self._rows > MOST_ROWS:
            raise self._lines.wrong(f"more than {MOST_ROWS:,} rows; keep a part of the trace, such as its first hour")
        if self._clock is None:
            self._clock = self._clock_for(numbers[0], times[0], unit)
        readers: tuple[Reader, ...] = (self._clock, PROMPT, OUTPUT)
        columns = tuple(zip(readers, (times, prompts, outputs), strict=True))
        try:
            seconds, taken, given = (reader.read(texts) for reader, texts in columns)
        except (ValueError, TypeError, OverflowError):
            raise self._first_fault(numbers, columns) from None
        lines, answered = np.array(numbers, np.int64), given > 0
        if not answered.all():
            self._first_without = self._first_without or int(lines[~answered][0])
            self._without_answer += int((~answered).sum())
        whole = (taken[answered].astype(np.int64), given[answered].astype(np.int64))
        self._chunks.append((lines[answered], seconds[answered], *whole))

    def trace(self, mended: Sequence[str]) -> Trace:
        """The trace that the rows make, with what was mended on the way to them."""
        if self._clock is None:
            raise self._lines.wrong("there is a header and no row; a trace has one row for each request")
        lines, seconds, prompts, outputs = (np.concatenate(column) for column in zip(*self._chunks, strict=True))
        self._chunks.clear()
        if not len(lines):
            raise self._lines.wrong(f"none of the {self._rows:,} requests has an answer; is output the right column?")
        repairs = [*mended, *self._left_out()]
        late = seconds < np.maximum.accumulate(seconds)
        if late.any():
            first = int(lines[late][0])
            repairs.append(f"{_rows(int(late.sum()))} out of order, from line {first} on, and sorted")
            order = np.argsort(seconds, kind="stable")
            lines, seconds, prompts, outputs = (column[order] for column in (lines, seconds, prompts, outputs))
        arrivals = seconds - seconds[0]
        self._refuse_span(arrivals, lines)
        repairs += _gaps(arrivals, lines)
        return Trace(
            self._lines.name, arrivals, prompts, outputs, self._clock.since_1970(float(seconds[0])), tuple(repairs)
        )

    def _clock_for(self, line: int, text: str, unit: Unit | None) -> Clock:
        """How the first time is written says how all are."""
        try:
            clock = clock_of(text, unit)
        except ValueError:
            what = f"times are numbers, such as {short(text)}, of an unknown unit"
            raise self._lines.wrong(f"{what}; say it: {SPELLING}", line) from None
        if clock is None:
            what = f"time {short(text)} is neither a number nor a date such as {DATE_EXAMPLE}"
            raise self._lines.wrong(f"{what}; is this the right column?", line)
        return clock

    def _first_fault(self, lines: Sequence[int], columns: Sequence[tuple[Reader, Sequence[str]]]) -> TraceError:
        """The error of the first row that has one."""
        for place, line in enumerate(lines):
            for reader, texts in columns:
                if (message := reader.fault(texts[place])) is not None:
                    return self._lines.wrong(message, line)
        return self._lines.wrong(f"lines {lines[0]} to {lines[-1]} cannot be read as numbers", lines[0])

    def _left_out(self) -> list[str]:
        if not self._without_answer:
            return []
        count, first = self._without_answer, self._first_without
        return [f"{_rows(count)} without output tokens, from line {first} on, and left out"]

    def _refuse_span(self, arrivals: Floats, lines: Integers) -> None:
        """A trace of years, or of many requests within a second, has another unit than it seems."""
        span = float(arrivals[-1])
        if span > LONGEST_SECONDS:
            message = f"the times span {span / 86_400.0:,.0f} days from line {lines[0]} to here"
            raise self._lines.wrong(f"{message}; mend the line, or give another unit (s, ms, us)", int(lines[-1]))
        if span < SHORTEST_SECONDS and len(arrivals) > MANY_ROWS:
            message = f"{len(arrivals):,} requests within {span:.3g} s; give the unit of their times (s, ms, us)"
            raise self._lines.wrong(message, int(lines[-1]))


def _gaps(arrivals: Floats, lines: Integers) -> list[str]:
    gaps = np.diff(arrivals)
    count = int((gaps > LONG_GAP_SECONDS).sum())
    if not count:
        return []
    longest = int(gaps.argmax())
    length = f"{gaps[longest] / 3600.0:.1f} hours before line {lines[longest + 1]}"
    if count == 1:
        return [f"1 gap longer than an hour, {length}, was kept"]
    return [f"{count:,} gaps longer than an hour, the longest {length}, were kept"]


def _rows(count: int) -> str:
    return "1 row was" if count == 1 else f"{count:,} rows were"
