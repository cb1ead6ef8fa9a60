"""Moments and spans as people write them on a command line."""

import re
from datetime import datetime

from specloop_cli.errors import InputError

UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def moment(asked: str, text: str, mend: str) -> float:
    """Seconds since the epoch of a time such as 2026-07-01T12:00:00Z, or of that number itself.

    `asked` is what the user wrote and `mend` what to write instead, for errors.  Raises InputError.
    """
    if re.fullmatch(r"\d{1,11}(\.\d+)?", text, re.ASCII):
        return float(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{asked}: give {mend}") from None
    if found.tzinfo is None:
        raise InputError(f"{asked}: the time has no zone; add Z for UTC, or an offset such as +02:00")
    return found.timestamp()


def span(asked: str, text: str) -> float:
    """Seconds of a span such as 7d or 1h30m; raises InputError."""
    parts = re.findall(r"(\d{1,9})([smhdw])", text, re.ASCII)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InputError(f"{asked}: give a span such as 7d, 6h or 1h30m")
    return float(sum(int(number) * UNIT_SECONDS[unit] for number, unit in parts))
