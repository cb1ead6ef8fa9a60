"""Lines of a trace as rows of three fields, still text: separated values or JSON lines."""

import csv
import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from specloop_sim.traces.columns import (
    BY_POSITION,
    SPELLING,
    Columns,
    NoSuchColumn,
    Unit,
    listed,
    places,
    recognise,
)
from specloop_sim.traces.lines import Lines

DELIMITERS = (",", ";", "\t")

Row = tuple[int, str, str, str]
"""Line, time, input tokens, output tokens."""


class Rows:
    """The rows of a trace, with what had to be mended on the way; `unit` is the one that its format has."""

    def __init__(self, lines: Lines, columns: Columns | None) -> None:
        self._repairs: list[str] = []
        self._spans = self._first_span = 0
        """How many rows span several lines, and the first of these lines."""
        self.unit: Unit | None = columns.unit if columns is not None else None
        self._lines = lines
        self._columns = columns
        first = next((line for line in lines if not line.isspace()), None)
        if first is None:
            raise lines.wrong("the file has only blank lines; a trace has a header and one row for each request")
        if first.lstrip().startswith("["):
            raise lines.wrong("this looks like one JSON list; write one object a line: jq -c '.[]'")
        self._rows = self._objects(first) if first.lstrip().startswith("{") else self._separated(first)

    def __iter__(self) -> Iterator[Row]:
        return self._rows

    def repairs(self) -> list[str]:
        """What was mended in the rows read so far, in words."""
        if not self._spans:
            return self._repairs
        rows = "1 row spans" if self._spans == 1 else f"{self._spans:,} rows span"
        return [*self._repairs, f"{rows} several lines, as quotes allow, from line {self._first_span} on"]

    def _cut_off(self) -> bool:
        """Whether the last line read may be left out as cut off: it is the file's last and has no end."""
        if not self._lines.whole:
            self._repairs.append(f"the last line, {self._lines.number}, is cut off and was left out")
        return not self._lines.whole

    def _separated(self, first: str) -> Iterator[Row]:
        try:
            delimiter = _delimiter(first, self._columns)
            header = self._header(first, delimiter)
        except csv.Error as error:
            raise self._lines.wrong(f"no line of columns: {error}; is this a trace?") from None
        if header is None:
            return
        time, prompt, output = self._places(header)
        begun = [] if self._names_only(header, prompt, output) else [first]
        width, before = len(header), self._lines.number - len(begun)
        reader = csv.reader(chain(begun, self._lines), delimiter=delimiter, skipinitialspace=True, strict=True)
        try:
            for fields in reader:
                line = self._lines.number
                if line > before + 1 and before:
                    self._span(before + 1)
                before = line
                if len(fields) != width and not self._fits(fields, width):
                    continue
                if not fields[output] and (not any(fields) or self._cut_off()):
                    continue
                yield line, fields[time], fields[prompt], fields[output]
        except csv.Error as error:
            self._judge(error, before + 1)

    def _header(self, first: str, delimiter: str) -> list[str] | None:
        """Fields of the first line; None where the file ends in the middle of it."""
        try:
            return next(csv.reader([first], delimiter=delimiter, skipinitialspace=True, strict=True))
        except csv.Error as error:
            self._judge(error, self._lines.number)
            return None

    def _span(self, line: int) -> None:
        self._spans += 1
        self._first_span = self._first_span or line

    def _judge(self, error: csv.Error, start: int) -> None:
        """Raise what csv stumbled over in the record that starts here; but the file's last line may be cut off."""
        if "unexpected end" in str(error):
            if start >= self._lines.number and self._cut_off():
                return
            raise self._lines.wrong("a quote that opens here is never closed; close or remove it", start) from None
        if "field limit" in str(error):
            message = f"a field of more than {csv.field_size_limit():,} characters; leave its column out"
            raise self._lines.wrong(message) from None
        raise self._lines.wrong("a quote stands inside a field; double it or remove it") from None

    def _fits(self, fields: Sequence[str], width: int) -> bool:
        """Whether a row of another width than the header can be used; blank ones cannot, others are refused."""
        if not any(field.strip() for field in fields):
            return False
        if len(fields) > width and not any(fields[width:]):
            return True
        if len(fields) < width and self._cut_off():
            return False
        more = "is a comma in a number, or is text without quotes?" if len(fields) > width else "is it cut off?"
        message = f"{len(fields)} fields where the first line has {width}; {more} mend or remove the line"
        raise self._lines.wrong(message)

    def _places(self, header: Sequence[str]) -> tuple[int, int, int]:
        columns = self._columns or recognise(header)
        if columns is None and len(header) > 1 and all(_is_number(field) for field in header[1:]):
            raise self._lines.wrong(f"no header here; name the columns by position: {BY_POSITION}")
        if columns is None:
            raise self._lines.wrong(
                f"none of the known formats has these columns: {listed(header)}; name them: {SPELLING}"
            )
        self.unit = columns.unit
        try:
            return places(columns, header)
        except NoSuchColumn as error:
            raise self._lines.wrong(str(error)) from None

    def _names_only(self, fields: Sequence[str], prompt: int, output: int) -> bool:
        """Whether the first line is a header: always where columns are named, and where it holds no numbers."""
        if self._columns is None or not self._columns.by_position:
            return True
        found = not _is_number(fields[prompt]) and not _is_number(fields[output])
        if found:
            self._repairs.append(f"line {self._lines.number} was taken for a header: {listed(fields)}")
        return found

    def _objects(self, first: str) -> Iterator[Row]:
        names: tuple[str, str, str] | None = None
        for line in chain([first], self._lines):
            if line.isspace():
                continue
            found = self._object(line)
            if found is None:
                return
            if names is None:
                keys = tuple(found)
                time, prompt, output = self._places(keys)
                names = keys[time], keys[prompt], keys[output]
            try:
                fields = [found[name] for name in names]
            except KeyError as error:
                raise self._lines.wrong(
                    f"no {error} here; there are {listed(found)}; mend or remove the line"
                ) from None
            time_text, prompt_text, output_text = (one if type(one) is str else str(one) for one in fields)
            yield self._lines.number, time_text, prompt_text, output_text

    def _object(self, line: str) -> dict[str, Any] | None:
        """The object on a line; None where the last one is cut off."""
        try:
            found = json.loads(line)
        except RecursionError:
            raise self._lines.wrong("brackets nested too deep; is this a trace?") from None
        except ValueError as error:
            if self._cut_off():
                return None
            at = f" at character {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            raise self._lines.wrong(f"not JSON{at}, where earlier lines are; mend or remove the line") from None
        if not isinstance(found, dict):
            raise self._lines.wrong("no JSON object; every line is one, such as {...}; mend or remove the line")
        return found


def _delimiter(first: str, columns: Columns | None) -> str:
    """The one under which the first line has the columns that are wanted, or else the most fields."""
    fields = {one: next(csv.reader([first], delimiter=one, skipinitialspace=True)) for one in DELIMITERS}
    for one, header in fields.items():
        wanted = columns or recognise(header)
        try:
            if wanted is not None and not wanted.by_position and places(wanted, header):
                return one
        except NoSuchColumn:
            continue
    return max(DELIMITERS, key=lambda one: len(fields[one]))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
