"""What is said of a tick: a log line, events, and the operator's own metrics, in the same words as the status."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specloop_operator.announcer import Announcer, ObjectRef
from specloop_operator.conditions import ConditionReason
from specloop_operator.decision_log import log_decision
from specloop_operator.events import Reason
from specloop_operator.metrics import Metrics
from specloop_operator.sight import Sight, enforces
from specloop_operator.store import name_of
from specloop_operator.turn import ProbeNews, Turn, override_in_force
from specloop_operator.workload import Target
from specloop_policy.alerts import TRUNCATED, AlertNews
from specloop_policy.canary import Ending, Kind, Phase
from specloop_policy.model import GROUP, KIND, VERSION
from specloop_policy.observation import Window
from specloop_policy.status import MAX_ALERTS, Condition, ConditionStatus, SpecPolicyStatus
from specloop_policy.times import rfc3339

LOG = logging.getLogger("specloop.rollouts")

Body = Mapping[str, Any]
News = tuple[Reason, str]

CONDITION_EVENTS = {
    ConditionReason.INVALID_SPEC: Reason.INVALID_SPEC,
    ConditionReason.INVALID_ANNOTATION: Reason.INVALID_SPEC,
    ConditionReason.UNMANAGED: Reason.UNMANAGED,
    ConditionReason.NOT_HEARD: Reason.METRICS_UNAVAILABLE,
    ConditionReason.SOURCE_FAILED: Reason.METRICS_UNAVAILABLE,
    ConditionReason.NO_SUCH_SOURCE: Reason.METRICS_UNAVAILABLE,
    ConditionReason.HEARD: Reason.METRICS_RECOVERED,
    ConditionReason.TARGET_NOT_FOUND: Reason.TARGET_NOT_FOUND,
    ConditionReason.UNSUPPORTED_KIND: Reason.UNSUPPORTED_TARGET,
    ConditionReason.UNSUPPORTED_COMMAND: Reason.UNSUPPORTED_COMMAND,
    ConditionReason.UNSUPPORTED_STRATEGY: Reason.UNSUPPORTED_TARGET,
    ConditionReason.FAULT_FOUND: Reason.FAULT_FOUND,
    ConditionReason.REVERTED: Reason.DRIFTED,
    ConditionReason.OLDER_POLICY: Reason.CONFLICTED,
    ConditionReason.BY_SPEC: Reason.SUSPENDED,
    ConditionReason.BY_ANNOTATION: Reason.SUSPENDED,
    ConditionReason.BY_ALERT: Reason.SUSPENDED,
    ConditionReason.ACTIVE: Reason.RESUMED,
    ConditionReason.WAITING: Reason.WAITING,
}
"""Conditions whose coming is an event."""

PROBES = {
    ProbeNews.STARTED: Reason.PROBE_STARTED,
    ProbeNews.WON: Reason.PROBE_WON,
    ProbeNews.LOST: Reason.PROBE_LOST,
}

ALERTS = {
    AlertNews.RECEIVED: Reason.ALERT_RECEIVED,
    AlertNews.RESOLVED: Reason.ALERT_RESOLVED,
    AlertNews.EXPIRED: Reason.ALERT_EXPIRED,
}
ALERT_WORDS = {
    AlertNews.RECEIVED: "fires",
    AlertNews.RESOLVED: "is resolved",
    AlertNews.EXPIRED: "counts no more: nothing was heard of it for its expireSeconds",
}

LISTED = 3
"""Alerts that a note names, of a message that has many."""

ON_CHANGE_ALONE = frozenset({str(ConditionReason.HEARD), str(ConditionReason.ACTIVE)})
"""Those that are news only where the condition was the opposite before."""


@dataclass(slots=True)
class Telling:
    """Where it is said."""

    metrics: Metrics
    announcer: Announcer
    _windows: dict[tuple[str, str], float] = field(default_factory=dict)
    """The end of the latest window that was counted, by policy."""
    _overridden: set[tuple[str, str]] = field(default_factory=set)
    """Policies with an override in force."""

    async def conditions(self, body: Body, before: SpecPolicyStatus, after: SpecPolicyStatus, now: float) -> None:
        """Say what has become so."""
        namespace, name = name_of(body)
        old = {one.type: one for one in before.conditions}
        for one in after.conditions:
            self.metrics.condition(namespace, name, one.type, one.status)
            over = _event_of(old.get(one.type))
            if over is not None and old[one.type].reason != one.reason:
                self.announcer.settled(_policy(body), over.action)  # should it come back, it is news again
            news = _condition_news(one, old.get(one.type))
            if news is not None:
                await self._announce([news], [_policy(body)], now)

    async def turn(
        self, body: Body, before: SpecPolicyStatus, sight: Sight, turn: Turn, status: SpecPolicyStatus, now: float
    ) -> None:
        """Say what was decided, and how the roll-out goes."""
        namespace, name = name_of(body)
        acceptance = status.acceptance_percent
        self.metrics.levels(namespace, name, status.observed_level, status.desired_level)
        self.metrics.acceptance(namespace, name, None if acceptance is None else acceptance / 100.0)
        self.metrics.target(namespace, name, sight.target.kind.name, sight.target.name)
        rollout = turn.remembered.rollout
        self.metrics.rollout(namespace, name, None if rollout is None else rollout.started_at)
        if turn.decision is not None:
            if not turn.decision.changes_level or status.decisions != before.decisions:
                self.metrics.decided(namespace, name, turn.decision.action)
            target = f"{sight.target.kind.name}/{sight.target.name}"
            log_decision(namespace, name, target, sight.spec.mode, turn.before, turn.decision, acceptance)
        if turn.ended is not None:
            self.metrics.rolled_out(namespace, name, turn.ended)
        if turn.began is not None and turn.began.kind is Kind.RETREAT:
            self.metrics.watch_failed(namespace, name)
        if turn.began is not None or turn.moved is not None or turn.ended is not None:
            fields = {"namespace": namespace, "policy": name}
            LOG.info("%s/%s: %s", namespace, name, turn.words, extra=fields)
        await self._announce(_turn_news(sight, turn), [_policy(body), reference(sight.target)], now)
        await self._announce(self._override_news(body, sight, now), [_policy(body)], now)

    def _override_news(self, body: Body, sight: Sight, now: float) -> Iterable[News]:
        override, name = override_in_force(sight, now), name_of(body)
        if override is not None:
            self._overridden.add(name)
            until = "until it is taken back" if override.until is None else f"until {rfc3339(override.until)}"
            by = f" by {override.by}" if override.by else ""
            yield Reason.OVERRIDE_SET, f"{override.level} is asked for{by}, {until}"
        elif name in self._overridden:
            self._overridden.discard(name)
            yield Reason.OVERRIDE_EXPIRED, "the override is over"

    def blind(self, body: Body, *, gave_up: bool) -> None:
        """Show nothing where nothing can be seen; a roll-out that was given up is counted."""
        name = name_of(body)
        self.metrics.levels(*name, None, None)
        self.metrics.acceptance(*name, None)
        self.metrics.rollout(*name, None)
        if gave_up:
            self.metrics.rolled_out(*name, Ending.CANCELLED)

    def windows(self, body: Body, windows: Iterable[Window]) -> None:
        """Count the windows that have closed since."""
        key = name_of(body)
        last = self._windows.get(key, float("-inf"))
        new = [window for window in windows if window.end > last]
        self._windows[key] = max((window.end for window in new), default=last)
        self.metrics.windows(*key, (window.outcome for window in new))

    def alert(self, what: AlertNews, count: int = 1) -> None:
        """Count what a message said of an alert, or of several."""
        self.metrics.alert(what, count)

    async def heard(self, body: Body, name: str, what: AlertNews, now: float) -> None:
        """Say what is new of an alert to a policy; what is said again is no news."""
        reason = ALERTS.get(what)
        if reason is not None:
            await self._of_alerts(body, reason, f"alert {name} {ALERT_WORDS[what]}", now)

    async def no_room(self, body: Body, evicted: Sequence[str], crowded: Sequence[str], now: float) -> bool:
        """Say which alerts fire and stand in no status any more, or yet; False where that is to be said again.

        Those of a message together, for an object gets few events a minute.
        """
        limit = f"the status holds {MAX_ALERTS}, and others come first"
        words = [f"{_listed(evicted)} had to make room: {limit}"] if evicted else []
        words += [f"no room for {_listed(crowded)}: {limit}"] if crowded else []
        return all([await self._of_alerts(body, Reason.ALERT_CROWDED, one, now) for one in words])

    async def left_out(self, body: Body, now: float, *, again: bool) -> None:
        """Say that a message left alerts out; `again`: another one did just before."""
        if not again:
            words = "a message leaves alerts out: the policy looks at once, and does not know which they are"
            await self._of_alerts(body, Reason.ALERTS_LEFT_OUT, words, now)

    async def _of_alerts(self, body: Body, reason: Reason, words: str, now: float) -> bool:
        namespace, policy = name_of(body)
        LOG.info("%s/%s: %s", namespace, policy, words, extra={"namespace": namespace, "policy": policy})
        # Another operator may have said what came in between.
        self.announcer.settled(_policy(body), reason.action)
        return await self.announcer.announce(reason, words, now, [_policy(body)])

    async def expired(self, body: Body, before: SpecPolicyStatus, after: SpecPolicyStatus, now: float) -> None:
        """Say which alerts count no more though nobody said that they are over."""
        left = {one.fingerprint for one in after.alerts}
        for one in before.alerts:
            if one.fingerprint not in left and one.resolved_at is None and one.fingerprint != TRUNCATED:
                self.alert(AlertNews.EXPIRED)
                await self.heard(body, one.name, AlertNews.EXPIRED, now)

    async def left_paused(self, target: Target, words: str, now: float) -> None:
        """A workload was found held by us with no policy behind it, and was put right."""
        LOG.warning("%s %s/%s: %s", target.kind.name, target.namespace, target.name, words)
        await self._announce([(Reason.LEFT_PAUSED, words)], [reference(target)], now)

    async def cancelled(self, target: Target, words: str, now: float) -> None:
        """The roll-out of a policy that is gone was called off."""
        LOG.info("%s %s/%s: %s", target.kind.name, target.namespace, target.name, words)
        await self._announce([(Reason.ROLLOUT_CANCELLED, words)], [reference(target)], now)

    def forget(self, body: Body) -> None:
        """The policy is gone."""
        self._windows.pop(name_of(body), None)
        self._overridden.discard(name_of(body))
        self.metrics.forget(*name_of(body))
        self.announcer.forget(_policy(body))

    async def _announce(self, news: Iterable[News], objects: list[ObjectRef], now: float) -> None:
        for reason, note in news:
            await self.announcer.announce(reason, note, now, objects)


def reference(target: Target) -> ObjectRef:
    """A workload, for events."""
    return ObjectRef("apps/v1", target.kind.name, target.namespace, target.name, target.uid)


def _policy(body: Body) -> ObjectRef:
    return ObjectRef(f"{GROUP}/{VERSION}", KIND, *name_of(body), str(body["metadata"]["uid"]))


def _listed(alerts: Sequence[str]) -> str:
    """The first few by name."""
    more = f" and {len(alerts) - LISTED} more" if len(alerts) > LISTED else ""
    return f"alert {', '.join(alerts[:LISTED])}{more}"


def _condition_news(now: Condition, before: Condition | None) -> News | None:
    if before is not None and (before.status, before.reason) == (now.status, now.reason):
        return None
    event = _event_of(now)
    if event is None:
        return None
    opposite = before is not None and before.status not in (now.status, ConditionStatus.UNKNOWN)
    return (event, now.message) if opposite or now.reason not in ON_CHANGE_ALONE else None


def _event_of(condition: Condition | None) -> Reason | None:
    """The event that a condition's coming is; None where it is none."""
    found = (event for reason, event in CONDITION_EVENTS.items() if condition and reason == condition.reason)
    return next(found, None)


def _no_live(sight: Sight, turn: Turn) -> str:
    """Why a roll-out that could have been live is not."""
    live, rollout = sight.live, turn.rollout
    if live is None or not live.problem or rollout is None or rollout.live:
        return ""
    return f" (by a restart, for live control is not possible: {live.problem})"


def _turn_news(sight: Sight, turn: Turn) -> Iterable[News]:
    decision, rollout = turn.decision, turn.rollout
    if decision is not None and decision.changes_level:
        if not (enforces(sight) and turn.blocked is None):
            yield Reason.RECOMMENDED, decision.reason
        elif turn.probe is not None:
            yield PROBES[turn.probe], decision.reason
        elif turn.began is not None and turn.began.kind is Kind.RETREAT:
            yield Reason.WATCH_FAILED, decision.reason
        elif turn.ended is None:
            yield Reason.LEVEL_CHANGED, decision.reason
    if rollout is None:
        return
    if turn.began is not None:
        why = turn.words if rollout.kind is Kind.SHED or decision is None else decision.reason
        how = "live, " if rollout.live else ""
        yield Reason.ROLLOUT_STARTED, f"{how}{rollout.level} instead of {rollout.back_to}: {why}{_no_live(sight, turn)}"
    if turn.moved is Phase.SOAKING:
        yield Reason.CANARY_READY, turn.words
    match turn.ended:
        case Ending.PROMOTED:
            yield Reason.ROLLOUT_PROMOTED, turn.words
        case Ending.FAILED | Ending.LOST:
            yield Reason.ROLLOUT_ROLLED_BACK, f"{rollout.level} is taken back to {rollout.back_to}: {turn.words}"
        case Ending.ABANDONED:
            yield Reason.ROLLOUT_ABANDONED, turn.words
        case Ending.CANCELLED | Ending.UNDONE | Ending.GONE:
            yield Reason.ROLLOUT_CANCELLED, turn.words
        case None:
            pass
