"""What a span of samples is worth: one judge an outcome, asked in the order of the table, the first reason wins.

`Settling` and `Thin` depend on the policy and are the core's.  Restart and change are looked for between all
neighbouring samples, so that they show even when the counters have caught up by the end.
"""

import math
from collections.abc import Callable
from operator import ge

from specloop_engine.drafted import drafted
from specloop_engine.span import FLOAT_NOISE, Counted, Span, flaw, moves
from specloop_policy.observation import Outcome

START_TOLERANCE_SECONDS = 0.01
"""Start times closer than this are the same: they are printed in clock ticks of 10 ms."""


def judge(span: Span) -> tuple[Outcome, str]:
    """The outcome of a span and its reason in words; no reason when it is simply measured."""
    for outcome, reason_for in JUDGES:
        reason = reason_for(span)
        if reason is not None:
            return outcome, reason
    return Outcome.MEASURED, ""


def _empty(span: Span) -> str | None:
    if any(sample.dialect is None for sample in span.ends):
        return "the page has no series of an engine"
    if span.tokens != 0 and not all(sample.shows_drafting for sample in span.ends):
        return "this build of the engine has no series about speculation"
    return None


def _invalid(span: Span) -> str | None:
    """Numbers that cannot be; those of drafts contradict each other only where nothing restarted or changed."""
    flawed = flaw(span.before) or flaw(span.after)
    if flawed or span.after.drafting is None or span.tokens == 0:
        return flawed
    found = drafted(span)
    return found if isinstance(found, str) and not (_reset(span) or _mixed(span)) else None


def _reset(span: Span) -> str | None:
    return next((reason for step in span.steps() if (reason := restart(*step))), None)


def restart(first: Counted, second: Counted) -> str | None:
    """How it shows that another process answered the second time."""
    before, after = first.sample, second.sample
    if before.dialect is not after.dialect:
        return f"the process changed from {before.dialect} to {after.dialect}"
    if None not in (before.incarnation, after.incarnation) and before.incarnation != after.incarnation:
        return "the process restarted"
    if before.process_start is not None and after.process_start is not None:
        later = after.process_start - before.process_start
        if abs(later) > START_TOLERANCE_SECONDS:
            return f"the process restarted: its start time moved by {later:g} s"
    return _went_back(first, second)


def _went_back(before: Counted, after: Counted) -> str | None:
    same = before.counters.keys() == after.counters.keys()
    if same and all(map(ge, after.counters.values(), before.counters.values())):
        return None  # nearly always; names are for those that did
    for name, earlier, later in moves(before, after):
        if later < earlier * (1.0 - FLOAT_NOISE):
            return f"the counter of {name} went back from {earlier:g} to {later:g}"
    if before.sample.drafting is not None and after.sample.drafting is None:
        return None  # that is a changed setting
    lost = before.counters.keys() - after.counters.keys()
    named = sorted(name for name in lost if "position" not in name)
    return f"the counter of {named[0]} vanished" if named else None


def _stalled(span: Span) -> str | None:
    running = [sample.running for sample in span.samples]
    if not all(one is not None and math.isfinite(one) and one > 0.0 for one in running):
        return None
    seconds = span.after.at - span.before.at
    steps = list(moves(span.sound[0], span.sound[-1]))
    if seconds <= 0.0 or not steps or any(later > earlier for _, earlier, later in steps):
        return None
    return f"{running[-1]:g} requests are running and no counter has moved for {seconds:g} s"


def _stale(span: Span) -> str | None:
    return None if span.after.at > span.before.at else "the second sample is no newer than the first"


def _mixed(span: Span) -> str | None:
    if len(span.levels) > 1:
        return "the level changed: " + ", then ".join(level or "unknown" for level in span.levels)
    return next((reason for step in span.steps() if (reason := _change(*step))), None)


def _change(first: Counted, second: Counted) -> str | None:
    """How it shows that the setting changed."""
    before, after = first.sample, second.sample
    if before.drafting is None or after.drafting is None:
        if (before.drafting is None) == (after.drafting is None):
            return None
        return "speculation went " + ("off" if after.drafting is None else "on") + " inside the window"
    positions = [len(one.accepted_per_position) for one in (before.drafting, after.drafting)]
    if positions[0] != positions[1]:
        return f"the engine showed {positions[0]} draft positions, then {positions[1]}"
    if before.tokens != after.tokens:
        return f"K changed from {before.tokens} to {after.tokens}"
    if before.generation != after.generation:
        return "the live setting changed"
    return None


def _off(span: Span) -> str | None:
    if span.tokens == 0:
        return "speculation is off: K is set to 0"
    if all(sample.drafting is None for sample in span.ends):
        return "speculation is off: the page has no series of drafts"
    if all(sample.tokens == 0 for sample in span.ends):
        return "speculation is off: the engine shows K = 0"
    return None


JUDGES: tuple[tuple[Outcome, Callable[[Span], str | None]], ...] = (
    (Outcome.EMPTY, _empty),
    (Outcome.INVALID, _invalid),
    (Outcome.RESET, _reset),
    (Outcome.STALLED, _stalled),
    (Outcome.STALE, _stale),
    (Outcome.MIXED, _mixed),
    (Outcome.OFF, _off),
)
