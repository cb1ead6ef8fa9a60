"""Alerts that fire and find no room in a status: each is counted once and told once, however often it is sent again.

They stand in no status, so that this does not outlive the process, and each operator knows its own.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

MAX_ALERTS = 20_000
"""That are remembered, over all policies; the longest unheard go first."""


@dataclass(slots=True)
class _Mark:
    """The latest start of an alert without room, and whether it was told."""

    starts_at: float
    told: bool = False


class Crowded:
    """By the policy's uid and the alert's fingerprint."""

    def __init__(self) -> None:
        self._marks = OrderedDict[tuple[str, str], _Mark]()

    def note(self, uid: str, fingerprint: str, starts_at: float) -> bool:
        """An alert has no room; whether that is new of this time that it fires."""
        key, before = (uid, fingerprint), self._marks.get((uid, fingerprint))
        new = before is None or before.starts_at < starts_at
        if new:
            self._marks[key] = _Mark(starts_at)
        self._marks.move_to_end(key)
        if len(self._marks) > MAX_ALERTS:
            self._marks.popitem(last=False)
        return new

    def drop(self, uid: str, fingerprint: str) -> None:
        """It has room, or is over."""
        self._marks.pop((uid, fingerprint), None)

    def told(self, uid: str, fingerprint: str) -> bool:
        """Whether it was told."""
        mark = self._marks.get((uid, fingerprint))
        return mark is not None and mark.told

    def tell(self, uid: str, fingerprints: Iterable[str]) -> None:
        """These were told."""
        for one in fingerprints:
            if (mark := self._marks.get((uid, one))) is not None:
                mark.told = True
