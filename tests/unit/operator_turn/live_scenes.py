"""A scene whose pods were started with the plugin: each answers what is wanted of it, and what is in force."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from specloop_operator.cluster import ApiError, NotThere
from specloop_operator.live import LiveActuator
from specloop_operator.sight import Sight
from specloop_operator.turn import Turn
from specloop_policy.canary import Step
from tests.unit.operator_turn.scenes import LOOK_SECONDS, PodOf, Scene, windows

LIVE = "k5 with a table"
"""What the template says: K = 5 for every number of requests, and a table that can be changed."""
TOKEN = "open sesame"
STARTED = [[1, 256, 5]]


@dataclass
class Plugin:
    """What one pod answers: as the plugin does, in a few lines."""

    idle: bool = False
    """Without requests no wish is taken up."""
    silent: bool = False
    absent: bool = False
    refusal: str = ""
    most: int = 5
    desired: dict[str, Any] | None = None
    applied: dict[str, Any] = field(default_factory=lambda: {"generation": None, "table": STARTED})
    puts: int = 0

    @property
    def tokens(self) -> int:
        """K in force."""
        return int(self.applied["table"][0][2])

    def answer(self, request: httpx.Request) -> httpx.Response:
        """GET, or PUT."""
        if self.silent:
            raise httpx.ConnectError("connection refused")
        if self.absent:
            return httpx.Response(404)
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return httpx.Response(401, json={"error": "another token"})
        if request.method == "PUT":
            self.puts += 1
            self.desired = json.loads(request.content)
        if self.desired is not None and not self.idle and not self.refusal:
            self.take_up()
        pending = self.desired is not None and self.desired["generation"] != self.applied["generation"]
        shown = {"desired": self.desired, "applied": self.applied, "live": not self.refusal, "pending": pending}
        return httpx.Response(200, json={**shown, "reason": self.refusal or None})

    def take_up(self) -> None:
        """Between two steps."""
        assert self.desired is not None
        wanted = self.desired.get("table") or [[1, 256, self.desired["k"]]]
        table = [[first, min(last, 256), min(tokens, self.most)] for first, last, tokens in wanted]
        clamped = any(tokens > self.most for _, _, tokens in wanted)
        self.applied = {"generation": self.desired["generation"], "table": table, "clamped": clamped}


@dataclass
class Secrets:
    """The part of the API server that has the token."""

    data: dict[str, dict[str, str]] = field(default_factory=lambda: {"specloop-live": {"token": TOKEN}})

    error: ApiError | None = None
    """What every read ends with."""

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """As the API server."""
        if self.error is not None:
            raise self.error
        if name not in self.data:
            raise NotThere(f"reading Secret {namespace}/{name}: HTTP 404")
        return {key: value.encode() for key, value in self.data[name].items()}


class LiveScene(Scene):
    """Three pods at k5 with the plugin, a token in the policy, and a rule that steps down where acceptance is low."""

    def __init__(self, actuator: str = "Auto", replicas: int = 3, level: str = LIVE, **spec: Any) -> None:
        """`spec` goes over the policy's."""
        rollout = {"actuator": actuator, **spec.pop("rollout", {})}
        live = {"tokenSecretRef": {"name": "specloop-live", "key": "token"}}
        self.plugins: dict[str, Plugin] = {}
        self.secrets = Secrets()
        super().__init__(spec={"rollout": rollout, "live": live, **spec}, level=level, replicas=replicas)
        for place, pod in enumerate(self.pods):
            pod.ip = f"10.0.0.{place + 1}"
            self.plugins[pod.name] = Plugin()

    def sight(self) -> Sight:
        """After one round over the pods."""
        return self._round(super().sight())

    def low(self, acceptance: float = 0.2) -> None:
        """This acceptance in the window that ends now, on all pods, each at the level that is in force in it."""
        levels = {5: "k5", 3: "k3", 0: "disabled"}
        at = [PodOf(pod.name, levels[self.plugins[pod.name].tokens]) for pod in self.pods]
        self.measured = replace(self.measured, windows=windows(at, acceptance, self.now + LOOK_SECONDS))

    def join(self, name: str) -> Plugin:
        """A pod more, as the template says."""
        self.pods.append(PodOf(name, self.level, ready_since=self.now, ip=f"10.0.1.{len(self.pods)}"))
        self.plugins[name] = Plugin()
        return self.plugins[name]

    def leave(self, name: str) -> None:
        """A pod is gone."""
        self.pods = [pod for pod in self.pods if pod.name != name]

    @property
    def tokens(self) -> list[int]:
        """K in force in each pod."""
        return [self.plugins[pod.name].tokens for pod in self.pods]

    def _round(self, sight: Sight) -> Sight:
        async def once() -> Sight:
            async with httpx.AsyncClient(transport=httpx.MockTransport(self._answer)) as client:
                return await LiveActuator(client, self.secrets).round(sight, self.remembered, self.now)

        return asyncio.run(once())

    def _answer(self, request: httpx.Request) -> httpx.Response:
        pod = next(pod for pod in self.pods if pod.ip == request.url.host)
        return self.plugins[pod.name].answer(request)

    def _carry_out(self, turn: Turn) -> None:
        rollout = turn.rollout
        if rollout is not None and rollout.live:
            if turn.step is not Step.WAIT or turn.ended is not None:
                self._round(self.seen)
            return
        super()._carry_out(turn)
        if turn.step is Step.PUT_BACK:
            self.level = LIVE
