"""The operator's log: one line for each thing said, as JSON or as text, on standard error.

Four rules hold for every line, kopf's included.  A line about an object is written once, until what it says changes,
its figures apart, or an hour has passed; the next one then tells how many like it were left out.  What looks like a
credential is blanked.  Characters that do not print are written as escapes, and a line that goes on is indented:
nobody's words can steer a terminal, or pass for another line.  Libraries that report every request and every job are
heard from WARNING up.
"""

import json
import logging
import re
import sys
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from threading import Lock
from typing import Literal, TextIO

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

from specloop_operator.gist import gist

REPEAT_SECONDS = 3600.0
MAX_REMEMBERED = 10_000
"""Lines remembered so that they are not repeated; the longest unheard go first."""

QUIET = ("kopf", "httpcore", "apscheduler", "httpx", "uvicorn.error")
SILENT = "kubernetes.aio.leaderelection"
"""Says at every look that a Lease cannot be read or written; `leadership.Lease` says it once."""

HIDDEN = ("k8s_skip", "settings", "gist")
"""Fields of records that are meant for programs: kopf's, and the gist where a caller knows it better."""

BLANK = "***"
CREDENTIALS = (
    re.compile(r"(?<=://)[^\s/@\"']+(?=@)"),  # in a URL
    re.compile(r"(?i)(?<=authorization)(\W{1,8})(?:(?:bearer|basic)\s+)?[\w.~+/=-]+"),
    re.compile(r"(?i)(?<=bearer )[\w.~+/=-]{20,}"),
    re.compile(r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]++\.[\w-]++"),  # a JSON web token, as service accounts have
)

GOES_ON = "\n  "
"""How a line of text goes on: no line of ours begins with a blank."""


def configure_logging(log_format: Literal["json", "text"], level: str, stream: TextIO = sys.stderr) -> None:
    """Send everything that is logged in this process to the stream, and nowhere else."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Discreet(_json() if log_format == "json" else _Text()))
    handler.addFilter(Repeats())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.captureWarnings(True)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.getLogger(SILENT).setLevel(logging.CRITICAL)


class Repeats(logging.Filter):
    """Leaves out lines that the same place in the code has just said about the same object."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()  # handlers filter before they lock
        self._said: OrderedDict[tuple[object, ...], tuple[str, float, int]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is news; lines about no object always are."""
        about = _object_of(record)
        if about is None:
            return True
        key, said = (record.pathname, record.lineno, *about), _gist_of(record)
        with self._lock:
            before, at, left_out = self._said.get(key, ("", 0.0, 0))
            if said == before and 0.0 <= record.created - at < REPEAT_SECONDS:
                self._said[key] = (before, at, left_out + 1)
                return False
            self._said[key] = (said, record.created, 0)
            self._said.move_to_end(key)
            if len(self._said) > MAX_REMEMBERED:
                self._said.popitem(last=False)
        if left_out:
            record.leftOut = left_out
        return True


def _object_of(record: logging.LogRecord) -> tuple[object, ...] | None:
    """What the line is about: kopf's object, or the policy."""
    fields = record.__dict__
    reference = fields.get("k8s_ref")
    if isinstance(reference, Mapping):
        return tuple([reference.get(part) for part in ("kind", "namespace", "name")])
    return ("SpecPolicy", fields.get("namespace"), fields["policy"]) if "policy" in fields else None


def _gist_of(record: logging.LogRecord) -> str:
    """What the line says; the message is not put together, because a wrong format would raise in the caller."""
    error = record.exc_info[0] if record.exc_info else None
    said = record.__dict__.get("gist") or gist(f"{record.msg} {record.args or ''}")
    return f"{said} {error.__name__}" if error is not None else str(said)


class _Discreet(logging.Formatter):
    """Another formatter's lines, with credentials blanked and nothing in them that does not print."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = GOES_ON.join(map(_printable, self._inner.format(record).split("\n")))
        for credential in CREDENTIALS:
            line = credential.sub(lambda found: (found.group(1) if found.lastindex else "") + BLANK, line)
        return line


def _printable(line: str) -> str:
    """The line with what does not print as escapes that stand in JSON as well: there they are inside a string."""
    if line.isprintable():
        return line
    return "".join([letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in line])


def _json() -> logging.Formatter:
    """One JSON object a line."""
    return JsonFormatter(
        "%(levelname)s %(name)s %(message)s",
        rename_fields={"levelname": "level", "name": "logger", "k8s_ref": "object"},
        reserved_attrs=[*RESERVED_ATTRS, *HIDDEN],
        timestamp="time",
        json_ensure_ascii=False,
    )


class _Text(logging.Formatter):
    """Time, level, logger, object and message, for people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 (logging's name)
        """The time in UTC, as in the JSON."""
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        """The line without a traceback."""
        about = _object_of(record)
        if about is not None and "policy" not in record.__dict__:
            kind, namespace, name = about
            record.message = f"{kind} {namespace}/{name}: {record.message}"
        left_out = record.__dict__.get("leftOut")
        return super().formatMessage(record) + (f" (said {left_out} times more meanwhile)" if left_out else "")
