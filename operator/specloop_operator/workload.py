"""Targets: what is read of a Deployment or StatefulSet, and what is applied to it for each step of a roll-out.

Everything is applied server-side with one field manager and the resourceVersion that was read.  What is left out of an
application is given up, so that to stop holding is to say no more that it is held.  `replicas` is never written.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from specloop_operator.pods import Pod
from specloop_policy.canary import PodView, Rollout, View

MANAGER = "specloop"
"""The field manager of everything that the operator writes to a workload."""

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """A workload as it was last seen."""

    kind: "Kind"
    body: Body

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return str(self.body["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.body["metadata"]["name"])

    @property
    def uid(self) -> str:
        """What tells it from one of the same name before it."""
        return str(self.body["metadata"]["uid"])

    @property
    def resource_version(self) -> str:
        """What a write must still find."""
        return str(self.body["metadata"]["resourceVersion"])

    @property
    def template(self) -> Body:
        """Its pod template."""
        template: Body = self.body["spec"]["template"]
        return template

    @property
    def replicas(self) -> int:
        """How many pods it is to have."""
        found = self.body["spec"].get("replicas")
        return 1 if found is None else int(found)

    @property
    def settled(self) -> bool:
        """Whether its controller has seen the latest template."""
        seen = (self.body.get("status") or {}).get("observedGeneration") or 0
        return int(seen) >= int(self.body["metadata"].get("generation") or 0)

    @property
    def updated(self) -> int:
        """How many pods its controller has made from the latest template."""
        return int((self.body.get("status") or {}).get("updatedReplicas") or 0)

    @property
    def held_by_us(self) -> bool:
        """Whether we hold its roll-out; the partition of a single pod is 0 and holds nothing, but is ours."""
        return any(_at(fields, self.kind.hold_path) is not None for fields in self._fields)

    def ours(self, template: Body) -> dict[str, Any]:
        """What a template says in the fields of this one's that are ours; what it does not say is left out.

        To apply this of the template as it is keeps what is ours, and takes nothing that others have written since; of
        an older template it is the way back, whatever the command is.
        """
        found: dict[str, Any] = {}
        for fields in self._fields:
            found |= _part(template, _at(fields, ("f:spec", "f:template")) or {})
        return found

    @property
    def _fields(self) -> list[Mapping[str, Any]]:
        managed = self.body["metadata"].get("managedFields") or ()
        return [entry.get("fieldsV1") or {} for entry in managed if entry.get("manager") == MANAGER]

    @property
    def held_by_others(self) -> bool:
        """Whether somebody else does."""
        return self.kind.holds(self.body) and not self.held_by_us

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels that all its pods have."""
        return (self.body["spec"].get("selector") or {}).get("matchLabels") or {}

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels is one of its."""
        expressions = (self.body["spec"].get("selector") or {}).get("matchExpressions") or ()
        return self.labels.items() <= labels.items() and all(_meets(one, labels) for one in expressions)

    def view(self, level: str | None, rest: str, pods: "tuple[Pod, ...]", rollout: Rollout) -> View:
        """The workload as a roll-out's planner sees it; `level` is the template's.

        A pod is new when it was started at the level that is rolled out.
        """
        staying = [pod for pod in pods if not pod.leaving]
        views = tuple(
            PodView(pod.name, pod.is_new(rollout), pod.ready_since, pod.broken, pod.pending) for pod in staying
        )
        made = level != rollout.level or sum(pod.new for pod in views) >= self.updated
        return View(level, rest, self.held_by_us, self.settled and made, self.replicas, views, self.kind.ordered)

    def application(self, template: Body, *, hold: bool = False) -> dict[str, Any]:
        """What to apply: part of a template, held or not."""
        return {
            "apiVersion": "apps/v1",
            "kind": self.kind.name,
            "metadata": {"name": self.name, "namespace": self.namespace, "resourceVersion": self.resource_version},
            "spec": {"template": template, **(self.kind.hold(self.replicas) if hold else {})},
        }


class Kind(Protocol):
    """What differs between kinds of workload."""

    name: str
    plural: str
    hold_path: tuple[str, ...]
    """Where our managed fields say that we hold it."""
    ordered: bool
    """Whether a broken pod keeps its controller from going on."""
    holds_first: bool
    """Whether it is held in the same write that changes its template, or only once its first pods are made."""

    def holds(self, body: Body) -> bool:
        """Whether its roll-out is held, by whomever."""

    def hold(self, replicas: int) -> dict[str, Any]:
        """The part of a spec that holds all pods but the canary."""

    def refusal(self, body: Body) -> str | None:
        """Why it cannot be rolled out pod by pod, in words; None when it can."""


class DeploymentKind:
    """A Deployment: its first wave is made, and then it is paused."""

    name = "Deployment"
    plural = "deployments"
    hold_path: tuple[str, ...] = ("f:spec", "f:paused")
    ordered = False
    holds_first = False  # a paused Deployment makes no pods at all

    def holds(self, body: Body) -> bool:
        """Whether it is paused."""
        return bool(body["spec"].get("paused"))

    def hold(self, replicas: int) -> dict[str, Any]:
        """Pause it."""
        return {"paused": True}

    def refusal(self, body: Body) -> str | None:
        """None: every strategy has a first wave, if only one of all pods."""
        return None


class StatefulSetKind:
    """A StatefulSet: the partition leaves all pods but the last one alone."""

    name = "StatefulSet"
    plural = "statefulsets"
    hold_path: tuple[str, ...] = ("f:spec", "f:updateStrategy", "f:rollingUpdate", "f:partition")
    ordered = True
    holds_first = True

    def holds(self, body: Body) -> bool:
        """Whether there is a partition."""
        return bool(((body["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}).get("partition"))

    def hold(self, replicas: int) -> dict[str, Any]:
        """Leave all but the last pod alone; a single one has nothing to be held."""
        return {"updateStrategy": {"rollingUpdate": {"partition": max(0, replicas - 1)}}}

    def refusal(self, body: Body) -> str | None:
        """Its pods must be replaced by its controller."""
        if (body["spec"].get("updateStrategy") or {}).get("type") == "OnDelete":
            return "its updateStrategy is OnDelete, which rolls nothing out: set RollingUpdate"
        return None


KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (DeploymentKind(), StatefulSetKind())}
"""The kinds of target, by name; all in the group apps."""


def _at(fields: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, Any] | None:
    """Managed fields under a path; None where it is not among them."""
    for part in path:
        if part not in fields:
            return None
        fields = fields[part]
    return fields


def _part(whole: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an object that managed fields name: `f:` a member, `k:` the items of a list with these keys."""
    found: dict[str, Any] = {}
    for name, inner in fields.items():
        value = whole.get(name[2:])
        if not name.startswith("f:") or value is None:
            continue
        if isinstance(value, Mapping) and inner:
            part = _part(value, inner)
            found |= {name[2:]: part} if part else {}
        elif isinstance(value, list) and inner:
            found[name[2:]] = [_item(one, of) for key, of in inner.items() for one in value if _is_item(one, key)]
        else:
            found[name[2:]] = value
    return found


def _item(container: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a container; a list of ours that is not there was emptied, and to leave it out would give it up."""
    emptied: dict[str, Any] = {name: [] for name in ("command", "args") if f"f:{name}" in fields}
    return emptied | _part(container, fields)


def _is_item(one: Any, key: str) -> bool:
    """Whether an item of a list is the one with this key, such as `k:{"name":"vllm"}`."""
    return key.startswith("k:") and bool(json.loads(key[2:]).items() <= one.items())


def _meets(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = requirement["key"], requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels
