"""A page that shows a terminal: its commands are run, and what they print is set beside what the page shows."""

import os
import re
import signal
import subprocess
import tty
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

COLUMNS = 110
"""Width of the terminal."""
_END = "(end of the output) "
"""Printed after each command, with its exit code."""
_KUBECTL_LOG = re.compile(r"[IWE]\d{4} \d\d:")
"""A line of kubectl's own log, which it prints now and then when a wait is over."""

_TERMINAL = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
"""A command, over several lines where they end in a backslash, and the output below it."""

_CHANCE = (
    (re.compile(r"(?<=\w)-\n\s*(?=\w)"), "-"),
    (re.compile(r"\s+"), " "),
    (re.compile(r"\b([a-z]+-[0-9a-f]{6,10}(-[0-9a-z]{5})?)\b"), "(name)"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ][\d:.]+(Z|\+00:00)?|\b\w{3} \w{3} +\d+ [\d:]+ \d{4}"), "(time)"),
    (re.compile(r"just now|\b\d+ (s|min|h|d)( ago)?\b|\b(\d+[smhd])+\b"), "(span)"),
    (re.compile(r"[+-]?\b\d+(\.\d+)?\b( %)?|–"), "(figure)"),
)
"""What differs from run to run, line breaks first; a dash stands for a figure that is not known yet.  Names of levels,
such as k3, are the same in all runs."""


def replayed(page: str, run: Callable[[str], str]) -> str:
    """The page with the output that its commands give now."""

    def command(found: re.Match[str]) -> str:
        return f"$ {found[1]}\n{run(found[1])}"

    return _TERMINAL.sub(lambda block: f"```console\n{_COMMAND.sub(command, block[1])}```", page)


def shape(page: str) -> list[str]:
    """The commands of a page, each with its output but for figures, times, and names that are given by chance."""
    found = []
    for block in _TERMINAL.finditer(page):
        for text in (f"$ {one[1]}\n{one[2]}" for one in _COMMAND.finditer(block[1])):
            for chance, word in _CHANCE:
                text = chance.sub(word, text)
            found.append(text)
    return found


class Shell:
    """One bash for all commands, so that variables and jobs last from one to the next, as at a reader's terminal."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        ours, theirs = os.openpty()
        tty.setraw(theirs)
        terminal = {"TERM": "xterm", "COLUMNS": str(COLUMNS), "NO_COLOR": "1"}
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env={**environment, **terminal},
            stdin=subprocess.PIPE,
            stdout=theirs,
            stderr=theirs,
            text=True,
            start_new_session=True,
        )
        os.close(theirs)
        self._output = os.fdopen(ours, encoding="utf-8")
        self.run("trap 'jobs -p | xargs -r kill' EXIT")  # nothing goes on where the test itself is killed

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it with all its jobs."""
        os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.communicate()
        self._output.close()

    def run(self, command: str) -> str:
        """What a command prints; an AssertionError with it where the command fails."""
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{command}\necho '{_END}'$?\n")
        self._bash.stdin.flush()
        output = ""
        for line in self._output:
            text, end, code = line.rstrip().partition(_END)
            if (text or not end) and not _KUBECTL_LOG.match(text):
                output += text + "\n"
            if end:
                assert code == "0", f"$ {command}\n{output}"
                return output
        raise AssertionError(f"the shell ended: $ {command}\n{output}")
