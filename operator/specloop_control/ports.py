"""What the loop needs of the world, each as small as it can be; tests bring their own."""

from collections.abc import Mapping
from typing import Protocol

from specloop_policy.decision import Decision, FailedChange
from specloop_policy.observation import Window, Workload


class Clock(Protocol):
    """Time, which a demo may run faster than the wall and a test by hand."""

    def now(self) -> float:
        """Seconds since the epoch."""

    async def sleep(self, seconds: float) -> None:
        """Wait this many of the clock's seconds."""


class Telemetry(Protocol):
    """Where windows come from; somebody else fills it, a tick only reads."""

    def windows(self) -> tuple[Window, ...]:
        """Every window that is still of interest, oldest first."""


class Actuator(Protocol):
    """The way a level reaches the replicas."""

    def workload(self) -> Workload:
        """What the target's configuration asks for now."""

    def pods(self) -> tuple[str, ...]:
        """Names of the replicas, in a fixed order."""

    async def apply(self, wanted: Mapping[str, str]) -> FailedChange | None:
        """Bring every pod to its level; when that fails, take it back and say what failed."""


class Listener(Protocol):
    """Who is told of every decision: a table, a log, a report."""

    def decided(self, now: float, decision: Decision, before: str | None) -> None:
        """A tick has decided; `before` is the level until then."""
