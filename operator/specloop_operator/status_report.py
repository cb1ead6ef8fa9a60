"""What a tick reports: the status of the policy, made of what was seen and decided.  No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass

from specloop_control.live import Standing
from specloop_operator.conditions import ConditionReason, ConditionType, conditions
from specloop_operator.remembered import Remembered, store
from specloop_operator.sight import Blind, Sight, enforces
from specloop_operator.turn import Turn, restart_seconds
from specloop_policy.alerts import kept
from specloop_policy.canary import Ending, Kind, Phase, Rollout
from specloop_policy.decision import Decision, Fault
from specloop_policy.evidence import Evidence
from specloop_policy.report import as_time
from specloop_policy.status import (
    MAX_DECISIONS,
    PastDecision,
    Recommendation,
    SpecPolicyStatus,
    to_levels,
)
from specloop_policy.wishes import suspends

UNMANAGED = "Unmanaged"

NAMED_PODS = 10
"""Pods that a condition names one by one: as many as a person reads."""

PHASES = {
    Phase.STARTING: ConditionReason.STARTING,
    Phase.CANARY: ConditionReason.CANARY,
    Phase.SOAKING: ConditionReason.SOAKING,
    Phase.PROMOTING: ConditionReason.PROMOTING,
    Phase.ROLLING_BACK: ConditionReason.ROLLING_BACK,
}
ENDINGS = {
    Ending.PROMOTED: ConditionReason.PROMOTED,
    Ending.FAILED: ConditionReason.ROLLED_BACK,
    Ending.LOST: ConditionReason.ROLLED_BACK,
    Ending.CANCELLED: ConditionReason.CANCELLED,
    Ending.UNDONE: ConditionReason.UNDONE,
    Ending.GONE: ConditionReason.CANCELLED,
    Ending.ABANDONED: ConditionReason.ROLLED_BACK,
}

Row = tuple[ConditionReason, str]


@dataclass(frozen=True, slots=True)
class MetricsReport:
    """What is said of the metrics: a condition, and the evidence that the decision rests on."""

    condition: Row
    evidence: Evidence | None = None
    query: str | None = None


def blind_status(
    before: SpecPolicyStatus, blind: Blind, remembered: Remembered, generation: int, now: float
) -> SpecPolicyStatus:
    """The status where nothing can be decided: what is known stays, the conditions say what is missing."""
    rows = {blind.reason.type: (blind.reason, blind.message)}
    if blind.reason.type is not ConditionType.READY:
        rows[ConditionType.READY] = (ConditionReason.NOT_READY, blind.message)
    if blind.reason.type is not ConditionType.CONFLICTED:
        rows[ConditionType.CONFLICTED] = (ConditionReason.ONLY_POLICY, "no older policy has this target")
    rollout = before.memory.rollout if before.memory is not None else None
    if rollout is not None and remembered.rollout is None:
        rows[ConditionType.PROGRESSING] = (ConditionReason.CANCELLED, f"{rollout.level} is given up: {blind.message}")
    elif remembered.rollout is not None and remembered.rollout.goes_back:
        rows[ConditionType.PROGRESSING] = (ConditionReason.ROLLING_BACK, remembered.rollout.reason)
    return before.model_copy(
        update={
            "observed_generation": generation,
            "conditions": conditions(rows, before.conditions, generation, now),
            "alerts": kept(before.alerts, now),
            "memory": store(remembered),
        }
    )


def seen_status(
    before: SpecPolicyStatus, sight: Sight, turn: Turn, metrics: MetricsReport, now: float
) -> SpecPolicyStatus:
    """The status after a turn."""
    remembered = turn.remembered
    acceptance = acceptance_percent(metrics.evidence)
    return SpecPolicyStatus(
        observed_generation=sight.generation,
        conditions=conditions(_rows(sight, turn, metrics, before), before.conditions, sight.generation, now),
        levels=to_levels(sight.policy.ladder),
        observed_level=_observed(sight, remembered),
        desired_level=_desired(sight, remembered),
        acceptance_percent=before.acceptance_percent if acceptance is None and metrics.evidence is None else acceptance,
        recommendation=_recommendation(sight, turn, before),
        decisions=_decisions(before, sight, turn, metrics, now),
        alerts=kept(before.alerts, now),
        memory=store(remembered),
    )


def acceptance_percent(evidence: Evidence | None) -> int | None:
    """Acceptance in the evidence, in whole percent; None where nothing was drafted, or nothing is known."""
    if evidence is None or not evidence.usable or evidence.whole.draft_tokens <= 0.0:
        return None
    return round(100.0 * evidence.whole.accepted_tokens / evidence.whole.draft_tokens)


def _observed(sight: Sight, remembered: Remembered) -> str:
    """The level that serves: while a canary is out, the one of all the others."""
    rollout, running = remembered.rollout, sight.level
    if rollout is not None and rollout.kind is Kind.SHED:
        return rollout.level  # it is off already
    if rollout is not None and rollout.phase in (Phase.STARTING, Phase.CANARY, Phase.SOAKING):
        return rollout.back_to
    return running.name if running is not None else UNMANAGED


def _desired(sight: Sight, remembered: Remembered) -> str | None:
    rollout = remembered.rollout
    if rollout is not None and rollout.kind not in (Kind.PROBE, Kind.SHED):
        return rollout.back_to if rollout.goes_back else rollout.level
    return remembered.state.level


def _rows(sight: Sight, turn: Turn, metrics: MetricsReport, before: SpecPolicyStatus) -> dict[ConditionType, Row]:
    found = [
        metrics.condition,
        (ConditionReason.RESOLVED, _resolved(sight)),
        *([] if turn.blocked is None else [turn.blocked]),
        (ConditionReason.ONLY_POLICY, "no older policy has this target"),
        _suspended(sight),
        _ready(sight, turn, metrics),
        _drifted(turn),
        *_progressing(turn, before),
        *_degraded(sight, turn, before),
        _live(sight),
    ]
    return {reason.type: (reason, message) for reason, message in found}


def _resolved(sight: Sight) -> str:
    binding = sight.binding
    where = f"annotation {binding.annotation}" if binding.annotation else "its command line"
    refused = "".join(f"; {one.level} is never gone to: {one.reason}" for one in sight.refused)
    return f"container {binding.container} takes its setting from {where}{refused}"


def _suspended(sight: Sight) -> Row:
    if sight.spec.suspend:
        return ConditionReason.BY_SPEC, "spec.suspend is true: everything is held as it is"
    if sight.wishes.suspended:
        return ConditionReason.BY_ANNOTATION, "the annotation specloop.dev/suspend is true"
    alert = suspends(sight.alerts)
    if alert is not None:
        return ConditionReason.BY_ALERT, f"alert {alert.name} fires: everything is held as it is"
    return ConditionReason.ACTIVE, "the policy is not suspended"


def _ready(sight: Sight, turn: Turn, metrics: MetricsReport) -> Row:
    if sight.level is None:
        ladder = ", ".join(sight.policy.ladder.names())
        return ConditionReason.UNMANAGED, f"what runs is no level of the ladder ({ladder}): it is left alone"
    if metrics.condition[0].status == "False":
        return ConditionReason.NOT_READY, metrics.condition[1]
    if turn.remembered.reverted:
        return ConditionReason.NOT_READY, turn.remembered.reverted
    if enforces(sight):
        return ConditionReason.GOVERNING, f"mode Enforce on {sight.target.kind.name} {sight.target.name}"
    return ConditionReason.RECOMMENDING, f"mode Recommend on {sight.target.kind.name} {sight.target.name}"


def _drifted(turn: Turn) -> Row:
    reverted = turn.remembered.reverted
    if reverted:
        return ConditionReason.REVERTED, f"{reverted}; edit the policy or override it to go on"
    return ConditionReason.IN_SYNC, "the target is as the operator left it"


def _progressing(turn: Turn, before: SpecPolicyStatus) -> Sequence[Row]:
    """Nothing where nothing is new: how the last roll-out ended stays to be read."""
    rollout = turn.remembered.rollout
    if rollout is not None:
        return [(_phase(rollout, turn), turn.words)]
    if turn.ended is not None:
        return [(ENDINGS[turn.ended], turn.words)]
    if turn.blocked is not None and turn.blocked[0].type is ConditionType.PROGRESSING:
        return [turn.blocked]
    said = next((one.reason for one in before.conditions if one.type == ConditionType.PROGRESSING), None)
    return (
        [] if said in {str(one) for one in ENDINGS.values()} else [(ConditionReason.IDLE, "no roll-out is under way")]
    )


def _phase(rollout: Rollout, turn: Turn) -> ConditionReason:
    if rollout.kind is Kind.RETREAT and rollout.phase is Phase.PROMOTING:
        return ConditionReason.RETREATING
    if rollout.kind is Kind.PROBE and rollout.phase is Phase.SOAKING:
        return ConditionReason.PROBING
    if rollout.phase is Phase.SOAKING and turn.no_control:
        return ConditionReason.NO_CONTROL
    return PHASES[rollout.phase]


def _degraded(sight: Sight, turn: Turn, before: SpecPolicyStatus) -> Sequence[Row]:
    """Nothing where nothing is new: a fault until it is looked for again, an abandoned way back until it is done."""
    if turn.ended is Ending.ABANDONED:
        return [(ConditionReason.ABANDONED, turn.words)]
    said = next((one.reason for one in before.conditions if one.type == ConditionType.DEGRADED), None)
    if said == ConditionReason.ABANDONED and turn.remembered.rollout is None and not _in_order(sight):
        return []
    looked = turn.decision is not None and turn.ended is None
    if said == ConditionReason.FAULT_FOUND and not looked:
        return []
    faults: tuple[Fault, ...] = turn.decision.faults if turn.decision is not None else ()
    if faults:
        return [(ConditionReason.FAULT_FOUND, "; ".join(f"{one.name}: {one.reason}; {one.mend}" for one in faults))]
    return [(ConditionReason.AS_EXPECTED, "nothing is known to be wrong")]


def _in_order(sight: Sight) -> bool:
    """Whether all pods serve, at the level that they are to be at."""
    level = sight.level.name if sight.level is not None else None
    staying = [pod for pod in sight.pods if not pod.leaving]
    return len(staying) >= sight.target.replicas and all(pod.serving and pod.level == level for pod in staying)


def _live(sight: Sight) -> Row:
    live, level = sight.live, sight.level
    if live is None:
        return ConditionReason.NOT_ASKED_FOR, "levels are reached by restarts: set live.tokenSecretRef for live control"
    if live.problem:
        return ConditionReason.NOT_POSSIBLE, live.problem
    standings = {pod.name: pod.standing for pod in sight.pods if pod.standing is not None}
    astray = {name: one for name, one in standings.items() if not one.in_line or one.standing is Standing.CLAMPED}
    if astray:
        named = "; ".join(f"{name}: {one.standing}, {one.reason}" for name, one in list(astray.items())[:NAMED_PODS])
        more = f"; {len(astray) - NAMED_PODS} more" if len(astray) > NAMED_PODS else ""
        return ConditionReason.OUT_OF_LINE, f"{len(astray)} of {len(standings)} pods are not as asked: {named}{more}"
    waiting = sum(one.standing is Standing.PENDING for one in standings.values())
    idle = f"; {waiting} take it up with their next request" if waiting else ""
    shown = level.name if level is not None else UNMANAGED
    return ConditionReason.IN_LINE, f"{len(standings)} pods are as asked, at {shown}{idle}"


def _recommendation(sight: Sight, turn: Turn, before: SpecPolicyStatus) -> Recommendation | None:
    """What is advised now; while a roll-out goes on by itself, what led to it."""
    decision = turn.decision
    if decision is None or decision.level is None:
        return before.recommendation
    live = decision.level in sight.live_levels
    restart = None if not decision.changes_level else 0.0 if live else restart_seconds(sight)
    gain = decision.gain_percent
    return Recommendation(
        level=decision.level,
        reason=decision.reason[:4096],
        estimated_gain_percent=None if gain is None else round(gain),
        restart_cost_seconds=None if restart is None else round(restart),
    )


def _decisions(
    before: SpecPolicyStatus, sight: Sight, turn: Turn, metrics: MetricsReport, now: float
) -> tuple[PastDecision, ...]:
    """The last ten; one that is only recommended is taken down once, however often it is said again."""
    decision = turn.decision
    if decision is None or not decision.changes_level:
        return before.decisions
    carried_out = enforces(sight) and turn.blocked is None
    made = _past(decision, turn, metrics, now, "" if carried_out else "recommended: ")
    last = before.decisions[-1] if before.decisions else None
    if last is not None and not carried_out and _same(made, last):
        return before.decisions
    return (*before.decisions, made)[-MAX_DECISIONS:]


def _same(one: PastDecision, other: PastDecision) -> bool:
    return (one.action, one.from_level, one.to_level, one.rule) == (
        other.action,
        other.from_level,
        other.to_level,
        other.rule,
    )


def _past(decision: Decision, turn: Turn, metrics: MetricsReport, now: float, prefix: str) -> PastDecision:
    evidence = metrics.evidence
    usable = evidence is not None and evidence.usable
    return PastDecision(
        time=as_time(now),
        action=decision.action,
        from_level=turn.before,
        to_level=decision.level,
        rule=decision.rule,
        reason=(prefix + decision.reason)[:4096],
        acceptance_percent=acceptance_percent(evidence),
        evidence_seconds=round(evidence.whole.seconds) if usable and evidence is not None else None,
        query=metrics.query[:4096] if metrics.query else None,
    )
