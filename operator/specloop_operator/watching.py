"""The watches, by kopf: every event goes into the store, and wakes whom it concerns.

Handlers of events alone: kopf writes nothing onto any object for them, neither finalizers nor annotations.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from time import monotonic
from typing import Any

import kopf

from specloop_operator.cluster import ApiError
from specloop_operator.governor import World, give_up
from specloop_operator.remembered import read_status, recall
from specloop_operator.runner import Runner
from specloop_operator.store import PODS, POLICIES, name_of, target_of
from specloop_operator.sweep import put_right
from specloop_operator.workload import KINDS
from specloop_policy.canary import Kind, Rollout
from specloop_policy.model import GROUP, VERSION

Body = Mapping[str, Any]
Event = Mapping[str, Any]

LOG = logging.getLogger("specloop.rollouts")

RETRY_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Between tries to take back the roll-out of a policy that is gone."""

KEPT = ("metadata", "spec", "status")
KEPT_OF_PODS = {
    "metadata": ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp", "labels", "annotations"),
    "spec": ("containers",),
    "status": ("phase", "podIP", "conditions", "containerStatuses"),
}
KEPT_OF_CONTAINERS = ("name", "image", "command", "args", "env", "ports")


class Watching:
    """What is done at every event."""

    def __init__(self, world: World, runner: Runner) -> None:
        self._world = world
        self._runner = runner

    def registry(self) -> kopf.OperatorRegistry:
        """The handlers, for kopf."""
        registry = kopf.OperatorRegistry()
        kopf.on.event(GROUP, VERSION, POLICIES, registry=registry)(self.policy)
        for kind in self._world.store.kinds:
            plural = KINDS[kind].plural
            kopf.on.event("apps", "v1", plural, registry=registry)(self._workload_handler(plural))
        kopf.on.event("", "v1", PODS, registry=registry)(self.pod)
        return registry

    async def policy(self, event: Event, **_: Any) -> None:
        """A policy came, changed or went."""
        body, name = event["object"], name_of(event["object"])
        before = self._world.store.policy(name)
        if event["type"] == "DELETED":
            await self._deleted(body)
        elif self._put(POLICIES, event) and (
            not self._runner.governs(name) or before is None or _asks(before) != _asks(body)
        ):
            # What is listed first can wait for its turn; what a list finds changed was missed meanwhile.
            self._govern(body, at_once=event["type"] is not None or before is not None)

    def lead(self) -> None:
        """Govern every policy that is known: this operator acts from now on."""
        self._runner.start()
        for body in list(self._world.store.policies()):
            self._govern(body, at_once=False)

    def _govern(self, body: Body, *, at_once: bool) -> None:
        """Tick a policy, where this operator acts.

        All at once after a start would be too many scrapes at a time; a roll-out under way does not wait, nor an alert.
        """
        if not self._runner.started:
            return
        spec = body.get("spec") or {}
        source = (spec.get("signals") or {}).get("source") or "default"
        status = read_status(body)
        at_once = at_once or recall(status.memory).rollout is not None
        at_once = at_once or any(one.resolved_at is None for one in status.alerts)
        self._runner.govern(name_of(body), int(spec.get("intervalSeconds") or 15), str(source), at_once=at_once)

    def _workload_handler(self, plural: str) -> Callable[..., Coroutine[Any, Any, None]]:
        async def workload(event: Event, **_: Any) -> None:
            """A workload came, changed or went."""
            self.workload(plural, event)

        return workload

    def workload(self, plural: str, event: Event) -> None:
        """Wake its policy where its spec is another, or a roll-out waits for it."""
        body = event["object"]
        kind = next(kind for kind in KINDS.values() if kind.plural == plural)
        before = self._world.store.target(kind.name, name_of(body))
        if event["type"] == "DELETED":
            self._world.store.drop(plural, body)
        elif not self._put(plural, event):
            return
        another = before is None or _generation(before.body) != _generation(body) or event["type"] == "DELETED"
        for policy in self._world.store.governing(kind.name, name_of(body)):
            if another or self._runner.busy(name_of(policy)):
                self._runner.wake(name_of(policy))

    async def pod(self, event: Event, **_: Any) -> None:
        """A pod came, changed or went: of interest at once while a roll-out waits for it."""
        body = event["object"]
        if event["type"] == "DELETED":
            self._world.store.drop(PODS, body)
        elif not self._put(PODS, event):
            return
        for policy in self._world.store.policies():
            if self._runner.busy(name_of(policy)) and self._concerns(policy, body):
                self._runner.wake(name_of(policy))

    def _concerns(self, policy: Body, pod: Body) -> bool:
        kind, name = target_of(policy)
        target = self._world.store.target(kind, name) if kind in KINDS else None
        own = target is not None and target.namespace == pod["metadata"]["namespace"]
        return own and target is not None and target.selects(pod["metadata"].get("labels") or {})

    def _put(self, resource: str, event: Event) -> bool:
        listed = event["type"] is None
        return self._world.store.put(resource, kept(resource, event["object"]), monotonic(), listed=listed)

    async def _deleted(self, body: Body) -> None:
        """A policy is gone: its target stays as it is, but for a roll-out that nobody will end."""
        name = name_of(body)
        last = self._world.store.policy(name) or body
        await self._runner.forget(name)
        last = self._world.store.policy(name) or last
        rollout = recall(read_status(last).memory).rollout
        if rollout is not None and rollout.kind is not Kind.RETREAT and self._runner.started:
            await self._give_up(last, rollout)
        self._world.store.drop(POLICIES, body)
        self._world.slots.note(name, under_way=False)
        self._world.telling.forget(body)

    async def _give_up(self, body: Body, rollout: Rollout) -> None:
        """Nobody comes after the last try but `put_right`, which sees no more than what is held."""
        for delay in (*RETRY_SECONDS, None):
            try:
                await give_up(body, rollout, self._world, "the policy was deleted")
            except ApiError as error:
                LOG.warning("the roll-out of a deleted policy is not taken back yet: %s", error)
                if delay is not None:
                    await asyncio.sleep(delay)
            else:
                return

    async def sweep(self) -> None:
        """Now and then: drop what a new list has left out, and let go of what nobody rolls out."""
        for resource, body in self._world.store.left_out(monotonic()):
            if resource == POLICIES:
                await self._deleted(body)
        if self._runner.started:
            await put_right(self._world)


def kept(resource: str, body: Body) -> Body:
    """What the store keeps of an object: of pods what is looked at, for there are many."""
    found = _parts(body, KEPT)
    if resource != PODS:
        return found
    pod = {part: _parts(found.get(part) or {}, names) for part, names in KEPT_OF_PODS.items()}
    pod["spec"]["containers"] = [_parts(one, KEPT_OF_CONTAINERS) for one in pod["spec"].get("containers") or ()]
    return pod


def _parts(body: Body, names: Iterable[str]) -> dict[str, Any]:
    return {name: body[name] for name in names if name in body}


def _asks(policy: Body) -> Any:
    """What people and alerts ask for: the rest of the status, which is ours, wakes nobody."""
    alerts = (policy.get("status") or {}).get("alerts")
    return _generation(policy), policy["metadata"].get("annotations"), alerts


def _generation(body: Body) -> Any:
    return body["metadata"].get("generation")
