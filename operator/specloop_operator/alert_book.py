"""Writes alerts down in the status of the policies that they concern, whichever operator hears of them.

The leader sees the status change and decides; so any replica may take an alert, and what was answered with 200 outlives
all of them.

NoRoom    alerts that fire stand in no status, for it is full; to send them again helps once others are over
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from specloop_operator.alertmanager import Message
from specloop_operator.asking import Asking, asking, spec_of
from specloop_operator.cluster import Cluster, Conflict, NotThere
from specloop_operator.crowded import Crowded
from specloop_operator.store import Name, Store
from specloop_operator.telling import Telling
from specloop_policy.alerts import TRUNCATED, Alert, AlertNews, Heard, binding_of, heard, kept, still_asked_for
from specloop_policy.status import MAX_ALERTS, AlertReport

LOG = logging.getLogger("specloop.alerts")

Body = Mapping[str, Any]

TRIES = 5
"""Of one write: the operator writes a policy's status itself, so that conflicts happen, but not one after the other."""

AT_ONCE = 50
"""Alerts that policies are found for before others have their turn: a message may have ten thousand, and the Lease is
renewed beside it."""

_REPORTS = TypeAdapter(tuple[AlertReport, ...])


class NoRoom(Exception):
    """Alerts that fire found no room in the status of policies; names them, and the limit."""


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
        self._reading = asyncio.Lock()
        self._crowded = Crowded()

    async def record(self, message: Message) -> None:
        """Write down what is new in a message, policy by policy.

        Raises ApiError where one could not be written; NoRoom where one has no room, once all that has is written.
        To record a message again changes nothing, so that whoever sends it may try again after an error.
        """
        asking_here = self._asking()
        heard_by = await self._heard_by(message.alerts, asking_here)
        names = list(heard_by)
        left_out = message.truncated_alerts > 0
        if left_out:
            LOG.warning("a message leaves out %d alerts: all policies look anew", message.truncated_alerts)
            namespace = message.namespace(self._namespace_label)
            found = asking_here.values() if namespace is None else [asking_here.get(namespace, [])]
            names = list(dict.fromkeys([*names, *(one.name for ones in found for one in ones)]))
        writes = (self._write(name, heard_by.get(name, []), left_out=left_out) for name in names)
        crowded = dict(zip(names, await asyncio.gather(*writes), strict=True))
        if any(crowded.values()):
            raise NoRoom(_no_room([(name, count) for name, count in crowded.items() if count]))

    def _asking(self) -> dict[str, list[Asking]]:
        """The policies that ask for any alert, by their namespace; read once for a message of many alerts."""
        found = dict[str, list[Asking]]()
        for body in self._store.policies():
            if (one := asking(body, self._store)) is not None:
                found.setdefault(one.name[0], []).append(one)
        return found

    async def _heard_by(
        self, alerts: Iterable[Alert], asking_here: Mapping[str, list[Asking]]
    ) -> dict[Name, list[Alert]]:
        """The alerts that concern each policy: those in the alert's namespace that ask for it."""
        found = dict[Name, list[Alert]]()
        for place, alert in enumerate(alerts):
            if place % AT_ONCE == 0:
                await asyncio.sleep(0)
            in_namespace = asking_here.get(alert.labels.get(self._namespace_label, ""), ())
            concerned = [one.name for one in in_namespace if one.asks_for(alert, self._pod_label)]
            if not concerned:
                self._telling.alert(self._nobodys(alert))
            for name in concerned:
                found.setdefault(name, []).append(alert)
        return found

    def _nobodys(self, alert: Alert) -> AlertNews:
        return AlertNews.UNMATCHED if alert.labels.get(self._namespace_label) else AlertNews.NOWHERE

    async def _write(self, name: Name, alerts: Sequence[Alert], *, left_out: bool) -> int:
        """Write one policy's; on a conflict as it is by then.  How many that fire found no room.

        That an alert is over is said once: whether it fires is asked of the API server, for the watch may be behind.
        """
        over = any(not alert.firing for alert in alerts)
        body, tries = await self._afresh(name) if over else self._store.policy(name), TRIES
        while body is not None:
            said = await self._heard(body, alerts, left_out=left_out)
            try:
                if said.known != _known(body):
                    await self._put(body, said.known)
            except Conflict:
                tries -= 1
                if not tries:
                    raise
                body = await self._afresh(name)
                continue
            except NotThere:
                break
            await self._tell(body, said, left_out=left_out)
            return sum(what is AlertNews.CROWDED for _, what in said.news)
        return 0

    async def _put(self, policy: Body, known: tuple[AlertReport, ...]) -> None:
        """Write what a policy knows now, and nothing else of its status.

        The store hears of it by the watch, which wakes the policy where alerts are other than in the store.
        """
        alerts = _REPORTS.dump_python(known, mode="json", by_alias=True, exclude_none=True)
        after = {**(policy.get("status") or {}), "alerts": alerts}
        await self._cluster.write_status(policy, after)

    async def _heard(self, body: Body, alerts: Sequence[Alert], *, left_out: bool) -> Heard:
        """What the alerts say to a policy, one policy after the other, so that others have their turn in between."""
        async with self._reading:
            await asyncio.sleep(0)
            spec = spec_of(body)
            bindings = spec.alerts if spec is not None else ()
            asked = ((alert, binding) for alert in alerts if (binding := binding_of(alert, bindings)) is not None)
            known = still_asked_for(_known(body), bindings) if bindings else _known(body)
            return heard(known, asked, self._now(), left_out=left_out)

    async def _tell(self, body: Body, said: Heard, *, left_out: bool) -> None:
        """Count and say what was written, and what found no room: first, for an object gets few events a minute."""
        now, uid, counts = self._now(), _uid(body), Counter(what for _, what in said.news)
        counts[AlertNews.TRUNCATED], counts[AlertNews.EVICTED] = int(left_out), len(said.evicted)
        for one in said.evicted:
            self._crowded.note(uid, one.fingerprint, one.starts_at.timestamp())
        for alert, what in said.news:
            if what is not AlertNews.CROWDED:
                self._crowded.drop(uid, alert.fingerprint)
            elif not self._crowded.note(uid, alert.fingerprint, alert.starts_at):
                counts.update({AlertNews.CROWDED: -1, AlertNews.REPEATED: 1})
        for what, count in counts.items():
            self._telling.alert(what, count)
        if left_out:
            stands = any(one.fingerprint == TRUNCATED for one in kept(_known(body), now))
            await self._telling.left_out(body, now, again=stands)
        await self._say_no_room(body, said, now)
        for alert, what in said.news:
            await self._telling.heard(body, alert.name, what, now)

    async def _say_no_room(self, body: Body, said: Heard, now: float) -> None:
        """Name what has none once; what could not be said, by the next message that names it."""
        uid, evicted = _uid(body), {one.fingerprint: one.name for one in said.evicted}
        found = {one.fingerprint: one.name for one, what in said.news if what is AlertNews.CROWDED}
        crowded = {one: name for one, name in found.items() if one not in evicted and not self._crowded.told(uid, one)}
        if await self._telling.no_room(body, list(evicted.values()), list(crowded.values()), now):
            self._crowded.tell(uid, [*evicted, *crowded])

    async def _afresh(self, name: Name) -> Body | None:
        try:
            return await self._cluster.policy(*name)
        except NotThere:
            return None


def _no_room(crowded: Sequence[tuple[Name, int]]) -> str:
    """Where there was none, the first policy by name."""
    (namespace, name), count = crowded[0]
    others = f"; policies without room: {len(crowded)}" if len(crowded) > 1 else ""
    full = f"the status of policy {namespace}/{name} holds {MAX_ALERTS} alerts, as many as it can"
    return f"{full}, and has no room for {count} that fire{others}"


def _uid(policy: Body) -> str:
    return str(policy["metadata"]["uid"])


def _known(policy: Body) -> tuple[AlertReport, ...]:
    """Alerts in a status; where somebody has made them unreadable, none."""
    try:
        return _REPORTS.validate_python((policy.get("status") or {}).get("alerts") or ())
    except ValidationError:
        return ()
