"""Small traffic and policies for tests of the simulation."""

import json
import random
from dataclasses import replace

from specloop_policy.ladder import Level
from specloop_policy.model import SpecPolicySpec
from specloop_policy.policy import Policy, resolve
from specloop_sim.fleet import Hardware
from specloop_sim.profile import profile_named
from specloop_sim.request import Request
from specloop_sim.simulate import Setup
from specloop_sim.text import Kind

PROFILE = profile_named("4xh100-llama-3.3-70b")
SPEC = {
    "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
    "intervalSeconds": 5,
    "drafters": [
        {"name": "small", "method": "draft_model", "model": "m"},
        {"name": "lookup", "method": "ngram", "lookupMin": 2, "lookupMax": 4},
    ],
    "levels": [
        {"name": "k5", "drafter": "small", "tokens": 5},
        {"name": "k3", "drafter": "small", "tokens": 3},
        {"name": "ngram", "drafter": "lookup", "tokens": 4},
        {"name": "disabled"},
    ],
    "signals": {"windowSeconds": 20, "maxEvidenceSeconds": 120, "settleSeconds": 10, "minRequests": 20},
    "rules": [
        {
            "name": "acceptance-low",
            "when": {"acceptance": {"belowPercent": 40}},
            "forSeconds": 40,
            "action": {"type": "StepDown"},
        }
    ],
}
"""A step down below 40 %, within two minutes of traffic."""
IDLE = [{"name": "never", "when": {"acceptance": {"belowPercent": 1}}, "action": {"type": "StepDown"}}]
"""Rules that never do anything."""


def policy(name: str = "ours", **changes: object) -> Policy:
    """The policy of `SPEC` with some fields of the spec replaced; it acts."""
    return resolve(name, SpecPolicySpec.model_validate_json(json.dumps({**SPEC, **changes})), enforce=True)


LADDER = policy().ladder
K5, K3, NGRAM, DISABLED = LADDER.levels


def setup(level: Level = K5, *, replicas: int = 1, seconds: float = 300.0, **hardware: object) -> Setup:
    """A fleet that starts within ten seconds, all at one level."""
    made = replace(Hardware(PROFILE, startup_seconds=10.0, drain_seconds=5.0), **hardware)  # type: ignore[arg-type]
    return Setup(made, LADDER, level, replicas, 1, seconds)


def requests(
    count: int = 600, per_second: float = 2.0, kind: Kind = Kind.PROSE, temperature: float = 0.2, output: int = 150
) -> list[Request]:
    """Requests at random moments, all of one kind; prose is accepted at 34 % with K=5 (text.py)."""
    chance, arrival, made = random.Random(5), 0.0, []
    for number in range(count):
        arrival += chance.expovariate(per_second)
        made.append(Request(f"r{number}", arrival, 300, chance.randint(1, 2 * output), temperature, kind))
    return made
