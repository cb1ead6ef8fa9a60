"""Everything that is watched, as it was last seen: a tick reads here and asks the API server for nothing.

A watch that breaks is begun anew with a list, and what was deleted meanwhile is in no event.  So an object that a new
list leaves out is dropped once that list has come to its end.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from specloop_operator.workload import KINDS, Target

Body = Mapping[str, Any]
Name = tuple[str, str]
"""Namespace and name."""

LIST_SECONDS = 10.0
"""A list is over when no object of it came for so long: they come in one answer, a thousand in a second or two."""

POLICIES, PODS = "specpolicies", "pods"


@dataclass(slots=True)
class _Kept:
    body: Body
    seen: int
    """Which look at any object it was last seen with: counted, for a clock may be set."""


@dataclass(slots=True)
class _List:
    """A list under way, of one resource in one namespace."""

    began: int
    last: float


@dataclass(slots=True)
class Store:
    """Objects by resource, namespace and name; `per_namespace`: every namespace has a watch of its own."""

    per_namespace: bool = False
    kinds: tuple[str, ...] = tuple(KINDS)
    """Kinds of workload that are watched."""
    _objects: dict[str, dict[Name, _Kept]] = field(default_factory=lambda: defaultdict(dict))
    _found_by: dict[Hashable, set[Name]] = field(default_factory=lambda: defaultdict(set))
    """Policies by their target and pods by each of their labels, so that no tick goes through all of them."""
    _lists: dict[tuple[str, str], _List] = field(default_factory=dict)
    _looks: int = 0

    def put(self, resource: str, body: Body, now: float, *, listed: bool = False) -> bool:
        """Keep an object as it is now; False where it is older than what is kept already."""
        self._looks += 1
        metadata = body["metadata"]
        namespace, name = str(metadata["namespace"]), str(metadata["name"])
        if listed:
            scope = namespace if self.per_namespace else ""
            self._lists.setdefault((resource, scope), _List(self._looks, now)).last = now
        kept = self._objects[resource].get((namespace, name))
        if kept is not None:
            kept.seen = self._looks
            if _is_older(body, kept.body):
                return False
            self._remove(resource, (namespace, name))
        self._objects[resource][namespace, name] = _Kept(body, self._looks)
        for key in _keys(resource, body):
            self._found_by[key].add((namespace, name))
        return True

    def drop(self, resource: str, body: Body) -> None:
        """An object is gone, unless another one of its name has come meanwhile."""
        name = (str(body["metadata"]["namespace"]), str(body["metadata"]["name"]))
        kept = self._objects[resource].get(name)
        if kept is not None and kept.body["metadata"].get("uid") == body["metadata"].get("uid"):
            self._remove(resource, name)

    def left_out(self, now: float) -> list[tuple[str, Body]]:
        """Drop what lists that have come to their end left out; the objects dropped."""
        dropped = []
        for (resource, scope), found in list(self._lists.items()):
            if now - found.last < LIST_SECONDS:
                continue
            del self._lists[resource, scope]
            for name, kept in list(self._objects[resource].items()):
                if scope in ("", name[0]) and kept.seen < found.began:
                    self._remove(resource, name)
                    dropped.append((resource, kept.body))
        return dropped

    def policies(self) -> Iterator[Body]:
        """All policies."""
        return (kept.body for kept in tuple(self._objects[POLICIES].values()))

    def policy(self, name: Name) -> Body | None:
        """A policy by namespace and name."""
        kept = self._objects[POLICIES].get(name)
        return None if kept is None else kept.body

    def target(self, kind: str, name: Name) -> Target | None:
        """A workload by kind, namespace and name."""
        kept = self._objects[KINDS[kind].plural].get(name)
        return None if kept is None else Target(KINDS[kind], kept.body)

    def targets(self) -> Iterator[Target]:
        """All workloads."""
        for kind in KINDS.values():
            yield from (Target(kind, kept.body) for kept in tuple(self._objects[kind.plural].values()))

    def pods_of(self, target: Target) -> list[Body]:
        """The pods of a workload, by name."""
        keys = [(target.namespace,), *((target.namespace, *label) for label in target.labels.items())]
        fewest = min((self._found_by.get(key, set()) for key in keys), key=len)
        pods = [self._objects[PODS][name].body for name in sorted(fewest)]
        return [pod for pod in pods if target.selects(pod["metadata"].get("labels") or {})]

    def governing(self, kind: str, name: Name) -> list[Body]:
        """The policies that name a workload as their target, the oldest first."""
        found = self._found_by.get((kind, name), set())
        return sorted([self._objects[POLICIES][policy].body for policy in found], key=_age)

    def _remove(self, resource: str, name: Name) -> None:
        for key in _keys(resource, self._objects[resource].pop(name).body):
            self._found_by[key].remove(name)
            if not self._found_by[key]:
                del self._found_by[key]


def name_of(body: Body) -> Name:
    """Namespace and name of an object."""
    return str(body["metadata"]["namespace"]), str(body["metadata"]["name"])


def target_of(policy: Body) -> tuple[str, Name]:
    """Kind, namespace and name of a policy's target."""
    ref = (policy.get("spec") or {}).get("targetRef") or {}
    return str(ref.get("kind")), (str(policy["metadata"]["namespace"]), str(ref.get("name")))


def _keys(resource: str, body: Body) -> Iterator[Hashable]:
    """What an object is found by."""
    if resource == POLICIES:
        yield target_of(body)
    elif resource == PODS:
        namespace = str(body["metadata"]["namespace"])
        yield (namespace,)
        yield from ((namespace, *label) for label in (body["metadata"].get("labels") or {}).items())


def _age(body: Body) -> tuple[str, str]:
    return str(body["metadata"].get("creationTimestamp")), str(body["metadata"]["name"])


def _is_older(body: Body, kept: Body) -> bool:
    """Whether an object of the same life was seen newer; resource versions grow (KEP-5504)."""
    one, other = body["metadata"], kept["metadata"]
    if one.get("uid") != other.get("uid"):
        return False
    versions = [str(each.get("resourceVersion") or "") for each in (one, other)]
    return all(version.isdecimal() for version in versions) and int(versions[0]) < int(versions[1])
