"""Looks at a policy one after the other: what they write, count and show, on objects as the API server says them."""

import contextlib
import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx

from specloop_operator.announcer import Announcer
from specloop_operator.cluster import ApiError, Conflict, Forbidden
from specloop_operator.governor import Governor, World
from specloop_operator.live import LiveActuator
from specloop_operator.metrics import Metrics
from specloop_operator.remembered import read_status, store
from specloop_operator.slots import Slots
from specloop_operator.sources import Collected, PodAddress
from specloop_operator.store import PODS, POLICIES, Store
from specloop_operator.telling import Telling
from specloop_operator.workload import Target
from specloop_policy.annotations import OVERRIDE, SUSPEND
from specloop_policy.canary import Kind
from specloop_policy.status import to_memory
from specloop_policy.step import fresh
from tests.support.alerts import FakeCluster, Posted
from tests.support.policies import LEVELS
from tests.unit.operator_turn.scenes import ANNOTATION, LOOK_SECONDS, NOW, SETTINGS, WRONG, Body, PodOf, Scene

CHAT = ("llm", "chat")
PROGRESS = "Progressing"


class Silence:
    """A metric source that answers, and has nothing."""

    async def collect(self, reader: str, pods: Sequence[PodAddress], now: float, interval_seconds: float) -> Collected:
        """No sample."""
        return Collected((), now)

    def turns(self, interval_seconds: int) -> int:
        """All at once."""
        return 1


class Api(FakeCluster):
    """An API server that keeps the workload too, with the templates that it had before, the latest first."""

    def __init__(self, scene: Scene, store: Store, policy: Body) -> None:
        super().__init__({CHAT: policy})
        self.scene, self.store = scene, store
        self.refusal: ApiError | None = None
        self.reverts = False
        """Whether a controller puts its own template back before anybody looks."""
        self.knows_not = ""
        """A field of the status that the definition does not have."""
        self.before: list[Body] = []
        self.writes_of_workload = 0

    async def apply(self, target: Target, application: Mapping[str, Any]) -> Mapping[str, Any]:
        """Write the annotation, and hold or let go."""
        self.writes_of_workload += 1
        if self.refusal is not None:
            raise self.refusal
        body = copy.deepcopy(dict(target.body))
        self.before.insert(0, copy.deepcopy(body["spec"]["template"]))
        spec = application["spec"]
        body["spec"]["template"]["metadata"]["annotations"] |= spec["template"]["metadata"]["annotations"]
        body["spec"].pop("paused", None)
        fields: Body = {"f:template": {"f:metadata": {"f:annotations": {f"f:{ANNOTATION}": {}}}}}
        if "paused" in spec:
            body["spec"]["paused"] = spec["paused"]
            fields["f:paused"] = {}
        body["metadata"]["managedFields"] = [{"manager": "specloop", "fieldsV1": {"f:spec": fields}}]
        self._next(body)
        return body

    async def write_status(self, policy: Mapping[str, Any], status: Mapping[str, Any]) -> Mapping[str, Any]:
        """Without the field that is not known."""
        return await super().write_status(policy, {name: one for name, one in status.items() if name != self.knows_not})

    def controller(self) -> None:
        """Put the scene's own template back, where that is what it does."""
        if self.reverts and self.writes_of_workload:
            self.store.put("deployments", self._next(self.scene.target()), NOW)

    def _next(self, body: Body) -> Body:
        self.versions = getattr(self, "versions", 100) + 1
        body["metadata"]["resourceVersion"] = str(self.versions)
        return body

    async def old_templates(self, target: Target) -> list[Mapping[str, Any]]:
        """Those that it had."""
        return list(self.before)

    def at(self, level: str) -> Body:
        """Somebody sets a level."""
        self.scene.level = level
        return self._next(self.scene.target())


class Governed:
    """A scene's policy under an operator: its status is kept by an API server that is a dictionary."""

    def __init__(self, scene: Scene, **status: Any) -> None:
        self.scene = scene
        self.store = scene.objects()
        body = copy.deepcopy({**scene.policy(), "status": status})
        body["metadata"]["resourceVersion"] = "1"
        self.cluster = Api(scene, self.store, body)
        self.metrics = Metrics("1.2.3")
        telling = Telling(self.metrics, Announcer(Posted()))
        live = LiveActuator(httpx.AsyncClient(), self)
        self.now = NOW
        self.slots = Slots(1)
        self.said: list[tuple[tuple[str, str], str]] = []
        """Status, reason and message of Progressing after each look."""
        world = World(self.store, self.cluster, {"default": Silence()}, self.slots, telling, live, lambda: self.now)
        self.governor = Governor(CHAT, world)
        self.store.put(POLICIES, copy.deepcopy(body), self.now)

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """Nobody asks for one here."""
        raise AssertionError("no token is needed")

    async def look(self, looks: int = 1) -> Body:
        """The status after so many looks more."""
        for _ in range(looks):
            self.now += LOOK_SECONDS
            self.cluster.controller()
            with contextlib.suppress(ApiError):
                await self.governor.tick()
            (progress,) = [
                one for one in self.cluster.policies[CHAT]["status"]["conditions"] if one["type"] == PROGRESS
            ]
            self.said.append(((progress["status"], progress["reason"]), progress["message"]))
        found: Body = self.cluster.policies[CHAT]["status"]
        return found

    def edit(self, **annotations: str) -> None:
        """Somebody writes annotations of the policy."""
        self.cluster.policies[CHAT]["metadata"]["annotations"] = annotations
        self.store.put(POLICIES, self.cluster.change(CHAT), self.now)

    def pods(self, *levels: str) -> None:
        """The pods that there are now."""
        target = self.target
        for one in self.store.pods_of(target):
            self.store.drop(PODS, one)
        for place, level in enumerate(levels):
            self.store.put(PODS, PodOf(f"pod-{place}-{level}", level, image=self.scene.image).body(), self.now)

    @property
    def target(self) -> Target:
        """The workload as it is now."""
        found = self.store.target("Deployment", ("llm", "llama"))
        assert found is not None
        return found

    @property
    def template(self) -> tuple[str, bool]:
        """The level of its template, and whether it is held."""
        said = self.target.template["metadata"]["annotations"][ANNOTATION]
        (level,) = [name for name, setting in SETTINGS.items() if setting == said]
        return level, bool(self.target.body["spec"].get("paused"))

    def counted(self, name: str, **labels: str) -> float | None:
        """A series of the policy."""
        return self.metrics.registry.get_sample_value(name, {"namespace": "llm", "policy": "chat", **labels})


def said(status: Body, type_: str) -> tuple[str, str]:
    """Status and reason of a condition."""
    (found,) = [one for one in status["conditions"] if one["type"] == type_]
    return found["status"], found["reason"]


def message(status: Body, type_: str) -> str:
    """The sentence of a condition."""
    (found,) = [one["message"] for one in status["conditions"] if one["type"] == type_]
    return str(found)


async def test_what_is_recommended_at_every_look_is_counted_and_taken_down_once() -> None:
    """A counter that grows at every look would mark the dashboard all day for a change that nobody makes."""
    scene = Scene({"mode": "Recommend"})
    scene.override("k3")
    chat = Governed(scene)
    status = await chat.look(5)
    assert [one["action"] for one in status["decisions"]] == ["SwitchTo"]
    assert chat.counted("specloop_decisions_total", action="SwitchTo") == 1.0


async def test_every_look_that_holds_is_counted() -> None:
    chat = Governed(Scene())
    await chat.look(3)
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


async def canary_at_k3() -> Governed:
    """An override for k3, with its first pod made and the rest held."""
    scene = Scene()
    scene.override("k3")
    chat = Governed(scene)
    await chat.look()
    chat.pods("k5", "k5", "k5", "k3")
    await chat.look(3)
    assert chat.template == ("k3", True)
    return chat


async def test_a_canary_is_taken_back_where_its_policy_cannot_be_read_any_more() -> None:
    """To let the rest follow would be a roll-out without a gate; the second look finds nothing more to do."""
    chat = await canary_at_k3()
    chat.edit(**{OVERRIDE: "k5"})
    status = await chat.look()
    assert said(status, "Ready") == ("False", "InvalidAnnotation")
    assert said(status, "Progressing") == ("True", "RollingBack")
    assert chat.template == ("k5", False)
    writes = chat.cluster.writes_of_workload
    assert said(await chat.look(), "Progressing") == ("False", "Cancelled")
    assert chat.cluster.writes_of_workload == writes


async def test_nor_is_it_left_where_its_container_is_not_found_any_more() -> None:
    """The setting cannot be read then: what is ours of the template before goes back."""
    chat = await canary_at_k3()
    body = chat.cluster.policies[CHAT]
    chat.store.put(POLICIES, chat.cluster.change(CHAT, spec={**body["spec"], "containerName": "gone"}), chat.now)
    await chat.look()
    assert chat.template == ("k5", False)


async def test_a_policy_that_can_be_read_again_goes_on_with_the_way_back() -> None:
    """What the operator put back itself is nobody else's doing."""
    chat = await canary_at_k3()
    chat.edit(**{OVERRIDE: "k5"})
    await chat.look()
    chat.edit()
    chat.pods("k5", "k5", "k5")
    status = await chat.look()
    assert said(status, "Progressing") == ("False", "Cancelled")
    assert said(status, "Drifted") == ("False", "InSync")


async def test_a_policy_that_cannot_be_read_says_so_while_its_way_back_is_refused() -> None:
    """And keeps nobody else from rolling out."""
    chat = await canary_at_k3()
    chat.edit(**{OVERRIDE: "k5"})
    chat.cluster.refusal = Forbidden("applying to Deployment llm/llama: HTTP 403")
    status = await chat.look(5)
    assert said(status, "Ready") == ("False", "InvalidAnnotation")
    assert chat.slots.free(("llm", "other"))
    chat.cluster.refusal = None
    assert said(await chat.look(), "Progressing") == ("False", "Cancelled")
    assert chat.template == ("k5", False)


async def test_so_it_is_before_anything_is_held() -> None:
    """The new template is written, and no pod is made yet: it would go to all of them."""
    scene = Scene()
    scene.override("k3")
    chat = Governed(scene)
    await chat.look()
    assert chat.template == ("k3", False)
    chat.edit(**{OVERRIDE: "k5"})
    await chat.look()
    assert chat.template == ("k5", False)


async def test_a_way_back_that_does_not_get_through_is_gone_again() -> None:
    """The roll-out is forgotten once it is taken back, not before."""
    chat = await canary_at_k3()
    chat.edit(**{OVERRIDE: "k5"})
    chat.cluster.refusal = Conflict("applying to Deployment llm/llama: HTTP 409")
    await chat.look(2)
    assert chat.template == ("k3", True)
    chat.cluster.refusal = None
    await chat.look()
    assert chat.template == ("k5", False)


async def test_a_write_that_is_refused_is_said_and_ends_with_its_deadline() -> None:
    """Half an hour of looks, 15 s apart: 120 of them; then others may roll out."""
    scene = Scene()
    scene.override("k3")
    chat = Governed(scene)
    chat.cluster.refusal = Forbidden("applying to Deployment llm/llama: HTTP 403: denied by a webhook")
    status = await chat.look(3)
    assert said(status, "Progressing") == ("True", "Starting")
    assert "HTTP 403: denied by a webhook" in message(status, "Progressing")
    chat.said.clear()
    await chat.look(125)
    cancelled = [one for one in chat.said if one[0] == ("False", "Cancelled")]
    assert cancelled
    assert "k3 could not be written within 1800 s" in cancelled[0][1]
    assert "HTTP 403: denied by a webhook" in cancelled[0][1]


async def test_conflicts_are_no_refusal() -> None:
    """Somebody writes the workload again and again: it is tried on, and not given up for that."""
    scene = Scene()
    scene.override("k3")
    chat = Governed(scene)
    chat.cluster.refusal = Conflict("applying to Deployment llm/llama: HTTP 409")
    status = await chat.look(130)
    assert said(status, "Progressing") == ("True", "Starting")


async def refused_for_half_an_hour() -> Governed:
    """A canary that a suspension has go back, which the API server refuses at each of 125 looks."""
    chat = await canary_at_k3()
    chat.edit(**{SUSPEND: "true"})
    chat.cluster.refusal = Forbidden("applying to Deployment llm/llama: HTTP 403")
    await chat.look(125)
    return chat


async def test_a_way_back_that_is_refused_for_long_is_tried_on_and_keeps_nobody_waiting() -> None:
    """Half an hour of refusals; once writes are allowed again it is done."""
    chat = await refused_for_half_an_hour()
    status = chat.cluster.policies[CHAT]["status"]
    assert said(status, "Progressing") == ("True", "RollingBack")
    assert "HTTP 403" in message(status, "Progressing")
    assert chat.slots.free(("llm", "other"))
    chat.cluster.refusal = None
    await chat.look()
    assert chat.template == ("k5", False)


async def test_a_way_back_that_gets_through_at_last_has_its_time_for_pods() -> None:
    """The deadline is for pods, which are made only then."""
    chat = await refused_for_half_an_hour()
    chat.cluster.refusal = None
    status = await chat.look(3)
    assert said(status, "Progressing") == ("True", "RollingBack")
    chat.pods("k5", "k5", "k5")
    assert said(await chat.look(), "Progressing") == ("False", "Cancelled")


async def test_what_is_owed_outlives_a_policy_that_cannot_be_read() -> None:
    """A mistyped annotation on the way back from an override: once it is gone, the way back is begun again."""
    scene = Scene(level="k3")
    state = replace(fresh("k3", NOW - 1e6), owed="k5")
    chat = Governed(scene, memory=to_memory(state).model_dump(mode="json", by_alias=True, exclude_none=True))
    await chat.look()
    assert chat.template == ("k5", False)
    chat.edit(**{OVERRIDE: "k5"})
    await chat.look(3)
    assert chat.template == ("k3", False)
    chat.pods("k3", "k3", "k3")
    chat.edit()
    await chat.look()
    assert chat.template == ("k5", False)


async def test_a_verdict_outlives_a_policy_that_cannot_be_read() -> None:
    """k3 failed its gate; that it is not tried again is known whatever becomes of its way back."""
    scene = Scene().soaking()
    scene.turn(verdict=WRONG)
    scene.level, scene.held = "k5", False
    memory = json.loads(store(scene.remembered).model_dump_json(by_alias=True, exclude_none=True))
    chat = Governed(scene, memory=memory)
    chat.edit(**{OVERRIDE: "k5"})
    status = await chat.look()
    assert said(status, "Progressing") == ("False", "Cancelled")
    assert [one["level"] for one in status["memory"]["quarantine"]] == ["k3"]


async def test_what_was_made_anew_without_the_drafter_in_vain_bars_nobody_from_off() -> None:
    """It is remembered for that alone: off live goes on."""
    scene = Scene().soaking()
    scene.turn(verdict=WRONG)
    scene.level, scene.held = "k5", False
    assert scene.remembered.rollout is not None
    shed = replace(scene.remembered, rollout=replace(scene.remembered.rollout, kind=Kind.SHED, level="disabled"))
    chat = Governed(scene, memory=json.loads(store(shed).model_dump_json(by_alias=True, exclude_none=True)))
    chat.edit(**{OVERRIDE: "k5"})
    memory = (await chat.look())["memory"]
    assert (memory["quarantine"], memory["shedFailed"]) == ([], shed.rollout.key)  # type: ignore[union-attr]


async def test_a_live_roll_out_of_a_target_that_is_gone_is_forgotten() -> None:
    """There is no pod that could be asked to go back."""
    scene = Scene().soaking()
    live = replace(scene.remembered, rollout=replace(scene.remembered.rollout, live=True))  # type: ignore[type-var]
    chat = Governed(scene, memory=json.loads(store(live).model_dump_json(by_alias=True, exclude_none=True)))
    chat.store.drop("deployments", scene.target())
    assert said(await chat.look(2), "Progressing") == ("False", "Cancelled")


async def test_what_an_older_definition_drops_is_not_written_again_and_again() -> None:
    """The API server leaves out of a status what the definition does not know."""
    chat = Governed(Scene())
    chat.cluster.knows_not = "observedLevel"
    await chat.look(5)
    assert chat.cluster.writes == [CHAT]


async def test_a_controller_that_undoes_every_write_at_once_is_not_fought() -> None:
    """What was written is known from the answer: that it is gone by the next look is somebody's word."""
    scene = Scene()
    scene.override("k3")
    chat = Governed(scene)
    chat.cluster.reverts = True
    status = await chat.look(10)
    assert said(status, "Drifted") == ("True", "Reverted")
    assert chat.cluster.writes_of_workload <= 2  # the level, and once to let go of what is ours


def test_what_a_newer_operator_wrote_costs_no_more_than_itself() -> None:
    """An item of a list, a field, a field of the memory; the rest is what keeps a fleet from being restarted."""
    alert = {
        "fingerprint": "4f3c",
        "name": "Slow",
        "startsAt": "2027-01-15T08:00:00Z",
        "receivedAt": "2027-01-15T08:00:00Z",
        "until": "2027-01-15T20:00:00Z",
        "action": "Suspend",
    }
    failed = {"level": "k3", "key": "a", "reason": "it crashed"}
    body = {
        "status": {
            "alerts": [{**alert, "action": "OfANewerOperator"}, alert],
            "memory": {"level": "k5", "rollout": {"phase": "OfANewerOperator"}, "quarantine": [failed]},
            "recommendation": "none",
        }
    }
    status = read_status(body)
    assert [one.action for one in status.alerts] == ["Suspend"]
    assert status.recommendation is None
    assert status.memory is not None
    assert (status.memory.level, status.memory.rollout) == ("k5", None)
    assert [one.level for one in status.memory.quarantine] == ["k3"]


async def test_a_ladder_that_the_policy_named_once_is_not_kept_as_one_that_was_derived() -> None:
    """Without `levels` it follows from what runs: K = 5, 3, n-gram, off."""
    scene = Scene({"levels": [level for level in LEVELS if level["name"] in ("k5", "disabled")]})
    chat = Governed(scene)
    assert [one["name"] for one in (await chat.look())["levels"]] == ["k5", "disabled"]
    spec = {name: part for name, part in scene.policy()["spec"].items() if name not in ("levels", "rules", "drafters")}
    chat.store.put(POLICIES, chat.cluster.change(CHAT, spec=spec), chat.now)
    assert [one["name"] for one in (await chat.look())["levels"]] == ["k5", "k3", "ngram", "disabled"]
    chat.store.put("deployments", chat.cluster.at("disabled"), chat.now)
    assert [one["name"] for one in (await chat.look())["levels"]] == ["k5", "k3", "ngram", "disabled"]
