"""Files that options name, and what may be named instead of one."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from specloop_cli.errors import InputError, cannot
from specloop_cli.policy_file import title
from specloop_sim.profile import PROFILES, Profile, UnknownProfile
from specloop_sim.profile_file import load_profile


def read_profile(wanted: str) -> Profile:
    """The profile of this name, or the one in this file; raises InputError."""
    try:
        if wanted in PROFILES:
            return PROFILES[wanted]
        if wanted != "-" and not Path(wanted).exists():
            raise InputError(f"--profile: there is no file {wanted}, nor a profile of that name: {', '.join(PROFILES)}")
        return load_profile(text_of(wanted), title(wanted))
    except UnknownProfile as error:
        raise InputError(str(error)) from error


def refuse_reading_twice(files: Iterable[str | None]) -> None:
    """Raise InputError where standard input stands for more than one of these files."""
    if list(files).count("-") > 1:
        raise InputError("standard input can be read once: name - once")


def opened(path: str) -> BinaryIO:
    """A file to read bytes from, or standard input; raises InputError."""
    if path == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed; name a file")
        return sys.stdin.buffer
    if not path:
        raise InputError("a file without a name cannot be read; name one")
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise cannot("read", path, error) from error


def text_of(path: str) -> str:
    """A text file; raises InputError."""
    with opened(path) as stream:
        try:
            return stream.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{title(path)}: byte {error.start} is not UTF-8: save the file as UTF-8") from error
        except OSError as error:
            raise cannot("read", path, error) from error
