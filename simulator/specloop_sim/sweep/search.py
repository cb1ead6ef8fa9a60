"""Which combination to try next: all of them, some by lot, or where Optuna expects the best ones.

A search is asked and told in one process and in one order, so that the same seed asks for the same combinations
however many processes try them out.
"""

import random
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from specloop_sim.sweep.space import Choice, Space
from specloop_sim.sweep.values import Parameter

if TYPE_CHECKING:
    import optuna

MOST_REPEATS = 10
"""Known combinations that Optuna may propose in a row before one is drawn by lot: as many as it begins with by lot."""


class Search(Protocol):
    """What proposes combinations."""

    def ask(self) -> Choice | None:
        """A combination that was not asked for before; None when there is none left."""

    def tell(self, choice: Choice, speed: float, changes: float, unanswered: int) -> None:
        """What came of a combination."""

    def drop(self, choice: Choice) -> None:
        """A combination is no valid policy."""


class Listed:
    """Combinations in the order of a list."""

    def __init__(self, choices: Iterator[Choice]) -> None:
        self._choices = choices

    def ask(self) -> Choice | None:
        """The next one of the list."""
        return next(self._choices, None)

    def tell(self, choice: Choice, speed: float, changes: float, unanswered: int) -> None:
        """A list goes on as it is."""

    def drop(self, choice: Choice) -> None:
        """A list goes on as it is."""


def whole_grid(space: Space) -> Listed:
    """Every combination."""
    return Listed(space.choices())


def grid_by_lot(space: Space, seed: int) -> Listed:
    """Every combination, in an order drawn by lot: the first ones are a fair share of all."""
    return Listed(map(space.choice, _by_lot(space.size, seed)))


def _by_lot(size: int, seed: int) -> Iterator[int]:
    """Numbers below `size`, each once, one at a time: there may be more of them than memory holds."""
    lot, drawn = random.Random(seed), set[int]()
    while len(drawn) < size:
        number = lot.randrange(size)
        if number not in drawn:
            drawn.add(number)
            yield number


class Guided:
    """Optuna's tree-structured Parzen estimator for two aims: fast, and few changes (arXiv:2304.11127).

    Combinations that leave requests unanswered break a constraint, so that it stays away from them.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._lot = random.Random(seed)
        self._study = _study(seed)
        self._open: dict[Choice, optuna.Trial] = {}
        self._known: dict[Choice, tuple[float, float, int] | None] = {}
        """Combinations that were asked for, with what they were told, if anything."""

    def ask(self) -> Choice | None:
        """A new combination."""
        if len(self._known) >= self._space.size:
            return None
        for _ in range(MOST_REPEATS):
            choice = self._propose()
            if choice not in self._known:
                return self._take(choice)
            self._repeat(choice)
        self._enqueue_by_lot()
        return self._take(self._propose())

    def tell(self, choice: Choice, speed: float, changes: float, unanswered: int) -> None:
        """Speed is percent, the more the better; changes, the fewer."""
        self._known[choice] = (speed, changes, unanswered)
        self._finish(choice, speed, changes, unanswered)

    def drop(self, choice: Choice) -> None:
        """Optuna takes it for a failure, and learns nothing from it."""
        from optuna.trial import TrialState

        self._study.tell(self._open.pop(choice), state=TrialState.FAIL)

    def _propose(self) -> Choice:
        trial = self._study.ask()
        choice = tuple(_suggest(trial, one) for one in self._space.parameters)
        self._last = trial
        return choice

    def _take(self, choice: Choice) -> Choice:
        self._known[choice] = None
        self._open[choice] = self._last
        return choice

    def _repeat(self, choice: Choice) -> None:
        """Tell Optuna again what it might have known."""
        from optuna.trial import TrialState

        told = self._known[choice]
        if told is None:
            self._study.tell(self._last, state=TrialState.FAIL)
        else:
            _tell(self._study, self._last, *told)

    def _finish(self, choice: Choice, speed: float, changes: float, unanswered: int) -> None:
        _tell(self._study, self._open.pop(choice), speed, changes, unanswered)

    def _enqueue_by_lot(self) -> None:
        choice = next(one for one in iter(self._drawn, None) if one not in self._known)
        names = self._space.paths
        self._study.enqueue_trial(dict(zip(names, choice, strict=True)))

    def _drawn(self) -> Choice:
        return self._space.choice(self._lot.randrange(self._space.size))


def _study(seed: int) -> "optuna.Study":
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        # Multivariate: parameters of one rule act together.  The liar keeps what is under way from being asked again.
        sampler = optuna.samplers.TPESampler(seed=seed % 2**32, multivariate=True, constant_liar=True)
    return optuna.create_study(directions=["maximize", "minimize"], sampler=sampler)


def _suggest(trial: "optuna.Trial", one: Parameter) -> int:
    """The place of a value; numbers in their order, words without one."""
    if one.ordered:
        return trial.suggest_int(one.field.path, 0, len(one.values) - 1)
    place: int = trial.suggest_categorical(one.field.path, list(range(len(one.values))))
    return place


def _tell(study: "optuna.Study", trial: "optuna.Trial", speed: float, changes: float, unanswered: int) -> None:
    trial.set_constraint("unanswered", unanswered)
    study.tell(trial, [speed, changes])
