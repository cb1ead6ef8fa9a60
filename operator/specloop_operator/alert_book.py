"""Writes alerts down in the status of the policies that they concern, whichever operator hears of them.

The leader sees the status change and decides; so any replica may take an alert, and what was answered with 200 outlives
all of them.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from specloop_operator.alertmanager import Message
from specloop_operator.binding import BindingError, bind
from specloop_operator.cluster import Cluster, Conflict, NotThere
from specloop_operator.sight import Blind, parse
from specloop_operator.store import Name, Store, name_of, target_of
from specloop_operator.telling import Telling
from specloop_operator.workload import KINDS, Target
from specloop_policy.alerts import Alert, AlertNews, binding_of, heard, kept, truncated
from specloop_policy.model import AlertBinding
from specloop_policy.status import AlertReport

LOG = logging.getLogger("specloop.alerts")

Body = Mapping[str, Any]

Asking = tuple[Body, tuple[AlertBinding, ...]]
"""A policy, and what it asks of alerts."""

TRIES = 5
"""Of one write: the operator writes a policy's status itself, so that conflicts happen, but not one after the other."""

WORKLOAD_LABELS = {kind.lower(): kind for kind in KINDS}
"""Labels that name the workload that an alert is about, as kube-state-metrics calls them; each must be the target's."""

_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
"""Letters that Kubernetes makes names of (k8s.io/apimachinery, util/rand)."""

POD_NAMES = {"Deployment": rf"-{_RANDOM}{{1,10}}-{_RANDOM}{{5}}", "StatefulSet": r"-\d+"}
"""How the names of a workload's pods go on after its own, for a pod that is gone by the time that its alert comes."""

MODEL_LABEL = "model_name"
"""What vLLM, and so the shipped rules, name a model by."""

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
        asking, heard_by = self._asking(), dict[Name, list[Alert]]()
        for alert in message.alerts:
            concerned = self._concerned(alert, asking)
            if not concerned:
                self._telling.alert(self._nobodys(alert))
            for name in concerned:
                heard_by.setdefault(name, []).append(alert)
        names = list(heard_by)
        if message.truncated_alerts:
            LOG.warning("a message leaves out %d alerts: all policies look anew", message.truncated_alerts)
            namespace = message.namespace(self._namespace_label)
            found = asking.values() if namespace is None else [asking.get(namespace, [])]
            names = list(dict.fromkeys([*names, *(name_of(body) for ones in found for body, _ in ones)]))
        left_out = message.truncated_alerts > 0
        await asyncio.gather(*(self._write(name, heard_by.get(name, []), left_out=left_out) for name in names))

    def _asking(self) -> dict[str, list[Asking]]:
        """The policies that ask for any alert, by their namespace; read once for a message of many alerts."""
        found = dict[str, list[Asking]]()
        for body in self._store.policies():
            if bindings := _bindings(body):
                found.setdefault(name_of(body)[0], []).append((body, bindings))
        return found

    def _concerned(self, alert: Alert, asking: Mapping[str, list[Asking]]) -> list[Name]:
        """The policies in the alert's namespace that ask for it."""
        return [
            name_of(body)
            for body, bindings in asking.get(alert.labels.get(self._namespace_label, ""), ())
            if (binding := binding_of(alert, bindings)) is not None
            and self._is_about(alert, body, by_model=MODEL_LABEL not in binding.match)
        ]

    def _is_about(self, alert: Alert, policy: Body, *, by_model: bool) -> bool:
        """Whether what the alert says of workload, pod and, where that is asked, model is the policy's target."""
        kind, (namespace, name) = target_of(policy)
        for label, labelled in WORKLOAD_LABELS.items():
            if label in alert.labels and (labelled, alert.labels[label]) != (kind, name):
                return False
        if kind not in KINDS:
            return True
        target, model = self._store.target(kind, (namespace, name)), alert.labels.get(MODEL_LABEL)
        if by_model and model and target is not None and _served_name(policy, target) not in (None, model):
            return False
        pod = alert.labels.get(self._pod_label)
        if not pod:
            return True
        known = self._store.pods_of(target) if target is not None else ()
        own = re.escape(name) + POD_NAMES[kind]
        return any(one["metadata"]["name"] == pod for one in known) or re.fullmatch(own, pod) is not None

    def _nobodys(self, alert: Alert) -> AlertNews:
        return AlertNews.UNMATCHED if alert.labels.get(self._namespace_label) else AlertNews.NOWHERE

    async def _write(self, name: Name, alerts: Sequence[Alert], *, left_out: bool) -> None:
        """Write one policy's; on a conflict as it is by then.

        That an alert is over is said once: whether it fires is asked of the API server, for the watch may be behind.
        """
        over = any(not alert.firing for alert in alerts)
        body, tries = await self._afresh(name) if over else self._store.policy(name), TRIES
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
        """Write what a policy knows now, and nothing else of its status.

        The store hears of it by the watch, which wakes the policy where alerts are other than in the store.
        """
        alerts = _REPORTS.dump_python(known, mode="json", by_alias=True, exclude_none=True)
        after = {**(policy.get("status") or {}), "alerts": alerts}
        await self._cluster.write_status(policy, after)

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


def _served_name(policy: Body, target: Target) -> str | None:
    """What the target's metrics call its model; None where its command does not say so for sure."""
    try:
        spec, _ = parse(policy)
        return bind(target.template, spec.container_name, spec.engine).line.served_name
    except (Blind, BindingError):
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
