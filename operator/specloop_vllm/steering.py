"""The engine core's side of live control: what is in force, and what comes next.  Knows nothing of vLLM."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from specloop_vllm.exchange import (
    Applied,
    ExchangeError,
    Profile,
    applied_letter,
    desired_letter,
    process_start,
    read_desired,
)
from specloop_vllm.tables import Lookup, lookup

POLL_SECONDS = 0.05
"""How often the folder is looked at while steps are made: one file's state is asked for, some microseconds."""


class Steering:
    """What one engine core takes from its folder, and what it says there."""

    def __init__(
        self,
        folder: Path,
        profile: Profile,
        start: Sequence[int],
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`start` is the engine's own lookup: K by number of requests, from index 0; raises OSError."""
        self._profile = profile
        self._length = len(start)
        self._warn = warn
        self._clock = clock
        self._next_look = 0.0
        self._desired, self._letter = desired_letter(folder), applied_letter(folder)
        own = Lookup(tuple(start), clamped=False).table
        self.applied = Applied(profile, None, own, pid=os.getpid(), started=process_start(os.getpid()))
        self._letter.write(self.applied.to_json())

    def look(self) -> list[int] | None:
        """The lookup to go on with, where another is wanted than the one in force; None nearly always."""
        now = self._clock()
        if now < self._next_look:
            return None
        self._next_look = now + POLL_SECONDS
        try:
            data = self._desired.news()
            if data is None:
                return None
            desired = read_desired(data)
        except ExchangeError as error:
            self._say(replace(self.applied, ignored=self.applied.ignored + 1, error=str(error)))
            return None
        if desired.profile != self._profile.hash:
            words = f"the wish is for start-up profile {desired.profile}, and this is {self._profile.hash}"
            self._say(replace(self.applied, ignored=self.applied.ignored + 1, error=words))
            return None
        found = lookup(desired.table, self._length, self._profile.tokens)
        self._say(
            replace(self.applied, generation=desired.generation, table=found.table, clamped=found.clamped, error=None)
        )
        return list(found.tokens)

    def _say(self, applied: Applied) -> None:
        self.applied = applied
        try:
            self._letter.write(applied.to_json())
        except OSError as error:
            self._warn(f"applied.json cannot be written: {error}")


def say_refused(folder: Path, reason: str) -> None:
    """Leave word of why there is no live control here; raises OSError."""
    pid = os.getpid()
    applied_letter(folder).write(Applied(None, None, (), error=reason, pid=pid, started=process_start(pid)).to_json())
