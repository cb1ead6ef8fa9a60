"""How commands answer: one JSON document or text for people on stdout, and files written aside and renamed."""

import dataclasses
import errno
import json
import math
import os
import stat
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Mapping, Sequence, Set
from enum import Enum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specloop_cli.errors import InputError, cannot

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDEST_TABLE = 10_000
"""Columns that no table reaches."""


class Format(StrEnum):
    """Form of a command's answer."""

    TEXT = "text"
    JSON = "json"


def console(*, stderr: bool = False) -> "Console":
    """A console for text; colours only on a terminal, and never under NO_COLOR.

    Markup is off, because names from files and arguments are printed; give a `style` or a `Text` for colour.  What does
    not print, in a text as it is, becomes an escape: a pod's label or a server's warning could steer the terminal.
    """
    from rich.console import Console  # not at the top: --help and JSON do without

    class QuietConsole(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            super().print(*(_printable(one) if isinstance(one, str) else one for one in objects), **options)

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError(errno.EPIPE, "nobody reads the output any more")

    return QuietConsole(
        stderr=stderr,
        color_system=None if os.environ.get("NO_COLOR") else "auto",  # rich itself would go on with bold and dim
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _printable(text: str) -> str:
    """A text of as many lines, without terminal control characters."""
    return "".join([letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in text])


def say(out: "Console", sentence: str, indent: int = 0) -> None:
    """Print a sentence, broken between words on a terminal; elsewhere it is one line, for programs to search."""
    margin = " " * indent
    if out.is_terminal:
        sentence = textwrap.fill(sentence, max(40, out.width), initial_indent=margin, subsequent_indent=margin)
        out.print(sentence)
    else:
        out.print(margin + sentence)


def print_table(out: "Console", table: "Table") -> None:
    """Print a table with every figure whole: where it is wider than the terminal, its lines are."""
    from rich.measure import Measurement

    wide = out.options.update(max_width=WIDEST_TABLE)
    out.width = max(out.width, Measurement.get(out, wide, table).maximum)
    out.print(table)


def print_document(value: object) -> None:
    """Print a value as one JSON document on stdout."""
    sys.stdout.write(json.dumps(document(value), ensure_ascii=False, indent=2) + "\n")


def document(value: object) -> Any:
    """A value as plain JSON data: fields of dataclasses in camelCase, unknown numbers (NaN, infinite) as null.

    Keys of mappings stay as they are: they are names that a user gave.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {camel(one.name): document(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return document(value.value)
    if isinstance(value, Mapping):
        return {str(key): document(one) for key, one in value.items()}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Set):
        return [document(one) for one in sorted(value)]
    if isinstance(value, Sequence):
        return [document(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float):
        return value
    raise TypeError(f"{type(value).__name__} has no JSON form")


def camel(name: str) -> str:
    """`window_seconds` as `windowSeconds`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def refuse_writing(outputs: Mapping[str, Path | None], inputs: Iterable[str | None], *, force: bool) -> None:
    """Raise InputError where `write_file` would, before the work whose results are to be written there is done.

    `outputs` are files by the option that names them.  None may be one of the inputs, whatever `force` says,
    nor may two be one file.
    """
    read = {os.path.realpath(one): one for one in inputs if one not in (None, "-")}
    taken: dict[str, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        real = os.path.realpath(path)
        if real in read:
            raise InputError(f"{option} {path}: this file is read as well; write to another one")
        if real in taken:
            raise InputError(f"{option} {path}: {taken[real]} names the same file; write to another one")
        taken[real] = option
        mode = _mode(path)
        if mode is not None and stat.S_ISREG(mode) and not force:
            raise InputError(f"{path} exists already; use --force to replace it")
        if not path.absolute().parent.is_dir():
            raise InputError(f"cannot write {path}: there is no folder {path.parent}")


def write_file(path: Path, content: str | bytes, *, force: bool = False) -> None:
    """Write a file whole or not at all; an existing one is replaced only with `force`.

    Raises InputError when the file exists or cannot be written; then nothing has changed.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        _write(path, data, force)
    except FileExistsError:
        raise InputError(f"{path} exists already; use --force to replace it") from None
    except OSError as error:
        raise cannot("write", path, error) from error


def _write(path: Path, data: bytes, force: bool) -> None:
    target = Path(os.path.realpath(path))
    mode = _mode(target)
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if mode is not None and not stat.S_ISREG(mode):
        target.write_bytes(data)  # a pipe or a device: there is nothing to put aside
        return
    if mode is not None and not force:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
    aside_path = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as aside:
            aside.write(data)
        aside_path.chmod(stat.S_IMODE(mode) if mode is not None else 0o666 & ~_umask())
        if force:
            aside_path.replace(target)
        else:
            target.hardlink_to(aside_path)  # refuses where the file has come into being meanwhile
    finally:
        aside_path.unlink(missing_ok=True)


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
