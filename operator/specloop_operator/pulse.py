"""Whether the operator still lives and whether it has begun: what its probes ask."""

import time
from collections.abc import Callable


class Pulse:
    """Loops that promised to be heard of, each with the longest silence that is still life.

    `clock` counts seconds and never jumps, so that a corrected wall clock stops no heart.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._limits: dict[str, float] = {}
        self._heard: dict[str, float] = {}

    def expect(self, name: str, within_seconds: float) -> None:
        """From now on this loop must be heard of at least this often."""
        self._limits[name] = within_seconds
        self._heard[name] = self._clock()

    def release(self, name: str) -> None:
        """This loop may be silent: it ended, or another instance leads."""
        self._limits.pop(name, None)
        self._heard.pop(name, None)

    def beat(self, name: str) -> None:
        """This loop lives; nothing when nobody expects it."""
        if name in self._limits:
            self._heard[name] = self._clock()

    def stalled(self) -> tuple[str, ...]:
        """A sentence for each loop that has been silent for too long."""
        now = self._clock()
        silences = [(name, now - heard, self._limits[name]) for name, heard in self._heard.items()]
        return tuple(
            [
                f"{name}: stalled, not heard of for {silence:.0f} s (limit {limit:g} s)"
                for name, silence, limit in silences
                if silence > limit
            ]
        )


class Readiness:
    """What must have happened once before the operator calls itself ready.

    Never wait for leadership, nor for what only a leader does: a rolling update of the operator would wait for ever.
    """

    def __init__(self, *awaited: str) -> None:
        self._missing = dict.fromkeys(awaited)

    def done(self, name: str) -> None:
        """It happened."""
        self._missing.pop(name, None)

    @property
    def missing(self) -> tuple[str, ...]:
        """What has not happened yet."""
        return tuple(self._missing)
