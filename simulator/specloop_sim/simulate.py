"""A policy, or a level that stays, on a simulated fleet: the same windows and the same `step` as live."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from specloop_engine.history import History
from specloop_policy.decision import Decision, Inputs, PolicyState
from specloop_policy.ladder import Ladder, Level
from specloop_policy.observation import Observation
from specloop_policy.policy import Policy
from specloop_policy.rollout import placement
from specloop_policy.step import level_before, step
from specloop_sim.fleet import Arrivals, Fleet
from specloop_sim.profile import Profile
from specloop_sim.request import Finish, Finished

SLICE_SECONDS = 0.25
"""How often clients look for answers: a fiftieth of a short request, so that it hardly shows in their latency."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What every contestant meets alike."""

    profile: Profile
    ladder: Ladder
    level: Level
    replicas: int
    seed: int
    seconds: float
    interval_seconds: float
    startup_seconds: float | None = None
    drain_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Figures:
    """How a contestant did; names as the command line prints them."""

    output_tokens: int
    output_tokens_per_second: float
    tpot_milliseconds_p50: float
    tpot_milliseconds_p99: float
    ttft_milliseconds_p50: float
    ttft_milliseconds_p99: float
    mean_request_seconds: float
    busy_gpu_seconds: float
    restarts: int
    changes: int


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision that changed something, `seconds` after the start."""

    seconds: float
    before: str
    decision: Decision


@dataclass(slots=True)
class Outcome:
    """What became of a contestant."""

    figures: Figures
    requests: int
    decisions: list[Decided] = field(default_factory=list)
    ticks: list[tuple[float, Decision]] = field(default_factory=list)
    """Every tick's decision, with its seconds after the start."""


def simulate(setup: Setup, arrivals: Arrivals, policy: Policy | None, inputs: Inputs) -> Outcome:
    """Run a contestant; without a policy the level stays as it is."""
    fleet = Fleet(
        setup.profile,
        setup.ladder,
        setup.level,
        setup.replicas,
        setup.seed,
        drain_seconds=setup.drain_seconds,
        startup_seconds=setup.startup_seconds,
    )
    loop = None if policy is None else _Loop(policy, fleet, inputs)
    finished: list[Finished] = []
    slices = round(setup.seconds / SLICE_SECONDS)
    per_tick = max(1, round(setup.interval_seconds / SLICE_SECONDS))
    for place in range(slices):
        for request in arrivals(fleet.now, fleet.outstanding()):
            fleet.submit(request)
        finished += fleet.advance((place + 1) * SLICE_SECONDS)
        if loop is not None and (place + 1) % per_tick == 0:
            loop.tick()
    decisions = loop.decisions if loop is not None else []
    figures = _figures(finished, fleet, setup.seconds, len(decisions))
    return Outcome(figures, len(finished), decisions, loop.ticks if loop is not None else [])


class _Loop:
    """The loop round a simulated fleet."""

    def __init__(self, policy: Policy, fleet: Fleet, inputs: Inputs) -> None:
        self._policy = policy
        self._fleet = fleet
        self._inputs = inputs
        self._history = History(policy.signals.window_seconds, 2 * policy.signals.max_evidence_seconds)
        self._state = PolicyState()
        self.decisions: list[Decided] = []
        self.ticks: list[tuple[float, Decision]] = []

    def tick(self) -> None:
        """Scrape every replica, and decide when no change is under way."""
        fleet, now = self._fleet, self._fleet.now
        for replica in fleet.replicas:
            if replica.serves(now):
                level = replica.engine.level
                self._history.add(replica.name, replica.engine.sample(now), level.name, level.tokens)
            else:
                self._history.miss(replica.name, now)
        if fleet.changing:
            return
        before = self._state
        observation = Observation(self._history.windows(), fleet.workload())
        decision, self._state = step(self._policy, self._state, observation, self._inputs, now)
        self.ticks.append((now, decision))
        if decision.changes_level and self._state.level is not None:
            self.decisions.append(Decided(now, level_before(before, observation, decision) or "", decision))
            probed = self._state.probe.level if self._state.probe is not None else None
            fleet.apply(placement(fleet.pods(), self._state.level, probed))


def _figures(finished: Sequence[Finished], fleet: Fleet, seconds: float, changes: int) -> Figures:
    whole = [one for one in finished if one.finish is not Finish.ABORT]
    tpot = [1000.0 * one.tpot_seconds for one in whole if one.tokens > 1]
    ttft = [1000.0 * one.ttft_seconds for one in whole if one.ttft_seconds is not None]
    tokens = sum(one.tokens for one in finished)
    return Figures(
        output_tokens=tokens,
        output_tokens_per_second=tokens / seconds,
        tpot_milliseconds_p50=_percentile(tpot, 50),
        tpot_milliseconds_p99=_percentile(tpot, 99),
        ttft_milliseconds_p50=_percentile(ttft, 50),
        ttft_milliseconds_p99=_percentile(ttft, 99),
        mean_request_seconds=float(np.mean([one.e2e_seconds for one in whole])) if whole else 0.0,
        busy_gpu_seconds=fleet.busy_seconds(),
        restarts=fleet.restarts,
        changes=changes,
    )


def _percentile(values: Sequence[float], percent: float) -> float:
    return float(np.percentile(values, percent)) if values else 0.0
