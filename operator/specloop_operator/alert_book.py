"""Writes alerts down in the status of the policies that they concern, whichever operator hears of them.

The leader sees the status change and decides; so any replica may take an alert, and what was answered with 200 outlives
all of them.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from specloop_operator.alertmanager import Message
from specloop_operator.cluster import Cluster, Conflict, NotThere
from specloop_operator.sight import Blind, parse
from specloop_operator.store import POLICIES, Name, Store, target_of
from specloop_operator.telling import Telling
from specloop_operator.workload import KINDS
from specloop_policy.alerts import Alert, AlertNews, binding_of, heard, kept, truncated
from specloop_policy.model import AlertBinding
from specloop_policy.status import AlertReport

LOG = logging.getLogger("specloop.alerts")

Body = Mapping[str, Any]

TRIES = 5
"""Of one write: the operator writes a policy's status itself, so that conflicts happen, but not one after the other."""

WORKLOAD_LABELS = {kind.lower(): kind for kind in KINDS}
"""Labels that name the workload that an alert is about, as kube-state-metrics calls them; each must be the target's."""

_REPORTS = TypeAdapter(tuple[AlertReport, ...])


class AlertBook:
    """Records messages; `namespace_label` and `pod_label` are what alerts name these by."""

    def __init__(
        self,
        store: Store,
        cluster: Cluster,
        telling: Telling,
        now: Callable[[], float],
        namespace_label: str,
        pod_label: str,
    ) -> None:
        self._store = store
        self._cluster = cluster
        self._telling = telling
        self._now = now
        self._namespace_label = namespace_label
        self._pod_label = pod_label

    async def record(self, message: Message) -> None:
        """Write down what is new in a message, policy by policy; raises ApiError where one could not be written.

        To record a message again changes nothing, so that whoever sends it may try again after an error.
        """
        heard_by = dict[Name, list[Alert]]()
        for alert in message.alerts:
            concerned = self._concerned(alert)
            if not concerned:
                self._telling.alert(self._nobodys(alert))
            for name in concerned:
                heard_by.setdefault(name, []).append(alert)
        names = list(heard_by)
        if message.truncated_alerts:
            LOG.warning("a message leaves out %d alerts: all policies look anew", message.truncated_alerts)
            names = list(dict.fromkeys([*names, *self._with_bindings(message.namespace(self._namespace_label))]))
        left_out = message.truncated_alerts > 0
        await asyncio.gather(*(self._write(name, heard_by.get(name, []), left_out=left_out) for name in names))

    def _concerned(self, alert: Alert) -> list[Name]:
        """The policies in the alert's namespace that ask for it."""
        return [
            _name(body)
            for body in self._store.policies()
            if alert.labels.get(self._namespace_label) == body["metadata"]["namespace"]
            and binding_of(alert, _bindings(body)) is not None
            and self._is_about(alert, body)
        ]

    def _is_about(self, alert: Alert, policy: Body) -> bool:
        """Whether what the alert says of workload and pod is the policy's target."""
        kind, (namespace, name) = target_of(policy)
        for label, labelled in WORKLOAD_LABELS.items():
            if label in alert.labels and (labelled, alert.labels[label]) != (kind, name):
                return False
        pod = alert.labels.get(self._pod_label)
        target = self._store.target(kind, (namespace, name)) if kind in KINDS else None
        if not pod or target is None:
            return True
        return any(one["metadata"]["name"] == pod for one in self._store.pods_of(target)) or pod.startswith(f"{name}-")

    def _nobodys(self, alert: Alert) -> AlertNews:
        return AlertNews.UNMATCHED if alert.labels.get(self._namespace_label) else AlertNews.NOWHERE

    def _with_bindings(self, namespace: str | None) -> list[Name]:
        """The policies that ask for any alert, of one namespace or all."""
        return [
            _name(body)
            for body in self._store.policies()
            if _bindings(body) and namespace in (None, body["metadata"]["namespace"])
        ]

    async def _write(self, name: Name, alerts: Sequence[Alert], *, left_out: bool) -> None:
        """Write one policy's; on a conflict as it is by then."""
        body, tries = self._store.policy(name), TRIES
        while body is not None:
            news, known = self._news(body, alerts, left_out=left_out)
            try:
                if known != _known(body):
                    await self._put(body, known)
            except Conflict:
                tries -= 1
                if not tries:
                    raise
                body = await self._afresh(name)
                continue
            except NotThere:
                return
            for alert, what in news:
                self._telling.alert(what)
                await self._telling.heard(body, alert.name, what, self._now())
            return

    async def _put(self, policy: Body, known: tuple[AlertReport, ...]) -> None:
        """Write what a policy knows now, and nothing else of its status."""
        alerts = _REPORTS.dump_python(known, mode="json", by_alias=True, exclude_none=True)
        after = {**(policy.get("status") or {}), "alerts": alerts}
        self._store.put(POLICIES, await self._cluster.write_status(policy, after), self._now())

    def _news(
        self, body: Body, alerts: Sequence[Alert], *, left_out: bool
    ) -> tuple[list[tuple[Alert, AlertNews]], tuple[AlertReport, ...]]:
        """What the alerts say to a policy, and what it knows afterwards."""
        now, bindings = self._now(), _bindings(body)
        known, news = kept(_known(body), now), []
        for alert in alerts:
            binding = binding_of(alert, bindings)
            if binding is not None:
                what, known = heard(known, alert, binding.action, float(binding.expire_seconds), now)
                news.append((alert, what))
        return news, truncated(known, now) if left_out else known

    async def _afresh(self, name: Name) -> Body | None:
        try:
            return await self._cluster.policy(*name)
        except NotThere:
            return None


def _known(policy: Body) -> tuple[AlertReport, ...]:
    """Alerts in a status; where somebody has made them unreadable, none."""
    try:
        return _REPORTS.validate_python((policy.get("status") or {}).get("alerts") or ())
    except ValidationError:
        return ()


def _bindings(policy: Body) -> tuple[AlertBinding, ...]:
    """What a policy asks of alerts; of one that cannot be followed nothing is known."""
    if not (policy.get("spec") or {}).get("alerts"):
        return ()
    try:
        return parse(policy)[0].alerts
    except Blind:
        return ()


def _name(body: Body) -> Name:
    return str(body["metadata"]["namespace"]), str(body["metadata"]["name"])
