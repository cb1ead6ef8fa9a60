"""A contest: policies, and levels that stay, on the same arrivals with the same luck."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from specloop_policy.decision import Inputs
from specloop_policy.ladder import DISABLED, Ladder, Level
from specloop_policy.model import Schedule
from specloop_policy.policy import Policy
from specloop_policy.schedules import scheduled_level
from specloop_sim.fleet import Traffic
from specloop_sim.simulate import Outcome, Setup, simulate

BEST = "best-in-hindsight"
"""The static level that turns out best: what a person who knew the whole traffic would have chosen."""


class ContestError(ValueError):
    """Contestants that cannot be told apart; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Entrant:
    """A policy that takes part, the level that its fleet starts at, and its schedules."""

    policy: Policy
    level: Level
    schedules: tuple[Schedule, ...] = ()

    def inputs(self, known: Inputs) -> Callable[[float], Inputs]:
        """What its decisions may depend on, by seconds since the epoch."""
        if not self.schedules:
            return lambda now: known
        return lambda now: replace(known, scheduled=scheduled_level(self.schedules, now))


def static_levels(entrants: Sequence[Entrant]) -> dict[str, Level]:
    """Every level of every ladder once, by contestant's name; `disabled` first."""
    found = {DISABLED.name: DISABLED}
    for entrant in entrants:
        for level in entrant.policy.ladder.levels:
            if any(_same(level, other) for other in found.values()):
                continue
            name = f"static-{level.name}"
            found[name if name not in found else f"{name}-of-{entrant.policy.name}"] = level
    return found


def _same(level: Level, other: Level) -> bool:
    """Whether two levels draft alike, whatever they and their drafters are called."""
    return _drafts(level) == _drafts(other)


def _drafts(level: Level) -> tuple[object, ...]:
    drafter = level.drafter
    return () if drafter is None else (level.tokens, drafter.method, drafter.lookup_min, drafter.lookup_max)


def contest(
    setup: Setup,
    entrants: Sequence[Entrant],
    traffic: Callable[[], Traffic],
    known: Inputs,
    *,
    began: Callable[[str, int, int], None] = lambda name, place, count: None,
) -> dict[str, Outcome]:
    """Run every policy, and every level of their ladders from beginning to end; `setup` gives all but the levels.

    `traffic` makes the same traffic anew for each; `began` is told of each contestant as it begins.  Raises
    ContestError for two contestants of one name.
    """
    statics = static_levels(entrants)
    names = [*(entrant.policy.name for entrant in entrants), *statics]
    for name in names:
        if names.count(name) > 1 or name == BEST:
            raise ContestError(f"two contestants are called {name}: give the policies other names (metadata.name)")
    outcomes: dict[str, Outcome] = {}
    for entrant in entrants:
        began(entrant.policy.name, len(outcomes) + 1, len(names))
        ours = replace(setup, ladder=entrant.policy.ladder, level=entrant.level)
        outcomes[entrant.policy.name] = simulate(ours, traffic(), entrant.policy, entrant.inputs(known))
    for name, level in statics.items():
        began(name, len(outcomes) + 1, len(names))
        ours = replace(setup, ladder=Ladder((level,)), level=level)
        outcomes[name] = simulate(ours, traffic())
    return outcomes


def best_in_hindsight(outcomes: Mapping[str, Outcome], statics: Mapping[str, Level], *, closed_loop: bool) -> str:
    """The best of the levels that stay: most answered, then by the figure that compares (`score`)."""
    return min(statics, key=lambda name: score(outcomes[name], closed_loop=closed_loop))


def score(outcome: Outcome, *, closed_loop: bool) -> tuple[int, float]:
    """The smaller the better: requests not answered, then mean request seconds; in a closed loop tokens per second."""
    figures = outcome.figures
    if closed_loop:
        return 0, -figures.output_tokens_per_second
    return figures.refused_requests + figures.unfinished_requests, figures.mean_request_seconds
