"""A policy, its target and pods as the API server says them, looked at by the operator, and acted upon by nobody else.

A scene carries out steps at once and makes no pods by itself: tests say which pods there are.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from specloop_operator.remembered import Remembered, recall, store
from specloop_operator.sight import Sight, see
from specloop_operator.store import PODS, POLICIES, Store
from specloop_operator.turn import Measured, Turn, take_turn
from specloop_policy.annotations import OVERRIDE, ROLLBACK, SUSPEND
from specloop_policy.canary import Phase, Step
from specloop_policy.decision import FiringAlert
from specloop_policy.gate import Comparison, GateVerdict, Result
from specloop_policy.observation import Window
from specloop_policy.status import Memory
from specloop_policy.step import fresh
from tests.support.policies import DRAFTERS, LEVELS, rule
from tests.support.windows import constant, measured, off

NOW = 1_800_000_000.0
LOOK_SECONDS = 15.0
MODEL = "meta-llama/Llama-3.3-70B-Instruct"
ANNOTATION = "specloop.dev/speculative-config"
SMALL = {"method": "draft_model", "model": "meta-llama/Llama-3.2-1B-Instruct"}
SETTINGS = {
    "k5": json.dumps({**SMALL, "num_speculative_tokens": 5}),
    "k3": json.dumps({**SMALL, "num_speculative_tokens": 3}),
    "ngram": json.dumps(
        {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 4}
    ),
    "disabled": "",
    "k5 with a table": json.dumps(
        {**SMALL, "num_speculative_tokens": 5, "num_speculative_tokens_per_batch_size": [[1, 256, 5]]}
    ),
    "none of the ladder": json.dumps({"method": "ngram", "num_speculative_tokens": 7, "prompt_lookup_max": 3}),
}
"""What the annotation says at each level of `tests.support.policies`."""

LOW = rule("low", {"acceptance": {"belowPercent": 40}}, "StepDown", for_seconds=0)
PASSED = GateVerdict(Result.PASS, "it serves no worse")
SLOWER = GateVerdict(Result.FAIL, "it is slower", (Comparison("time per output token", Result.FAIL, "it is slower"),))
WRONG = GateVerdict(Result.FAIL, "its answers are short")
OPEN = GateVerdict(Result.INCONCLUSIVE, "too few requests")

Body = dict[str, Any]


def moment(seconds: float) -> str:
    """A time as Kubernetes writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def template(level: str, image: str) -> Body:
    """A pod template, or the part of a pod that it gives, with its setting in an annotation."""
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{ANNOTATION}']"}}
    container = {
        "name": "vllm",
        "image": image,
        "command": ["vllm", "serve"],
        "args": [MODEL, "--speculative-config=$(SPECULATIVE_CONFIG)"],
        "env": [{"name": "SPECULATIVE_CONFIG", "valueFrom": source}],
    }
    return {
        "metadata": {"labels": {"app": "llama"}, "annotations": {ANNOTATION: SETTINGS[level]}},
        "spec": {"containers": [container]},
    }


@dataclass
class PodOf:
    """A pod of the target."""

    name: str
    level: str
    image: str = ""
    ready_since: float | None = NOW - 7140.0
    restarts: int = 0
    start_seconds: float = 60.0
    ip: str | None = None

    def body(self) -> Body:
        """As the API server says it."""
        made = template(self.level, self.image)
        ready = {"type": "Ready", "status": "False" if self.ready_since is None else "True"}
        if self.ready_since is not None:
            ready["lastTransitionTime"] = moment(self.ready_since)
        state = {"running": {"startedAt": moment((self.ready_since or NOW) - self.start_seconds)}}
        container = {"name": "vllm", "ready": self.ready_since is not None, "restartCount": self.restarts}
        return {
            "metadata": {"name": self.name, "namespace": "llm", "uid": f"uid-of-{self.name}", **made["metadata"]},
            "spec": made["spec"],
            "status": {
                "podIP": self.ip,
                "conditions": [ready],
                "containerStatuses": [{**container, "state": state}],
            },
        }


@dataclass
class Scene:
    """Three pods at k5 under a policy that enforces, whose one rule steps down at once where acceptance is low."""

    spec: Body = field(default_factory=dict)
    """Fields of the policy's spec over those of the scene."""
    annotations: dict[str, str] = field(default_factory=dict)
    generation: int = 1
    level: str = "k5"
    """The level of the target's template."""
    kind: str = "Deployment"
    image: str = "vllm/vllm-openai:v0.32.0"
    replicas: int = 3
    held: bool = False
    held_by: str = "specloop"
    settled: bool = True
    updated: int | None = None
    """Pods that the controller has made from the latest template; None: as many as there are at its level."""
    pods: list[PodOf] = field(default_factory=list)
    remembered: Remembered = field(default_factory=lambda: Remembered(fresh("k5", NOW - 1e6)))
    measured: Measured = field(default_factory=Measured)
    alerts: tuple[FiringAlert, ...] = ()
    """Alerts in force."""
    now: float = NOW
    turns: list[Turn] = field(default_factory=list)
    seen: Sight = field(init=False)
    """What the last turn was taken on."""

    def __post_init__(self) -> None:
        """All pods are at the template's level."""
        self.pods = self.pods or [PodOf(f"llama-{place}", self.level) for place in range(self.replicas)]

    def policy(self) -> Body:
        """The custom resource."""
        spec = {
            "targetRef": {"apiVersion": "apps/v1", "kind": self.kind, "name": "llama"},
            "mode": "Enforce",
            "drafters": DRAFTERS,
            "levels": LEVELS,
            "rules": [LOW],
            **self.spec,
        }
        metadata = {"name": "chat", "namespace": "llm", "uid": "uid-of-chat", "generation": self.generation}
        created = {"creationTimestamp": moment(NOW - 1e6), "annotations": self.annotations}
        return {"metadata": {**metadata, **created}, "spec": spec}

    def target(self) -> Body:
        """The workload."""
        stateful = self.kind == "StatefulSet"
        path: Body = {"f:updateStrategy": {"f:rollingUpdate": {"f:partition": {}}}} if stateful else {"f:paused": {}}
        hold: Body = (
            {"updateStrategy": {"rollingUpdate": {"partition": self.replicas - 1}}} if stateful else {"paused": True}
        )
        managers = [{"manager": self.held_by, "fieldsV1": {"f:spec": path}}] if self.held else []
        updated = sum(pod.level == self.level for pod in self.pods) if self.updated is None else self.updated
        return {
            "metadata": {
                "name": "llama",
                "namespace": "llm",
                "uid": "uid-of-llama",
                "resourceVersion": "1",
                "generation": 7,
                "managedFields": managers,
            },
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": {"app": "llama"}},
                "template": template(self.level, self.image),
                **(hold if self.held else {}),
            },
            "status": {"observedGeneration": 7 if self.settled else 6, "updatedReplicas": updated},
        }

    def sight(self) -> Sight:
        """What a tick sees."""
        return replace(see(self.policy(), self.objects(), None), alerts=self.alerts)

    def objects(self) -> Store:
        """What the operator keeps."""
        objects = Store()
        objects.put(POLICIES, self.policy(), self.now)
        objects.put("statefulsets" if self.kind == "StatefulSet" else "deployments", self.target(), self.now)
        for pod in self.pods:
            objects.put(PODS, replace(pod, image=pod.image or self.image).body(), self.now)
        return objects

    def turn(self, **figures: Any) -> Turn:
        """One tick later: take a turn on these figures, keep what is remembered as the status would, and act on it."""
        self.now += LOOK_SECONDS
        self.measured = replace(self.measured, **figures)
        self.seen = self.sight()
        turn = take_turn(self.seen, self.remembered, self.measured, self.now)
        written = store(turn.remembered).model_dump_json(by_alias=True, exclude_none=True)
        self.remembered = recall(Memory.model_validate_json(written))
        self._carry_out(turn)
        self.turns.append(turn)
        return turn

    def _carry_out(self, turn: Turn) -> None:
        rollout = turn.rollout
        assert rollout is not None or turn.step is Step.WAIT
        match turn.step:
            case Step.WRITE if rollout is not None:
                self.level = rollout.level
                self.held = self.kind == "StatefulSet" and rollout.phase is not Phase.PROMOTING
            case Step.HOLD:
                self.held = True
            case Step.RELEASE | Step.LET_GO:
                self.held = False
            case Step.PUT_BACK if rollout is not None:
                self.level, self.held = rollout.back_to, False
            case _:
                pass

    def low(self) -> None:
        """Acceptance of 20 % in the window that ends now, on all pods."""
        self.measured = replace(self.measured, windows=windows(self.pods, 0.2, self.now + LOOK_SECONDS))

    def override(self, level: str, until: float | None = None) -> None:
        """A person asks for a level."""
        wish = {"level": level, "by": "ada", **({} if until is None else {"until": moment(until)})}
        self.annotations[OVERRIDE] = json.dumps(wish)

    def roll_back(self) -> None:
        """A person asks to be back before the last change."""
        self.annotations[ROLLBACK] = json.dumps({"at": moment(self.now), "by": "ada"})

    def suspend(self) -> None:
        """A person suspends the policy by annotation."""
        self.annotations[SUSPEND] = "true"

    def all_at(self, level: str) -> None:
        """All pods are ready at a level, and nothing is held."""
        self.level, self.held = level, False
        self.pods = [PodOf(f"llama-{level}-{place}", level, ready_since=self.now) for place in range(self.replicas)]

    def canary(self, level: str) -> None:
        """One pod more, ready at a level."""
        self.pods = [*self.pods, PodOf(f"llama-{level}", level, ready_since=self.now)]

    def soaking(self, level: str = "k3") -> "Scene":
        """Low acceptance led to a canary that soaks now."""
        self.low()
        self.turn()
        self.until_soaking(level)
        return self

    def until_soaking(self, level: str) -> None:
        """Go on from a written level to its canary."""
        self.canary(level)
        for _ in range(3):
            self.turn(verdict=OPEN)
        assert self.remembered.rollout is not None
        assert self.remembered.rollout.soaking

    def promoted(self, level: str = "k3") -> "Scene":
        """And it was promoted."""
        self.low()
        self.turn()
        self.until_promoted(level)
        return self

    def until_promoted(self, level: str) -> None:
        """Go on from a written level to the end of its roll-out."""
        self.until_soaking(level)
        self.turn(verdict=PASSED)
        self.all_at(level)
        self.turn(verdict=None)
        assert self.remembered.rollout is None


def windows(pods: Sequence[PodOf], acceptance: float, end: float) -> tuple[Window, ...]:
    """One window of each pod, at its level."""
    tokens = {"k5": 5, "k3": 3, "ngram": 4}
    return tuple(
        measured(constant(acceptance, tokens[pod.level]), pod=pod.name, level=pod.level, end=end)
        if pod.level in tokens
        else off(pod=pod.name, end=end)
        for pod in pods
    )
