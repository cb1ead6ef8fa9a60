"""A policy, or a level that stays, on a simulated fleet: the same windows and the same `step` as live."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from specloop_policy.decision import ActionName, Decision, Inputs
from specloop_policy.ladder import Ladder, Level
from specloop_policy.policy import Policy
from specloop_sim.courses import Courses
from specloop_sim.figures import Answers, Figures, Stretch
from specloop_sim.fleet import Fleet, Hardware, Traffic
from specloop_sim.looks import Look
from specloop_sim.loop import Decided, Glimpse, Loop, glimpse

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
RUN_OUT_SECONDS = 600.0
"""But no less than this after its end, which is enough for the longest answer of a short trace."""


Witness = Callable[[Glimpse, Mapping[str, str] | None], None]


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
    setup: Setup,
    traffic: Traffic,
    policy: Policy | None = None,
    inputs: Callable[[float], Inputs] | None = None,
    *,
    witness: Witness | None = None,
) -> Outcome:
    """Run a contestant; without a policy the level stays as it is.

    `inputs` gives what a decision may depend on beside the windows, by seconds since the epoch.  Closed-loop traffic
    ends after its time; after an open-loop trace the fleet answers what is left, so that all answer the same.
    `witness` is told at every tick what a policy saw and the levels that it asked for, if any.
    """
    fleet = Fleet(setup.hardware, setup.ladder, setup.level, setup.replicas, setup.seed, setup.courses)
    loop = Loop(policy, setup.epoch, inputs or (lambda now: Inputs())) if policy is not None else None
    answers = Answers()
    interval = policy.interval_seconds if policy is not None else INTERVAL_SECONDS
    ticks = 1
    length = max(setup.seconds, SLICE_SECONDS)  # all requests may come at once
    latest = length if traffic.closed_loop else max(RUN_OUT_FACTOR * length, length + RUN_OUT_SECONDS)
    while fleet.now < length or (fleet.outstanding and fleet.now < latest):
        tick = ticks * interval
        until = min(tick, _next(fleet, traffic))
        if fleet.now < length:
            until = min(until, length)
            for request in traffic.arrivals(fleet.now, until, fleet.outstanding):
                fleet.submit(request)
        answers.add(fleet.advance(until))
        if until == tick:
            ticks += 1
            if loop is not None:
                _tick(loop, fleet, setup.epoch, witness)
    decisions = loop.decisions if loop is not None else []
    seconds = max(length, answers.last_end if not fleet.outstanding else fleet.now)
    return Outcome(
        answers.figures(fleet, seconds, len(decisions)),
        seconds,
        answers.stretches(seconds),
        decisions,
        stays(setup.ladder, setup.level, decisions, seconds),
        loop.looks() if loop is not None else [],
        loop.ticks if loop is not None else [],
    )


def _tick(loop: Loop, fleet: Fleet, epoch: float, witness: Witness | None) -> None:
    """Observe, decide, act."""
    seen = glimpse(fleet, epoch)
    wanted = loop.tick(seen)
    if witness is not None:
        witness(seen, wanted)
    if wanted is not None:
        fleet.apply(wanted)


def _next(fleet: Fleet, traffic: Traffic) -> float:
    """When to look at the fleet again, at the latest: the next multiple of what it asks for now."""
    if traffic.closed_loop or fleet.changing or not all(one.serves(fleet.now) for one in fleet.replicas):
        slice_seconds = SLICE_SECONDS
    elif len(fleet.replicas) > 1:
        slice_seconds = ROUTING_SECONDS
    else:
        return float("inf")
    return (int(fleet.now / slice_seconds + 1e-6) + 1) * slice_seconds


def stays(ladder: Ladder, first: Level, decisions: Iterable[Decided], seconds: float) -> list[Stay]:
    """The fleet's levels over time; a probe is no stay, for it is one replica's."""
    found = [Stay(0.0, seconds, first)]
    for one in decisions:
        level = ladder.find(one.decision.level)
        if level is None or level == found[-1].level or one.decision.action is ActionName.PROBE:
            continue
        found[-1] = replace(found[-1], end=one.seconds)
        found.append(Stay(one.seconds, seconds, level))
    return found
