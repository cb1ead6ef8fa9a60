"""Conditions of a policy: every type, every reason that it may have, and how they are brought up to date (KEP-1623).

All types are set at the first visit.  A condition is rewritten only when something in it changes, and its
`lastTransitionTime` only when its status does.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Self

from specloop_policy.report import as_time, plain
from specloop_policy.status import Condition, ConditionStatus


class ConditionType(StrEnum):
    """The types, each with what it says when it is True."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        """A type with its meaning."""
        made = str.__new__(cls, value)
        made._value_ = value
        made.meaning = meaning
        return made

    READY = ("Ready", "The policy governs its target, or recommends for it; the others say why it does not.")
    METRICS_AVAILABLE = ("MetricsAvailable", "Pods of the target are heard from.")
    TARGET_RESOLVED = ("TargetResolved", "The target is there, and its command line can be read and written.")
    PROGRESSING = ("Progressing", "A roll-out is under way.")
    DEGRADED = ("Degraded", "Something is wrong that the operator cannot put right.")
    DRIFTED = ("Drifted", "Somebody else set another level than the operator had; it is not fought over.")
    CONFLICTED = ("Conflicted", "An older policy governs the same target.")
    SUSPENDED = ("Suspended", "The policy holds everything as it is.")
    LIVE_CONTROL = ("LiveControl", "Running pods are brought to their level without a restart.")


_T = ConditionType


class ConditionReason(StrEnum):
    """The reasons, each with its type, the status that goes with it, and its meaning."""

    type: ConditionType
    status: ConditionStatus
    meaning: str

    def __new__(cls, value: str, type_: ConditionType, status: str, meaning: str) -> Self:
        """A reason with its row."""
        made = str.__new__(cls, value)
        made._value_ = value
        made.type, made.status, made.meaning = type_, ConditionStatus(status), meaning
        return made

    # One row a reason:
    # fmt: off
    GOVERNING = ("Governing", _T.READY, "True", "Mode Enforce: decisions are carried out.")
    RECOMMENDING = ("Recommending", _T.READY, "True", "Mode Recommend: decisions are only said.")
    INVALID_SPEC = ("InvalidSpec", _T.READY, "False", "The spec contradicts itself or its target.")
    INVALID_ANNOTATION = ("InvalidAnnotation", _T.READY, "False", "An annotation on the policy cannot be read.")
    UNMANAGED = ("Unmanaged", _T.READY, "False", "What runs is no level of the ladder: it is left alone.")
    NOT_READY = ("NotReady", _T.READY, "False", "Another condition keeps the policy from governing.")
    HEARD = ("Heard", _T.METRICS_AVAILABLE, "True", "Pods are heard from.")
    NOT_HEARD = ("NotHeard", _T.METRICS_AVAILABLE, "False", "No pod is heard from, though the source answers.")
    NO_PODS = ("NoPods", _T.METRICS_AVAILABLE, "Unknown", "The target is scaled to no pods: there is nobody to hear.")
    SOURCE_FAILED = ("SourceFailed", _T.METRICS_AVAILABLE, "False", "The metric source gives no usable answer.")
    NO_SUCH_SOURCE = ("NoSuchSource", _T.METRICS_AVAILABLE, "False", "No source of this name is configured.")
    RESOLVED = ("Resolved", _T.TARGET_RESOLVED, "True", "The target's command line can be read and written.")
    TARGET_NOT_FOUND = ("TargetNotFound", _T.TARGET_RESOLVED, "False", "There is no such workload.")
    UNSUPPORTED_KIND = ("UnsupportedKind", _T.TARGET_RESOLVED, "False", "This kind of workload is no target.")
    UNSUPPORTED_COMMAND = (
        "UnsupportedCommand", _T.TARGET_RESOLVED, "False", "The command line cannot be read or written for sure."
    )
    UNSUPPORTED_STRATEGY = (
        "UnsupportedStrategy", _T.TARGET_RESOLVED, "False", "The workload's update strategy rolls nothing out."
    )
    IDLE = ("Idle", _T.PROGRESSING, "False", "No roll-out is under way.")
    STARTING = ("Starting", _T.PROGRESSING, "True", "The new configuration is written; its first pods are awaited.")
    CANARY = ("Canary", _T.PROGRESSING, "True", "The first pods are on their way to ready; the rest is held.")
    SOAKING = ("Soaking", _T.PROGRESSING, "True", "The canary serves, and is compared with the others.")
    NO_CONTROL = ("NoControl", _T.PROGRESSING, "True", "No pod was left alone: after is compared with before.")
    PROBING = ("Probing", _T.PROGRESSING, "True", "Another level is tried on the canary.")
    PROMOTING = ("Promoting", _T.PROGRESSING, "True", "The gate is passed; the rest follows.")
    RETREATING = ("Retreating", _T.PROGRESSING, "True", "All pods go back to the level before.")
    ROLLING_BACK = ("RollingBack", _T.PROGRESSING, "True", "The old template is back; its pods are awaited.")
    PROMOTED = ("Promoted", _T.PROGRESSING, "False", "The last roll-out reached all pods.")
    ROLLED_BACK = ("RolledBack", _T.PROGRESSING, "False", "The last roll-out was rolled back; the message says why.")
    CANCELLED = ("Cancelled", _T.PROGRESSING, "False", "The last roll-out was called off without a verdict.")
    UNDONE = ("Undone", _T.PROGRESSING, "False", "Somebody else undid the last roll-out.")
    WAITING = ("Waiting", _T.PROGRESSING, "False", "A roll-out waits for a free slot, or for pods to answer.")
    TARGET_BUSY = ("TargetBusy", _T.PROGRESSING, "False", "The target rolls out something else, or has no pods.")
    TARGET_PAUSED = ("TargetPaused", _T.PROGRESSING, "False", "Somebody else holds the target's roll-out.")
    AS_EXPECTED = ("AsExpected", _T.DEGRADED, "False", "Nothing is known to be wrong.")
    FAULT_FOUND = ("FaultFound", _T.DEGRADED, "True", "The engine is at fault rather than the traffic.")
    ABANDONED = ("Abandoned", _T.DEGRADED, "True", "The way back was not done within its deadline.")
    IN_SYNC = ("InSync", _T.DRIFTED, "False", "The target is as the operator left it.")
    REVERTED = ("Reverted", _T.DRIFTED, "True", "Somebody else set another level: held until the policy changes.")
    ONLY_POLICY = ("OnlyPolicy", _T.CONFLICTED, "False", "No older policy has the same target.")
    OLDER_POLICY = ("OlderPolicy", _T.CONFLICTED, "True", "An older policy has the same target.")
    ACTIVE = ("Active", _T.SUSPENDED, "False", "The policy is not suspended.")
    BY_SPEC = ("BySpec", _T.SUSPENDED, "True", "spec.suspend is true.")
    BY_ANNOTATION = ("ByAnnotation", _T.SUSPENDED, "True", "The annotation specloop.dev/suspend is true.")
    BY_ALERT = ("ByAlert", _T.SUSPENDED, "True", "An alert that the policy binds to Suspend fires.")
    NOT_ASKED_FOR = ("NotAskedFor", _T.LIVE_CONTROL, "False", "The policy names no token for it, or wants restarts.")
    NOT_POSSIBLE = ("NotPossible", _T.LIVE_CONTROL, "False", "Pods cannot be controlled live: the message says why.")
    OUT_OF_LINE = ("OutOfLine", _T.LIVE_CONTROL, "False", "Some pods are not as asked, and are asked again.")
    IN_LINE = ("InLine", _T.LIVE_CONTROL, "True", "All pods that serve are as asked, or will be with a request.")
    # fmt: on


Found = Mapping[ConditionType, tuple[ConditionReason, str]]
"""What was found: by type, a reason and a sentence."""


def conditions(found: Found, before: Sequence[Condition], generation: int, now: float) -> tuple[Condition, ...]:
    """All conditions as they are to be; types of which nothing was found stay as they were, Unknown at first."""
    known = {one.type: one for one in before}
    made = []
    for type_ in ConditionType:
        old = known.get(type_)
        if type_ in found:
            reason, message = found[type_]
            made.append(_condition(type_, reason.status, reason, message, old, generation, now))
        elif old is not None:
            made.append(old)
        else:
            unknown = (ConditionStatus.UNKNOWN, "NotSeen", "nothing is known of it yet")
            made.append(_condition(type_, *unknown, None, generation, now))
    return tuple(made)


def _condition(
    type_: str, status: ConditionStatus, reason: str, message: str, old: Condition | None, generation: int, now: float
) -> Condition:
    since = old.last_transition_time if old is not None and old.status is status else as_time(now)
    return Condition(
        type=str(type_),
        status=status,
        observed_generation=generation,
        last_transition_time=since,
        reason=str(reason),
        message=plain(message)[:32768],
    )


def conditions_table() -> str:
    """Every reason as a table in Markdown, for the documentation."""
    rows = [f"| {one.type} | {one.status} | `{one}` | {one.meaning} |" for one in ConditionReason]
    types = [f"| {one} | {one.meaning} |" for one in ConditionType]
    return "\n".join(
        (
            *("| type | True means |", "|---|---|", *types, ""),
            *("| type | status | reason | meaning |", "|---|---|---|---|", *rows),
        )
    )
