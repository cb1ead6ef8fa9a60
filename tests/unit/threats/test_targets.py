"""Whose workload a policy can aim at: one of its own namespace that no older policy governs."""

import pytest

from specloop_operator.conditions import ConditionReason
from specloop_operator.sight import Blind, see
from specloop_operator.store import POLICIES
from tests.unit.operator_turn.scenes import NOW, Body, Scene, moment


def other(namespace: str = "llm", **ref: str) -> Body:
    """Another policy, made a second ago, for the same target unless its reference says otherwise."""
    body = Scene().policy()
    body["metadata"] |= {"name": "other", "namespace": namespace, "uid": "o", "creationTimestamp": moment(NOW - 1.0)}
    body["spec"]["targetRef"] |= ref
    return body


def refusal(body: Body) -> ConditionReason:
    """Why a policy beside the scene's own can govern nothing."""
    objects = Scene().objects()
    objects.put(POLICIES, body, NOW)
    with pytest.raises(Blind) as caught:
        see(body, objects, None)
    return caught.value.reason


def test_a_target_that_an_older_policy_governs_is_not_taken_over() -> None:
    """By its creation, which the API server writes."""
    assert refusal(other()) is ConditionReason.OLDER_POLICY


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("llama", ConditionReason.TARGET_NOT_FOUND),
        *[(one, ConditionReason.INVALID_SPEC) for one in ("llm/llama", "../llm/deployments/llama", "/llm/llama", "..")],
    ],
)
def test_a_target_of_another_namespace_is_not_there(name: str, reason: ConditionReason) -> None:
    """However it is spelt: there is no field for a namespace, and a name is nothing but one."""
    assert refusal(other("theirs", name=name)) is reason


@pytest.mark.parametrize(
    "ref", [{"kind": "DaemonSet"}, {"kind": "Pod"}, {"apiVersion": "batch/v1"}, {"kind": "__class__"}]
)
def test_a_target_of_another_kind_is_refused(ref: dict[str, str]) -> None:
    """Which would be patched by rights for another resource, or by none."""
    assert refusal(other(**ref)) is ConditionReason.UNSUPPORTED_KIND
