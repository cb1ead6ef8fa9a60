"""Alerts that a policy has heard of: what a message changes in its status, and which of them are in force.  No I/O.

    heard(known, alert, action, expire_seconds, now) -> News, known afterwards

An alert is known by its fingerprint, and one time that it fires by when that began: what is said twice changes nothing,
and what comes late does not bring back what was resolved meanwhile.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from specloop_policy.decision import FiringAlert
from specloop_policy.model import AlertAction, AlertActionType, AlertBinding
from specloop_policy.report import as_time
from specloop_policy.status import MAX_ALERTS, AlertReport

TRUNCATED = "truncated"
"""Stands for the fingerprint where a message says that it leaves alerts out."""

TRUNCATED_SECONDS = 300.0
"""How long a truncated message is remembered: Alertmanager's default group_interval, until which no other comes."""


_WEIGHT = (AlertActionType.SUSPEND, AlertActionType.DISABLE)
"""Actions that win over all others, in this order; to look at once wins over none."""


class AlertNews(StrEnum):
    """What a message says of one alert to one policy."""

    RECEIVED = "received"
    """It fires, and did not before."""
    REPEATED = "repeated"
    """It is known already."""
    CROWDED = "crowded"
    """It fires, and the status is full of others that decide before it does."""
    RESOLVED = "resolved"
    """It fires no more."""
    EXPIRED = "expired"
    """Nothing was heard of it for its time."""
    UNMATCHED = "unmatched"
    """No policy in its namespace asks for it."""
    NOWHERE = "nowhere"
    """It names no namespace, so that it is nobody's."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert of a message; `starts_at` in seconds since the epoch."""

    fingerprint: str
    starts_at: float
    firing: bool
    labels: Mapping[str, str]

    @property
    def name(self) -> str:
        """What its rule is called."""
        return self.labels.get("alertname", "without a name")


def binding_of(alert: Alert, bindings: Sequence[AlertBinding]) -> AlertBinding | None:
    """The first binding whose labels the alert carries, all of them."""
    return next((one for one in bindings if one.match.items() <= alert.labels.items()), None)


def heard(
    known: Sequence[AlertReport], alert: Alert, action: AlertAction, expire_seconds: float, now: float
) -> tuple[AlertNews, tuple[AlertReport, ...]]:
    """What the message says, and what is known afterwards; the same where nothing is new.

    A repetition renews the time once half of it is over, so that most repetitions are no write; and it asks for what
    the binding asks for by then.
    """
    before = next((one for one in known if one.fingerprint == alert.fingerprint), None)
    others = [one for one in known if one is not before]
    if not alert.firing:
        return _over(known, before, alert, now)
    until = as_time(now + expire_seconds)
    if before is not None and alert.starts_at <= before.starts_at.timestamp():
        lasts = before.until.timestamp() - now > expire_seconds / 2.0
        if before.resolved_at is not None or (lasts and (before.action, before.level) == (action.type, action.level)):
            return AlertNews.REPEATED, tuple(known)
        renewed = {"until": until, "action": action.type, "level": action.level}
        return AlertNews.REPEATED, (*others, before.model_copy(update=renewed))
    made = AlertReport(
        fingerprint=alert.fingerprint[:64],
        name=alert.name[:256],
        starts_at=as_time(alert.starts_at),
        received_at=as_time(now),
        until=until,
        action=action.type,
        level=action.level,
    )
    fitting = _fitting((*others, made), now)
    return AlertNews.RECEIVED if made in fitting else AlertNews.CROWDED, fitting


def _over(
    known: Sequence[AlertReport], before: AlertReport | None, alert: Alert, now: float
) -> tuple[AlertNews, tuple[AlertReport, ...]]:
    """The same of an alert that is over; when it began is kept, so that its beginning may come late."""
    if before is None or alert.starts_at < before.starts_at.timestamp():
        return AlertNews.REPEATED, tuple(known)
    what = AlertNews.RESOLVED if before.resolved_at is None else AlertNews.REPEATED
    ended = {"starts_at": as_time(alert.starts_at), "resolved_at": before.resolved_at or as_time(now)}
    return what, tuple(before.model_copy(update=ended) if one is before else one for one in known)


def truncated(known: Sequence[AlertReport], now: float) -> tuple[AlertReport, ...]:
    """Known afterwards, where a message leaves alerts out: everything is to be looked at."""
    alert = Alert(TRUNCATED, now, firing=True, labels={"alertname": "a list that leaves alerts out"})
    return heard(known, alert, AlertAction(type=AlertActionType.EVALUATE_NOW), TRUNCATED_SECONDS, now)[1]


def kept(known: Iterable[AlertReport], now: float) -> tuple[AlertReport, ...]:
    """Those whose time is not over."""
    return tuple(one for one in known if now < one.until.timestamp())


def in_force(known: Iterable[AlertReport], bindings: Iterable[AlertBinding], now: float) -> tuple[FiringAlert, ...]:
    """Alerts that ask for something now, the first heard of first; what no binding asks for any more is out.

    Of its labels, the name alone is kept: an alert counts while a binding asks for an alert of this name and for this.
    Where the binding by its name alone asks for something else by now, that counts.
    """
    asked = tuple(bindings)
    firing = sorted((one for one in kept(known, now) if one.resolved_at is None), key=lambda one: one.received_at)
    wanted = ((one, _asked_for(asked, one)) for one in firing)
    return tuple(
        FiringAlert(one.name, action.type, action.level)
        for one, action in wanted
        if action is not None and action.type is not AlertActionType.EVALUATE_NOW
    )


def _asked_for(bindings: Iterable[AlertBinding], known: AlertReport) -> AlertAction | None:
    """What is asked for now where an alert fires: the same as when it was heard of, if anybody still asks for that."""
    possible = [one for one in bindings if one.match.get("alertname", known.name) == known.name]
    same = (one for one in possible if (one.action.type, one.action.level) == (known.action, known.level))
    by_name = (one for one in possible if one.match.keys() == {"alertname"})  # its other labels are not known any more
    found = next(same, None) or next(by_name, None)
    return None if found is None else found.action


def _fitting(known: Sequence[AlertReport], now: float) -> tuple[AlertReport, ...]:
    """As many as a status holds: those that fire, the one that decides first, and then the latest that are over.

    What finds no room is heard of again by the next message of its group, which names all that fire.
    """
    alive = kept(known, now)
    firing = sorted((one for one in alive if one.resolved_at is None), key=_weight)
    over = sorted((one for one in alive if one.resolved_at is not None), key=lambda one: one.received_at, reverse=True)
    held = [*firing, *over][:MAX_ALERTS]
    return tuple(one for one in alive if one in held)


def _weight(one: AlertReport) -> tuple[bool, int, datetime]:
    """Sorts what decides before what is decided over."""
    last = len(_WEIGHT)
    weight = _WEIGHT.index(one.action) if one.action in _WEIGHT else last + (one.action is AlertActionType.EVALUATE_NOW)
    return one.fingerprint != TRUNCATED, weight, one.received_at
