"""Looks at a policy one after the other: what they write, count and show, on objects as the API server says them."""

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from specloop_operator.announcer import Announcer
from specloop_operator.governor import Governor, World
from specloop_operator.live import LiveActuator
from specloop_operator.metrics import Metrics
from specloop_operator.remembered import store
from specloop_operator.slots import Slots
from specloop_operator.sources import Collected, PodAddress
from specloop_operator.store import POLICIES
from specloop_operator.telling import Telling
from tests.support.alerts import FakeCluster, Posted
from tests.unit.operator_turn.scenes import LOOK_SECONDS, NOW, Body, Scene

CHAT = ("llm", "chat")


class Silence:
    """A metric source that answers, and has nothing."""

    async def collect(self, reader: str, pods: Sequence[PodAddress], now: float, interval_seconds: float) -> Collected:
        """No sample."""
        return Collected((), now)

    def turns(self, interval_seconds: int) -> int:
        """All at once."""
        return 1


class Governed:
    """A scene's policy under an operator: its status is kept by an API server that is a dictionary."""

    def __init__(self, scene: Scene, **status: Any) -> None:
        self.scene = scene
        self.store = scene.objects()
        body = copy.deepcopy({**scene.policy(), "status": status})
        body["metadata"]["resourceVersion"] = "1"
        self.cluster = FakeCluster({CHAT: body})
        self.metrics = Metrics("1.2.3")
        telling = Telling(self.metrics, Announcer(Posted()))
        live = LiveActuator(httpx.AsyncClient(), self)
        self.now = NOW
        world = World(self.store, self.cluster, {"default": Silence()}, Slots(1), telling, live, lambda: self.now)
        self.governor = Governor(CHAT, world)
        self.store.put(POLICIES, copy.deepcopy(body), self.now)

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """Nobody asks for one here."""
        raise AssertionError("no token is needed")

    async def look(self) -> Body:
        """The status after one more look."""
        self.now += LOOK_SECONDS
        await self.governor.tick()
        found: Body = self.cluster.policies[CHAT]["status"]
        return found

    def counted(self, name: str, **labels: str) -> float | None:
        """A series of the policy."""
        return self.metrics.registry.get_sample_value(name, {"namespace": "llm", "policy": "chat", **labels})


def said(status: Body, type_: str) -> tuple[str, str]:
    """Status and reason of a condition."""
    (found,) = [one for one in status["conditions"] if one["type"] == type_]
    return found["status"], found["reason"]


async def test_what_is_recommended_at_every_look_is_counted_and_taken_down_once() -> None:
    """A counter that grows at every look would mark the dashboard all day for a change that nobody makes."""
    scene = Scene({"mode": "Recommend"})
    scene.override("k3")
    chat = Governed(scene)
    for _ in range(5):
        status = await chat.look()
    assert [one["action"] for one in status["decisions"]] == ["SwitchTo"]
    assert chat.counted("specloop_decisions_total", action="SwitchTo") == 1.0


async def test_every_look_that_holds_is_counted() -> None:
    chat = Governed(Scene())
    for _ in range(3):
        await chat.look()
    assert chat.counted("specloop_decisions_total", action="Hold") == 3.0


async def test_nothing_is_shown_of_a_target_that_is_gone_but_how_its_roll_out_ended() -> None:
    """A gauge that stands for what was once seen fires alerts about a roll-out that nobody makes."""
    scene = Scene().soaking()
    memory = json.loads(store(scene.remembered).model_dump_json(by_alias=True, exclude_none=True))
    chat = Governed(scene, memory=memory)
    await chat.look()
    gauges = [
        ("specloop_level_info", {"kind": "observed", "level": "k5"}),
        ("specloop_level_info", {"kind": "desired", "level": "k3"}),
        ("specloop_rollout_started_timestamp_seconds", {}),
    ]
    assert None not in [chat.counted(name, **labels) for name, labels in gauges]
    chat.store.drop("deployments", scene.target())
    status = await chat.look()
    assert said(status, "TargetResolved") == ("False", "TargetNotFound")
    assert [chat.counted(name, **labels) for name, labels in gauges] == [None] * 3
    await chat.look()
    assert chat.counted("specloop_rollouts_total", result="Cancelled") == 1.0


async def test_a_target_without_pods_has_nobody_to_hear_and_is_governed() -> None:
    """Scaled to none for the night is no fault of the metrics; pods that are not heard from are."""
    scene = Scene(replicas=0)
    scene.pods = []
    status = await Governed(scene).look()
    assert said(status, "MetricsAvailable") == ("Unknown", "NoPods")
    assert said(status, "Ready") == ("True", "Governing")
    status = await Governed(Scene()).look()
    assert said(status, "MetricsAvailable") == ("False", "NotHeard")
    assert said(status, "Ready") == ("False", "NotReady")
