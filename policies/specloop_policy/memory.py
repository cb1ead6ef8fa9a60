"""How a level is entered and left: the only functions that move `PolicyState` from one level to another."""

from dataclasses import replace
from math import ceil

from specloop_policy.decision import FailedChange, Forced, PolicyState, Probe
from specloop_policy.guardrails import find_trial, probe_gap, stood_long, with_change, with_loss, without_trial
from specloop_policy.ladder import Level
from specloop_policy.policy import Policy
from specloop_policy.wishes import Wish


def adopted(state: PolicyState, level: str | None, now: float) -> PolicyState:
    """Take what runs as given, at the first look or after somebody else changed it."""
    return replace(
        state, level=level, changed_at=now, raised_at=None, holds_since=(), probe=None, forced=None, owed=None
    )


def lowered(policy: Policy, state: PolicyState, to: Level, for_seconds: float, now: float) -> PolicyState:
    """A rule lowers the level; a level that was entered from below a short while ago is remembered as lost."""
    state = _left(policy, state, for_seconds, now)
    return replace(
        with_change(policy, state, now), level=to.name, changed_at=now, raised_at=None, holds_since=(), probe=None
    )


def _left(policy: Policy, state: PolicyState, for_seconds: float, now: float) -> PolicyState:
    """Remember how a level stood that is left downwards, where it was entered from below."""
    left = state.level or ""
    if state.raised_at is None:
        return state
    if stood_long(policy, state, left, for_seconds, now):
        return without_trial(state, left)
    return with_loss(policy, state, left, now)


def raised(policy: Policy, state: PolicyState, to: Level, now: float) -> PolicyState:
    """A rule raises the level."""
    state = _settled(policy, with_change(policy, state, now), to.name)
    return replace(state, level=to.name, changed_at=now, raised_at=now, holds_since=(), probe=None)


def probing(policy: Policy, state: PolicyState, level: Level, now: float) -> PolicyState:
    """A probe begins; the level itself stays until the probe is won."""
    return replace(with_change(policy, state, now), probe=Probe(level.name, now))


def probe_lost(policy: Policy, state: PolicyState, level: Level, now: float) -> PolicyState:
    """The probed replica goes back, and the gap to the next probe of this level grows."""
    return replace(with_loss(policy, state, level.name, now), probe=None)


def probe_won(policy: Policy, state: PolicyState, level: Level, now: float) -> PolicyState:
    """The probed level becomes the level.

    Probe and win are one change of the day, for which the limit was asked when the probe began; from the win on the
    next change waits for its cool-down.
    """
    started = state.probe.started_at if state.probe is not None else now
    others = tuple(change for change in state.changes if change != started)
    state = _settled(policy, with_change(policy, replace(state, changes=others), now), level.name)
    return replace(state, level=level.name, changed_at=started, raised_at=now, holds_since=(), probe=None)


def _settled(policy: Policy, state: PolicyState, to: str | None) -> PolicyState:
    """What is owed is settled by that level, and by any above it."""
    return replace(state, owed=None) if state.owed == to or policy.ladder.is_above(to, state.owed) else state


def forced(policy: Policy, state: PolicyState, wish: Wish, now: float) -> PolicyState:
    """A person, a schedule or an alert sets the level; where to go back to is remembered from the first of them.

    Where an alert lowers it, a level that was entered from below a short while ago is remembered as lost.  Up from an
    alert's level is from below, whoever asks.
    """
    back = state.forced.back_to if state.forced is not None else state.level
    if wish.alert and policy.ladder.is_above(state.level, wish.level.name):
        state = _left(policy, state, 0.0, now)
    after_alert = state.forced is not None and state.forced.alert
    raised = after_alert and policy.ladder.is_above(wish.level.name, state.level)
    return replace(
        state,
        level=wish.level.name,
        changed_at=now,
        raised_at=now if raised else None,
        holds_since=(),
        probe=None,
        forced=Forced(wish.by, back, wish.alert, state.forced.since if state.forced is not None else now),
    )


def released(policy: Policy, state: PolicyState, to: str | None, now: float) -> PolicyState:
    """Nothing forces the level any more: back to where it was, after an alert as if it were raised by rules.

    A level that an alert had raised it to is lost, since the alert is over there.
    """
    alert = state.forced is not None and state.forced.alert
    if alert and state.level is not None and policy.ladder.is_above(state.level, to):
        state = with_loss(policy, state, state.level, now)
    entered = (alert or state.owed is not None) and policy.ladder.is_above(to, state.level)
    owed = _settled(policy, state, to).owed
    return replace(adopted(state, to, now), raised_at=now if entered else None, owed=owed)


def owing(state: PolicyState, level: str) -> PolicyState:
    """Go back to a level later."""
    return replace(state, forced=None, owed=level)


def cut_short(
    policy: Policy, state: PolicyState, rolled_out: str, level: str | None, wish: Wish | None, now: float
) -> PolicyState:
    """A roll-out that somebody had asked for, or the way back from one, ended without reaching its level.

    `level` is what runs now, `wish` what is asked for by now.  What was to be gone back to stays so.  Where an alert
    ends a way back, its level was entered and lost.
    """
    held = state.forced
    if held is None:
        return owing(adopted(state, level, now), rolled_out)
    if wish is None and held.back_to == level:
        return released(policy, state, level, now)
    back = held.alert and wish is not None and wish.level.name == level
    return replace(adopted(state, level, now), raised_at=now if back else None, forced=held, owed=state.owed)


def released_from_quarantine(state: PolicyState, now: float) -> PolicyState:
    """Forget failures that may be tried again by now."""
    kept = tuple(one for one in state.quarantine if one.until is None or now < one.until)
    return state if len(kept) == len(state.quarantine) else replace(state, quarantine=kept)


def outdone(
    policy: Policy, state: PolicyState, level: Level, key: str, reason: str, now: float, *, rules_only: bool = True
) -> PolicyState:
    """A level served slower than what it was to replace, or showed too little: it is tried again after a gap.

    That was the traffic's doing as much as the level's, so that it is no failure for good; the gap is that of probes.
    """
    state = with_loss(policy, state, level.name, now)
    until = float(ceil(now + probe_gap(policy, find_trial(state, level))))  # a full second reads better
    others = tuple(one for one in state.quarantine if one.level != level.name)
    lost = FailedChange(level.name, key, reason, until=until, rules_only=rules_only)
    return replace(state, quarantine=(*others, lost), probe=None)


def rolled_back(policy: Policy, state: PolicyState, failed: FailedChange, to: str | None, now: float) -> PolicyState:
    """A change failed and was taken back; its configuration is not tried again until it or its image changes."""
    known = (one for one in state.quarantine if policy.ladder.find(one.level) is not None)
    others = tuple(one for one in known if one.level != failed.level)
    kept = replace(failed, back_to=None)
    state = _settled(policy, state, to)
    return replace(
        state, level=to, changed_at=now, raised_at=None, holds_since=(), probe=None, quarantine=(*others, kept)
    )
