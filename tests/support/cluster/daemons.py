"""Programs that run beside a test and never outlive it."""

import os
import random
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

PORTS = range(20_000, 32_000)
"""Below the ports that Linux gives to outgoing connections, so that a server finds its port free when it restarts."""
STOP_SECONDS = 2.0

_dice = random.SystemRandom()


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    while True:
        port = _dice.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def dies_with_us(command: Sequence[str]) -> list[str]:
    """The command with its end tied to that of the thread that starts it, however that ends; its process id stays."""
    return ["setpriv", "--pdeathsig", "KILL", "--", *command]


class Daemon:
    """A program of its own process group, which can be stopped and started again; its log grows on."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.log = log
        self._command = dies_with_us(command)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether it was started and did not end."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, without waiting for anything."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """End it: politely, and after so many seconds not."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it and its children at once."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-2000:]
