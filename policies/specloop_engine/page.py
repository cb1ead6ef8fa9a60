"""A `/metrics` page in Prometheus' text format: the series that we want of it, and nothing else.

prometheus_client reads the lines, because it knows the format's corners; it takes milliseconds for a whole page of an
engine, so it is given only the lines whose series are wanted, found by one regular expression.  What follows:

- A line of a wanted series is read or refused.  All other lines are skipped unread: what another exporter on the page
  gets wrong (a middleware, a sidecar) must not blind us to the engine.
- The page as a whole must be text in UTF-8, of metrics, complete (its last line has an end) and of bounded size.
- A series that occurs twice is refused: two pages in one, or one process behind two exporters.
- Types, help texts, timestamps, exemplars and `# EOF` are accepted and not needed.
- Whatever is wrong is a PageError that names the line.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

MAX_CHARACTERS = 16 * 1024 * 1024
"""Longest page that is looked at: a real one has 60 kB, one with sixteen ranks less than 1 MB."""

MAX_LINE_CHARACTERS = 16 * 1024
"""Longest line of a wanted series: real ones have up to 200, and labels can cost time by the square of their length."""

MAX_WANTED_CHARACTERS = 1024 * 1024
"""Longest that all lines of wanted series may be together, which takes about a second: a real engine has about thirty
such lines a rank, 3 kB."""

QUOTED_CHARACTERS = 60
"""So much of a line is quoted in an error."""


class PageError(ValueError):
    """This is no metrics page, or one that cannot be trusted; `line` is where (1 for the page as a whole)."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a page: a name, its labels and its value; `line` counts from 1."""

    name: str
    labels: Mapping[str, str]
    value: float
    line: int


@dataclass(frozen=True, slots=True)
class Page:
    """The wanted series that a page has, by name."""

    series: Mapping[str, tuple[Series, ...]]

    def __getitem__(self, name: str) -> tuple[Series, ...]:
        """The series of this name in the order of the page; empty when it has none."""
        return self.series.get(name, ())


def parse_page(text: str | bytes, wanted: Collection[str]) -> Page:
    """The series of a page whose names, suffixes such as `_total` or `_bucket` included, are in `wanted`.

    Raises PageError, and nothing else, for whatever is wrong with the page.
    """
    page = _decode(text)
    _refuse_other_formats(page)
    lines = tuple(_wanted_lines(page, frozenset(wanted)))
    if not lines:
        _refuse_other_text(page)
    if not page.endswith("\n") and not page.endswith("# EOF"):
        raise PageError(page.count("\n") + 1, "the page ends inside this line: truncated")
    found: dict[str, list[Series]] = {}
    for one in _read(lines):
        found.setdefault(one.name, []).append(one)
    _refuse_twice(found.values())
    return Page({name: tuple(series) for name, series in found.items()})


def _decode(text: str | bytes) -> str:
    if len(text) > MAX_CHARACTERS:
        raise PageError(1, f"the page has {len(text):,} characters; {MAX_CHARACTERS:,} are read at most")
    return (_decode_bytes(text) if isinstance(text, bytes) else text).removeprefix("\ufeff")


def _decode_bytes(page: bytes) -> str:
    if page.startswith(b"\x1f\x8b"):
        raise PageError(1, "the page is compressed with gzip")
    if page.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise PageError(1, "the page is UTF-16; save it as UTF-8")
    try:
        return page.decode()
    except UnicodeDecodeError as error:
        line = page.count(b"\n", 0, error.start) + 1
        raise PageError(line, f"byte 0x{page[error.start]:02x} is not UTF-8") from error


def _refuse_other_formats(page: str) -> None:
    """Raise for what a wrong address or a failing proxy answers."""
    if (place := page.find("\0")) >= 0:
        raise PageError(page.count("\n", 0, place) + 1, "a NUL character: this is binary, not text")
    start = page[:MAX_LINE_CHARACTERS].lstrip()
    if not start and not page.strip():
        raise PageError(1, "the page is empty")
    if start.startswith("<"):
        raise PageError(1, f"this is HTML or XML, not metrics: {_quote(start)}")
    if re.match(r'\[|\{\s*(\}|"[^"\n]*"\s*:)', start):
        raise PageError(1, f"this is JSON, not metrics: {_quote(start)}")


SERIES_LINE = re.compile(
    r"[a-z_:][\w:.]*+[ \t]*+(\{.*\})?[ \t]*+[-+]?(\d[\d.]*+(e[-+]?\d++)?+|inf|nan)([ \t].*)?$",
    re.ASCII | re.IGNORECASE,
)
"""A line of any series, closely enough to tell it from prose; possessive, so that no line takes long."""


def _refuse_other_text(page: str) -> None:
    """Raise when a page without a wanted series begins with neither a comment nor any other series."""
    number, line = next((n, text.strip()) for n, text in enumerate(page.split("\n"), 1) if text.strip())
    if not line.startswith(("#", "{")) and not SERIES_LINE.match(line[:MAX_LINE_CHARACTERS]):
        raise PageError(number, f"this is not metrics: {_quote(line)}")


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    name: str
    text: str


def _wanted_lines(page: str, wanted: frozenset[str]) -> Iterator[_Line]:
    page = "\n" + page  # so that every line, the first too, begins with the literal that the search looks for
    number, counted, characters = 0, 0, 0
    for match in _finder(wanted).finditer(page):
        number, counted = number + page.count("\n", counted, match.start() + 1), match.start() + 1
        text = match[0].strip()
        characters += len(text)
        if len(text) > MAX_LINE_CHARACTERS:
            raise PageError(number, f"the line is longer than {MAX_LINE_CHARACTERS:,} characters: {_quote(text)}")
        if characters > MAX_WANTED_CHARACTERS:
            raise PageError(number, f"the engine's series alone have more than {MAX_WANTED_CHARACTERS:,} characters")
        yield _Line(number, match[1], text)


@lru_cache(maxsize=32)
def _finder(wanted: frozenset[str]) -> re.Pattern[str]:
    """Names by their prefix, because alternatives that begin alike are tried one after another at every line."""
    ends: dict[str, list[str]] = {}
    for name in sorted(wanted):
        prefix, colon, end = name.rpartition(":")
        ends.setdefault(re.escape(prefix + colon), []).append(re.escape(end))
    names = "|".join(f"{prefix}(?:{'|'.join(found)})" for prefix, found in ends.items()) or "(?!)"
    return re.compile(rf"\n[ \t]*({names})(?![\w:])[^\n]*", re.ASCII)


def _read(lines: Sequence[_Line]) -> Iterator[Series]:
    """Read all lines in one call, which is faster than one by one; one by one to find which of them is wrong."""
    try:
        samples = _samples("\n".join(line.text for line in lines))
    except UNREADABLE:
        samples = [_sample(line) for line in lines]
    for line, sample in zip(lines, samples, strict=True):
        if sample.name != line.name:
            raise PageError(line.number, f"{line.name} is not followed by labels or a value: {_quote(line.text)}")
        yield Series(line.name, sample.labels, sample.value, line.number)


UNREADABLE = (ValueError, IndexError, OverflowError)
"""What prometheus_client raises for a line that it cannot read; a number of 400 digits is no float."""


class _Sample(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


def _samples(text: str) -> list[_Sample]:
    families = text_string_to_metric_families(text)
    return [_Sample(one.name, one.labels, float(one.value)) for family in families for one in family.samples]


def _sample(line: _Line) -> _Sample:
    try:
        return _samples(line.text)[0]
    except UNREADABLE as error:
        raise PageError(line.number, f"cannot be read as a name, labels and a number: {_quote(line.text)}") from error


def _refuse_twice(families: Iterable[Sequence[Series]]) -> None:
    for family in families:
        seen: dict[frozenset[tuple[str, str]], int] = {}
        for one in family:
            first = seen.setdefault(frozenset(one.labels.items()), one.line)
            if first != one.line:
                raise PageError(one.line, f"{one.name} with the same labels is on line {first} already")


def _quote(text: str) -> str:
    """The start of some text, safe to print."""
    line = text[: QUOTED_CHARACTERS + 1].split("\n", 1)[0]
    return repr(line) if len(line) <= QUOTED_CHARACTERS else repr(line[:QUOTED_CHARACTERS]) + "..."
