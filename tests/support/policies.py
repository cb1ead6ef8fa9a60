"""Policies made from the fields that a test is about, ready for deciding."""

import json
from typing import Any

from specloop_policy.ladder import Drafter, Method
from specloop_policy.model import SpecPolicySpec
from specloop_policy.policy import Policy, resolve

SMALL = Drafter("small", Method.DRAFT_MODEL, "meta-llama/Llama-3.2-1B-Instruct")
"""What the target of `default_policy` runs."""

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama-70b"}

DRAFTERS = [
    {"name": "small", "method": "draft_model", "model": "meta-llama/Llama-3.2-1B-Instruct"},
    {"name": "lookup", "method": "ngram", "lookupMin": 2, "lookupMax": 4},
]
LEVELS: list[dict[str, Any]] = [
    {"name": "k5", "drafter": "small", "tokens": 5},
    {"name": "k3", "drafter": "small", "tokens": 3},
    {"name": "ngram", "drafter": "lookup", "tokens": 4},
    {"name": "disabled"},
]


def spec(**fields: Any) -> SpecPolicySpec:
    """The `spec` of a policy, its fields in the policy's own spelling."""
    return SpecPolicySpec.model_validate_json(json.dumps({"targetRef": TARGET, **fields}))


def default_policy(*, running: Drafter | None = SMALL, tokens: int = 5, **fields: Any) -> Policy:
    """An enforced policy that leaves ladder and rules to the target, which runs `running` with K = `tokens`."""
    return resolve("chat-70b", spec(**fields), running, tokens, enforce=True)


def policy_of(**fields: Any) -> Policy:
    """An enforced policy over the ladder k5, k3, ngram, disabled, unless `levels` and `drafters` say otherwise."""
    return resolve("chat-70b", spec(**{"drafters": DRAFTERS, "levels": LEVELS, **fields}), enforce=True)


def rule(name: str, when: dict[str, Any], action: str, *, for_seconds: int = 600, level: str | None = None) -> Any:
    """One rule in the policy's own spelling."""
    asked = {"type": action} if level is None else {"type": action, "level": level}
    return {"name": name, "when": when, "forSeconds": for_seconds, "action": asked}
