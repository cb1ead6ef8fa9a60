"""A fleet of simulated replicas on a virtual clock, with restarts that cost what they cost.

Replicas are changed one after the other, as the process actuator does it: no new requests, those that run are given
time to end, then the engine is away for its start-up time, then it comes back at the new level with empty caches.
Requests go to the replica with the fewest of them.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from specloop_policy.ladder import Ladder, Level
from specloop_policy.observation import Workload
from specloop_policy.rollout import next_pod
from specloop_sim.engine import EngineModel
from specloop_sim.profile import Profile
from specloop_sim.request import Finished, Request


@dataclass(slots=True)
class Replica:
    """One replica: its engine, and when that is back from a restart."""

    name: str
    engine: EngineModel
    ready_at: float
    outstanding: int = 0
    busy_before: float = 0.0
    """Seconds that earlier engines of this replica spent in steps."""

    def serves(self, now: float) -> bool:
        """Whether it takes requests."""
        return now >= self.ready_at


@dataclass(slots=True)
class Change:
    """A replica on its way to a level."""

    replica: Replica
    level: Level
    drain_until: float


@dataclass(slots=True)
class Fleet:
    """Replicas of one profile, all at `level` at first; `seed` decides the requests' luck."""

    profile: Profile
    ladder: Ladder
    level: Level
    count: int
    seed: int
    now: float = 0.0
    drain_seconds: float = 30.0
    startup_seconds: float | None = None
    """Overrides the profile's."""
    restarts: int = 0
    replicas: list[Replica] = field(init=False)
    wanted: dict[str, str] = field(init=False)
    _change: Change | None = None
    _lost: deque[Request] = field(default_factory=deque)

    def __post_init__(self) -> None:
        """Start every replica, ready."""
        self.replicas = [
            Replica(f"replica-{place}", self._engine(self.level, self.now), self.now) for place in range(self.count)
        ]
        self.wanted = {one.name: self.level.name for one in self.replicas}

    def pods(self) -> tuple[str, ...]:
        """Names of the replicas."""
        return tuple(one.name for one in self.replicas)

    def workload(self) -> Workload:
        """The level of the last replica: the first may be on probe."""
        return Workload(self.replicas[-1].engine.level.name, len(self.replicas))

    @property
    def changing(self) -> bool:
        """Whether a change is under way."""
        return self._change is not None or self._next() is not None

    def apply(self, wanted: Mapping[str, str]) -> None:
        """Set out to bring every replica to its level."""
        self.wanted = dict(wanted)

    def submit(self, request: Request) -> None:
        """Send a request to the serving replica with the fewest, or let it wait for one."""
        serving = [one for one in self.replicas if one.serves(self.now) and not self._changes(one)]
        if not serving:
            self._lost.append(request)
            return
        replica = min(serving, key=lambda one: one.outstanding)
        replica.engine.submit(request)
        replica.outstanding += 1

    def advance(self, until: float) -> list[Finished]:
        """Run all replicas up to `until`; the requests that have ended."""
        self.now = until
        finished: list[Finished] = []
        for replica in self.replicas:
            replica.engine.advance(until)
            over = replica.engine.finished()
            replica.outstanding -= len(over)
            finished += over
        finished += self._proceed()
        waiting, self._lost = self._lost, deque()
        for request in waiting:
            self.submit(request)
        return finished

    def busy_seconds(self) -> float:
        """Time that engines spent in steps, over all replicas."""
        return sum(one.busy_before + one.engine.counters.busy_seconds for one in self.replicas)

    def outstanding(self) -> int:
        """Requests that are not answered yet."""
        return len(self._lost) + sum(one.outstanding for one in self.replicas)

    def _engine(self, level: Level, now: float) -> EngineModel:
        return EngineModel(self.profile, level, seed=self.seed, now=now)

    def _changes(self, replica: Replica) -> bool:
        return self._change is not None and self._change.replica is replica

    def _next(self) -> str | None:
        return next_pod({one.name: one.engine.level.name for one in self.replicas}, self.wanted)

    def _proceed(self) -> list[Finished]:
        """Move the change under way on by what can be done now; requests cut off are returned as aborted."""
        if self._change is None:
            name = self._next()
            if name is None or any(not one.serves(self.now) for one in self.replicas):
                return []
            replica = next(one for one in self.replicas if one.name == name)
            level = self.ladder.find(self.wanted[name])
            assert level is not None  # decisions never leave the ladder
            self._change = Change(replica, level, self.now + self.drain_seconds)
        change = self._change
        if not change.replica.engine.idle and self.now < change.drain_until:
            return []
        cut = change.replica.engine.stop()
        change.replica.outstanding = 0
        self._restart(change.replica, change.level)
        self._change = None
        return cut

    def _restart(self, replica: Replica, level: Level) -> None:
        away = self.profile.startup_seconds if self.startup_seconds is None else self.startup_seconds
        replica.busy_before += replica.engine.counters.busy_seconds
        replica.ready_at = self.now + away
        replica.engine = self._engine(level, replica.ready_at)
        self.restarts += 1


Arrivals = Callable[[float, int], list[Request]]
"""What a source of traffic does: given the time and the requests outstanding, the requests that come now."""
