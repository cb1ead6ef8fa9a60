"""Alerts that a policy has heard of: what a message changes in its status, and which of them are in force.  No I/O.

    heard(known, alerts of a message with their bindings, now) -> Heard: what each is, and what is known afterwards

An alert is known by its fingerprint, and one time that it fires by when that began: what is said twice changes nothing,
and what comes late does not bring back what was resolved meanwhile.
"""

from collections import Counter
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
    EVICTED = "evicted"
    """It fires, was known, and made room for one that decides before it does."""
    TRUNCATED = "truncated"
    """It stands for those that a message leaves out."""
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
    """One alert of a message; times in seconds since the epoch, `ends_at` of one that is over."""

    fingerprint: str
    starts_at: float
    firing: bool
    labels: Mapping[str, str]
    ends_at: float | None = None

    @property
    def name(self) -> str:
        """What its rule is called."""
        return self.labels.get("alertname", "without a name")


@dataclass(frozen=True, slots=True)
class Heard:
    """What a message says to one policy."""

    news: tuple[tuple[Alert, AlertNews], ...]
    """What each of its alerts is, in its order."""
    known: tuple[AlertReport, ...]
    """Known afterwards; the same where nothing is new."""
    evicted: tuple[AlertReport, ...]
    """What fires, was known, and made room, whether the message names it or not."""


def binding_of(alert: Alert, bindings: Sequence[AlertBinding]) -> AlertBinding | None:
    """The first binding whose labels the alert carries, all of them."""
    return next((one for one in bindings if one.match.items() <= alert.labels.items()), None)


def heard(
    known: Iterable[AlertReport], alerts: Iterable[tuple[Alert, AlertBinding]], now: float, *, left_out: bool = False
) -> Heard:
    """What the alerts of a message say; `left_out`: it leaves alerts out, so that everything is to be looked at.

    A message may have ten thousand alerts: no more new ones of a weight are made than fit, and what fits is seen once.
    """
    before = {one.fingerprint: one for one in kept(known, now)}
    found, made, said = dict(before), Counter[int](), list[tuple[Alert, AlertNews]]()
    for alert, binding in alerts:
        what, fingerprint = _news_of(alert, found.get(alert.fingerprint)), alert.fingerprint
        if what is AlertNews.RECEIVED:
            weight = _weight_of(binding.action.type)
            made[weight] += 1
            if made[weight] <= MAX_ALERTS or fingerprint in found:
                found.pop(fingerprint, None)
                found[fingerprint] = _made(alert, binding.action, binding.expire_seconds, now)
            else:
                what = AlertNews.CROWDED  # those that were made come first
        elif fingerprint in found:
            _repeat(found, alert, binding, now)
        said.append((alert, what))
    if left_out:
        found.pop(TRUNCATED, None)
        found[TRUNCATED] = _marker(now)
    fitting = _fitting(found.values(), now)
    out = {one.fingerprint for one in found.values() if one.resolved_at is None} - {one.fingerprint for one in fitting}
    news = tuple((one, AlertNews.CROWDED if one.firing and one.fingerprint in out else what) for one, what in said)
    evicted = (one for one in before.values() if one.resolved_at is None and one.fingerprint in out)
    return Heard(news, fitting, tuple(evicted))


def _news_of(alert: Alert, before: AlertReport | None) -> AlertNews:
    """What an alert says to who knows this of it.

    Alertmanager may tell of an end with an earlier start than of the beginning: of what several Prometheus tell it, the
    earliest start counts.  So an end counts too where it is not before the known start, which no earlier time's is.
    """
    if alert.firing:
        known = before is not None and alert.starts_at <= before.starts_at.timestamp()
        return AlertNews.REPEATED if known else AlertNews.RECEIVED
    if before is None or before.resolved_at is not None or _told_until(alert) < before.starts_at.timestamp():
        return AlertNews.REPEATED
    return AlertNews.RESOLVED


def _repeat(found: dict[str, AlertReport], alert: Alert, binding: AlertBinding, now: float) -> None:
    """Keep what is not news of an alert, or its end.

    A repetition renews the time once half of it is over, so that most repetitions are no write; and it asks for what
    the binding asks for by then.  When an alert that is over began is kept, so that its beginning may come late.
    """
    before, action = found[alert.fingerprint], binding.action
    if not alert.firing and _told_until(alert) >= before.starts_at.timestamp():
        starts_at = max(as_time(alert.starts_at), before.starts_at)
        ended = {"starts_at": starts_at, "resolved_at": before.resolved_at or as_time(now)}
        found[alert.fingerprint] = before.model_copy(update=ended)
    elif alert.firing and before.resolved_at is None:
        lasts = before.until.timestamp() - now > binding.expire_seconds / 2.0
        if not lasts or (before.action, before.level) != (action.type, action.level):
            until = as_time(now + binding.expire_seconds)
            renewed = {"until": until, "action": action.type, "level": action.level}
            found[alert.fingerprint] = found.pop(alert.fingerprint).model_copy(update=renewed)


def _told_until(alert: Alert) -> float:
    """The latest moment that is told of an alert that is over; its end may be missing, or Go's zero time."""
    return alert.starts_at if alert.ends_at is None else max(alert.starts_at, alert.ends_at)


def _made(alert: Alert, action: AlertAction, expire_seconds: float, now: float) -> AlertReport:
    """An alert that fires, as it is known."""
    return AlertReport(
        fingerprint=alert.fingerprint[:64],
        name=alert.name[:256],
        starts_at=as_time(alert.starts_at),
        received_at=as_time(now),
        until=as_time(now + expire_seconds),
        action=action.type,
        level=action.level,
    )


def _marker(now: float) -> AlertReport:
    """Stands for what a message leaves out."""
    alert = Alert(TRUNCATED, now, firing=True, labels={"alertname": "a list that leaves alerts out"})
    return _made(alert, AlertAction(type=AlertActionType.EVALUATE_NOW), TRUNCATED_SECONDS, now)


def kept(known: Iterable[AlertReport], now: float) -> tuple[AlertReport, ...]:
    """Those whose time is not over."""
    return tuple(one for one in known if now < one.until.timestamp())


def still_asked_for(known: Iterable[AlertReport], bindings: Iterable[AlertBinding]) -> tuple[AlertReport, ...]:
    """Those that a binding asks for yet: the others would keep room from alerts that are."""
    asked = tuple(bindings)
    return tuple(one for one in known if one.fingerprint == TRUNCATED or _asked_for(asked, one) is not None)


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


def _fitting(known: Iterable[AlertReport], now: float) -> tuple[AlertReport, ...]:
    """As many as a status holds: those that fire, the one that decides first, and then the latest that are over."""
    alive = kept(known, now)
    firing = sorted((one for one in alive if one.resolved_at is None), key=_weight)
    over = sorted((one for one in alive if one.resolved_at is not None), key=lambda one: one.received_at, reverse=True)
    held = {one.fingerprint for one in [*firing, *over][:MAX_ALERTS]}
    return tuple(one for one in alive if one.fingerprint in held)


def _weight(one: AlertReport) -> tuple[bool, int, datetime]:
    """Sorts what decides before what is decided over."""
    return one.fingerprint != TRUNCATED, _weight_of(one.action), one.received_at


def _weight_of(action: AlertActionType) -> int:
    """The less, the sooner it decides."""
    return _WEIGHT.index(action) if action in _WEIGHT else len(_WEIGHT) + (action is AlertActionType.EVALUATE_NOW)
