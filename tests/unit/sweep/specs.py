"""A policy's spec as plain data, and a space over it."""

from typing import Any

from specloop_sim.sweep.fields import field_at
from specloop_sim.sweep.space import Space
from specloop_sim.sweep.values import parameter

SPEC: dict[str, Any] = {
    "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
    "drafters": [{"name": "small", "method": "draft_model", "model": "m"}],
    "levels": [{"name": "k5", "drafter": "small", "tokens": 5}, {"name": "disabled"}],
    "rules": [
        {
            "name": "hot",
            "when": {"temperature": {"above": "0.6"}},
            "forSeconds": 300,
            "action": {"type": "Disable"},
        },
        {"name": "low", "when": {"acceptance": {"belowPercent": 40}}, "action": {"type": "StepDown"}},
        {"name": "high", "when": {"acceptance": {"abovePercent": 55}}, "action": {"type": "StepUp"}},
    ],
    "guardrails": {"cooldownSeconds": 900},
}
DATA: dict[str, Any] = {
    "apiVersion": "specloop.dev/v1alpha1",
    "kind": "SpecPolicy",
    "metadata": {"name": "chat", "labels": {"team": "a"}},
    "spec": SPEC,
}


def space(**asked: str) -> Space:
    """Fields, their dots written as two underscores, with their values."""
    paths = {name.replace("__", "."): text for name, text in asked.items()}
    return Space(tuple(parameter(field_at(SPEC, path), text) for path, text in paths.items()))


LOW, HIGH = "rules.low.when.acceptance.belowPercent", "rules.high.when.acceptance.abovePercent"


def limits(low: str, high: str) -> Space:
    """The two acceptance limits of the policy, with their values."""
    return Space((parameter(field_at(SPEC, LOW), low), parameter(field_at(SPEC, HIGH), high)))
