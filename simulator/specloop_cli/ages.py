"""Spans and ages in words, such as "3 min ago"."""

from datetime import datetime

UNITS = (("d", 86400), ("h", 3600), ("min", 60))
"""Each is used from two of them on: 90 s says more than 2 min."""


def span_words(seconds: float) -> str:
    """A span in its largest fitting unit, rounded."""
    for unit, length in UNITS:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def ago(seconds: float) -> str:
    """An age in words; a time ahead, because two clocks differ, is now."""
    return "just now" if seconds < 1 else f"{span_words(seconds)} ago"


def age(time: str | None, now: float) -> str:
    """The age at `now` (seconds since the epoch) of an RFC 3339 time; one that cannot be read stays as it is."""
    if time is None:
        return ""
    try:
        return ago(now - datetime.fromisoformat(time).timestamp())
    except ValueError:
        return time
