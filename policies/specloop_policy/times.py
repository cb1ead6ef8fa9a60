"""Moments as text."""

from datetime import UTC, datetime


def rfc3339(at: float) -> str:
    """Seconds since the epoch as 2026-03-01T12:00:00Z, with parts of a second only where there are any."""
    moment = datetime.fromtimestamp(round(at, 3), UTC)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")
