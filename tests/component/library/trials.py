"""Ready-made policies on trial: a file of the library as it is, and the same without what it is there for."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import yaml

from specloop_cli.scene import Options, Scene, entrants, set_scene
from specloop_policy.decision import Inputs
from specloop_policy.model import SpecPolicy
from specloop_sim.contest import Entrant
from specloop_sim.simulate import Outcome, simulate

LIBRARY = Path(__file__).resolve().parents[3] / "policies" / "library"
TRIALS = LIBRARY / "trials"
"""Traffic that shows what a policy is there for, one workload file by the name of the policy."""

REPLICAS = 3
"""A fleet of which two thirds go on serving while one replica restarts."""

Edit = Callable[[dict[str, Any]], None]
"""Changes the `spec` of a policy."""


def policy(name: str, edit: Edit | None = None) -> SpecPolicy:
    """A policy of the library, or what an edit makes of it."""
    data: dict[str, Any] = yaml.safe_load((LIBRARY / f"{name}.yaml").read_text(encoding="utf-8"))
    if edit is not None:
        edit(data["spec"])
    return SpecPolicy.model_validate_json(json.dumps(data))


def only_telling(*rules: str) -> Edit:
    """Leaves these rules without effect; they stay as alerts, for a policy may not have no rules."""

    def edit(spec: dict[str, Any]) -> None:
        for rule in spec["rules"]:
            if rule["name"] in rules:
                rule["action"] = {"type": "Alert"}

    return edit


def only_levels(*names: str) -> Edit:
    """Leaves these levels."""

    def edit(spec: dict[str, Any]) -> None:
        spec["levels"] = [level for level in spec["levels"] if level["name"] in names]

    return edit


@dataclass(frozen=True)
class Trial:
    """Traffic, fleet and luck that all contestants meet alike, as `specloop simulate` sets them up."""

    scene: Scene

    @classmethod
    def on(cls, workload: str, profile: str | None = None, **options: Any) -> Self:
        """The scene of a workload, shipped or of the library's trials."""
        file = TRIALS / f"{workload}.yaml"
        where = str(file) if file.exists() else workload
        return cls(set_scene(Options(workload=where, profile=profile, replicas=REPLICAS, **options)))

    def run(
        self, name: str, edit: Edit | None = None, *, level: str | None = None, known: Inputs | None = None
    ) -> Outcome:
        """What becomes of a policy of the library, edited or not, that starts at its first level or another.

        `known` is what it knows beside its windows, in place of the scene's step times.
        """
        one = self._entrant(name, edit)
        start = one.policy.ladder.find(level) if level is not None else one.level
        assert start is not None
        setup = replace(self.scene.setup, ladder=one.policy.ladder, level=start)
        return simulate(setup, self.scene.traffic(), one.policy, one.inputs(known or self.scene.known))

    def _entrant(self, name: str, edit: Edit | None) -> Entrant:
        return entrants([(f"{name}.yaml", policy(name, edit))], self.scene)[0]


def moves(outcome: Outcome) -> list[tuple[str, str | None, str | None]]:
    """Action, level to go to and rule of every decision that changed something."""
    return [(str(one.decision.action), one.decision.level, one.decision.rule) for one in outcome.decisions]
