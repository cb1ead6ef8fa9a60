"""Policies that decide within seconds, and what tests read of them while an operator follows them."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.cluster.cluster import Cluster, Result
from tests.support.cluster.environment import Object
from tests.support.cluster.operator import Operator

SOON: Object = {
    "intervalSeconds": 1,
    "signals": {"windowSeconds": 2, "settleSeconds": 1, "minRequests": 10, "maxEvidenceSeconds": 20},
    "rollout": {
        "soakSeconds": 6,
        "minRequests": 10,
        "progressDeadlineSeconds": 60,
        "watchSeconds": 5,
        "gate": {"maxOutputLengthChangePercent": 50, "maxTtftIncreasePercent": 50},
    },
    "guardrails": {"cooldownSeconds": 1, "probe": {"afterSeconds": 10, "maxSeconds": 60}},
}
"""Durations of seconds, for traffic as fast as the simulated vLLM answers it.

Answers are between half and one and a half times as long as is asked for: of few, the mean says little.  A first token
waits for the end of a step, and so comes up to a fifth later at k5 than at k3: too near the gate's default.
"""

LOW = {"name": "low", "when": {"acceptance": {"belowPercent": 40}}, "forSeconds": 2, "action": {"type": "StepDown"}}
"""A rule that asks for less where drafts are mostly refused."""

OVERRIDE = "specloop.dev/override"

ROLLOUT_SECONDS = 120.0
"""How long a roll-out may take on a machine with other things to do."""


def policy(name: str, target: str, *, kind: str = "Deployment", rollout: Object | None = None, **spec: Any) -> Object:
    """A policy that decides within seconds; `rollout` changes single durations, `spec` whole fields."""
    ref = {"apiVersion": "apps/v1", "kind": kind, "name": target}
    own = {**SOON, "rollout": {**SOON["rollout"], **(rollout or {})}}
    return {
        "apiVersion": "specloop.dev/v1alpha1",
        "kind": "SpecPolicy",
        "metadata": {"name": name},
        "spec": {"targetRef": ref, **own, **spec},
    }


def asked_for(level: str, target: str, name: str = "chat", **fields: Any) -> Object:
    """A policy by which a person asks for a level, whatever the traffic is."""
    asked = policy(name, target, mode="Enforce", **fields)
    asked["metadata"]["annotations"] = {OVERRIDE: json.dumps({"level": level, "by": "alice"})}
    return asked


@dataclass(frozen=True)
class Followed:
    """A policy in the cluster, as its status has it now."""

    cluster: Cluster
    name: str

    @property
    def status(self) -> Object:
        """Its status; empty before the operator has seen it."""
        found: Object = self.cluster.get("SpecPolicy", self.name).get("status") or {}
        return found

    @property
    def memory(self) -> Object:
        """What the operator remembers in it."""
        found: Object = self.status.get("memory") or {}
        return found

    @property
    def phase(self) -> str | None:
        """The phase of the roll-out under way; None without any."""
        found: str | None = (self.memory.get("rollout") or {}).get("phase")
        return found

    @property
    def decisions(self) -> list[tuple[str, str, str]]:
        """The last ten decisions: rule (or action, where no rule decided), level before, level after."""
        found = self.status.get("decisions", ())
        return [(one.get("rule", one["action"]), one.get("from", ""), one.get("to", "")) for one in found]

    def condition(self, type_: str) -> Object:
        """A condition; empty before the operator has set it."""
        found = (one for one in self.status.get("conditions", ()) if one["type"] == type_)
        return next(found, {})

    def until_condition(self, type_: str, reason: str, seconds: float = ROLLOUT_SECONDS) -> Object:
        """Wait for a condition's reason; the condition."""

        def found() -> Object | None:
            one = self.condition(type_)
            return one if one.get("reason") == reason else None

        return self.until(found, f"condition {type_} with reason {reason}", seconds)

    def until_phase(self, phase: str, seconds: float = ROLLOUT_SECONDS) -> None:
        """Wait for a phase of a roll-out."""
        self.until(lambda: self.phase == phase, f"phase {phase}", seconds)

    def until_level(self, level: str, seconds: float = ROLLOUT_SECONDS) -> None:
        """Wait until a level runs and no roll-out is under way."""
        self.until(lambda: self.phase is None and self.status.get("observedLevel") == level, f"level {level}", seconds)

    def until(self, read: Callable[[], Result | None], what: str, seconds: float = ROLLOUT_SECONDS) -> Result:
        """Wait until the answer is true or not empty; the answer."""
        try:
            return self.cluster.until(read, f"{what} of policy {self.name}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; status: {self.status}") from None


def follow(cluster: Cluster, manifest: Object) -> Followed:
    """Apply a policy, to be followed by its status."""
    cluster.apply(manifest)
    return Followed(cluster, manifest["metadata"]["name"])


def ticks(operator: Operator) -> int:
    """How often this life of the operator has looked at its policies."""
    counted = re.findall(r"^specloop_ticks_total\{.*\} (\S+)", operator.get("/metrics").text, re.MULTILINE)
    return round(sum(map(float, counted)))


def until_ticks(cluster: Cluster, operator: Operator, more: int = 3) -> None:
    """Wait until the operator has looked so many more times."""
    wanted = ticks(operator) + more
    cluster.until(lambda: ticks(operator) >= wanted, f"{more} ticks more")


def windows(operator: Operator) -> int:
    """How many windows of pods this life of the operator has measured."""
    page = operator.get("/metrics").text
    counted = re.findall(r'^specloop_window_outcomes_total\{.*outcome="Measured".*\} (\S+)', page, re.MULTILINE)
    return round(sum(map(float, counted)))


def until_windows(cluster: Cluster, operator: Operator, more: int = 8) -> None:
    """Wait until the operator has measured so many more windows, over all pods."""
    wanted = windows(operator) + more
    cluster.until(lambda: windows(operator) >= wanted, f"{more} windows more")
