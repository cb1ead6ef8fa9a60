"""SpecPolicies as an API server has them, with the status that an operator wrote."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from specloop_cli.live_policy import LivePolicy

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()
"""The time of the samples, in seconds since the epoch."""

LADDER = (
    {"name": "k5", "drafter": "small", "method": "draft_model", "model": "tiny/draft", "tokens": 5},
    {"name": "k3", "drafter": "small", "method": "draft_model", "model": "tiny/draft", "tokens": 3},
    {"name": "ngram", "drafter": "lookup", "method": "ngram", "tokens": 4},
    {"name": "disabled"},
)


def moment(seconds_before: float, now: float = NOON) -> str:
    """A time as a status has it."""
    return datetime.fromtimestamp(now - seconds_before, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def rollout(phase: str = "Soaking", level: str = "ngram", back_to: str = "k3", **more: object) -> Mapping[str, Any]:
    """A roll-out under way, in this phase for three minutes."""
    return {
        "level": level,
        "backTo": back_to,
        "kind": "Rule",
        "key": "of the configuration",
        "rest": "of the template",
        "startedAt": moment(600),
        "phase": phase,
        "since": moment(180),
        "written": True,
        "reason": "",
        **more,
    }


def condition(
    kind: str, status: str, reason: str = "Because", message: str = "", ago: float = 180
) -> Mapping[str, Any]:
    """A condition that was set so many seconds ago."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": moment(ago),
        "observedGeneration": 2,
    }


def decision(action: str, before: str, after: str, ago: float = 180, **more: object) -> Mapping[str, Any]:
    """A decision that was taken so many seconds ago."""
    reason = f"{after} it is"
    return {"time": moment(ago), "action": action, "from": before, "to": after, "reason": reason, **more}


def status(
    *conditions: Mapping[str, Any], decisions: Sequence[Mapping[str, Any]] = (), level: str = "k3", **more: object
) -> Mapping[str, Any]:
    """A status at rest at a level; ready unless the conditions say otherwise."""
    return {
        "observedGeneration": 2,
        "conditions": list(conditions) or [condition("Ready", "True", "AsDesired")],
        "levels": list(LADDER),
        "observedLevel": level,
        "desiredLevel": level,
        "acceptancePercent": 62,
        "decisions": list(decisions),
        **more,
    }


def policy(
    name: str = "chat-70b",
    target: str = "Deployment/llama-70b",
    status: Mapping[str, Any] | None = None,
    *,
    namespace: str = "llm",
    mode: str = "Enforce",
    annotations: Mapping[str, str] | None = None,
    **spec: object,
) -> dict[str, Any]:
    """The whole object; without a status the operator has not looked at it yet."""
    kind, _, workload = target.partition("/")
    return {
        "apiVersion": "specloop.dev/v1alpha1",
        "kind": "SpecPolicy",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "generation": 2,
            "resourceVersion": "1",
            "annotations": dict(annotations or {}),
            "managedFields": [],
        },
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": workload}, "mode": mode, **spec},
        **({} if status is None else {"status": status}),
    }


def live(name: str = "chat-70b", *arguments: Any, **more: Any) -> LivePolicy:
    """The same, as it is read."""
    return LivePolicy.model_validate(policy(name, *arguments, **more))
