"""Every Kubernetes Event that the operator posts: its reason, its type, on which object, and what it means."""

from enum import StrEnum
from typing import Self


class EventType(StrEnum):
    """Kubernetes knows these two."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Action(StrEnum):
    """What the operator was doing; the event's `action`.

    An event is news when the last one about the same object and action said something else.
    """

    READ_POLICY = "ReadPolicy"
    SUSPEND = "Suspend"
    OVERRIDE = "Override"
    HEAR_ALERT = "HearAlert"
    CLAIM_TARGET = "ClaimTarget"
    READ_TARGET = "ReadTarget"
    COMPARE_TARGET = "CompareTarget"
    READ_METRICS = "ReadMetrics"
    EXAMINE_ENGINE = "ExamineEngine"
    DECIDE = "Decide"
    PROBE = "Probe"
    ROLL_OUT = "RollOut"
    UNPAUSE = "Unpause"


class On(StrEnum):
    """The objects that an event is about."""

    POLICY = "policy"
    WORKLOAD = "workload"
    BOTH = "policy, workload"

    def includes(self, kind: str) -> bool:
        """Whether an event is posted on an object of this kind."""
        return self is On.BOTH or (self is On.POLICY) == (kind == "SpecPolicy")


_NORMAL, _WARNING = EventType


class Reason(StrEnum):
    """The reasons, each with what belongs to it; what a roll-out does to a workload is told there too."""

    type: EventType
    action: Action
    on: On
    meaning: str

    def __new__(cls, value: str, type_: EventType, action: Action, on: On, meaning: str) -> Self:
        """A reason with its row."""
        reason = str.__new__(cls, value)
        reason._value_ = value
        reason.type, reason.action, reason.on, reason.meaning = type_, action, on, meaning
        return reason

    # One row a reason:
    # fmt: off
    INVALID_SPEC = (
        "InvalidSpec", _WARNING, Action.READ_POLICY, On.POLICY,
        "The policy or an annotation on it cannot be followed as it is written; nothing is done until it is mended.",
    )
    SUSPENDED = (
        "Suspended", _NORMAL, Action.SUSPEND, On.POLICY,
        "The policy is suspended, by its spec, by annotation or by an alert: nothing is changed.",
    )
    RESUMED = ("Resumed", _NORMAL, Action.SUSPEND, On.POLICY, "The suspension is over.")
    OVERRIDE_SET = (
        "OverrideSet", _NORMAL, Action.OVERRIDE, On.POLICY,
        "A person asks for a level; the note says which, who, and until when.",
    )
    OVERRIDE_EXPIRED = (
        "OverrideExpired", _NORMAL, Action.OVERRIDE, On.POLICY,
        "The override is over or was taken back; rules decide again.",
    )
    ALERT_RECEIVED = (
        "AlertReceived", _NORMAL, Action.HEAR_ALERT, On.POLICY,
        "An alert that the policy asks for fires; what it asks for is decided at the next tick.",
    )
    ALERT_RESOLVED = ("AlertResolved", _NORMAL, Action.HEAR_ALERT, On.POLICY, "The alert is over.")
    ALERT_EXPIRED = (
        "AlertExpired", _NORMAL, Action.HEAR_ALERT, On.POLICY,
        "Nothing was heard of the alert for the binding's expireSeconds: it counts no more.",
    )
    ALERT_CROWDED = (
        "AlertCrowded", _WARNING, Action.HEAR_ALERT, On.POLICY,
        "More alerts fire than the status holds: those that the note names are not followed until others are over.",
    )
    ALERTS_LEFT_OUT = (
        "AlertsLeftOut", _WARNING, Action.HEAR_ALERT, On.POLICY,
        "A message of Alertmanager leaves alerts out: the policy looks at once; what was left out is not known.",
    )
    CONFLICTED = (
        "Conflicted", _WARNING, Action.CLAIM_TARGET, On.POLICY,
        "An older policy has the same target; this one does nothing.",
    )
    TARGET_NOT_FOUND = (
        "TargetNotFound", _WARNING, Action.READ_TARGET, On.POLICY,
        "The target, or its container that runs an engine, is not there.",
    )
    UNSUPPORTED_TARGET = (
        "UnsupportedTarget", _WARNING, Action.READ_TARGET, On.POLICY,
        "The target is of a kind, or replaces its pods in a way, that the operator cannot roll out.",
    )
    UNSUPPORTED_COMMAND = (
        "UnsupportedCommand", _WARNING, Action.READ_TARGET, On.POLICY,
        "The engine's command line cannot be read or written for sure; it is left alone.",
    )
    UNMANAGED = (
        "Unmanaged", _WARNING, Action.READ_TARGET, On.POLICY,
        "What runs is no level of the ladder; it is left alone.",
    )
    DRIFTED = (
        "Drifted", _WARNING, Action.COMPARE_TARGET, On.POLICY,
        "Somebody else changed back what the operator had set; it is not fought over.",
    )
    METRICS_UNAVAILABLE = (
        "MetricsUnavailable", _WARNING, Action.READ_METRICS, On.POLICY,
        "The metric source gives no usable answer; the level is kept.",
    )
    METRICS_RECOVERED = (
        "MetricsRecovered", _NORMAL, Action.READ_METRICS, On.POLICY, "The metric source gives usable answers again.",
    )
    FAULT_FOUND = (
        "FaultFound", _WARNING, Action.EXAMINE_ENGINE, On.POLICY,
        "Something is wrong with the engine rather than with the traffic; the note says what, and the likely mend.",
    )
    RECOMMENDED = (
        "Recommended", _NORMAL, Action.DECIDE, On.POLICY,
        "In mode Recommend: the level that the operator would go to, and why.",
    )
    LEVEL_CHANGED = (
        "LevelChanged", _NORMAL, Action.DECIDE, On.POLICY,
        "The level to be at changed, by a rule, a schedule, an alert, an override, or a person who changed the target.",
    )
    PROBE_STARTED = ("ProbeStarted", _NORMAL, Action.PROBE, On.POLICY, "Another level is tried on one replica.")
    PROBE_WON = ("ProbeWon", _NORMAL, Action.PROBE, On.POLICY, "The level that was tried pays: all replicas get it.")
    PROBE_LOST = (
        "ProbeLost", _NORMAL, Action.PROBE, On.POLICY,
        "The level that was tried does not pay; the next try comes after a longer gap.",
    )
    WAITING = (
        "Waiting", _NORMAL, Action.ROLL_OUT, On.POLICY,
        "A roll-out waits: for one of the cluster's roll-out slots, or for the target to come to rest.",
    )
    ROLLOUT_STARTED = (
        "RolloutStarted", _NORMAL, Action.ROLL_OUT, On.BOTH, "The workload's template got another level.",
    )
    CANARY_READY = (
        "CanaryReady", _NORMAL, Action.ROLL_OUT, On.BOTH,
        "The first new pods are ready; the roll-out is paused while they are compared with the others.",
    )
    ROLLOUT_PROMOTED = (
        "RolloutPromoted", _NORMAL, Action.ROLL_OUT, On.BOTH,
        "The new pods were no worse by the gate's figures: the rest follows, then it is watched.",
    )
    ROLLOUT_ROLLED_BACK = (
        "RolloutRolledBack", _WARNING, Action.ROLL_OUT, On.BOTH,
        "The old level is put back; the note says which check failed. What failed for good is not tried again before "
        "its configuration or image changes; what was slower, unsure or without room is, after a gap.",
    )
    ROLLOUT_CANCELLED = (
        "RolloutCancelled", _NORMAL, Action.ROLL_OUT, On.BOTH,
        "The roll-out ended without a verdict: the policy was deleted or suspended, or somebody changed the workload.",
    )
    ROLLOUT_ABANDONED = (
        "RolloutAbandoned", _WARNING, Action.ROLL_OUT, On.BOTH,
        "The way back was not done within the deadline: the workload is left as it is and needs a person.",
    )
    WATCH_FAILED = (
        "WatchFailed", _WARNING, Action.ROLL_OUT, On.BOTH,
        "After its promotion a level did harm: the old one is put back. That configuration is not tried again.",
    )
    LEFT_PAUSED = (
        "LeftPaused", _WARNING, Action.UNPAUSE, On.WORKLOAD,
        "The workload was found paused by the operator with no policy behind it, and was put right.",
    )
    # fmt: on


def reasons_table() -> str:
    """Every reason as a table in Markdown, for the documentation."""
    rows = [f"| `{one}` | {one.type} | {one.on} | {one.action} | {one.meaning} |" for one in Reason]
    return "\n".join(("| reason | type | on | action | meaning |", "|---|---|---|---|---|", *rows))
