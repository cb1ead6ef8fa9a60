"""Toy engines as processes of a test: their commands, what they wrote down, and whether any of them still runs."""

import socket
import sys
from pathlib import Path
from typing import NamedTuple

SCRIPT = Path(__file__).with_name("toy_engine.py")


class Entry(NamedTuple):
    """A line of a journal: when, at which K, and what happened."""

    seconds: float
    tokens: int
    event: str


def toy_command(port: int, tokens: int, *toy: str, journal: Path | None = None) -> list[str]:
    """The command of a toy engine at K = `tokens`, with behaviours."""
    speculation = ["--spec-type", "draft-simple", "--spec-draft-n-max", str(tokens)] if tokens else []
    behaviours = [part for one in toy for part in ("--toy", one)]
    written = ["--toy-journal", str(journal)] if journal is not None else []
    return [sys.executable, str(SCRIPT), "--port", str(port), *speculation, *behaviours, *written]


def read_journal(journal: Path) -> list[Entry]:
    """What toy engines wrote down, in the order in which it happened."""
    if not journal.exists():
        return []
    lines = [line.split(" ", 2) for line in journal.read_text().splitlines()]
    return [Entry(float(seconds), int(tokens), event) for seconds, tokens, event in lines]


def events(journal: Path) -> list[tuple[int, str]]:
    """K and event of every line of a journal."""
    return [(entry.tokens, entry.event) for entry in read_journal(journal)]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def running(*words: str) -> list[int]:
    """Ids of the processes whose command line holds all these words; dead ones that nobody waited for do not count."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if all(word in command for word in words):
            found.append(int(entry.name))
    return found
