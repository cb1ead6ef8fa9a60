"""What the operator reports on a policy: the `status` of the custom resource, and the memory kept in it.

Times are RFC 3339 text with microseconds, as everywhere in Kubernetes; in a `PolicyState` they are seconds since the
epoch.  Unknown fields are dropped when read: a newer operator may have written them.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from specloop_policy.decision import ActionName, FailedChange, Forced, PolicyState, Probe, Trial
from specloop_policy.ladder import Drafter, Ladder, Level, Method
from specloop_policy.model import AlertActionType, Name
from specloop_policy.report import Report, Text, Time, as_time, maybe_seconds, maybe_time
from specloop_policy.rollout_status import Hash, InterruptedMemory, LiveMemory, RolloutMemory, WatchMemory

MAX_DECISIONS = 10
"""Decisions kept in the status, newest last."""

MAX_ALERTS = 32
"""Alerts kept in the status: two for each binding that a policy may have."""

Percent = Annotated[int, Field(ge=0, le=100)]


class ConditionStatus(StrEnum):
    """Whether a condition is so."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Report):
    """One aspect of the policy's state, in the form that all Kubernetes conditions have (KEP-1623)."""

    type: Annotated[str, Field(min_length=1, max_length=316)] = Field(
        description="Ready, MetricsAvailable, TargetResolved, Progressing, Degraded, Drifted, Conflicted or Suspended."
    )
    status: ConditionStatus = Field(description="True, False or Unknown.")
    observed_generation: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Generation of the policy that this was said of."
    )
    last_transition_time: Time = Field(description="When the status last changed.")
    reason: Annotated[str, Field(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", max_length=1024)] = Field(
        description="The reason as one word in CamelCase."
    )
    message: Annotated[str, Field(max_length=32768)] = Field(description="The reason in a sentence.")


class RangeReport(Report):
    """K from a number of requests in a step on."""

    from_requests: Annotated[int, Field(ge=1)] = Field(description="The least number of requests in a step.")
    tokens: Annotated[int, Field(ge=0)] = Field(description="K, the draft tokens a step.")


class LevelReport(Report):
    """A level of the ladder in force."""

    name: Name = Field(description="Name of the level.")
    drafter: Name | None = Field(default=None, description="Name of its drafter.")
    method: Method | None = Field(default=None, description="How the drafter proposes tokens.")
    model: Annotated[str, Field(max_length=512)] | None = Field(default=None, description="The draft model.")
    tokens: Annotated[int, Field(ge=1)] | None = Field(default=None, description="K, the draft tokens a step.")
    tokens_by_batch: Annotated[tuple[RangeReport, ...], Field(max_length=16)] | None = Field(
        default=None, description="K from larger batches on."
    )
    lookup_min: Annotated[int, Field(ge=1)] | None = Field(default=None, description="Shortest n-gram looked up.")
    lookup_max: Annotated[int, Field(ge=1)] | None = Field(default=None, description="Longest n-gram looked up.")


class Recommendation(Report):
    """What the operator would do, or is about to do."""

    level: Name = Field(description="The level to be at.")
    reason: Text = Field(description="Why, in words.")
    estimated_gain_percent: int | None = Field(
        default=None, description="Expected gain in speed against the level before; absent when unknown."
    )
    restart_cost_seconds: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="How long a replica would be away; absent when unknown."
    )


class PastDecision(Report):
    """A decision that was taken."""

    time: Time = Field(description="When.")
    action: ActionName = Field(description="What it did.")
    from_level: Name | None = Field(default=None, alias="from", description="The level before.")
    to_level: Name | None = Field(default=None, alias="to", description="The level to be at afterwards.")
    rule: Text | None = Field(default=None, description="The rule, schedule or alert behind it.")
    reason: Text = Field(description="Why, in words: value, limit and window.")
    acceptance_percent: Percent | None = Field(default=None, description="Acceptance rate in the evidence.")
    evidence_seconds: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Span of the evidence that it rests on."
    )
    query: Text | None = Field(default=None, description="The query as it was sent to the metric source.")


class HoldingRule(Report):
    """A rule whose condition holds."""

    rule: Name = Field(description="Name of the rule.")
    since: Time = Field(description="End of the window at which it began to hold.")


class ProbeMemory(Report):
    """A level that is being tried on one replica."""

    level: Name = Field(description="The level tried.")
    started_at: Time = Field(description="When the probe began.")


class ForcedMemory(Report):
    """What holds the level where rules do not decide."""

    by: Text = Field(description="The override, schedule or alert.")
    back_to: Name | None = Field(default=None, description="The level to go back to afterwards.")
    alert: bool | None = Field(default=None, description="Whether it is an alert.")
    since: Time | None = Field(default=None, description="When the first of them began to hold it.")


class TrialMemory(Report):
    """A level that was entered from below and lost."""

    level: Name = Field(description="The level.")
    losses: Annotated[int, Field(ge=0)] = Field(description="How often in a row.")
    lost_at: Time = Field(description="When last.")


class QuarantineMemory(Report):
    """A level that did not come up and is not tried again until its configuration or image changes."""

    level: Name = Field(description="The level.")
    key: Text = Field(description="Hash of its configuration and image.")
    reason: Text = Field(description="What went wrong.")
    until: Time | None = Field(default=None, description="When it may be tried again; absent: once it is another.")
    rules_only: bool | None = Field(
        default=None, description="True: an override, a schedule or an alert may ask for it all the same."
    )


MAX_CONFIGURATIONS = 4
"""As many drafters as a policy is likely to name."""

MAX_CONFIGURATION = 2048
"""Characters of one; those in vLLM's documentation have 300 at most."""

Configuration = Annotated[str, Field(max_length=MAX_CONFIGURATION)]


class Memory(Report):
    """What the next decision needs to know of the ones before; written only when it changes."""

    level: Name | None = Field(default=None, description="The level that the target is meant to be at.")
    changed_at: Time | None = Field(default=None, description="When the level last changed; evidence begins there.")
    raised_at: Time | None = Field(default=None, description="When the level was last entered from below.")
    changes: Annotated[tuple[Time, ...], Field(max_length=1000)] = Field(
        default_factory=tuple, description="Changes by rules in the last day."
    )
    holds_since: Annotated[tuple[HoldingRule, ...], Field(max_length=16)] = Field(
        default_factory=tuple, description="Rules whose condition holds."
    )
    probe: ProbeMemory | None = Field(default=None, description="The probe under way.")
    forced: ForcedMemory | None = Field(default=None, description="What holds the level where rules do not decide.")
    owed: Name | None = Field(default=None, description="The level to go back to once it may be.")
    trials: Annotated[tuple[TrialMemory, ...], Field(max_length=16)] = Field(
        default_factory=tuple, description="Levels entered from below and lost."
    )
    quarantine: Annotated[tuple[QuarantineMemory, ...], Field(max_length=16)] = Field(
        default_factory=tuple, description="Levels that did not come up."
    )
    rollout: RolloutMemory | None = Field(default=None, description="The roll-out under way.")
    watch: WatchMemory | None = Field(default=None, description="The promoted level that is still watched.")
    interrupted: InterruptedMemory | None = Field(
        default=None,
        description="The last roll-out that was asked for and ended by an alert or a change of the target.",
    )
    live: LiveMemory | None = Field(
        default=None, description="What running pods are held at live; absent: at what the pod template says."
    )
    shed_failed: Hash | None = Field(
        default=None,
        description="Key of the configuration without a drafter that did not serve: it is left on, braked.",
    )
    configurations: Annotated[tuple[Configuration, ...], Field(max_length=MAX_CONFIGURATIONS)] = Field(
        default_factory=tuple,
        description="What the target said of each drafter, with which a level of that drafter is written again.",
    )
    written_level: Name | None = Field(
        default=None, description="The level that the operator last wrote to the target; absent: it wrote none."
    )
    previous_level: Name | None = Field(
        default=None, description="The level before the last promoted change, for whoever asks to go back there."
    )
    reverted: Text | None = Field(
        default=None, description="Who set another level than the operator; held until the policy changes."
    )
    reverted_wish: Text | None = Field(
        default=None, description="The override that was in force then: it says nothing new."
    )
    rolled_back_at: Time | None = Field(
        default=None, description="Time of the last wish to roll back that was carried out."
    )


class AlertReport(Report):
    """An alert that was heard of."""

    fingerprint: Annotated[str, Field(max_length=64)] = Field(description="Which alert it is, for Alertmanager.")
    name: Annotated[str, Field(max_length=256)] = Field(description="Its label alertname.")
    starts_at: Time = Field(description="When it began to fire.")
    received_at: Time = Field(description="When it was heard of.")
    until: Time = Field(description="When it counts no more, unless it is heard of again.")
    resolved_at: Time | None = Field(default=None, description="When it was heard to be over; absent while it fires.")
    action: AlertActionType = Field(description="What it asks for.")
    level: Name | None = Field(default=None, description="The level that it asks for, of SwitchTo.")


class SpecPolicyStatus(Report):
    """What the operator found and did."""

    observed_generation: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Generation of the policy that this status is about."
    )
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = Field(
        default_factory=tuple, description="The state of the policy; Ready sums it up."
    )
    levels: Annotated[tuple[LevelReport, ...], Field(max_length=16)] = Field(
        default_factory=tuple, description="The ladder in force, most aggressive first."
    )
    observed_level: Annotated[str, Field(max_length=63)] | None = Field(
        default=None, description="The level that runs; Unmanaged when what runs is not in the ladder."
    )
    desired_level: Name | None = Field(default=None, description="The level to be at.")
    acceptance_percent: Percent | None = Field(default=None, description="Acceptance rate in the latest evidence.")
    recommendation: Recommendation | None = Field(default=None, description="What would be done, and why.")
    decisions: Annotated[tuple[PastDecision, ...], Field(max_length=MAX_DECISIONS)] = Field(
        default_factory=tuple, description="The last ten decisions, newest last."
    )
    alerts: Annotated[tuple[AlertReport, ...], Field(max_length=MAX_ALERTS)] = Field(
        default_factory=tuple, description="Alerts that bindings of the policy match, until their time is over."
    )
    memory: Memory | None = Field(default=None, description="What the next decision needs to know.")


def to_levels(ladder: Ladder) -> tuple[LevelReport, ...]:
    """A ladder as it is shown."""
    return tuple([_level_report(level) for level in ladder.levels])


def _level_report(level: Level) -> LevelReport:
    drafter = level.drafter
    if drafter is None:
        return LevelReport(name=level.name)
    return LevelReport(
        name=level.name,
        drafter=drafter.name,
        method=drafter.method,
        model=drafter.model,
        tokens=level.tokens,
        tokens_by_batch=tuple(RangeReport(from_requests=edge, tokens=tokens) for edge, tokens in level.by_batch)
        or None,
        lookup_min=drafter.lookup_min,
        lookup_max=drafter.lookup_max,
    )


def to_ladder(levels: Sequence[LevelReport]) -> Ladder:
    """The ladder that was shown."""
    return Ladder(tuple([_level(one) for one in levels]))


def _level(report: LevelReport) -> Level:
    if report.drafter is None or report.method is None or report.tokens is None:
        return Level(report.name)
    drafter = Drafter(report.drafter, report.method, report.model, report.lookup_min, report.lookup_max)
    return Level(report.name, drafter, report.tokens)


def to_memory(state: PolicyState) -> Memory:
    """A state as it is stored; times are cut to whole microseconds."""
    probe, forced = state.probe, state.forced
    return Memory(
        level=state.level,
        changed_at=maybe_time(state.changed_at),
        raised_at=maybe_time(state.raised_at),
        changes=tuple(as_time(seconds) for seconds in state.changes),
        holds_since=tuple(HoldingRule(rule=rule, since=as_time(since)) for rule, since in state.holds_since),
        probe=ProbeMemory(level=probe.level, started_at=as_time(probe.started_at)) if probe else None,
        forced=ForcedMemory(
            by=forced.by, back_to=forced.back_to, alert=forced.alert or None, since=as_time(forced.since)
        )
        if forced
        else None,
        owed=state.owed,
        trials=tuple(
            TrialMemory(level=one.level, losses=one.losses, lost_at=as_time(one.lost_at)) for one in state.trials
        ),
        quarantine=tuple(
            QuarantineMemory(
                level=one.level,
                key=one.key,
                reason=one.reason[:4096],
                until=maybe_time(one.until),
                rules_only=one.rules_only or None,
            )
            for one in state.quarantine
        ),
    )


def to_state(memory: Memory) -> PolicyState:
    """The state that was stored."""
    probe, forced = memory.probe, memory.forced
    return PolicyState(
        level=memory.level,
        changed_at=maybe_seconds(memory.changed_at),
        raised_at=maybe_seconds(memory.raised_at),
        changes=tuple(time.timestamp() for time in memory.changes),
        holds_since=tuple((one.rule, one.since.timestamp()) for one in memory.holds_since),
        probe=Probe(probe.level, probe.started_at.timestamp()) if probe else None,
        forced=Forced(forced.by, forced.back_to, bool(forced.alert), maybe_seconds(forced.since) or 0.0)
        if forced
        else None,
        owed=memory.owed,
        trials=tuple(Trial(one.level, one.losses, one.lost_at.timestamp()) for one in memory.trials),
        quarantine=tuple(
            FailedChange(
                one.level, one.key, one.reason, until=maybe_seconds(one.until), rules_only=one.rules_only or False
            )
            for one in memory.quarantine
        ),
    )
