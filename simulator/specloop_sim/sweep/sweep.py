"""A sweep: candidates proposed, tried out and judged, in an order that does not depend on who is quick."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from specloop_sim.sweep.desk import Desk, Run
from specloop_sim.sweep.figures import Judged, Measured, judge
from specloop_sim.sweep.front import Candidate, best
from specloop_sim.sweep.search import Search
from specloop_sim.sweep.space import Choice, Space, Values

UNDER_WAY = 16
"""Candidates tried at once: a proposal knows what came of all but the last sixteen.  More keep more processes busy, and
teach the search later; Optuna's own start by lot is ten."""
MOST_SKIPPED = 20
"""Combinations that are no valid policies, for each candidate asked for, before a sweep gives up: assumed."""

Documents = Callable[[Values], str | None]
"""The policy with these values as JSON; None where they contradict each other."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep has come to."""

    disabled: tuple[Measured, ...]
    """Speculation off, trace by trace."""
    candidates: tuple[Candidate, ...]
    """The policy as it is first, then in the order of proposals."""
    skipped: int
    """Combinations that contradict themselves."""
    exhausted: bool
    """Whether no combination is left."""


class Sweep:
    """Tries out `trials` candidates, the policy as it is among them, on traces 0 to `traces` - 1.

    A few more at the end may show which differences of the best one are none.
    """

    def __init__(
        self, space: Space, search: Search, documents: Documents, desk: Desk, *, traces: int, trials: int
    ) -> None:
        self._space = space
        self._search = search
        self._documents = documents
        self._desk = desk
        self._traces = range(traces)
        self._trials = trials
        self._tried: dict[Values, int] = {}
        """Every candidate's number."""
        self._judged: dict[Values, Judged] = {}
        self._skipped = 0
        self._exhausted = False

    def run(self) -> Swept:
        """From the first candidate to the last."""
        self._hand_in(None, None)
        self._hand_in(self._space.given, self._documents(self._space.given))
        self._tried[self._space.given] = 0
        under_way: deque[tuple[Choice, Values]] = deque()
        for choice, values in self._proposals():
            under_way.append((choice, values))
            if len(under_way) == UNDER_WAY:
                self._settle(*under_way.popleft())
        while under_way:
            self._settle(*under_way.popleft())
        self._simplify(best(self._candidates()))
        return Swept(self._disabled(), self._candidates(), self._skipped, self._exhausted)

    def _proposals(self) -> Iterator[tuple[Choice, Values]]:
        """New candidates, handed in."""
        while len(self._tried) < self._trials and self._skipped <= MOST_SKIPPED * self._trials:
            choice = self._search.ask()
            if choice is None:
                self._exhausted = True
                return
            values = self._space.values(choice)
            if values == self._space.given:
                self._settle(choice, values)
            elif self._try(values):
                yield choice, values
            else:
                self._skipped += 1
                self._search.drop(choice)

    def _simplify(self, chosen: Candidate) -> None:
        """Try the best candidate with one parameter after the other as it was: what makes no difference goes back."""
        values = chosen.values
        for place, given in enumerate(self._space.given):
            simpler = (*values[:place], given, *values[place + 1 :])
            if self._try(simpler) and self._judge(simpler) == chosen.judged:
                values = simpler

    def _try(self, values: Values) -> bool:
        """Have a candidate run, unless it was; whether it is a policy."""
        if values not in self._tried:
            document = self._documents(values)
            if document is None:
                return False
            self._hand_in(values, document)
            self._tried[values] = len(self._tried)
        return True

    def _hand_in(self, values: Values | None, document: str | None) -> None:
        for trace in self._traces:
            self._desk.hand_in(Run(trace, values, document))

    def _settle(self, choice: Choice, values: Values) -> None:
        """Wait for what came of a candidate, and tell the search."""
        judged = self._judge(values)
        self._search.tell(choice, judged.speed_percent, judged.changes, judged.unanswered)

    def _candidates(self) -> tuple[Candidate, ...]:
        return tuple(
            Candidate(number, values, self._space.departures(values), self._judge(values))
            for values, number in self._tried.items()
        )

    def _judge(self, values: Values) -> Judged:
        if values not in self._judged:
            self._judged[values] = judge(self._runs(values), self._disabled())
        return self._judged[values]

    def _disabled(self) -> tuple[Measured, ...]:
        return self._runs(None)

    def _runs(self, values: Values | None) -> tuple[Measured, ...]:
        return tuple(self._desk.measured([(trace, values) for trace in self._traces]))


def held_out(desk: Desk, trace: int, documents: Documents, candidates: Sequence[Candidate]) -> list[Judged]:
    """What comes of candidates on a trace that none was chosen by."""
    runs = [Run(trace, None, None), *(Run(trace, one.values, documents(one.values)) for one in candidates)]
    for one in runs:
        desk.hand_in(one)
    disabled, *measured = (desk.measured([one.key]) for one in runs)
    return [judge(one, disabled) for one in measured]
