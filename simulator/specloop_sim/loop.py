"""The loop round a simulated fleet: what it sees at a tick, and what it makes of that.

It sees a fleet through glimpses alone, so that a run which is known can be gone through again without its engines.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from specloop_engine.history import History
from specloop_engine.sample import Sample
from specloop_policy.decision import Decision, Inputs, PolicyState
from specloop_policy.observation import Observation, Workload
from specloop_policy.policy import Policy
from specloop_policy.rollout import placement
from specloop_policy.step import level_before, step
from specloop_sim.fleet import Fleet, Replica
from specloop_sim.looks import Look, Looks


@dataclass(frozen=True, slots=True)
class Scraped:
    """A replica at a tick."""

    name: str
    sample: Sample | None
    """None: it does not serve."""
    level: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Glimpse:
    """A fleet at a tick, `seconds` after the start and at `now` since the epoch."""

    seconds: float
    now: float
    replicas: tuple[Scraped, ...]
    workload: Workload
    changing: bool
    """Whether a change is under way."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision that changed something, `seconds` after the start."""

    seconds: float
    before: str
    decision: Decision


def glimpse(fleet: Fleet, epoch: float) -> Glimpse:
    """What there is to see of a fleet that started at `epoch`."""
    now = epoch + fleet.now
    replicas = tuple(_scraped(one, fleet.now, epoch) for one in fleet.replicas)
    return Glimpse(fleet.now, now, replicas, fleet.workload(), fleet.changing)


def _scraped(replica: Replica, seconds: float, epoch: float) -> Scraped:
    sample = None
    if replica.serves(seconds):
        start = epoch + replica.engine.started
        sample = replace(replica.engine.sample(seconds), at=epoch + seconds, process_start=start)
    return Scraped(replica.name, sample, replica.level.name, replica.level.tokens)


class Loop:
    """Decides, tick by tick."""

    def __init__(self, policy: Policy, epoch: float, inputs: Callable[[float], Inputs]) -> None:
        self._policy = policy
        self._epoch = epoch
        self._inputs = inputs
        self._history = History.of(policy.signals)
        self._state = PolicyState()
        self._looks = Looks(policy)
        self.decisions: list[Decided] = []
        self.ticks: list[tuple[float, Decision]] = []

    def tick(self, seen: Glimpse) -> Mapping[str, str] | None:
        """The level that every replica is to have, where a decision changes something; none during a change."""
        self._scrape(seen)
        windows = self._history.windows()
        self._looks.see(windows, seen.workload.level)
        if seen.changing:
            return None
        before = self._state
        observation = Observation(windows, seen.workload)
        decision, self._state = step(self._policy, self._state, observation, self._inputs(seen.now), seen.now)
        self.ticks.append((seen.seconds, decision))
        if not decision.changes_level or self._state.level is None:
            return None
        self.decisions.append(Decided(seen.seconds, level_before(before, observation, decision) or "", decision))
        probed = self._state.probe.level if self._state.probe is not None else None
        return placement(tuple(one.name for one in seen.replicas), self._state.level, probed)

    def looks(self) -> list[Look]:
        """What the policy saw, in seconds after the start."""
        return [replace(one, at=one.at - self._epoch) for one in self._looks.finish()]

    def _scrape(self, seen: Glimpse) -> None:
        for one in seen.replicas:
            if one.sample is None:
                self._history.miss(one.name, seen.now)
            else:
                self._history.add(one.name, one.sample, one.level, one.tokens)
