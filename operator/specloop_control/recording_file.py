"""The file of a recording: its tables, its header, and how they are read.

RecordingError    the file is no recording, or damaged, or unfinished; again only after what the message says
"""

import json
import sqlite3
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from specloop_control.columns import ColumnsError
from specloop_policy.times import rfc3339

FORMAT_VERSION = 1
APPLICATION_ID = 0x53704C70
"""SQLite's mark of whose file it is: "SpLp"."""

PART = ".part"
"""Ending of a recording that is not finished."""

TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    'CREATE TABLE chunk (start REAL NOT NULL, "end" REAL NOT NULL, pod TEXT NOT NULL, samples INTEGER NOT NULL, '
    "blob BLOB NOT NULL)",
    "CREATE INDEX chunk_of_pod ON chunk (pod, start)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT_VERSION}",
)


class RecordingError(ValueError):
    """A file that is no recording, or one that cannot be read; the message says how to mend it."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A span in which a pod gave no sample, seconds since the epoch."""

    pod: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Header:
    """What a recording says of itself; times in seconds since the epoch."""

    source: str
    """Address of the Prometheus that it came from, without credentials."""
    query: str
    """What was asked for."""
    prefix: str
    """What the names of vLLM's series begin with."""
    labels: Mapping[str, str]
    """The labels that were taken for `namespace` and `pod`."""
    start: float
    end: float
    lag_seconds: float
    """How old a sample must be before a live loop that reads this Prometheus uses it."""
    asked: str = ""
    """The span in the words that asked for it; the same words go on with a recording that was interrupted."""
    pods: tuple[str, ...] = ()
    interval_seconds: float | None = None
    """Median time between two samples of one pod; None where there are too few."""
    samples: int = 0
    gaps: tuple[Gap, ...] = ()
    """Where a pod missed two scrapes or more; a pod that came later or went for good has no gap there."""
    warnings: tuple[str, ...] = ()
    """What Prometheus warned of, and what could not be read."""
    created_at: float = 0.0
    specloop_version: str = ""
    format_version: int = FORMAT_VERSION

    def document(self) -> dict[str, Any]:
        """The header as commands print it."""
        return {
            "source": self.source,
            "query": self.query,
            "prefix": self.prefix,
            "labels": dict(self.labels),
            "pods": list(self.pods),
            "startTime": rfc3339(self.start),
            "endTime": rfc3339(self.end),
            "seconds": self.end - self.start,
            "lagSeconds": self.lag_seconds,
            "intervalSeconds": self.interval_seconds,
            "samples": self.samples,
            "gaps": [
                {"pod": gap.pod, "startTime": rfc3339(gap.start), "endTime": rfc3339(gap.end)} for gap in self.gaps
            ],
            "warnings": list(self.warnings),
            "createdTime": rfc3339(self.created_at),
            "specloopVersion": self.specloop_version,
            "formatVersion": self.format_version,
        }


def part_of(path: Path) -> Path:
    """Where a recording is while it is being written."""
    return path.with_name(path.name + PART)


def blobs(path: Path, database: sqlite3.Connection, pod: str) -> Iterator[tuple[float, float, bytes]]:
    """Start, end and block of every chunk of a pod, oldest first."""
    with readable(path):
        found = database.execute('SELECT start, "end", blob FROM chunk WHERE pod = ? ORDER BY start', (pod,))
        yield from iter(found.fetchone, None)  # not from `found`: that would close it, which may be closed already


def refuse_other_files(path: Path) -> None:
    """Raise for what is not there, or begins as no SQLite file does."""
    if not _head(path).startswith(b"SQLite format 3\0"):
        raise RecordingError(f"{path} is no recording: give a file that specloop record wrote")


def refuse_short_files(path: Path) -> None:
    """Raise for a file that is not as long as it says: SQLite reads zeros where a page is cut."""
    head = _head(path)
    page_bytes, pages = struct.unpack_from(">H", head, 16)[0], struct.unpack_from(">I", head, 28)[0]
    size = path.stat().st_size
    if size < page_bytes * pages:
        raise RecordingError(f"{path} is cut short, {size} of {page_bytes * pages} bytes: copy it again, or record it")


def _head(path: Path) -> bytes:
    """The first hundred bytes, SQLite's own header; zeros where there are fewer."""
    try:
        with path.open("rb") as file:
            return file.read(100).ljust(100, b"\0")
    except OSError as error:
        raise RecordingError(f"cannot read {path}: {error.strerror or error}") from error


def read_header(path: Path, database: sqlite3.Connection) -> Header:
    """The header of a finished recording."""
    header = stored_header(path, database)
    finished = stored(database, "finished")
    if finished is None:
        raise RecordingError(f"{path} is not finished: run the same record command again")
    (text,) = database.execute("SELECT value FROM meta WHERE key = 'header'").fetchone()
    if finished != checksum(text):
        raise RecordingError(f"{path} has a header that was changed: it is damaged; record it again")
    found = database.execute("SELECT count(*), total(samples) FROM chunk").fetchone()
    if int(found[1]) != header.samples:
        raise RecordingError(f"{path} has {found[1]:.0f} of {header.samples} samples: it is damaged; record it again")
    return header


def stored_header(path: Path, database: sqlite3.Connection) -> Header:
    """The header of a recording, finished or not."""
    (mark,), (number,) = (database.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version"))
    if mark != APPLICATION_ID:
        raise RecordingError(f"{path} is no recording but another program's database: give one of specloop record")
    if number > FORMAT_VERSION:
        raise RecordingError(f"{path} has format {number}, and this specloop reads {FORMAT_VERSION}: update specloop")
    values = stored(database, "header")
    if not isinstance(values, dict) or values.keys() != {one.name for one in fields(Header)}:
        raise RecordingError(f"{path} has no header that can be read: it is damaged; record it again")
    tuples = {name: tuple(values[name]) for name in ("pods", "warnings")}
    return Header(**{**values, **tuples, "gaps": tuple(Gap(**gap) for gap in values["gaps"])})


def checksum(header: str) -> int:
    """What the mark of a finished recording holds: blocks know when they are damaged, and the header would not."""
    return zlib.crc32(header.encode())


def stored(database: sqlite3.Connection, key: str) -> Any:
    """A value of the table `meta`; None where it has none."""
    row = database.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else json.loads(row[0])


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what SQLite and JSON raise for a damaged file into RecordingError."""
    try:
        yield
    except (sqlite3.Error, json.JSONDecodeError, TypeError) as error:
        raise RecordingError(f"{path} is damaged or cut short ({error}): record it again") from error


@contextmanager
def writable(path: Path) -> Iterator[None]:
    """Turn what SQLite raises where it cannot write into RecordingError."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            raise RecordingError(f"{path} is being written by another specloop record: wait for its end") from error
        raise RecordingError(f"cannot write {path}: {error}") from error


@contextmanager
def intact(path: Path, pod: str, start: float, end: float) -> Iterator[None]:
    """Turn a damaged block into RecordingError."""
    try:
        yield
    except ColumnsError as error:
        span = f"{rfc3339(start)} to {rfc3339(end)}"
        raise RecordingError(f"{path}: the samples of {pod} from {span} are damaged: record it again") from error
