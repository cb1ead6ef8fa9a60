"""How a new level reaches the pods of a workload: a canary first, then all, or everything back as it was.

    starting ──► canary ──► soaking ──► promoting ──► watched from then on
        └───────────┴──────────┴────────────┴──► rolling back

One roll-out is a small value (`Rollout`) that says what was intended; what has come of it is read from the workload
(`View`) at every look, and `plan` names the one step to take now.  Steps may be taken twice without harm, and the value
is stored before its step is taken, so that whoever is stopped in between goes on where it was.

The table is all there is to the order of things; an event that the table does not know in a phase is a mistake.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from specloop_policy.gate import GateVerdict, Result
from specloop_policy.rollout import IllegalMove


class Kind(StrEnum):
    """Why a level is rolled out, which decides how it is judged."""

    RULE = "Rule"
    """A rule asks for it: it must serve as well as what it replaces."""
    PROBE = "Probe"
    """The canary stays until the rules have judged what it shows; then it goes on as theirs."""
    FORCED = "Forced"
    """A person, a schedule or an alert asks for it: how fast it serves is said, but decides nothing."""
    RETREAT = "Retreat"
    """Away from a level that does harm: to all pods at once, for there is nothing to compare it with, and on to the
    end, for the only way back leads to the harm."""
    SHED = "Shed"
    """Speculation is off already, live, and stays so: pods are made anew without the drafter, so that it costs neither
    time nor memory."""


class Phase(StrEnum):
    """Where a roll-out is."""

    STARTING = "Starting"
    """The new configuration is written; its first pods are awaited, so that the rest can be held."""
    CANARY = "Canary"
    """The rest is held; the first pods are on their way to ready."""
    SOAKING = "Soaking"
    """They serve, and are compared."""
    PROMOTING = "Promoting"
    """The rest follows."""
    ROLLING_BACK = "RollingBack"
    """The old template is back; its pods are."""


class Event(StrEnum):
    """What is seen of a workload in the middle of a roll-out."""

    UNWRITTEN = "not written yet"
    FIRST_POD = "first pod"
    HELD = "the rest is held"
    READY = "canary ready"
    REFUSED = "cannot be written"
    BROKEN = "pods fail"
    OVERDUE = "overdue"
    PASSED = "gate passed"
    FAILED = "gate failed"
    SLOWER = "gate failed on speed alone"
    UNSURE = "no verdict in time"
    UNSCHEDULED = "pods cannot be scheduled"
    COMPLETE = "all pods done"
    STUCK = "broken pods in the way"
    STRANDED = "overdue, with nowhere to go back to"
    CANCELLED = "called off"
    CHANGED = "the target was changed"
    UNDONE = "undone by somebody else"
    GONE = "the target is gone"


class Step(StrEnum):
    """What to do to the workload; every step may be taken again without harm."""

    WAIT = "wait"
    WRITE = "write the new configuration"
    HOLD = "hold the rest"
    RELEASE = "let the rest follow"
    PUT_BACK = "put the old template back"
    CLEAR = "delete the broken pods"
    LET_GO = "let go of it"
    """Hold nothing any more, and leave the template as it is."""


class Ending(StrEnum):
    """How a roll-out ended."""

    PROMOTED = "Promoted"
    FAILED = "Failed"
    """Rolled back, and that configuration is not tried again before it or the image changes."""
    LOST = "Lost"
    """It served slower, showed too little, or had no room: rolled back, and tried again after a gap."""
    CANCELLED = "Cancelled"
    """Rolled back without a verdict."""
    UNDONE = "Undone"
    """Somebody else put another template in: their word counts."""
    GONE = "Gone"
    ABANDONED = "Abandoned"
    """The way back, or a retreat, is not done within the deadline: left as it is."""


PLAN: Mapping[tuple[Phase, Event], tuple[Phase | None, Step]] = {
    (Phase.STARTING, Event.UNWRITTEN): (Phase.STARTING, Step.WRITE),
    (Phase.STARTING, Event.REFUSED): (Phase.ROLLING_BACK, Step.PUT_BACK),
    (Phase.STARTING, Event.FIRST_POD): (Phase.STARTING, Step.HOLD),
    (Phase.STARTING, Event.HELD): (Phase.CANARY, Step.WAIT),
    (Phase.CANARY, Event.READY): (Phase.SOAKING, Step.WAIT),
    (Phase.SOAKING, Event.PASSED): (Phase.PROMOTING, Step.RELEASE),
    (Phase.SOAKING, Event.FAILED): (Phase.ROLLING_BACK, Step.PUT_BACK),
    (Phase.SOAKING, Event.SLOWER): (Phase.ROLLING_BACK, Step.PUT_BACK),
    (Phase.SOAKING, Event.UNSURE): (Phase.ROLLING_BACK, Step.PUT_BACK),
    (Phase.PROMOTING, Event.UNWRITTEN): (Phase.PROMOTING, Step.WRITE),
    (Phase.PROMOTING, Event.HELD): (Phase.PROMOTING, Step.RELEASE),
    (Phase.PROMOTING, Event.COMPLETE): (None, Step.WAIT),
    (Phase.PROMOTING, Event.STRANDED): (None, Step.WAIT),
    (Phase.PROMOTING, Event.STUCK): (Phase.PROMOTING, Step.CLEAR),
    **{
        (phase, event): (Phase.ROLLING_BACK, Step.PUT_BACK)
        for phase in (Phase.STARTING, Phase.CANARY, Phase.SOAKING, Phase.PROMOTING)
        for event in (Event.BROKEN, Event.OVERDUE, Event.UNSCHEDULED, Event.CANCELLED, Event.CHANGED)
    },
    (Phase.ROLLING_BACK, Event.UNWRITTEN): (Phase.ROLLING_BACK, Step.PUT_BACK),
    (Phase.ROLLING_BACK, Event.HELD): (Phase.ROLLING_BACK, Step.PUT_BACK),
    (Phase.ROLLING_BACK, Event.STUCK): (Phase.ROLLING_BACK, Step.CLEAR),
    (Phase.ROLLING_BACK, Event.COMPLETE): (None, Step.WAIT),
    (Phase.ROLLING_BACK, Event.OVERDUE): (None, Step.WAIT),
    **{(phase, Event.UNDONE): (None, Step.LET_GO) for phase in Phase},
    **{(phase, Event.GONE): (None, Step.WAIT) for phase in Phase},
}
"""What each event means in each phase: the next phase (None: it is over), and the step to take."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the parts of a roll-out may take, in seconds."""

    soak_seconds: float
    progress_deadline_seconds: float
    warmup_seconds: float = 0.0
    """How long after it is ready a canary's figures are left out."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """What was intended, and what is decided of it so far; times are seconds since the epoch."""

    level: str
    """The level that is rolled out."""
    back_to: str
    kind: Kind
    key: str
    """Hash of its configuration and image: what is not tried again should it fail."""
    rest: str
    """Hash of everything in the pod template but the configuration: what must not change meanwhile."""
    started_at: float
    phase: Phase = Phase.STARTING
    since: float = 0.0
    """When the phase began."""
    written: bool = False
    """Whether the new configuration was in the template once: if it is not any more, somebody undid it."""
    ending: Ending | None = None
    """What it will have been once it is rolled back."""
    reason: str = ""
    """Why it is promoted or rolled back."""
    failed_share: float = 0.0
    """Share of requests that failed beside the canary when it passed: what the level before had."""
    setting: str = ""
    """Hash of its configuration alone, by which it is known in the template whatever a policy calls it meanwhile; of
    the template's as it is and stays, where the roll-out is live."""
    back_setting: str = ""
    """The same hash of the configuration that was there before."""
    live: bool = False
    """Whether running pods are asked for the level, instead of being made anew."""
    canary: str = ""
    """The pod that is asked first, where the roll-out is live."""

    @property
    def soaking(self) -> bool:
        """Whether the canary serves and the rest does not follow yet."""
        return self.phase is Phase.SOAKING

    @property
    def goes_back(self) -> bool:
        """Whether the old template is back, or on its way."""
        return self.phase is Phase.ROLLING_BACK


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod that is not on its way out."""

    name: str
    new: bool
    """Whether it was started with the configuration that is rolled out."""
    ready_since: float | None = None
    """When it became ready; None while it is not."""
    broken: str = ""
    """How its container fails again and again, with its last message."""
    pending: str = ""
    """Why it cannot be scheduled."""


@dataclass(frozen=True, slots=True)
class View:
    """The workload as it is seen now."""

    template: str | None
    """Level that the pod template asks for; None for a configuration that is none of the ladder's."""
    rest: str
    """Hash of everything else in the template."""
    held: bool = False
    """Whether we hold the roll-out: paused, or above a partition."""
    settled: bool = True
    """Whether its controller has seen the latest template."""
    replicas: int = 1
    pods: tuple[PodView, ...] = ()
    ordered: bool = False
    """Whether a broken pod keeps its controller from going on, as in a StatefulSet."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The next step, and the roll-out as it is to be stored before the step is taken."""

    rollout: Rollout
    step: Step
    words: str
    ended: Ending | None = None


def begin(
    level: str,
    back_to: str,
    kind: Kind,
    key: str,
    rest: str,
    now: float,
    setting: str = "",
    back_setting: str = "",
    *,
    live: bool = False,
    at_once: bool = False,
) -> Rollout:
    """A roll-out that is about to be written; a retreat goes to all pods at once, and so may a live brake."""
    phase = Phase.PROMOTING if at_once or kind is Kind.RETREAT else Phase.STARTING
    started = Rollout(level, back_to, kind, key, rest, now, phase, now, live=live)
    return replace(started, setting=setting, back_setting=back_setting)


def plan(
    rollout: Rollout,
    view: View | None,
    limits: Limits,
    now: float,
    *,
    called_off: str = "",
    gate: GateVerdict | None = None,
    attempt: str | None = None,
) -> Plan:
    """The one step to take now; `view` None: the target is gone; `called_off` says why the roll-out must end.

    `gate` is the latest verdict on a canary that soaks; without one it goes on soaking.  `attempt` is what came of the
    last write in this phase: why it was refused, "" where it was not; None before the first, so that whoever goes on
    after an outage tries before it gives up.
    """
    rollout = replace(rollout, written=rollout.written or (view is not None and view.template == rollout.level))
    found = _event(rollout, view, limits, now, called_off, gate, attempt)
    if found is None:
        so_far = f"; so far: {gate.reason}" if rollout.soaking and gate is not None else ""
        return Plan(rollout, Step.WAIT, waiting(rollout, view) + so_far)
    event, words = found
    try:
        phase, step = PLAN[rollout.phase, event]
    except KeyError:
        raise IllegalMove(f"a roll-out that is {rollout.phase} cannot meet the event {event!r}") from None
    if phase is None:
        return Plan(rollout, step, words, _ending(rollout, event))
    moved = rollout if phase is rollout.phase else replace(rollout, phase=phase, since=now, reason=words)
    if phase is Phase.ROLLING_BACK and rollout.phase is not phase:
        moved = replace(moved, ending=_verdict(event))
    return Plan(moved, step, words)


def _verdict(event: Event) -> Ending:
    """What a roll-out that is rolled back because of this event will have been."""
    if event in (Event.CANCELLED, Event.CHANGED, Event.REFUSED):
        return Ending.CANCELLED
    return Ending.LOST if event in (Event.SLOWER, Event.UNSURE, Event.UNSCHEDULED) else Ending.FAILED


def _ending(rollout: Rollout, event: Event) -> Ending:
    if event is Event.UNDONE:
        return Ending.UNDONE
    if event is Event.GONE:
        return Ending.GONE
    if event in (Event.OVERDUE, Event.STRANDED):
        return Ending.ABANDONED
    return rollout.ending or Ending.PROMOTED


Found = tuple[Event, str] | None


def _event(
    rollout: Rollout,
    view: View | None,
    limits: Limits,
    now: float,
    called_off: str,
    gate: GateVerdict | None,
    attempt: str | None,
) -> Found:
    """What is seen first of: gone, the way back, undone, changed, called off, failing, and the phase's own."""
    if view is None:
        return Event.GONE, "the target is gone"
    if rollout.goes_back:
        return _on_the_way_back(rollout, view, limits, now, attempt)
    if rollout.written and view.template != rollout.level:
        shown = view.template or "a configuration that is none of the ladder's"
        return Event.UNDONE, f"somebody else set {shown} while {rollout.level} was rolled out: left as it is"
    if rollout.kind is not Kind.RETREAT and view.rest != rollout.rest:
        return Event.CHANGED, "the target's pod template was changed meanwhile"
    if rollout.kind is not Kind.RETREAT and called_off:
        return Event.CANCELLED, called_off
    # A verdict that comes with the deadline counts, and so does a pod that is ready by then.
    found = (
        _broken(rollout, view)
        or _refused(rollout, limits, now, attempt)
        or _forward(rollout, view, gate, attempt)
        or _overdue(rollout, view, limits, now, gate)
    )
    if found is None and rollout.kind is Kind.RETREAT and rollout.written and _stuck(view, new=False):
        return Event.STUCK, f"a pod that is not ready keeps its StatefulSet from going to {rollout.level}"
    return found


def _broken(rollout: Rollout, view: View) -> Found:
    broken = next((pod for pod in view.pods if pod.new and pod.broken), None)
    if broken is None or rollout.kind is Kind.RETREAT:
        return None
    return Event.BROKEN, f"pod {broken.name} fails: {broken.broken}"


def _refused(rollout: Rollout, limits: Limits, now: float, attempt: str | None) -> Found:
    """A retreat is tried on and on: it leaves harm."""
    limit = limits.progress_deadline_seconds
    if rollout.written or not attempt or rollout.phase is not Phase.STARTING or now - rollout.since < limit:
        return None
    return Event.REFUSED, f"{rollout.level} could not be written within {limit:.0f} s: {attempt}"


def _overdue(rollout: Rollout, view: View, limits: Limits, now: float, gate: GateVerdict | None) -> Found:
    since, limit = _clock(rollout, view, limits)
    if now - since < limit:
        return None
    ready = sum(pod.new and pod.ready_since is not None for pod in view.pods)
    progress = f"no progress within {limit:.0f} s: {ready} pods are ready at {rollout.level}"
    if rollout.kind is Kind.RETREAT:
        return Event.STRANDED, progress
    pending = next((pod for pod in view.pods if pod.new and pod.pending), None)
    if pending is not None:
        return Event.UNSCHEDULED, f"pod {pending.name} could not be scheduled within {limit:.0f} s: {pending.pending}"
    if rollout.soaking:
        open_points = f": {gate.reason}" if gate is not None else ""
        return Event.UNSURE, f"no verdict within {limit:.0f} s of soaking{open_points}"
    return Event.OVERDUE, progress


def soak_deadline(rollout: Rollout, limits: Limits) -> float:
    """Until when a verdict on a canary that soaks must be there, seconds since the epoch."""
    least = limits.warmup_seconds + limits.soak_seconds
    return rollout.since + max(limits.progress_deadline_seconds, least)


def _clock(rollout: Rollout, view: View, limits: Limits) -> tuple[float, float]:
    """Since when the present phase is waited for, and how long it may take; a pod that becomes ready is progress."""
    if rollout.soaking:
        # How long a probe may take is the rules' to say.
        end = float("inf") if rollout.kind is Kind.PROBE else soak_deadline(rollout, limits)
        return rollout.since, end - rollout.since
    if rollout.phase in (Phase.STARTING, Phase.CANARY):
        return rollout.started_at, limits.progress_deadline_seconds
    new = rollout.phase is Phase.PROMOTING
    progress = [pod.ready_since for pod in view.pods if pod.new is new and pod.ready_since is not None]
    return max((rollout.since, *progress)), limits.progress_deadline_seconds


def _forward(rollout: Rollout, view: View, gate: GateVerdict | None, attempt: str | None) -> Found:
    new = [pod for pod in view.pods if pod.new]
    match rollout.phase:
        case Phase.STARTING if not rollout.written:
            return Event.UNWRITTEN, _writing(rollout, attempt)
        case Phase.STARTING if view.held:
            return Event.HELD, "the first pods are made, the rest is held"
        case Phase.STARTING if new:
            return Event.FIRST_POD, "holding the rest"
        case Phase.CANARY if new and view.settled and all(pod.ready_since is not None for pod in new):
            return Event.READY, f"{len(new)} of {view.replicas} replicas serve at {rollout.level}"
        case Phase.SOAKING if gate is not None and gate.result is not Result.INCONCLUSIVE:
            return _judged(gate), gate.reason
        case Phase.PROMOTING if not rollout.written:
            return Event.UNWRITTEN, _writing(rollout, attempt)
        case Phase.PROMOTING if view.held:
            return Event.HELD, "letting the rest follow"
        case Phase.PROMOTING if view.settled and _all_ready(view, new=True):
            return Event.COMPLETE, f"all {view.replicas} replicas serve at {rollout.level}: {rollout.reason}"
    return None


def _writing(rollout: Rollout, attempt: str | None) -> str:
    if rollout.live:
        return f"asking {rollout.canary or 'all pods'} for {rollout.level}, live"
    return f"writing {rollout.level} into the pod template{_refusal(attempt)}"


def _refusal(attempt: str | None) -> str:
    return f"; the last try failed: {attempt}" if attempt else ""


def _judged(gate: GateVerdict) -> Event:
    if gate.result is Result.PASS:
        return Event.PASSED
    return Event.SLOWER if gate.on_speed_alone else Event.FAILED


def _on_the_way_back(rollout: Rollout, view: View, limits: Limits, now: float, attempt: str | None) -> Found:
    since, limit = _clock(rollout, view, limits)
    overdue = now - since >= limit
    if view.template == rollout.level and rollout.live:
        return Event.UNDONE, f"somebody else set {rollout.level} in the pod template: left as it is"
    if view.template == rollout.level and overdue and attempt == "":
        what = f"somebody puts {rollout.level} in again and again"
        return Event.OVERDUE, f"{rollout.back_to} did not stay for {limit:.0f} s: {what}; {rollout.reason}"
    if view.template == rollout.level:
        return Event.UNWRITTEN, f"{rollout.reason}{_refusal(attempt)}"
    if view.template is not None and view.template != rollout.back_to:
        return Event.UNDONE, f"somebody else set {view.template} on the way back to {rollout.back_to}: left as it is"
    if view.held:
        return Event.HELD, rollout.reason
    if view.settled and _all_ready(view, new=False):
        return Event.COMPLETE, rollout.reason
    if overdue:
        return Event.OVERDUE, f"not all pods are back at {rollout.back_to} within {limit:.0f} s: {rollout.reason}"
    if _stuck(view, new=True):
        return Event.STUCK, "a pod that is not ready keeps its StatefulSet from going back"
    return None


def _stuck(view: View, *, new: bool) -> bool:
    """Whether a pod of the level that is left is not ready, and so keeps its controller from replacing any."""
    return view.ordered and view.settled and any(pod.new is new and pod.ready_since is None for pod in view.pods)


def _all_ready(view: View, *, new: bool) -> bool:
    ready = sum(pod.new is new and pod.ready_since is not None for pod in view.pods)
    return ready == len(view.pods) and ready >= view.replicas


def waiting(rollout: Rollout, view: View | None) -> str:
    """What a roll-out waits for, in words."""
    pods = () if view is None else view.pods
    new = [pod for pod in pods if pod.new]
    ready = sum(pod.ready_since is not None for pod in new)
    pending = next((f": {pod.pending}" for pod in pods if pod.pending), "")
    match rollout.phase:
        case Phase.STARTING:
            return f"the first pods at {rollout.level} are awaited{pending}"
        case Phase.CANARY:
            return f"{ready} of {_pods(len(new))} of the canary at {rollout.level} ready{pending}"
        case Phase.SOAKING:
            return f"{_pods(len(new))} at {rollout.level} compared with {len(pods) - len(new)} left alone"
        case Phase.PROMOTING:
            return f"{ready} of {view.replicas if view else 0} replicas serve at {rollout.level}{pending}"
        case Phase.ROLLING_BACK:
            return f"{len(new)} pods are still at {rollout.level}, going back to {rollout.back_to}"


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"


def canary_table() -> str:
    """The plan as a table in Markdown, for the documentation."""
    rows = [f"| {phase} | {event} | {step} | {after or 'over'} |" for (phase, event), (after, step) in PLAN.items()]
    return "\n".join(("| phase | event | step | next phase |", "|---|---|---|---|", *rows))
