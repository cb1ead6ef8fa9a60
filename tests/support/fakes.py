"""Stand-ins for what the loop needs of the world: each as small as its port, and all of them tell what was asked."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from specloop_policy.decision import Decision, FailedChange
from specloop_policy.observation import Window, Workload


@dataclass
class ManualClock:
    """A clock that moves when somebody sleeps on it, or moves it; nobody waits."""

    time: float = 0.0

    def now(self) -> float:
        """The time it shows."""
        return self.time

    async def sleep(self, seconds: float) -> None:
        """Move on at once, and let others have their turn."""
        self.time += seconds
        await asyncio.sleep(0)


@dataclass
class FakeTelemetry:
    """Telemetry that shows the windows it was given last."""

    shown: Sequence[Window] = ()

    def windows(self) -> tuple[Window, ...]:
        """The windows it was given."""
        return tuple(self.shown)


@dataclass
class FakeActuator:
    """An actuator that brings pods to their levels at once, but for those levels that `failing` names."""

    levels: dict[str, str]
    """The level of each pod."""
    failing: dict[str, str] = field(default_factory=dict)
    """Levels that do not come up, each with the reason."""
    asked: list[dict[str, str]] = field(default_factory=list)
    """What it was asked for, call by call."""

    def pods(self) -> tuple[str, ...]:
        """Names of the pods."""
        return tuple(self.levels)

    def workload(self) -> Workload:
        """The level of the last pod: the first may be on probe."""
        return Workload(list(self.levels.values())[-1], len(self.levels))

    async def apply(self, wanted: Mapping[str, str]) -> FailedChange | None:
        """Bring every pod to its level, or leave all as they are and say which level failed."""
        self.asked.append(dict(wanted))
        failed = next((level for level in wanted.values() if level in self.failing), None)
        if failed is not None:
            return FailedChange(failed, "", self.failing[failed])
        self.levels.update(wanted)
        return None


@dataclass
class RecordingListener:
    """A listener that remembers what it was told."""

    told: list[tuple[float, Decision, str | None]] = field(default_factory=list)

    def decided(self, now: float, decision: Decision, before: str | None) -> None:
        """Remember it."""
        self.told.append((now, decision, before))

    @property
    def changes(self) -> list[tuple[str, str | None, str | None]]:
        """Action, level before and level after of every decision that changes something."""
        return [
            (str(decision.action), before, decision.level)
            for _, decision, before in self.told
            if decision.changes_level
        ]
