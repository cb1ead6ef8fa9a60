"""A policy, or a level that stays, on a simulated fleet: the same windows and the same `step` as live."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from specloop_engine.history import History
from specloop_policy.decision import Decision, Inputs, PolicyState
from specloop_policy.ladder import Ladder, Level
from specloop_policy.observation import Observation
from specloop_policy.policy import Policy
from specloop_policy.rollout import placement
from specloop_policy.step import level_before, step
from specloop_sim.courses import Courses
from specloop_sim.figures import Answers, Figures, Stretch
from specloop_sim.fleet import Fleet, Hardware, Traffic
from specloop_sim.looks import Look, Looks

SLICE_SECONDS = 0.25
"""How often clients look for answers, and a change under way is moved on: a fiftieth of a short request, so that it
hardly shows in their latency."""

ROUTING_SECONDS = 1.0
"""How old the numbers of requests are by which a request is sent to one of several replicas."""

INTERVAL_SECONDS = 15.0
"""Ticks where no policy sets them: a policy's default."""

RUN_OUT_FACTOR = 5.0
"""How many times its own length a trace may take until its last answer: a fleet that is slower than that has failed,
and what it did not answer is counted."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What every contestant meets alike."""

    hardware: Hardware
    ladder: Ladder
    level: Level
    """Of all replicas at the start."""
    replicas: int
    seed: int
    seconds: float
    """Length of the traffic."""
    epoch: float = 0.0
    """Seconds since the epoch at the start."""
    courses: Courses | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision that changed something, `seconds` after the start."""

    seconds: float
    before: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Stay:
    """A stretch of time at a level, seconds after the start; the fleet's level, whatever one replica may try."""

    start: float
    end: float
    level: Level


@dataclass(slots=True)
class Outcome:
    """What became of a contestant."""

    figures: Figures
    seconds: float
    """Until the last answer, or the end of the traffic."""
    stretches: list[Stretch]
    decisions: list[Decided] = field(default_factory=list)
    stays: list[Stay] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    """What the policy saw; times are since the start."""
    ticks: list[tuple[float, Decision]] = field(default_factory=list)
    """Every tick's decision, with its seconds after the start."""


def simulate(
    setup: Setup, traffic: Traffic, policy: Policy | None = None, inputs: Callable[[float], Inputs] | None = None
) -> Outcome:
    """Run a contestant; without a policy the level stays as it is.

    `inputs` gives what a decision may depend on beside the windows, by seconds since the epoch.  Closed-loop traffic
    ends after its time; after an open-loop trace the fleet answers what is left, so that all contestants answer the same.
    """
    fleet = Fleet(setup.hardware, setup.ladder, setup.level, setup.replicas, setup.seed, setup.courses)
    loop = _Loop(policy, fleet, setup.epoch, inputs or (lambda now: Inputs())) if policy is not None else None
    answers = Answers()
    interval = policy.interval_seconds if policy is not None else INTERVAL_SECONDS
    ticks = 1
    latest = setup.seconds * (1.0 if traffic.closed_loop else RUN_OUT_FACTOR)
    while fleet.now < setup.seconds or (fleet.outstanding and fleet.now < latest):
        tick = ticks * interval
        until = min(tick, _next(fleet, traffic))
        if fleet.now < setup.seconds:
            until = min(until, setup.seconds)
            for request in traffic.arrivals(fleet.now, until, fleet.outstanding):
                fleet.submit(request)
        answers.add(fleet.advance(until))
        if until == tick:
            ticks += 1
            if loop is not None:
                loop.tick()
    decisions = loop.decisions if loop is not None else []
    seconds = max(fleet.now, SLICE_SECONDS)
    return Outcome(
        answers.figures(fleet, seconds, len(decisions)),
        seconds,
        answers.stretches(seconds),
        decisions,
        _stays(setup, decisions, seconds),
        loop.seen() if loop is not None else [],
        loop.ticks if loop is not None else [],
    )


def _next(fleet: Fleet, traffic: Traffic) -> float:
    """When to look at the fleet again, at the latest: the next multiple of what it asks for now."""
    if traffic.closed_loop or fleet.changing or not all(one.serves(fleet.now) for one in fleet.replicas):
        slice_seconds = SLICE_SECONDS
    elif len(fleet.replicas) > 1:
        slice_seconds = ROUTING_SECONDS
    else:
        return float("inf")
    return (int(fleet.now / slice_seconds + 1e-6) + 1) * slice_seconds


def _stays(setup: Setup, decisions: list[Decided], seconds: float) -> list[Stay]:
    """Levels over time; a probe is no stay, for it is one replica's."""
    stays = [Stay(0.0, seconds, setup.level)]
    for one in decisions:
        level = setup.ladder.find(one.decision.level)
        if level is None or level == stays[-1].level or one.decision.action == "Probe":
            continue
        stays[-1] = replace(stays[-1], end=one.seconds)
        stays.append(Stay(one.seconds, seconds, level))
    return stays


class _Loop:
    """The loop round a simulated fleet."""

    def __init__(self, policy: Policy, fleet: Fleet, epoch: float, inputs: Callable[[float], Inputs]) -> None:
        self._policy = policy
        self._fleet = fleet
        self._epoch = epoch
        self._inputs = inputs
        self._history = History(policy.signals.window_seconds, 2 * policy.signals.max_evidence_seconds)
        self._state = PolicyState()
        self._looks = Looks(policy)
        self.decisions: list[Decided] = []
        self.ticks: list[tuple[float, Decision]] = []

    def tick(self) -> None:
        """Scrape every replica, and decide when no change is under way."""
        fleet, seconds = self._fleet, self._fleet.now
        now = self._epoch + seconds
        self._scrape(now)
        windows = self._history.windows()
        self._looks.see(windows, fleet.workload().level)
        if fleet.changing:
            return
        before = self._state
        observation = Observation(windows, fleet.workload())
        decision, self._state = step(self._policy, self._state, observation, self._inputs(now), now)
        self.ticks.append((seconds, decision))
        if decision.changes_level and self._state.level is not None:
            self.decisions.append(Decided(seconds, level_before(before, observation, decision) or "", decision))
            probed = self._state.probe.level if self._state.probe is not None else None
            fleet.apply(placement(fleet.pods(), self._state.level, probed))

    def seen(self) -> list[Look]:
        """What the policy saw, in seconds after the start."""
        return [replace(one, at=one.at - self._epoch) for one in self._looks.finish()]

    def _scrape(self, now: float) -> None:
        fleet = self._fleet
        for replica in fleet.replicas:
            if not replica.serves(fleet.now):
                self._history.miss(replica.name, now)
                continue
            sample = replica.engine.sample(fleet.now)
            start = self._epoch + replica.engine.started
            level = replica.level
            self._history.add(replica.name, replace(sample, at=now, process_start=start), level.name, level.tokens)
