"""How API server and engine core talk: two files in one folder, each written by one of them, whole or not at all.

    desired.json   API server -> engine core   what is wanted, for which start-up profile
    applied.json   engine core -> API server   what is in force since when, and what was wrong

`schemas/` has both as JSON Schema.  A file that is not as agreed is refused with a reason; it is never half taken.
"""

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specloop_vllm.tables import Table, TableError, constant, is_whole, one_k, read_table, read_tokens

FOLDER = "SPECLOOP_LIVE_FOLDER"
"""Variable of the environment that names the folder; live control is off without it."""

MOST_BYTES = 64 * 1024
"""A table of 64 ranges is two kilobytes."""

MOST_GENERATION = 2**53
"""The largest whole number that every reader of JSON keeps."""


class ExchangeError(ValueError):
    """A file, or a wish, that is not as agreed, and why."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What an engine process was started with: what may change while it lives, and what its figures are of."""

    vllm: str
    method: str
    model: str | None
    """Of the drafter."""
    tokens: int
    """K at most: above it the engine would die."""
    requests: int
    """In a step at most."""

    @property
    def hash(self) -> str:
        """Short name of it all: a wish for one profile is none for another."""
        parts = [self.vllm, self.method, self.model, self.tokens, self.requests]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """As it stands in `applied.json`."""
        return {
            "hash": self.hash,
            "vllm": self.vllm,
            "method": self.method,
            "model": self.model,
            "tokens": self.tokens,
            "requests": self.requests,
        }


@dataclass(frozen=True, slots=True)
class Desired:
    """What is wanted."""

    generation: int
    """Counts wishes: a later one has a higher number."""
    profile: str
    """Hash of the start-up profile that it is meant for."""
    table: Table

    def to_json(self) -> dict[str, Any]:
        """One K is written as such."""
        return {"generation": self.generation, "profile": self.profile, **wanted_json(self.table)}


def wanted_json(table: Table) -> dict[str, Any]:
    """A table as a wish has it; one K is written as such."""
    k = one_k(table)
    return {"table": [list(one) for one in table]} if k is None else {"k": k}


def read_desired(data: bytes, *, profile: str | None = None) -> Desired:
    """A wish from JSON; `profile` stands in where it names none.  Raises ExchangeError."""
    found = _object(data)
    unknown = sorted(found.keys() - {"generation", "profile", "k", "table"})
    if unknown:
        raise ExchangeError(f"unknown field {unknown[0]!r:.60}; there are generation, profile, k and table")
    if ("k" in found) == ("table" in found):
        raise ExchangeError("give one of k and table")
    generation, named = found.get("generation"), found.get("profile", profile)
    if not is_whole(generation) or not 1 <= generation <= MOST_GENERATION:
        raise ExchangeError("generation must be a whole number from 1 on")
    if not isinstance(named, str) or not 1 <= len(named) <= 64:
        raise ExchangeError("profile must be the hash of a start-up profile")
    try:
        table = constant(read_tokens(found["k"])) if "k" in found else read_table(found["table"])
    except TableError as error:
        raise ExchangeError(str(error)) from error
    return Desired(generation, named, table)


@dataclass(frozen=True, slots=True)
class Applied:
    """What is in force."""

    profile: Profile | None
    """None where the engine cannot be controlled."""
    generation: int | None
    """Of the wish in force; None while it is as the engine was started."""
    table: Table
    clamped: bool = False
    """Whether the wish asked for more than the engine was started for, and so got the most there is."""
    ignored: int = 0
    """How many wishes could not be taken since the engine began."""
    error: str | None = None
    """Why there is no live control, or why the last wish was not taken; None when all is well."""
    pid: int = 0
    started: int = 0
    """Of the engine core: its process, and when that began in ticks since the machine did."""

    def to_json(self) -> dict[str, Any]:
        """As it stands in `applied.json`."""
        return {
            "profile": None if self.profile is None else self.profile.to_json(),
            "generation": self.generation,
            "table": [list(one) for one in self.table],
            "clamped": self.clamped,
            "ignored": self.ignored,
            "error": self.error,
            "pid": self.pid,
            "started": self.started,
        }


def read_applied(data: bytes) -> Applied:
    """What an engine core wrote; raises ExchangeError."""
    found = _object(data)
    try:
        profile, error, generation = found["profile"], found["error"], found["generation"]
        return Applied(
            None if profile is None else _profile(profile),
            generation if generation is None else int(generation),
            read_table(found["table"]) if found["table"] else (),
            bool(found["clamped"]),
            int(found["ignored"]),
            None if error is None else str(error),
            int(found["pid"]),
            int(found["started"]),
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise ExchangeError(f"applied.json is not as agreed: {problem!r:.200}") from problem


def _profile(found: Mapping[str, Any]) -> Profile:
    model = found["model"]
    return Profile(
        str(found["vllm"]),
        str(found["method"]),
        None if model is None else str(model),
        int(found["tokens"]),
        int(found["requests"]),
    )


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ExchangeError(f"no JSON: {error!s:.200}") from error
    if not isinstance(found, dict):
        raise ExchangeError("no JSON object")
    return found


class Letter:
    """One of the two files: written whole, and read when it is another than before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None

    def write(self, content: Mapping[str, Any]) -> None:
        """Put it in the place of the one before; raises OSError, and leaves that one then."""
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            draft.write_text(json.dumps(content, separators=(",", ":")), encoding="utf-8")
            draft.replace(self.path)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise

    def news(self) -> bytes | None:
        """What it says, if it is another than at the last call; raises ExchangeError where it cannot be read."""
        try:
            now = os.lstat(self.path)
        except FileNotFoundError:
            if self._seen is None:
                return None
            self._seen = None
            raise ExchangeError(f"{self.path.name} is gone") from None
        except OSError as error:
            raise ExchangeError(f"{self.path.name}: {error.strerror}") from error
        seen = now.st_mtime_ns, now.st_ino, now.st_size
        if seen == self._seen:
            return None
        self._seen = seen
        return self.read()

    def read(self) -> bytes:
        """What it says now; raises ExchangeError, and waits for nothing: a pipe is no letter."""
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(self.path, flags), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise ExchangeError(f"{self.path.name} is no file")
                data = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise ExchangeError(f"{self.path.name}: {error.strerror}") from error
        if len(data) > MOST_BYTES:
            raise ExchangeError(f"{self.path.name} has more than {MOST_BYTES} bytes")
        return data


def desired_letter(folder: Path) -> Letter:
    """What the API server writes."""
    return Letter(folder / "desired.json")


def applied_letter(folder: Path) -> Letter:
    """What the engine core writes."""
    return Letter(folder / "applied.json")


def process_start(pid: int) -> int:
    """When a process began, in ticks since the machine did (proc(5), field 22); 0 where nobody knows or it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(text.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of `desired` or `applied`."""
    found: dict[str, Any] = json.loads((Path(__file__).parent / "schemas" / f"{name}.schema.json").read_text("utf-8"))
    return found
