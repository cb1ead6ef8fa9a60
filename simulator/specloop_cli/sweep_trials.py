"""One candidate on one trace, as each process of a sweep does it."""

from collections.abc import Sequence
from dataclasses import replace

from specloop_cli.scene import Scene, entrants
from specloop_policy.ladder import DISABLED, Ladder
from specloop_policy.model import SpecPolicy
from specloop_sim.courses import Courses
from specloop_sim.simulate import simulate
from specloop_sim.sweep.desk import Run
from specloop_sim.sweep.figures import Measured
from specloop_sim.sweep.known_runs import KnownRuns


class Trials:
    """Runs candidates over scenes, and keeps the courses of their requests from run to run."""

    def __init__(self, policy_file: str, scenes: Sequence[Scene]) -> None:
        self._policy_file = policy_file
        courses = Courses()  # one for all, so that its limit holds for the process
        self._scenes = tuple(replace(one, setup=replace(one.setup, courses=courses)) for one in scenes)
        self._known = tuple(KnownRuns() for _ in scenes)

    def __call__(self, run: Run) -> Measured:
        """What comes of a candidate, or of speculation off."""
        scene = self._scenes[run.trace]
        if run.document is None:
            still = replace(scene.setup, ladder=Ladder((DISABLED,)), level=DISABLED)
            return Measured.of(simulate(still, scene.traffic()).figures)
        policy = SpecPolicy.model_validate_json(run.document, by_alias=True, by_name=False)
        (entrant,) = entrants([(self._policy_file, policy)], scene)
        setup = replace(scene.setup, ladder=entrant.policy.ladder, level=entrant.level)
        known = self._known[run.trace]
        return Measured.of(known.figures(setup, scene.traffic, entrant.policy, entrant.inputs(scene.known)))
