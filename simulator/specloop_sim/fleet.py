"""A fleet of simulated replicas on a virtual clock, with changes that cost what they cost.

A restart goes from replica to replica, as the process actuator does it: no new requests, those that run are given time
to end, then the engine is away for its start-up time, then it comes back at the new level with empty caches.  Requests
that it cut off are sent again, as gateways do, and keep the time of their first arrival.

Where K may change live, a level with the drafter that runs and no larger a K than the engine was started for is reached
on all replicas at once, after the time that the message takes.

Requests go to the replica with the fewest of them.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from specloop_policy.ladder import Ladder, Level
from specloop_policy.observation import Workload
from specloop_policy.rollout import next_pod
from specloop_sim.courses import Courses
from specloop_sim.engine import EngineModel, TooLong
from specloop_sim.profile import Profile
from specloop_sim.request import Finished, Request


class Traffic(Protocol):
    """What clients do."""

    closed_loop: bool
    """Whether clients wait for answers before they ask again."""

    def arrivals(self, now: float, until: float, outstanding: int) -> list[Request]:
        """The requests that come from `now` up to `until`, when so many are not answered yet at `now`."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How a replica differs from the profile."""

    speed: float = 1.0
    """1 as fast as the profile, 0.5 half as fast."""
    acceptance: float = 1.0
    """Factor on the conditional acceptance of every draft."""
    startup_seconds: float | None = None
    """Overrides the fleet's."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """What replicas are made of, and what changing them costs."""

    profile: Profile
    startup_seconds: float | None = None
    """Overrides the profile's."""
    drain_seconds: float = 30.0
    """How long requests may take to their end before a restart cuts them off."""
    live_seconds: float | None = None
    """Time from a decision to another K without a restart; None: every change is a restart."""
    prefix_share: float = 0.0
    """Share of a prompt that a warm prefix cache holds."""
    differences: tuple[Difference, ...] = ()
    """Of the first replicas; the others are alike."""

    def difference(self, place: int) -> Difference:
        """How the replica at this place differs."""
        return self.differences[place] if place < len(self.differences) else Difference()

    def away_seconds(self, place: int) -> float:
        """How long the replica at this place takes to start."""
        own = self.difference(place).startup_seconds
        return next(one for one in (own, self.startup_seconds, self.profile.startup_seconds) if one is not None)


@dataclass(slots=True)
class Replica:
    """One replica: its engine, and when that is back from a restart."""

    place: int
    engine: EngineModel
    level: Level
    """The level that it is at; `engine.level` is what it was started with."""
    ready_at: float
    outstanding: int = 0
    busy_before: float = 0.0
    """Seconds that earlier engines of this replica spent in steps."""

    @property
    def name(self) -> str:
        """As windows have it."""
        return f"replica-{self.place}"

    def serves(self, now: float) -> bool:
        """Whether it takes requests."""
        return now >= self.ready_at


@dataclass(slots=True)
class Change:
    """A replica on its way to a level by a restart."""

    replica: Replica
    level: Level
    drain_until: float


@dataclass(slots=True)
class Fleet:
    """Replicas of one kind, all at `level` at first; `seed` decides the requests' luck."""

    hardware: Hardware
    ladder: Ladder
    level: Level
    count: int
    seed: int
    courses: Courses | None = None
    now: float = 0.0
    restarts: int = 0
    retried: int = 0
    """Requests that a restart cut off and that were sent again."""
    refused: int = 0
    """Requests that are longer than what an engine takes."""
    replicas: list[Replica] = field(init=False)
    wanted: dict[str, str] = field(init=False)
    _asked_at: float = 0.0
    """When the levels now wanted were asked for."""
    _change: Change | None = None
    _homeless: deque[Request] = field(default_factory=deque)
    """Requests for which no replica serves."""

    def __post_init__(self) -> None:
        """Start every replica, ready."""
        self.replicas = [
            Replica(place, self._engine(place, self.level, self.now), self.level, self.now)
            for place in range(self.count)
        ]
        self.wanted = {one.name: self.level.name for one in self.replicas}

    def pods(self) -> tuple[str, ...]:
        """Names of the replicas."""
        return tuple(one.name for one in self.replicas)

    def workload(self) -> Workload:
        """The level of the last replica: the first may be on probe."""
        return Workload(self.replicas[-1].level.name, len(self.replicas))

    @property
    def changing(self) -> bool:
        """Whether a change is under way."""
        return self._change is not None or any(one.level.name != self.wanted[one.name] for one in self.replicas)

    @property
    def outstanding(self) -> int:
        """Requests that are not answered yet."""
        return len(self._homeless) + sum(one.outstanding for one in self.replicas)

    @property
    def busy_seconds(self) -> float:
        """Time that engines spent in steps, over all replicas."""
        return sum(one.busy_before + one.engine.counters.busy_seconds for one in self.replicas)

    def apply(self, wanted: Mapping[str, str]) -> None:
        """Set out to bring every replica to its level."""
        self.wanted = dict(wanted)
        self._asked_at = self.now

    def submit(self, request: Request) -> None:
        """Send a request to the serving replica with the fewest, or let it wait for one."""
        serving = self._serving()
        if not serving:
            self._homeless.append(request)
            return
        replica = min(serving, key=lambda one: one.outstanding)
        try:
            replica.engine.submit(request)
        except TooLong:
            self.refused += 1
        else:
            replica.outstanding += 1

    def advance(self, until: float) -> list[Finished]:
        """Run all replicas up to `until`; the requests that have been answered."""
        self.now = until
        finished: list[Finished] = []
        for replica in self.replicas:
            replica.engine.advance(until)
            over = replica.engine.finished()
            replica.outstanding -= len(over)
            finished += over
        self._change_live()
        self._restart_next()
        if self._homeless and self._serving():
            waiting, self._homeless = self._homeless, deque()
            for request in waiting:
                self.submit(request)
        return finished

    def _serving(self) -> list[Replica]:
        """Replicas that take requests."""
        return [one for one in self.replicas if one.serves(self.now) and not self._restarts(one)]

    def _engine(self, place: int, level: Level, now: float) -> EngineModel:
        difference = self.hardware.difference(place)
        return EngineModel(
            self.hardware.profile,
            level,
            seed=self.seed,
            now=now,
            prefix_share=self.hardware.prefix_share,
            speed=difference.speed,
            acceptance_factor=difference.acceptance,
            courses=self.courses,
        )

    def _restarts(self, replica: Replica) -> bool:
        return self._change is not None and self._change.replica is replica

    def _change_live(self) -> None:
        """Bring those replicas to their levels that get there without a restart."""
        delay = self.hardware.live_seconds
        if delay is None or self.now < self._asked_at + delay:
            return
        for replica in self.replicas:
            level = self._level(self.wanted[replica.name])
            if level != replica.level and replica.serves(self.now) and _within(level, replica.engine.level):
                replica.engine.set_tokens(level.tokens)
                replica.level = level

    def _restart_next(self) -> None:
        """Move the restart under way on by what can be done now, or begin the next."""
        if self._change is None:
            if any(not one.serves(self.now) for one in self.replicas):
                return
            name = next_pod({one.name: one.level.name for one in self.replicas}, self.wanted)
            if name is None:
                return
            replica = next(one for one in self.replicas if one.name == name)
            level = self._level(self.wanted[name])
            if self.hardware.live_seconds is not None and _within(level, replica.engine.level):
                return  # the message is on its way
            self._change = Change(replica, level, self.now + self.hardware.drain_seconds)
        change = self._change
        if not change.replica.engine.idle and self.now < change.drain_until:
            return
        for cut in change.replica.engine.stop():
            self._homeless.append(cut.request)
            self.retried += 1
        change.replica.outstanding = 0
        self._restart(change.replica, change.level)
        self._change = None

    def _restart(self, replica: Replica, level: Level) -> None:
        replica.busy_before += replica.engine.counters.busy_seconds
        replica.ready_at = self.now + self.hardware.away_seconds(replica.place)
        replica.engine = self._engine(replica.place, level, replica.ready_at)
        replica.level = level
        self.restarts += 1

    def _level(self, name: str) -> Level:
        level = self.ladder.find(name)
        assert level is not None  # decisions never leave the ladder
        return level


def _within(level: Level, started: Level) -> bool:
    """Whether an engine started with one level reaches another without a restart."""
    return level.speculates and level.drafter == started.drafter and level.tokens <= started.tokens
