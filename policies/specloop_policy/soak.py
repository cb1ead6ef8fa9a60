"""When a soak is judged: harm at any look, success only at a few.

An interval holds the truth in 95 of 100 looks, and a canary that is looked at often enough passes by luck.  So it
passes at the end of its soak, at twice, four times, ... that time, and at the deadline: three or four looks.  To fail
by luck costs no more than a roll-out, and harm must not wait.
"""

from collections.abc import Callable

from specloop_policy.gate import Evidence, GateVerdict, Result, judge_gate
from specloop_policy.model import Gate

EvidenceUntil = Callable[[float], Evidence]
"""The blocks that ended by a time."""


def judge_soak(
    until: EvidenceUntil,
    gate: Gate,
    min_requests: int,
    soak_seconds: float,
    since: float,
    deadline: float,
    now: float,
    *,
    speed: bool,
) -> GateVerdict:
    """The verdict at `now` on a canary that is measured `since` then; PASS at a look, FAIL at any time."""
    verdict = judge_gate(until(now), gate, min_requests, speed=speed)
    if verdict.result is Result.FAIL:
        return verdict
    look = last_look(soak_seconds, since, deadline, now)
    if look is not None:
        judged = judge_gate(until(look), gate, min_requests, speed=speed)
        if judged.result is Result.PASS:
            return judged
    return GateVerdict(Result.INCONCLUSIVE, verdict.reason, verdict.comparisons)


def last_look(soak_seconds: float, since: float, deadline: float, now: float) -> float | None:
    """The latest time, up to `now`, at which the canary may pass; None before the soak is over."""
    if now >= max(deadline, since + soak_seconds):
        return now
    if now < since + soak_seconds:
        return None
    span = max(soak_seconds, 1.0)
    while since + 2.0 * span <= now:
        span *= 2.0
    return min(now, since + span)
