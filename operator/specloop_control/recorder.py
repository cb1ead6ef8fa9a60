"""A recording that is being written, chunk by chunk; whatever ends the program, no finished chunk is lost."""

import json
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Self

from specloop_control.columns import pack, unpack_times
from specloop_control.recording_file import (
    FORMAT_VERSION,
    TABLES,
    Gap,
    Header,
    blobs,
    checksum,
    intact,
    part_of,
    readable,
    refuse_other_files,
    stored,
    stored_header,
    writable,
)
from specloop_engine.sample import Sample

GAP_INTERVALS = 2.5
"""A pod that was silent for more of its usual intervals missed two scrapes: one may come late."""


class Recorder:
    """A recording that is being written, at its path with `.part` behind it until `finish`.

    Raises RecordingError where that cannot be written.
    """

    def __init__(self, path: Path, database: sqlite3.Connection, header: Header, done_until: float) -> None:
        """Use `begin` or `resume`."""
        self.path = path
        self.part = part_of(path)
        self.header = header
        """The header as it is so far."""
        self.done_until = done_until
        self._database = database

    @classmethod
    def begin(cls, path: Path, header: Header) -> Self:
        """Begin a new one; whatever is at the path with `.part` is replaced."""
        part = part_of(path)
        for old in (part, part.with_name(f"{part.name}-journal")):  # the journal would spoil a new file
            old.unlink(missing_ok=True)
        own = replace(header, specloop_version=version("specloop"), format_version=FORMAT_VERSION)
        recorder = cls(path, _to_write(part), own, header.start)
        try:
            with recorder._transaction():
                for statement in TABLES:
                    recorder._database.execute(statement)
        except BaseException:
            recorder.close()
            raise
        return recorder

    @classmethod
    def resume(cls, path: Path) -> Self:
        """Go on with one that was interrupted; raises RecordingError where there is none that can be read."""
        part = part_of(path)
        refuse_other_files(part)
        database = _to_write(part)
        try:
            with writable(part):
                database.execute("BEGIN EXCLUSIVE")  # takes back what was written by half
                database.execute("COMMIT")
            with readable(part):
                return cls(path, database, stored_header(part, database), float(stored(database, "doneUntil")))
        except BaseException:
            database.close()
            raise

    @property
    def empty(self) -> bool:
        """Whether there is no sample yet."""
        return self._database.execute("SELECT 1 FROM chunk LIMIT 1").fetchone() is None

    @property
    def bytes_written(self) -> int:
        """Size of the file so far."""
        return self.part.stat().st_size

    def add(self, samples: Mapping[str, Sequence[Sample]], until: float, warnings: Iterable[str] = ()) -> None:
        """Take the samples of one stretch of time, which ends at `until`, each pod's in order; all or nothing."""
        self.header = replace(self.header, warnings=tuple(dict.fromkeys((*self.header.warnings, *warnings))))
        self.done_until = until
        with self._transaction():
            for pod, ones in sorted(samples.items()):
                if ones:
                    row = (ones[0].at, ones[-1].at, pod, len(ones), pack(ones))
                    self._database.execute("INSERT INTO chunk VALUES (?, ?, ?, ?, ?)", row)

    def finish(self, created_at: float) -> Header:
        """Complete the header and give the file its name; the header."""
        self.header = replace(_counted(self.part, self._database, self.header), created_at=created_at)
        with self._transaction():
            mark = str(checksum(self._header_text()))
            self._database.execute("INSERT OR REPLACE INTO meta VALUES ('finished', ?)", (mark,))
        self.close()
        self.part.replace(self.path)
        return self.header

    def close(self) -> None:
        """Leave it unfinished, to be resumed."""
        self._database.close()

    def drop(self) -> None:
        """Leave nothing of it."""
        self.close()
        self.part.unlink()

    def _header_text(self) -> str:
        return json.dumps(asdict(self.header))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """What is done inside is there as a whole, with the header, or not at all."""
        with writable(self.part):
            self._database.execute("BEGIN EXCLUSIVE")
            try:
                yield
                values = {"header": self._header_text(), "doneUntil": json.dumps(self.done_until)}
                self._database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise


def _to_write(path: Path) -> sqlite3.Connection:
    """A connection that keeps every other one from writing, from its first statement until it is closed."""
    with writable(path):
        database = sqlite3.connect(path, timeout=0.0, isolation_level=None)
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        return database


def _counted(path: Path, database: sqlite3.Connection, header: Header) -> Header:
    """The header with the pods, the number of samples, their interval and the gaps."""
    times = {pod: _times(path, database, pod) for pod in _pods(database)}
    steps = array("d", (later - earlier for ones in times.values() for earlier, later in pairwise(ones)))
    interval = median(steps) if steps else None
    gaps = (
        Gap(pod, earlier, later)
        for pod, ones in times.items()
        for earlier, later in pairwise(ones)
        if interval is not None and later - earlier > GAP_INTERVALS * interval
    )
    return replace(
        header,
        pods=tuple(times),
        samples=sum(map(len, times.values())),
        interval_seconds=interval,
        gaps=tuple(sorted(gaps, key=lambda gap: (gap.start, gap.pod))),
    )


def _times(path: Path, database: sqlite3.Connection, pod: str) -> "array[float]":
    times = array("d")
    for start, end, blob in blobs(path, database, pod):
        with intact(path, pod, start, end):
            times.extend(unpack_times(blob))
    return times


def _pods(database: sqlite3.Connection) -> list[str]:
    return [pod for (pod,) in database.execute("SELECT DISTINCT pod FROM chunk ORDER BY pod")]
