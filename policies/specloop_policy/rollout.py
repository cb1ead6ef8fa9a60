"""How a new level reaches processes: one step at a time, planned from what is observed.

One process goes through the table below; an event that the table does not know in a state is a mistake of the caller.
Several processes are changed one after the other, so that the rest keeps serving.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """Where one process is on its way to a new level."""

    SERVING = "serving"
    DRAINING = "draining"
    STOPPING = "stopping"
    STARTING = "starting"
    RETREATING = "retreating"
    """The new configuration did not become healthy and is being stopped."""
    RETURNING = "returning"
    """The last good configuration is starting again."""
    FAILED = "failed"
    """Not even the last good configuration runs: given up."""


class Event(StrEnum):
    """What is observed of a process."""

    CHANGE_WANTED = "change wanted"
    IDLE = "idle"
    HEALTHY = "healthy"
    GONE = "gone"
    OVERDUE = "overdue"


class Step(StrEnum):
    """What to do next."""

    DRAIN = "drain"
    STOP = "stop"
    KILL = "kill"
    START = "start"
    START_LAST_GOOD = "start last good"
    KEEP = "keep"
    GO_BACK = "go back"
    GIVE_UP = "give up"


ROLLOUT_PLAN: Mapping[tuple[Phase, Event], tuple[Phase, Step]] = {
    (Phase.SERVING, Event.CHANGE_WANTED): (Phase.DRAINING, Step.DRAIN),
    (Phase.SERVING, Event.GONE): (Phase.FAILED, Step.GIVE_UP),
    (Phase.DRAINING, Event.IDLE): (Phase.STOPPING, Step.STOP),
    (Phase.DRAINING, Event.OVERDUE): (Phase.STOPPING, Step.STOP),
    (Phase.DRAINING, Event.GONE): (Phase.STARTING, Step.START),
    (Phase.STOPPING, Event.GONE): (Phase.STARTING, Step.START),
    (Phase.STOPPING, Event.OVERDUE): (Phase.STOPPING, Step.KILL),
    (Phase.STARTING, Event.HEALTHY): (Phase.SERVING, Step.KEEP),
    (Phase.STARTING, Event.GONE): (Phase.RETURNING, Step.START_LAST_GOOD),
    (Phase.STARTING, Event.OVERDUE): (Phase.RETREATING, Step.GO_BACK),
    (Phase.RETREATING, Event.GONE): (Phase.RETURNING, Step.START_LAST_GOOD),
    (Phase.RETREATING, Event.OVERDUE): (Phase.RETREATING, Step.KILL),
    (Phase.RETURNING, Event.HEALTHY): (Phase.SERVING, Step.KEEP),
    (Phase.RETURNING, Event.GONE): (Phase.FAILED, Step.GIVE_UP),
    (Phase.RETURNING, Event.OVERDUE): (Phase.FAILED, Step.GIVE_UP),
}
"""What each event means in each phase: the next phase, and the step that leads there."""


class IllegalMove(ValueError):
    """An event that means nothing in a phase; trying again does not help."""


def advance(phase: Phase, event: Event) -> tuple[Phase, Step]:
    """The next phase and the step that leads there; raises IllegalMove where the plan has none."""
    try:
        return ROLLOUT_PLAN[phase, event]
    except KeyError:
        raise IllegalMove(f"a process that is {phase} cannot meet the event {event!r}") from None


@dataclass(frozen=True, slots=True)
class Limits:
    """How long each part of a change may take, in seconds."""

    drain_seconds: float
    stop_seconds: float
    start_seconds: float


@dataclass(frozen=True, slots=True)
class ProcessView:
    """What is seen of one process; `phase_seconds` is how long it has been in its phase."""

    phase: Phase
    phase_seconds: float
    alive: bool
    healthy: bool = False
    busy: bool = True
    """Whether requests run or wait, as far as anybody can tell."""
    change_wanted: bool = False


def find_event(view: ProcessView, limits: Limits) -> Event | None:
    """The event that a view amounts to; None while there is nothing to do but wait."""
    if not view.alive:
        return Event.GONE
    if view.phase is Phase.SERVING:
        return Event.CHANGE_WANTED if view.change_wanted else None
    if view.phase is Phase.DRAINING and not view.busy:
        return Event.IDLE
    if view.phase in (Phase.STARTING, Phase.RETURNING) and view.healthy:
        return Event.HEALTHY
    return Event.OVERDUE if view.phase_seconds >= _limit(view.phase, limits) else None


def _limit(phase: Phase, limits: Limits) -> float:
    if phase is Phase.DRAINING:
        return limits.drain_seconds
    if phase in (Phase.STOPPING, Phase.RETREATING):
        return limits.stop_seconds
    return limits.start_seconds


def placement(pods: Sequence[str], level: str, probed: str | None) -> dict[str, str]:
    """Which pod is to run which level: all the same, but for the first one while a probe is under way."""
    wanted = dict.fromkeys(pods, level)
    if probed is not None and pods:
        wanted[pods[0]] = probed
    return wanted


def next_pod(running: Mapping[str, str], wanted: Mapping[str, str]) -> str | None:
    """The next pod to change, one at a time and in order; None when all run what is wanted."""
    return next((pod for pod in wanted if running.get(pod) != wanted[pod]), None)


def rollout_table() -> str:
    """The plan as a table in Markdown, for the documentation."""
    rows = [f"| {phase} | {event} | {step} | {after} |" for (phase, event), (after, step) in ROLLOUT_PLAN.items()]
    return "\n".join(("| phase | event | step | next phase |", "|---|---|---|---|", *rows))
