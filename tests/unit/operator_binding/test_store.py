"""What is watched is kept as it was last seen, whatever the order in which it comes."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_operator.store import LIST_SECONDS, PODS, POLICIES, Store, target_of
from tests.unit.operator_binding.templates import Object


def thing(name: str, version: object = None, *, namespace: str = "llm", uid: str = "u-1", **other: Any) -> Object:
    """An object as the API server says it."""
    metadata = {"name": name, "namespace": namespace, "uid": uid}
    return {"metadata": {**metadata, **({"resourceVersion": version} if version is not None else {})}, **other}


def names(bodies: Sequence[Any]) -> list[str]:
    """Of the objects."""
    return [body["metadata"]["name"] for body in bodies]


def kept(store: Store, name: str = "a", namespace: str = "llm") -> Any:
    """The policy that is kept; there is one resource as any other."""
    return store.policy((namespace, name))


def test_what_is_older_than_what_is_kept_is_ignored() -> None:
    """A write's answer overtakes the watch, which then brings what was before it."""
    store = Store()
    assert store.put(POLICIES, thing("a", "10", spec={"mode": "Enforce"}), 0.0)
    assert not store.put(POLICIES, thing("a", "9", spec={"mode": "Recommend"}), 1.0)
    assert kept(store)["spec"] == {"mode": "Enforce"}
    assert store.put(POLICIES, thing("a", "11", spec={}), 2.0)
    assert kept(store)["spec"] == {}


@given(st.lists(st.integers(1, 10**20), min_size=1))
def test_in_whatever_order_versions_come_the_latest_is_kept(versions: list[int]) -> None:
    """They are compared as numbers, of any length (KEP-5504)."""
    store = Store()
    for version in versions:
        store.put(POLICIES, thing("a", str(version)), 0.0)
    assert kept(store)["metadata"]["resourceVersion"] == str(max(versions))


def test_an_object_of_another_life_is_never_older() -> None:
    """It was deleted and made anew, perhaps on a restored etcd."""
    store = Store()
    store.put(POLICIES, thing("a", "10", uid="first"), 0.0)
    assert store.put(POLICIES, thing("a", "9", uid="second"), 1.0)
    assert kept(store)["metadata"]["uid"] == "second"


def test_a_deletion_of_an_earlier_life_deletes_nothing() -> None:
    """A watch may bring it late."""
    store = Store()
    store.put(POLICIES, thing("a", "10", uid="second"), 0.0)
    store.drop(POLICIES, thing("a", "9", uid="first"))
    assert kept(store) is not None
    store.drop(POLICIES, thing("a", "11", uid="second"))
    assert kept(store) is None
    store.drop(POLICIES, thing("a", "11", uid="second"))


def test_what_a_new_list_leaves_out_is_dropped_once_the_list_has_ended() -> None:
    """What was deleted while no watch ran is in no event."""
    store = Store()
    for name in ("a", "b", "c"):
        store.put(POLICIES, thing(name, "1"), 0.0, listed=True)
    assert store.left_out(LIST_SECONDS) == []
    again = 100.0
    store.put(POLICIES, thing("a", "1"), again, listed=True)
    store.put(POLICIES, thing("d", "5"), again + 1.0)
    store.put(POLICIES, thing("b", "1"), again + 2.0, listed=True)
    assert store.left_out(again + 2.0 + LIST_SECONDS - 0.1) == []
    dropped = store.left_out(again + 2.0 + LIST_SECONDS)
    assert [(resource, body["metadata"]["name"]) for resource, body in dropped] == [(POLICIES, "c")]
    assert sorted(names(list(store.policies()))) == ["a", "b", "d"]
    assert store.left_out(1000.0) == []


def test_a_clock_that_is_set_back_in_the_middle_of_a_list_drops_nothing() -> None:
    """What counts is the order in which objects were seen."""
    store = Store()
    store.put(POLICIES, thing("a", "1"), 1000.0, listed=True)
    store.put(POLICIES, thing("b", "2"), 940.0, listed=True)
    assert store.left_out(940.0 + LIST_SECONDS) == []


def test_a_list_of_one_resource_or_namespace_says_nothing_of_another() -> None:
    """Each namespace has a watch of its own where only some are watched."""
    store = Store(per_namespace=True)
    store.put(POLICIES, thing("a", "1", namespace="one"), 0.0)
    store.put(POLICIES, thing("b", "1", namespace="two"), 0.0)
    store.put(PODS, thing("p", "1", namespace="one"), 0.0)
    store.put(POLICIES, thing("c", "1", namespace="one"), 100.0, listed=True)
    dropped = store.left_out(200.0)
    assert [(resource, body["metadata"]["name"]) for resource, body in dropped] == [(POLICIES, "a")]
    assert sorted(names(list(store.policies()))) == ["b", "c"]


def test_an_old_object_that_a_list_names_is_there_all_the_same() -> None:
    """A list from a cache may be behind what a write's answer brought."""
    store = Store()
    store.put(POLICIES, thing("a", "10"), 0.0)
    assert not store.put(POLICIES, thing("a", "9"), 100.0, listed=True)
    assert store.left_out(200.0) == []
    assert kept(store)["metadata"]["resourceVersion"] == "10"


def workload(name: str, *, namespace: str = "llm") -> Object:
    """A Deployment whose pods are labelled with its name."""
    spec = {"selector": {"matchLabels": {"app": name}}, "template": {}}
    return thing(name, "1", namespace=namespace, spec=spec)


def test_pods_of_a_target_are_those_of_its_namespace_that_it_selects() -> None:
    """By name, so that they come in the same order at every look."""
    store = Store()
    store.put("deployments", workload("llama"), 0.0)
    for name, app, namespace in (
        ("b", "llama", "llm"),
        ("a", "llama", "llm"),
        ("c", "other", "llm"),
        ("d", "llama", "x"),
    ):
        body = thing(name, "1", namespace=namespace)
        body["metadata"]["labels"] = {"app": app}
        store.put(PODS, body, 0.0)
    target = store.target("Deployment", ("llm", "llama"))
    assert target is not None
    assert names(store.pods_of(target)) == ["a", "b"]
    assert store.target("StatefulSet", ("llm", "llama")) is None
    assert [one.name for one in store.targets()] == ["llama"]


def policy(name: str, created: str, target: str = "llama", kind: str = "Deployment") -> Object:
    """A policy for a target."""
    body = thing(name, "1", spec={"targetRef": {"kind": kind, "name": target}})
    body["metadata"]["creationTimestamp"] = created
    return body


def test_of_several_policies_for_a_target_the_oldest_comes_first() -> None:
    """Those made in the same second go by name."""
    store = Store()
    late, early = "2026-11-30T12:00:01Z", "2026-11-30T12:00:00Z"
    for one in (policy("a", late), policy("c", early), policy("b", early), policy("d", early, "other")):
        store.put(POLICIES, one, 0.0)
    store.put(POLICIES, policy("e", early, kind="StatefulSet"), 0.0)
    assert names(store.governing("Deployment", ("llm", "llama"))) == ["b", "c", "a"]
    assert names(store.governing("Deployment", ("other", "llama"))) == []


@pytest.mark.parametrize("spec", [{}, {"targetRef": None}, None])
def test_a_policy_without_a_target_has_none(spec: Any) -> None:
    """The API server refuses it, but an object may be older than that."""
    kind, name = target_of(thing("a", "1", spec=spec))
    assert (kind, name) == ("None", ("llm", "None"))
