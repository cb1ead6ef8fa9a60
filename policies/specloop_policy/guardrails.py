"""Limits on how often the level may change, each a function of the policy, the memory and the windows' time."""

from dataclasses import replace

from specloop_policy.decision import FailedChange, Inputs, PolicyState, Trial
from specloop_policy.ladder import Level
from specloop_policy.policy import Policy
from specloop_policy.times import rfc3339

DAY_SECONDS = 86400.0


def cooldown_left(policy: Policy, state: PolicyState, at: float) -> float:
    """Seconds until rules may change the level again; 0 when they may."""
    if not state.changes:
        return 0.0
    return max(0.0, state.changes[-1] + policy.guardrails.cooldown_seconds - at)


def changes_left(policy: Policy, state: PolicyState, at: float) -> int:
    """Changes that rules may still make in the 24 hours that end at `at`."""
    made = sum(1 for change in state.changes if change > at - DAY_SECONDS)
    return max(0, policy.guardrails.max_changes_per_day - made)


def cools_down(policy: Policy, state: PolicyState, at: float) -> str | None:
    """Why rules may not change the level so soon after the last change, in words; None when they may."""
    if cooldown_left(policy, state, at) <= 0.0:
        return None
    since = at - state.changes[-1]
    return (
        f"the last change was {max(0.0, since):.0f} s before this window's end, "
        f"and the cool-down is {policy.guardrails.cooldown_seconds} s"
    )


def blocked(policy: Policy, state: PolicyState, at: float) -> str | None:
    """Why rules may not change the level now, in words; None when they may."""
    cooling = cools_down(policy, state, at)
    if cooling is not None:
        return cooling
    if changes_left(policy, state, at) == 0:
        return f"{policy.guardrails.max_changes_per_day} changes in 24 hours are the limit"
    return None


def quarantine_of(state: PolicyState, inputs: Inputs, level: Level) -> FailedChange | None:
    """How a level failed to come up, when it did so with its present configuration and image."""
    keys = dict(inputs.keys)
    failures = (one for one in state.quarantine if one.level == level.name)
    return next((one for one in failures if keys.get(one.level, one.key) == one.key), None)


def not_again(failed: FailedChange) -> str:
    """Why a level is out of reach, and when it no longer is."""
    if failed.untried:
        return f"{failed.level} is out of reach: {failed.reason}"
    edited = "until its configuration, its image or the policy is another"
    again = edited if failed.until is None else f"before {rfc3339(failed.until)}"
    return f"{failed.level} failed ({failed.reason}): not tried again {again}"


def find_trial(state: PolicyState, level: Level) -> Trial | None:
    """What is remembered of earlier tries of a level."""
    return next((trial for trial in state.trials if trial.level == level.name), None)


def probe_gap(policy: Policy, trial: Trial | None) -> float:
    """Seconds between two tries of a level: multiplied at every loss, up to the limit."""
    probe = policy.guardrails.probe
    losses = trial.losses if trial is not None else 0
    return float(min(probe.max_seconds, probe.after_seconds * probe.backoff_factor ** min(losses, 64)))


def probe_left(policy: Policy, state: PolicyState, level: Level, at: float) -> float:
    """Seconds until a level may be tried, from the last change of level and from its last loss."""
    trial = find_trial(state, level)
    since = at if state.changed_at is None else state.changed_at
    if trial is not None:
        since = max(since, trial.lost_at)
    return max(0.0, since + probe_gap(policy, trial) - at)


def times(count: int) -> str:
    """How often, in words."""
    return "once" if count == 1 else f"{count} times"


def lost_before(policy: Policy, trial: Trial) -> str:
    """Why a level waits that was entered and lost, in words."""
    lost = times(trial.losses) if trial.losses == 1 else f"{times(trial.losses)} in a row"
    return f"{trial.level} was lost {lost} and is tried again {probe_gap(policy, trial):.0f} s after"


def gap_left(policy: Policy, state: PolicyState, level: Level, now: float) -> str | None:
    """Why a level that was lost is not gone to yet, in words; None when it may be."""
    trial = find_trial(state, level)
    if trial is None or trial.lost_at + probe_gap(policy, trial) <= now:
        return None
    return lost_before(policy, trial)


def left_in_vain(policy: Policy, state: PolicyState, level: Level, now: float) -> str | None:
    """The same of a level that was lost on the way to the present one: for an alert that had come back.

    An alert may be over just because of what was done about it, and fire again at the level that it was about.  Where
    several held the level one after the other, it may have been lost to the first.
    """
    trial = find_trial(state, level)
    since = state.changed_at if state.forced is None else state.forced.since
    if trial is None or since is None or trial.lost_at < since:
        return None
    return gap_left(policy, state, level, now)


def with_loss(policy: Policy, state: PolicyState, level: str, now: float) -> PolicyState:
    """Remember that a level was tried and lost; levels that left the ladder are forgotten."""
    losses = next((trial.losses for trial in state.trials if trial.level == level), 0)
    others = tuple(one for one in state.trials if one.level != level and policy.ladder.find(one.level) is not None)
    return replace(state, trials=(*others, Trial(level, losses + 1, now)))


def without_trial(state: PolicyState, level: str) -> PolicyState:
    """Forget the tries of a level that stood its ground."""
    return replace(state, trials=tuple(trial for trial in state.trials if trial.level != level))


def with_change(policy: Policy, state: PolicyState, now: float) -> PolicyState:
    """Remember a change by rules; what is older than a day is forgotten."""
    recent = tuple(change for change in state.changes if change > now - DAY_SECONDS)
    return replace(state, changes=(*recent, now))


def stood_long(policy: Policy, state: PolicyState, level: str, for_seconds: float, now: float) -> bool:
    """Whether a level that was entered from below stood longer than a wrong entry takes to show.

    A wrong entry shows once evidence is gathered and the rule's duration is over, and the limits on changes may keep
    it for a day more; the gap before the next try comes on top, so that a level that is lost again and again never
    looks as if it had stood.
    """
    if state.raised_at is None:
        return False
    trial = next((one for one in state.trials if one.level == level), None)
    signals = policy.signals
    shows = signals.settle_seconds + 2 * signals.max_evidence_seconds + for_seconds
    return now - state.raised_at > shows + DAY_SECONDS + probe_gap(policy, trial)
