"""What is read of a Deployment or StatefulSet, and what is applied to it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_operator.binding import bind
from specloop_operator.pods import Pod
from specloop_operator.workload import KINDS, MANAGER, Target
from specloop_policy.canary import Kind, PodView, begin
from specloop_policy.ladder import Level
from tests.unit.engine_command_line.levels import LADDER
from tests.unit.operator_binding.templates import (
    ANNOTATION,
    EXPORTER,
    TEMPLATES,
    Object,
    annotated,
    applied,
    container,
    drafts,
    template,
)

ROLLOUT = begin("k3", "k5", Kind.RULE, "key", "rest", 0.0)
PAUSED: Object = {"f:spec": {"f:paused": {}}}
PARTITION: Object = {"f:spec": {"f:updateStrategy": {"f:rollingUpdate": {"f:partition": {}}}}}
TEMPLATE: Object = {"f:spec": {"f:template": {"f:metadata": {}}}}


def owns(manager: str, fields: Object, operation: str = "Apply") -> Object:
    """An entry of managedFields."""
    return {"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsV1": fields}


def target(
    kind: str = "Deployment",
    *,
    spec: Object | None = None,
    status: Object | None = None,
    managed: list[Object] | None = None,
    generation: int = 2,
) -> Target:
    """A workload of three replicas."""
    metadata: Object = {"name": "llama", "namespace": "llm", "uid": "u-1", "resourceVersion": "17"}
    metadata |= {"generation": generation, "managedFields": managed or []}
    labels = {"matchLabels": {"app": "llama"}}
    own = {"replicas": 3, "selector": labels, "template": annotated(drafts(5)), **(spec or {})}
    return Target(KINDS[kind], {"metadata": metadata, "spec": own, "status": status or {}})


def test_replicas_are_one_where_nothing_is_said_and_none_where_it_is_scaled_to_none() -> None:
    """Zero is a number too."""
    assert target(spec={"replicas": None}).replicas == 1
    assert target(spec={"replicas": 0}).replicas == 0


@pytest.mark.parametrize(("observed", "settled"), [({}, False), ({"observedGeneration": 1}, False)])
def test_a_workload_is_settled_once_its_controller_has_seen_its_latest_spec(observed: Object, settled: bool) -> None:
    """Until then its numbers are those of the template before."""
    assert target(status=observed).settled is settled
    assert target(status={"observedGeneration": 2}).settled


HOLDS: list[tuple[str, Object, Object]] = [
    ("Deployment", {"paused": True}, PAUSED),
    ("StatefulSet", {"updateStrategy": {"rollingUpdate": {"partition": 2}}}, PARTITION),
]


@pytest.mark.parametrize(("kind", "spec", "fields"), HOLDS)
def test_who_holds_a_workload_is_who_owns_the_field(kind: str, spec: Object, fields: Object) -> None:
    """What we hold we may let go of; what somebody else holds we leave alone."""
    ours = target(kind, spec=spec, managed=[owns("author", TEMPLATE), owns(MANAGER, fields)])
    assert (ours.held_by_us, ours.held_by_others) == (True, False)
    theirs = target(kind, spec=spec, managed=[owns("kubectl-rollout", fields, "Update"), owns(MANAGER, TEMPLATE)])
    assert (theirs.held_by_us, theirs.held_by_others) == (False, True)
    assert not target(kind).held_by_us
    assert not target(kind).held_by_others


def test_the_partition_of_a_single_pod_holds_nothing_but_is_ours() -> None:
    """It must be let go of all the same."""
    zero = {"replicas": 1, "updateStrategy": {"rollingUpdate": {"partition": 0}}}
    found = target("StatefulSet", spec=zero, managed=[owns(MANAGER, PARTITION)])
    assert (found.held_by_us, found.held_by_others) == (True, False)


@pytest.mark.parametrize(
    ("kind", "hold"),
    [
        ("Deployment", {"paused": True}),
        ("StatefulSet", {"updateStrategy": {"rollingUpdate": {"partition": 2}}}),
    ],
)
def test_an_application_says_the_template_the_hold_and_the_version_that_was_read(kind: str, hold: Object) -> None:
    """So that a write after somebody else's is refused, and what is not said any more is let go of."""
    part = {"metadata": {"annotations": {"a": "b"}}}
    identity = {"name": "llama", "namespace": "llm", "resourceVersion": "17"}
    made = {"apiVersion": "apps/v1", "kind": kind, "metadata": identity, "spec": {"template": part}}
    assert target(kind).application(part) == made
    assert target(kind).application(part, hold=True) == {**made, "spec": {"template": part, **hold}}


OURS: Object = {"f:metadata": {"f:annotations": {"f:specloop.dev/speculative-config": {}}}}
ARGS: Object = {"f:spec": {"f:containers": {'k:{"name":"vllm"}': {".": {}, "f:args": {}, "f:name": {}}}}}


def test_what_is_ours_is_told_by_managed_fields_alone() -> None:
    """To say it again keeps it; what others have written since is not taken back from them."""
    mine, other = owns(MANAGER, {"f:spec": {"f:paused": {}, "f:template": OURS}}), owns("author", TEMPLATE)
    found = target(managed=[other, mine])
    setting = {"metadata": {"annotations": {ANNOTATION: drafts(5)}}}
    assert found.ours(found.template) == setting
    assert found.ours(annotated(drafts(3))) == {"metadata": {"annotations": {ANNOTATION: drafts(3)}}}
    assert found.ours(annotated()) == {}
    assert target(managed=[other]).ours(found.template) == {}
    assert target(managed=[owns(MANAGER, PAUSED)]).ours(found.template) == {}


def test_ours_of_a_list_by_name_is_one_container_and_no_other() -> None:
    """A list that we emptied is in an older template what it was."""
    found = target(managed=[owns(MANAGER, {"f:spec": {"f:template": ARGS}})])
    one = container(["vllm", "serve", "m"], ["--seed=1"], env=[{"name": "A", "value": "b"}])
    assert found.ours(template(EXPORTER, one)) == {"spec": {"containers": [{"name": "vllm", "args": ["--seed=1"]}]}}
    emptied = {"spec": {"containers": [{"name": "vllm", "args": []}]}}
    assert found.ours(template(EXPORTER, container(["vllm"]))) == emptied


@given(TEMPLATES, st.sampled_from(LADDER.levels))
def test_ours_of_the_template_before_is_the_way_back(whole: Object, level: Level) -> None:
    """Whatever the command is, for it need not be read."""
    binding = bind(whole)
    written = binding.patch(level)
    made = applied(whole, written)
    found = target(managed=[owns(MANAGER, {"f:spec": {"f:template": fields_of(written)}})])
    assert found.ours(whole) == binding.restored(binding)
    assert applied(made, found.ours(whole), given_up=written) == whole


def fields_of(part: Any) -> Object:
    """Managed fields of what was applied, as the API server writes them."""
    if isinstance(part, list) and part and isinstance(part[0], dict):
        return {f'k:{{"name":"{one["name"]}"}}': {".": {}, **fields_of(one)} for one in part}
    return {f"f:{name}": fields_of(value) for name, value in part.items()} if isinstance(part, dict) else {}


@given(st.sampled_from(tuple(KINDS)), st.none() | st.integers(0, 1000), st.booleans())
def test_replicas_are_never_written(kind: str, replicas: int | None, hold: bool) -> None:
    """They are an autoscaler's."""
    made = target(kind, spec={"replicas": replicas}).application({"metadata": {}}, hold=hold)
    assert "replicas" not in made["spec"]
    assert set(made["spec"]) <= {"template", "paused", "updateStrategy"}


def test_a_stateful_set_that_is_updated_by_hand_is_no_target() -> None:
    """Nobody would replace its pods."""
    refused = target("StatefulSet", spec={"updateStrategy": {"type": "OnDelete"}})
    assert "OnDelete" in (refused.kind.refusal(refused.body) or "")
    assert KINDS["StatefulSet"].refusal(target("StatefulSet").body) is None
    assert KINDS["Deployment"].refusal(target(spec={"strategy": {"type": "Recreate"}}).body) is None


EXPRESSIONS: list[tuple[Object, dict[str, str], bool]] = [
    ({"operator": "In", "values": ["a", "b"]}, {"app": "llama", "tier": "a"}, True),
    ({"operator": "In", "values": ["a", "b"]}, {"app": "llama"}, False),
    ({"operator": "NotIn", "values": ["a", "b"]}, {"app": "llama"}, True),
    ({"operator": "NotIn", "values": ["a", "b"]}, {"app": "llama", "tier": "b"}, False),
    ({"operator": "Exists"}, {"app": "llama", "tier": ""}, True),
    ({"operator": "Exists"}, {"app": "llama"}, False),
    ({"operator": "DoesNotExist"}, {"app": "llama"}, True),
    ({"operator": "DoesNotExist"}, {"app": "llama", "tier": "a"}, False),
    ({"operator": "Exists"}, {"app": "other", "tier": "a"}, False),
]


@pytest.mark.parametrize(("expression", "labels", "selected"), EXPRESSIONS)
def test_pods_are_selected_as_kubernetes_selects_them(
    expression: Object, labels: dict[str, str], selected: bool
) -> None:
    """Labels and expressions must all hold (Kubernetes: Labels and Selectors)."""
    selector = {"matchLabels": {"app": "llama"}, "matchExpressions": [{"key": "tier", **expression}]}
    assert target(spec={"selector": selector}).selects(labels) is selected


def pod(name: str, level: str | None, **other: Any) -> Pod:
    """A pod as it was last seen."""
    return Pod(name, level, **other)


SEEN: Object = {"observedGeneration": 2, "updatedReplicas": 1}


def test_a_view_has_all_pods_but_those_on_their_way_out() -> None:
    """New are those at the level that is rolled out; what they lack is passed on."""
    pods = (
        pod("old", "k5", ready_since=1.0),
        pod("new", "k3", pending="no GPU", broken="it ends"),
        pod("foreign", None, ready_since=2.0),
        pod("going", "k5", ready_since=1.0, leaving=True),
    )
    managed = [owns(MANAGER, PAUSED)]
    view = target(spec={"paused": True}, status=SEEN, managed=managed).view("k3", "rest", pods, ROLLOUT)
    assert view.pods == (
        PodView("old", False, 1.0),
        PodView("new", True, None, "it ends", "no GPU"),
        PodView("foreign", False, 2.0),
    )
    assert (view.template, view.rest, view.held, view.replicas, view.ordered) == ("k3", "rest", True, 3, False)


def test_a_view_is_not_settled_before_the_new_pods_are_seen() -> None:
    """The watches of workloads and pods are two, and either may be behind."""
    old = tuple(pod(str(one), "k5", ready_since=1.0) for one in range(3))
    assert not target(status=SEEN).view("k3", "", old, ROLLOUT).settled
    assert target(status=SEEN).view("k3", "", (*old, pod("new", "k3")), ROLLOUT).settled
    assert not target(status={**SEEN, "observedGeneration": 1}).view("k3", "", (pod("new", "k3"),), ROLLOUT).settled


def test_on_the_way_back_the_pods_of_the_old_template_are_the_updated_ones() -> None:
    """So nothing is to be seen of them first."""
    old = tuple(pod(str(one), "k5", ready_since=1.0) for one in range(3))
    assert target(status={"observedGeneration": 2, "updatedReplicas": 3}).view("k5", "", old, ROLLOUT).settled
