"""What a sweep has found out, in memory, and on disk where it is to be kept: a header, and a line for every run.

A line is written in one piece when its run ends, so that whatever ends the sweep leaves a file that can be read; a
last line without an end is dropped.  A run is found again by the trace and the values of its parameters.
"""

import fcntl
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from specloop_sim.sweep.figures import Measured
from specloop_sim.sweep.space import Values

FORMAT = "specloop sweep 1"
"""First word of a study's header; another number is another form."""

Key = tuple[int, Values | None]
"""Place of the trace, and the values; None is speculation off."""


class StudyError(ValueError):
    """A file that cannot be this sweep's study; one line that says why, and what to do."""


class Study:
    """Runs by their key; open it, or make it without a file."""

    def __init__(self, descriptor: int | None = None, found: Mapping[Key, Measured] | None = None) -> None:
        self._descriptor = descriptor
        self._runs = dict(found or {})

    @classmethod
    def open(cls, path: Path, header: Mapping[str, Any], *, anew: bool) -> "Study":
        """The study in a file, which comes into being where there is none.

        With `anew` a file that is not this sweep's is replaced.  Raises StudyError, or OSError.
        """
        if not path.exists():
            _begin(path, header)
        descriptor = _locked(path)
        try:
            found = _read(descriptor, path, header)
        except StudyError:
            os.close(descriptor)
            if not anew:
                raise
            _begin(path, header)
            descriptor, found = _locked(path), {}
        return cls(descriptor, found)

    def find(self, key: Key) -> Measured | None:
        """What came of a run, if that is known."""
        return self._runs.get(key)

    def keep(self, key: Key, measured: Measured) -> None:
        """Take note of a run that has ended."""
        if self._descriptor is not None:
            os.write(self._descriptor, _line({"trace": key[0], "values": key[1], **asdict(measured)}))
        self._runs[key] = measured

    def __len__(self) -> int:
        return len(self._runs)

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _line(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, separators=(",", ":")) + "\n").encode()


def _begin(path: Path, header: Mapping[str, Any]) -> None:
    """Write a study without runs, aside and renamed: there is never half a header."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    try:
        os.write(descriptor, _line({"format": FORMAT, **header}))
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _locked(path: Path) -> int:
    """A study open for more lines, by this process alone."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StudyError(f"{path}: another sweep is writing it; wait for that, or name another file") from None
    return descriptor


def _read(descriptor: int, path: Path, header: Mapping[str, Any]) -> dict[Key, Measured]:
    """The runs of a study with this header; a last line that was cut off goes away."""
    data = _whole(descriptor)
    ends = data.rfind(b"\n") + 1
    lines = data[:ends].splitlines()
    _compare(path, _parsed(path, lines[0], 1) if lines else {}, header)
    found = dict(_run(path, line, place) for place, line in enumerate(lines[1:], 2))
    os.ftruncate(descriptor, ends)
    return found


def _whole(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()


def _parsed(path: Path, line: bytes, place: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise StudyError(f"{path}:{place}: no line of a sweep's study; name another file, or begin anew with --force")
    return value


def _compare(path: Path, there: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    if there.get("format") != FORMAT:
        raise StudyError(f"{path} is no study of a sweep; name another file, or replace it with --force")
    differing = [name for name in {**header, **there} if name != "format" and there.get(name) != header.get(name)]
    if differing:
        how = "; ".join(_difference(name, there.get(name), header.get(name)) for name in differing)
        raise StudyError(f"{path} is the study of another sweep: {how}; name another file, or begin anew with --force")


def _difference(name: str, there: Any, here: Any) -> str:
    """How two headers differ in a field, with what they say where that is short."""
    if all(one is None or isinstance(one, str | int | float) for one in (there, here)):
        return f"{name} is {_shown(there)} there and {_shown(here)} here"
    return f"{name} differs"


def _shown(value: Any) -> str:
    return "not given" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _run(path: Path, line: bytes, place: int) -> tuple[Key, Measured]:
    value = _parsed(path, line, place)
    try:
        trace, values = value.pop("trace"), value.pop("values")
        return (int(trace), None if values is None else tuple(values)), Measured(**value)
    except (KeyError, TypeError, ValueError):
        raise StudyError(f"{path}:{place}: no run of a sweep; remove the line, or begin anew with --force") from None
