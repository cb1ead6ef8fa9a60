"""What is kept of a pod: ready, broken, pending, on its way out, and where it answers."""

from datetime import UTC, datetime
from typing import Any

import pytest

from specloop_operator.binding import bind
from specloop_operator.pods import Pod, read_pod
from specloop_policy.engine import Engine
from tests.unit.operator_binding.templates import TARGET, Object, container, template

BEGAN, READY = "2026-11-30T12:00:00Z", "2026-11-30T12:00:30Z"
RUNNING: Object = {"running": {"startedAt": BEGAN}}


def seconds(time: str) -> float:
    """A time as Kubernetes writes it, in seconds since the epoch."""
    return datetime.strptime(time, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()


def engine(state: Object, restarts: int = 0, last: Object | None = None, *, ready: bool = False) -> Object:
    """The status of the engine's container."""
    own = {"name": "vllm", "state": state, "restartCount": restarts, "ready": ready}
    return {**own, "lastState": {"terminated": last} if last is not None else {}}


def condition(type_: str, status: str, **other: Any) -> Object:
    """A condition of a pod."""
    return {"type": type_, "status": status, "lastTransitionTime": READY, **other}


def pod(*containers: Object, conditions: tuple[Object, ...] = (), deleted: bool = False, **status: Any) -> Pod:
    """A pod with these statuses of its containers, as it is read."""
    body = template(container(args=[TARGET]))
    body["metadata"] |= {"name": "llama-1", **({"deletionTimestamp": BEGAN} if deleted else {})}
    body["status"] = {"conditions": list(conditions), "containerStatuses": list(containers), **status}
    return read_pod(body, bind(body), "k5")


def test_a_pod_that_serves_is_read_with_its_times() -> None:
    """Ready since the condition says so, started when its container last did."""
    found = pod(
        {"name": "sidecar", "restartCount": 9, "state": {}},
        engine(RUNNING, restarts=1, ready=True),
        conditions=(condition("PodScheduled", "True"), condition("Ready", "True")),
        podIP="10.0.0.7",
        phase="Running",
    )
    began, ready = seconds(BEGAN), seconds(READY)
    setting = found.setting
    assert found == Pod("llama-1", "k5", "10.0.0.7", 8000, ready, began, restarts=1, setting=setting)
    assert setting
    assert ready - began == 30.0


def test_a_pod_of_which_nothing_is_known_yet_is_not_ready() -> None:
    """It was created this moment."""
    assert pod() == Pod("llama-1", "k5", setting=pod().setting)


def test_a_pod_that_cannot_be_scheduled_is_pending_in_the_schedulers_words() -> None:
    """Until it is scheduled."""
    words = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    waiting = condition("PodScheduled", "False", reason="Unschedulable", message=words)
    assert pod(conditions=(waiting,), phase="Pending").pending == words
    assert pod(conditions=(condition("PodScheduled", "True"),)).pending == ""


@pytest.mark.parametrize(("phase", "leaving"), [("Running", False), ("Failed", True), ("Succeeded", True)])
def test_a_pod_leaves_when_it_is_deleted_or_has_ended(phase: str, leaving: bool) -> None:
    """An evicted pod stays to be seen for a while, and serves nobody."""
    assert pod(phase=phase).leaving is leaving
    assert pod(phase=phase, deleted=True).leaving


ENDED: Object = {"exitCode": 1, "message": "loading\nValueError: no such model\n"}
BACK_OFF: Object = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}


@pytest.mark.parametrize(
    ("status", "broken"),
    [
        # A kubelet counts a restart when it happens.
        (engine(RUNNING, 1, ENDED), ""),
        (engine(BACK_OFF, 0, ENDED), ""),
        (engine(BACK_OFF, 1, ENDED), "its container ended 2 times (exit code 1): loading ValueError: no such model"),
        (engine(RUNNING, 2, ENDED), "its container ended 2 times (exit code 1): loading ValueError: no such model"),
        (engine(RUNNING, 2, {"exitCode": 137}), "its container ended 2 times (exit code 137)"),
        (engine(RUNNING, 2), "its container ended 2 times (no exit code is known)"),
        (engine(RUNNING, 2, ENDED, ready=True), ""),
        (engine({"terminated": ENDED}, 0), ""),
        (
            engine({"terminated": ENDED}, 1, {"exitCode": 3}),
            "its container ended 2 times (exit code 1): loading ValueError: no such model",
        ),
        (
            engine({"waiting": {"reason": "CreateContainerConfigError", "message": 'configmap "x" not found'}}),
            'CreateContainerConfigError: configmap "x" not found',
        ),
        # An image is pulled again and again, and may come yet: the deadline decides.
        (engine({"waiting": {"reason": "ImagePullBackOff", "message": "back-off"}}), ""),
    ],
)
def test_a_pod_is_broken_once_its_container_has_ended_twice(status: Object, broken: str) -> None:
    """Once may be chance, and one that is ready again is not broken."""
    assert pod(status).broken == broken


def test_of_a_long_message_the_end_is_kept() -> None:
    """There stands the error; 300 characters of it read well in a condition."""
    told = pod(engine(RUNNING, 2, {"exitCode": 1, "message": "x" * 5000 + " the end"})).broken
    words = told.partition(": ")[2]
    assert words.startswith("… x")
    assert words.endswith("x the end")
    assert len(words) == 302


@pytest.mark.parametrize(
    ("one", "port"),
    [
        (container(args=[TARGET, "--port", "9000"]), 9000),
        (container(args=[TARGET, "--port=9001"]), 9001),
        (container(args=[TARGET], ports=[{"containerPort": 7000}, {"containerPort": 7001}]), 7000),
        (container(args=[TARGET, "--port", "$(PORT)"], ports=[{"containerPort": 7000}]), 7000),
        (container(args=[TARGET, "--port", "$(PORT)"], env=[{"name": "PORT", "value": "9002"}]), 9002),
        (container(args=[TARGET], ports=None), 8000),
        (container(["llama-server", "-m", "t.gguf"], ports=None), 8080),
    ],
)
def test_an_engine_answers_where_its_command_says_else_where_its_container_says(one: Object, port: int) -> None:
    """Else where such engines do by themselves."""
    body = template(one)
    body["metadata"]["name"] = "llama-1"
    assert read_pod(body, bind(body, engine=Engine.AUTO), None).port == port
