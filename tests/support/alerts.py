"""Alerts as Alertmanager sends them, and an operator's book for them with an API server made of a dictionary."""

import asyncio
import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from specloop_operator.alert_book import AlertBook
from specloop_operator.alertmanager import read_message
from specloop_operator.announcer import Announcer, Event
from specloop_operator.cluster import ApiError, Body, Conflict, NotThere
from specloop_operator.metrics import Metrics
from specloop_operator.store import PODS, POLICIES, Name, Store
from specloop_operator.telling import Telling
from specloop_operator.workload import Target
from specloop_policy.alerts import AlertNews
from specloop_policy.report import as_time
from specloop_policy.times import rfc3339
from tests.support.fakes import ManualClock

NOW = 1_800_000_000.0
FIVE_MINUTES_AGO = NOW - 300.0
ZERO_TIME = "0001-01-01T00:00:00Z"
"""What Go's zero time is written as: the end of an alert that fires."""

LOW = "SpecDecodeAcceptanceLow"
CHAT: Name = ("llm", "chat")
STEP_DOWN = {"match": {"alertname": LOW}, "action": {"type": "StepDown"}}


def policy_body(
    *bindings: Mapping[str, Any], name: str = "chat", namespace: str = "llm", kind: str = "Deployment", **status: Any
) -> dict[str, Any]:
    """A policy of the target `llama` with these alerts in its spec."""
    ref = {"apiVersion": "apps/v1", "kind": kind, "name": "llama"}
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"uid-of-{namespace}-{name}",
            "resourceVersion": "1",
            "generation": 1,
        },
        "spec": {"targetRef": ref, "alerts": [dict(one) for one in bindings]},
        "status": status,
    }


def alert_json(
    *,
    name: str = LOW,
    firing: bool = True,
    starts_at: float = FIVE_MINUTES_AGO,
    ends_at: float | None = None,
    fingerprint: str = "4f3c2b1a09080706",
    namespace: str | None = "llm",
    **labels: str,
) -> dict[str, Any]:
    """One alert of a message; one that is over and has no end has fired for 200 s."""
    own = {"alertname": name, "severity": "warning", **({"namespace": namespace} if namespace else {}), **labels}
    return {
        "status": "firing" if firing else "resolved",
        "labels": own,
        "annotations": {"summary": "Few draft tokens are accepted"},
        "startsAt": as_time(starts_at).isoformat(),
        "endsAt": ZERO_TIME if firing else rfc3339(ends_at or starts_at + 200.0),
        "generatorURL": "http://prometheus.example:9090/graph",
        "fingerprint": fingerprint,
    }


def message_json(*alerts: Mapping[str, Any], truncated: int = 0, **fields: Any) -> bytes:
    """A message with these alerts, in the format that Alertmanager documents (Configuration, <webhook_config>)."""
    whole = {
        "version": "4",
        "groupKey": '{}:{alertname="x"}',
        "truncatedAlerts": truncated,
        "status": "firing" if any(one["status"] == "firing" for one in alerts) else "resolved",
        "receiver": "specloop",
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager.example:9093",
        "alerts": list(alerts),
    }
    return json.dumps({**whole, **fields}).encode()


@dataclass
class FakeCluster:
    """An API server that keeps policies, refuses what was read too early, and fails as often as it is told to."""

    policies: dict[Name, dict[str, Any]]
    failing: list[ApiError] = field(default_factory=list)
    """Errors of the next writes, first one first."""
    writes: list[Name] = field(default_factory=list)
    """Policies that were written, in order."""
    pause_seconds: float = 0.0
    """How long a write takes."""

    async def write_status(self, policy: Body, status: Body) -> Body:
        """Write it, unless somebody else did meanwhile."""
        name = _name(policy)
        await asyncio.sleep(self.pause_seconds)
        if self.failing:
            raise self.failing.pop(0)
        if name not in self.policies:
            raise NotThere(f"{name} is gone")
        if self.policies[name]["metadata"]["resourceVersion"] != policy["metadata"]["resourceVersion"]:
            raise Conflict(f"{name} was written meanwhile")
        self.writes.append(name)
        return self.change(name, status=json.loads(json.dumps(status)))

    async def policy(self, namespace: str, name: str) -> Body:
        """A policy as it is now."""
        if (namespace, name) not in self.policies:
            raise NotThere(f"{name} is gone")
        return copy.deepcopy(self.policies[namespace, name])

    def change(self, name: Name, **fields: Any) -> dict[str, Any]:
        """Somebody changes a policy; how it is afterwards."""
        found = self.policies[name]
        version = str(int(found["metadata"]["resourceVersion"]) + 1)
        changed = {**found, **fields, "metadata": {**found["metadata"], "resourceVersion": version}}
        self.policies[name] = changed
        return copy.deepcopy(changed)

    async def apply(self, target: Target, application: Body) -> Body:
        """Alerts change no workload."""
        _never()

    async def old_templates(self, target: Target) -> list[Body]:
        """Nor do they look at old ones."""
        _never()

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        """Nor do they end pods."""
        _never()


def _never() -> NoReturn:
    raise AssertionError("alerts ask for no such thing")


def _name(body: Body) -> Name:
    return str(body["metadata"]["namespace"]), str(body["metadata"]["name"])


@dataclass
class Posted:
    """Events that were posted."""

    events: list[Event] = field(default_factory=list)

    async def post(self, event: Event) -> None:
        """Keep it."""
        self.events.append(event)

    @property
    def said(self) -> list[tuple[str, str, str]]:
        """Policy, reason and note of each."""
        return [(one.regarding.name, one.reason.value, one.note) for one in self.events]


class Hearing:
    """An operator that hears alerts: what it watches, what it writes, and what it says."""

    def __init__(self, *policies: dict[str, Any], namespace_label: str = "namespace", pod_label: str = "pod") -> None:
        self.clock = ManualClock(NOW)
        self.metrics = Metrics("1.2.3")
        self.posted = Posted()
        self.cluster = FakeCluster({_name(body): copy.deepcopy(body) for body in policies})
        self.store = Store()
        self.telling = Telling(self.metrics, Announcer(self.posted))
        labels = namespace_label, pod_label
        self.book = AlertBook(self.store, self.cluster, self.telling, self.clock.now, *labels)
        self.watch()

    def watch(self) -> None:
        """Let the watch catch up with what is so."""
        for body in self.cluster.policies.values():
            self.store.put(POLICIES, copy.deepcopy(body), self.clock.now())

    def has_target(self, *command: str) -> None:
        """The target `llama`, which selects `app: llama`, with an engine that is started by this command."""
        containers = [{"name": "engine", "image": "vllm/vllm-openai:v0.12.0", "command": list(command)}]
        workload = {
            "metadata": {"namespace": "llm", "name": "llama", "uid": "uid-of-llama"},
            "spec": {"selector": {"matchLabels": {"app": "llama"}}, "template": {"spec": {"containers": containers}}},
        }
        self.store.put("deployments", workload, self.clock.now())

    def has_pods(self, *names: str, labels: Mapping[str, str]) -> None:
        """The target, and pods beside it."""
        self.has_target("vllm", "serve", "org/llama")
        for name in names:
            metadata = {"namespace": "llm", "name": name, "uid": f"uid-of-{name}", "labels": dict(labels)}
            self.store.put(PODS, {"metadata": metadata, "spec": {}, "status": {}}, self.clock.now())

    async def hear(self, *alerts: Mapping[str, Any], truncated: int = 0, **fields: Any) -> None:
        """Record one message, and let the watch catch up."""
        await self.book.record(read_message(message_json(*alerts, truncated=truncated, **fields)))
        self.watch()

    def known(self, name: Name = CHAT) -> Sequence[Mapping[str, Any]]:
        """The alerts in a policy's status."""
        found: Sequence[Mapping[str, Any]] = self.cluster.policies[name]["status"].get("alerts", [])
        return found

    def counted(self) -> dict[str, int]:
        """How many alerts were what, those that none was left out."""
        counts = {
            what: self.metrics.registry.get_sample_value("specloop_alerts_total", {"outcome": what})
            for what in AlertNews
        }
        return {str(what): int(count) for what, count in counts.items() if count}
