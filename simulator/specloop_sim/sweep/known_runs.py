"""Runs that were simulated once, gone through again by candidates that decide alike.

What a fleet does depends on a policy by the decisions alone.  So a candidate is shown what a known run saw, tick by
tick; as long as it asks for the same levels at the same ticks, its own run would show it the same, and at the end its
figures are those of the known run.  Where it departs from every known run, it is simulated from the beginning.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from specloop_policy.decision import Inputs
from specloop_policy.ladder import Ladder, Level
from specloop_policy.policy import Policy
from specloop_sim.figures import Figures
from specloop_sim.fleet import Traffic
from specloop_sim.loop import Glimpse, Loop
from specloop_sim.simulate import Setup, simulate

MOST_SAMPLES = 250_000
"""Samples kept at most; at some two kilobytes each half a gigabyte, a thousand runs of an hour at 15 s."""

Wanted = Mapping[str, str] | None


@dataclass(slots=True)
class KnownRun:
    """What a policy saw at every tick, what it asked for, and what came of it."""

    begins: tuple[Ladder, Level, float]
    """Ladder, level at the start, and seconds between ticks."""
    seen: list[Glimpse] = field(default_factory=list)
    wanted: list[Wanted] = field(default_factory=list)
    figures: Figures | None = None

    def note(self, seen: Glimpse, wanted: Wanted) -> None:
        """Take note of a tick."""
        self.seen.append(seen)
        self.wanted.append(wanted)

    @property
    def samples(self) -> int:
        """How many samples it holds."""
        return sum(len(one.replicas) for one in self.seen)


class KnownRuns:
    """The runs of one scene: `setup` but for ladder and level, the same traffic, the same inputs."""

    def __init__(self, most_samples: int = MOST_SAMPLES) -> None:
        self._most_samples = most_samples
        self._runs: deque[KnownRun] = deque()
        self.simulated = 0
        """Runs that were simulated, known or not."""

    def figures(
        self, setup: Setup, traffic: Callable[[], Traffic], policy: Policy, inputs: Callable[[float], Inputs]
    ) -> Figures:
        """What comes of a policy on this traffic, as `simulate` has it."""
        begins = (setup.ladder, setup.level, policy.interval_seconds)
        known = self._follow(begins, Loop(policy, setup.epoch, inputs))
        return known if known is not None else self._simulate(begins, setup, traffic(), policy, inputs)

    def _follow(self, begins: tuple[Ladder, Level, float], loop: Loop) -> Figures | None:
        """The figures of the run that goes as this loop decides; None where there is none."""
        alike: Sequence[KnownRun] = [one for one in self._runs if one.begins == begins]
        tick = 0
        while alike and tick < len(alike[0].seen):
            wanted = loop.tick(alike[0].seen[tick])
            alike = [one for one in alike if one.wanted[tick] == wanted]
            tick += 1
        return alike[0].figures if alike else None

    def _simulate(
        self,
        begins: tuple[Ladder, Level, float],
        setup: Setup,
        traffic: Traffic,
        policy: Policy,
        inputs: Callable[[float], Inputs],
    ) -> Figures:
        run = KnownRun(begins)
        run.figures = simulate(setup, traffic, policy, inputs, witness=run.note).figures
        self.simulated += 1
        self._keep(run)
        return run.figures

    def _keep(self, run: KnownRun) -> None:
        """Keep a run, and let the oldest go where there are too many samples."""
        self._runs.append(run)
        while self._runs and sum(one.samples for one in self._runs) > self._most_samples:
            self._runs.popleft()
