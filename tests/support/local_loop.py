"""`specloop local` as a process round a real engine."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import httpx
import pytest

from tests.support.toys import free_port

END_SECONDS = 40.0
"""`local` gives an engine 18 s to end, and kills it then: one that is left would keep our end of its pipe open."""

CHANGE = re.compile(r"^specloop \S+ (\w+) (\S+) → (\S+): ")


class Local:
    """`specloop local` as a process; what it says on stderr is kept line by line."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *flags: str,
        policy: Path,
        environment: Mapping[str, str] | None = None,
        ready_seconds: float = 30.0,
    ) -> None:
        self.port = free_port()
        self._ready_seconds = ready_seconds
        self.url = f"http://127.0.0.1:{self.port}"
        self.lines: list[str] = []
        self._command = [
            *(sys.executable, "-m", "specloop_cli", "local", "--policy", str(policy), "--drain", "1", *flags, "--"),
            *map(str, command),
            *("--port", str(self.port)),
        ]
        self._environment = {**os.environ, **(environment or {})}

    def __enter__(self) -> Self:
        """Start it, and wait until the engine answers."""
        self.process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=self._environment
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.wait_until(lambda: healthy(self.url), self._ready_seconds, "the engine to be healthy")
        return self

    def __exit__(self, *_: object) -> None:
        """End it, come what may."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self._reader.join(5)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())
            if line.startswith("specloop "):
                sys.stdout.write(line)  # shown where the test fails

    @property
    def changes(self) -> list[tuple[str, str, str]]:
        """Changes so far: action, level before, level after."""
        return [(found[1], found[2], found[3]) for line in list(self.lines) if (found := CHANGE.match(line))]

    def wait_for_level(self, level: str, seconds: float) -> None:
        """Wait until a change has led to a level after those seen before."""
        seen = len(self.changes)
        self.wait_until(lambda: any(change[2] == level for change in self.changes[seen:]), seconds, f"level {level}")

    def wait_until(self, true: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait, and fail with the last lines when it takes too long."""
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline or self.process.poll() is not None:
                own = [line for line in self.lines if line.startswith("specloop")]
                pytest.fail(f"waited in vain for {what}; last said:\n" + "\n".join(own[-15:] or self.lines[-15:]))
            time.sleep(0.1)


def healthy(url: str) -> bool:
    """Whether an engine says that it is."""
    try:
        return httpx.get(f"{url}/health", timeout=1).status_code == 200
    except httpx.HTTPError:
        return False
