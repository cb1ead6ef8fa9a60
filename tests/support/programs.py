"""The command line as a process of a test, with all that it says, line by line."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Self

READY_SECONDS = 60.0
"""How long anything may take on a machine with other things to do; nothing here takes seconds by itself."""


class Program:
    """`specloop ARGUMENTS` in a process of its own, ended with the block whatever happens."""

    def __init__(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self._command = [sys.executable, "-m", "specloop_cli", *arguments]
        self._environment = environment
        self.out: list[str] = []
        self.err: list[str] = []

    def __enter__(self) -> Self:
        """Start it."""
        self.process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self._environment
        )
        streams = ((self.process.stdout, self.out), (self.process.stderr, self.err))
        self._readers = [
            threading.Thread(target=_read, args=(stream, lines), daemon=True) for stream, lines in streams if stream
        ]
        for reader in self._readers:
            reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End it, politely first: it may have children."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10.0)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join(5.0)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def end(self, seconds: float = READY_SECONDS) -> int:
        """Wait for its end; the exit code."""
        code = self.process.wait(seconds)
        for reader in self._readers:
            reader.join(5.0)
        return code

    def says(self, *words: str, seconds: float = READY_SECONDS) -> str:
        """Wait for a line, on whichever stream, with all these words in it; the line."""
        found: list[str] = []

        def heard() -> bool:
            found.extend(line for line in (*self.out, *self.err) if all(word in line for word in words))
            return bool(found)

        self.until(heard, f"a line with {' and '.join(map(repr, words))}", seconds)
        return found[0]

    def until(self, true: Callable[[], bool], what: str, seconds: float = READY_SECONDS) -> None:
        """Wait until something is true, and fail with the last lines when it takes too long or the program ends."""
        deadline = time.monotonic() + seconds
        while not true():
            ended = self.process.poll()
            if ended is not None:
                for reader in self._readers:
                    reader.join(5.0)
                if true():
                    return
            if ended is not None or time.monotonic() > deadline:
                last = "\n".join([*self.out[-10:], *self.err[-10:]])
                raise AssertionError(f"waited in vain for {what} (exit code {ended}); last said:\n{last}")
            time.sleep(0.02)


def _read(stream: IO[str], lines: list[str]) -> None:
    lines.extend(line.rstrip("\n") for line in stream)


def run(*arguments: str, environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a call that ends by itself."""
    command: Sequence[str] = [sys.executable, "-m", "specloop_cli", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60.0, check=False)
    return result.returncode, result.stdout, result.stderr
