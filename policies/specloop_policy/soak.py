"""When a soak is judged: harm at any look, success only at a few.

An interval holds the truth in 95 of 100 looks, and a canary that is looked at often enough passes by luck.  So it
passes at the end of its soak, at twice, four times, ... that time, and at the deadline: three or four looks.  To fail
by luck costs no more than a roll-out, and harm must not wait.
"""

from collections.abc import Callable

from specloop_policy.canary import Limits
from specloop_policy.gate import Evidence, GateVerdict, Result, judge_gate
from specloop_policy.model import Gate

EvidenceUntil = Callable[[float], Evidence]
"""The blocks that ended by a time."""


def judge_soak(
    until: EvidenceUntil, gate: Gate, min_requests: int, limits: Limits, since: float, now: float, *, speed: bool
) -> GateVerdict:
    """The verdict at `now` on a canary that is measured `since` then; PASS at a look, FAIL at any time."""
    verdict = judge_gate(until(now), gate, min_requests, speed=speed)
    if verdict.result is Result.FAIL:
        return verdict
    look = last_look(limits, since, now)
    if look is not None:
        judged = judge_gate(until(look), gate, min_requests, speed=speed)
        if judged.result is Result.PASS:
            return judged
    return GateVerdict(Result.INCONCLUSIVE, verdict.reason, verdict.comparisons)


def last_look(limits: Limits, since: float, now: float) -> float | None:
    """The latest time, up to `now`, at which the canary may pass; None before the soak is over."""
    deadline = since + max(limits.soak_seconds, limits.progress_deadline_seconds - limits.warmup_seconds)
    if now >= deadline:
        return now
    span = max(limits.soak_seconds, 1.0)
    if now < since + limits.soak_seconds:
        return None
    while since + 2.0 * span <= now:
        span *= 2.0
    return min(now, since + span)
