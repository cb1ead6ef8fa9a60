"""What a replay finds: decisions and what became of them, the recorded fleet's levels, and what its windows showed."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from specloop_policy.decision import Decision, PolicyState
from specloop_policy.observation import Outcome, Window, Workload
from specloop_policy.policy import Policy
from specloop_sim.looks import Look, Looks


@dataclass(frozen=True, slots=True)
class Change:
    """A decision to change the level, and what became of it in the recording; seconds are after its start."""

    seconds: float
    at: float
    """Seconds since the epoch."""
    before: str | None
    decision: Decision
    carried_out: bool | None
    """None: the recording ends before a roll-out would have had to."""
    until_seconds: float
    """Carried out: when the fleet was there.  Otherwise: the last tick that asked for it."""

    def asks_for(self, before: str | None, decision: Decision) -> bool:
        """Whether a later decision asks for the same, for the same reason."""
        asked = (self.before, self.decision.action, self.decision.level, self.decision.rule)
        return asked == (before, decision.action, decision.level, decision.rule)


@dataclass(frozen=True, slots=True)
class Stay:
    """A stretch of time in which the recorded fleet was at one level; seconds after the start."""

    start: float
    end: float
    level: str | None
    """None: at none of the ladder."""
    setting: str = ""
    """What it ran then, in words."""
    decided: bool = False
    """Whether the policy had decided on this level; otherwise somebody else brought the fleet there."""


@dataclass(slots=True)
class Replay:
    """What a policy makes of a recording."""

    policy: Policy
    ticks: int = 0
    """How often a decision was taken."""
    changes: list[Change] = field(default_factory=list)
    last: Decision | None = None
    """The decision of the last tick."""
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    """Windows by outcome."""
    stays: list[Stay] = field(default_factory=list)
    """In order, without a break from the first sample on."""
    looks: list[Look] = field(default_factory=list)
    """What each round of windows showed, at seconds after the start."""

    @property
    def seconds_at_level(self) -> Mapping[str | None, float]:
        """How long the recorded fleet was at each level."""
        found: dict[str | None, float] = {}
        for one in self.stays:
            found[one.level] = found.get(one.level, 0.0) + one.end - one.start
        return found


class Notes:
    """Fills a `Replay` in while time passes; memory grows with rounds of windows and changes, not with samples."""

    def __init__(self, policy: Policy, start: float) -> None:
        self.replay = Replay(policy)
        self._start = start
        self._looks = Looks(policy)

    def look(self, now: float, windows: tuple[Window, ...], shown: Workload, state: PolicyState) -> None:
        """Take note of what a tick sees, and what the policy remembers by then."""
        self._looks.see(windows, shown.level)
        seconds, stays = now - self._start, self.replay.stays
        if stays:
            stays[-1] = replace(stays[-1], end=seconds)
        if not stays or (stays[-1].level, stays[-1].setting) != (shown.level, shown.setting):
            meant = {state.level, state.probe.level if state.probe is not None else None} - {None}
            decided = shown.level in meant
            stays.append(Stay(seconds, seconds, shown.level, shown.setting, decided=decided))

    def decided(self, decision: Decision) -> None:
        """Take note of a tick's decision."""
        self.replay.ticks += 1
        self.replay.last = decision

    def finish(self) -> Replay:
        """Everything that was noted."""
        self.replay.looks = [replace(one, at=one.at - self._start) for one in self._looks.finish()]
        self.replay.outcomes = self._looks.outcomes
        return self.replay
