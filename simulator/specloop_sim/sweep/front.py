"""Which candidates nothing beats, and the one to take."""

from collections.abc import Sequence
from dataclasses import dataclass

from specloop_sim.sweep.figures import Judged
from specloop_sim.sweep.space import Values


@dataclass(frozen=True, slots=True)
class Candidate:
    """A combination of values with what came of it; number 0 is the policy as it is."""

    number: int
    values: Values
    departures: int
    """In how many parameters it differs from the policy as it is."""
    judged: Judged

    @property
    def answers_all(self) -> bool:
        """Whether it answered whatever speculation off did."""
        return self.judged.unanswered == 0


def front(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Those than which no other is faster without more changes, the calmest first.

    Of several that come out alike the one that differs least from the policy stands for all.
    """
    kept: list[Candidate] = []
    for one in sorted(filter(_sound, candidates), key=_calm_first):
        if not kept or one.judged.speed_percent > kept[-1].judged.speed_percent:
            kept.append(one)
    return tuple(kept)


def best(candidates: Sequence[Candidate]) -> Candidate:
    """The fastest of those with no more changes than the policy as it is, which is the first of them."""
    given = candidates[0]
    calm = [one for one in candidates if _sound(one) and one.judged.changes <= given.judged.changes]
    return min(calm, key=_fast_first, default=given)


def _sound(one: Candidate) -> bool:
    return one.answers_all


def _calm_first(one: Candidate) -> tuple[float, ...]:
    return one.judged.changes, -one.judged.speed_percent, one.judged.restarts, one.departures, one.number


def _fast_first(one: Candidate) -> tuple[float, ...]:
    return -one.judged.speed_percent, one.judged.changes, one.judged.restarts, one.departures, one.number
