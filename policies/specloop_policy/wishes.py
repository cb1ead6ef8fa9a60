"""Who may set the level over the heads of the rules: overrides, alerts and schedules, in their order of precedence."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from specloop_policy.decision import FiringAlert, Inputs, PolicyState
from specloop_policy.guardrails import left_in_vain
from specloop_policy.ladder import Ladder, Level
from specloop_policy.model import AlertActionType
from specloop_policy.policy import Policy


@dataclass(frozen=True, slots=True)
class Wish:
    """A level that somebody other than the rules asks for; `by` names them in reasons."""

    level: Level
    by: str
    name: str | None = None
    """Of the schedule or alert; None for a person."""
    alert: bool = False


def wish_in_force(ladder: Ladder, state: PolicyState, inputs: Inputs, now: float) -> Wish | None:
    """The highest wish that names a level of the ladder: override, disabling alert, schedule, other alert."""
    return next((wish for wish in _wishes(ladder, state, inputs, now) if wish is not None), None)


def urgent_wish(ladder: Ladder, inputs: Inputs, now: float) -> Wish | None:
    """The highest wish that does not wait for a roll-out under way: an override's, or a disabling alert's."""
    return next((wish for wish in _urgent(ladder, inputs, now) if wish is not None), None)


def suspends(alerts: Iterable[FiringAlert]) -> FiringAlert | None:
    """The first alert that asks to hold everything."""
    return next((alert for alert in alerts if alert.action is AlertActionType.SUSPEND), None)


def _urgent(ladder: Ladder, inputs: Inputs, now: float) -> Iterator[Wish | None]:
    override = inputs.override
    if override is not None and (override.until is None or now < override.until):
        by = f"the override by {override.by}" if override.by else "the override"
        yield _wish(ladder.find(override.level), by)
    for alert in inputs.alerts:
        if alert.action is AlertActionType.DISABLE:
            yield _by_alert(alert, ladder.levels[-1])


def _wishes(ladder: Ladder, state: PolicyState, inputs: Inputs, now: float) -> Iterator[Wish | None]:
    yield from _urgent(ladder, inputs, now)
    if inputs.scheduled is not None:
        name = inputs.scheduled.schedule
        yield _wish(ladder.find(inputs.scheduled.level), f"schedule {name}", name)
    for alert in inputs.alerts:
        asked = _asked_for(ladder, state, alert)
        yield None if asked is None else _by_alert(alert, asked)


def asks_in_vain(policy: Policy, state: PolicyState, wish: Wish, now: float) -> str | None:
    """Why a schedule's or an alert's wish to go up again waits: an alert that came back has just made it go down."""
    if wish.name is None or not policy.ladder.is_above(wish.level.name, state.level):
        return None
    return left_in_vain(policy, state, wish.level, now) if wish.alert or state.forced is not None else None


def _wish(level: Level | None, by: str, name: str | None = None) -> Wish | None:
    return None if level is None else Wish(level, by, name)


def _by_alert(alert: FiringAlert, level: Level) -> Wish:
    return Wish(level, f"alert {alert.name}", alert.name, alert=True)


def _asked_for(ladder: Ladder, state: PolicyState, alert: FiringAlert) -> Level | None:
    """The level that an alert asks for; steps count from where the level was before anything was forced.

    Down they count from the level that is owed, for the present one is below it for an alert's sake already.
    """
    if alert.action is AlertActionType.SWITCH_TO:
        return ladder.find(alert.level)
    before = ladder.find(state.forced.back_to if state.forced is not None else state.level)
    if before is None:
        return None
    if alert.action is AlertActionType.STEP_DOWN:
        start = ladder.find(state.owed) or before
        return max(next(iter(ladder.below(start)), start), before, key=ladder.index)
    if alert.action is AlertActionType.STEP_UP:
        return next(iter(ladder.above(before)), before)
    return None
