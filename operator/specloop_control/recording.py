"""A recording: samples of all pods of one target over some time, in one compact file.

The file is SQLite's: a table `meta` with the header, and a table `chunk` with one block of columns (columns.py) for
each pod and stretch of time.  A chunk is there as a whole or not at all, whatever ends the program that writes it.
"""

import heapq
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Self
from urllib.parse import quote

from specloop_control.columns import unpack
from specloop_control.recorder import Recorder
from specloop_control.recording_file import (
    Gap,
    Header,
    RecordingError,
    blobs,
    intact,
    part_of,
    read_header,
    readable,
    refuse_other_files,
    refuse_short_files,
)
from specloop_engine.sample import Sample

__all__ = ["Gap", "Header", "Recording", "RecordingError", "write_recording"]

CHUNK_SAMPLES = 960
"""Samples of a pod that are written as one block: four hours at 15 s, which pack into some 20 kB."""


class Recording:
    """An open recording; a context manager."""

    def __init__(self, path: Path, database: sqlite3.Connection, header: Header) -> None:
        """Use `open`."""
        self.header = header
        self._path = path
        self._database = database

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a finished recording; raises RecordingError for whatever is no such file."""
        part = part_of(path)
        if not path.exists() and part.exists():
            raise RecordingError(f"{path} is not finished ({part.name} is there): run the same record command again")
        refuse_other_files(path)
        refuse_short_files(path)
        database = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1", uri=True)
        try:
            with readable(path):
                header = read_header(path, database)
        except BaseException:
            database.close()
            raise
        return cls(path, database, header)

    def samples(self) -> Iterator[tuple[str, Sample]]:
        """All samples with their pods, in the order of time and pod; may be called again.

        One block of each pod is in memory at a time.  Raises RecordingError where a block is damaged.
        """
        pods = [self._samples_of(pod) for pod in self.header.pods]
        return heapq.merge(*pods, key=lambda one: (one[1].at, one[0]))

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        """The recording itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def _samples_of(self, pod: str) -> Iterator[tuple[str, Sample]]:
        for start, end, blob in blobs(self._path, self._database, pod):
            with intact(self._path, pod, start, end):
                samples = unpack(blob)
            for sample in samples:
                yield pod, sample


def write_recording(path: Path, header: Header, samples: Iterable[tuple[str, Sample]]) -> Header:
    """Write samples, each pod's in the order of time, into a new file; the header with what it learned of them.

    Raises ValueError where a pod's samples are not in order; a file at the path is replaced.
    """
    recorder = Recorder.begin(path, header)
    try:
        for pod, ones in _batches(samples):
            if any(later.at <= earlier.at for earlier, later in pairwise(ones)):
                raise ValueError(f"the samples of {pod} are not in the order of time")
            recorder.add({pod: ones}, ones[-1].at)
        return recorder.finish(header.created_at)
    finally:
        recorder.close()


def _batches(samples: Iterable[tuple[str, Sample]]) -> Iterator[tuple[str, list[Sample]]]:
    waiting: dict[str, list[Sample]] = {}
    for pod, sample in samples:
        ones = waiting.setdefault(pod, [])
        ones.append(sample)
        if len(ones) == CHUNK_SAMPLES:
            yield pod, waiting.pop(pod)
    yield from waiting.items()
