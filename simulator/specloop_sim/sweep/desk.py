"""Runs handed to workers, and kept as they end."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Protocol

from specloop_sim.sweep.figures import Measured
from specloop_sim.sweep.space import Values
from specloop_sim.sweep.study import Key, Study


@dataclass(frozen=True, slots=True)
class Run:
    """One candidate on one trace."""

    trace: int
    values: Values | None
    """None: speculation off."""
    document: str | None
    """The policy as JSON."""

    @property
    def key(self) -> Key:
        """By which a study knows it."""
        return self.trace, self.values


class Pool(Protocol):
    """Who does runs."""

    def submit(self, task: Run) -> "Future[Measured]":
        """Have a run done."""


class Desk:
    """Takes runs in, and gives out what came of them; `finished` is told how many are known."""

    def __init__(self, study: Study, pool: Pool, finished: Callable[[int], None] = lambda count: None) -> None:
        self._study = study
        self._pool = pool
        self._finished = finished
        self._asked: set[Key] = set()
        self._pending: dict[Future[Measured], Key] = {}

    def hand_in(self, run: Run) -> None:
        """Have a run done, unless it was before."""
        if run.key in self._asked:
            return
        self._asked.add(run.key)
        if self._study.find(run.key) is None:
            self._pending[self._pool.submit(run)] = run.key
        self._tell()

    def measured(self, keys: Sequence[Key]) -> list[Measured]:
        """What came of runs that were handed in, as soon as all have ended."""
        while any(self._study.find(key) is None for key in keys):
            self._collect(wait(self._pending, return_when=FIRST_COMPLETED).done)
        return [one for key in keys if (one := self._study.find(key)) is not None]

    def keep_what_ended(self) -> None:
        """Before going home early."""
        self._collect({one for one in self._pending if one.done() and not one.cancelled() and not one.exception()})

    def _collect(self, ended: "set[Future[Measured]]") -> None:
        for one in ended:
            self._study.keep(self._pending[one], one.result())
            del self._pending[one]
        self._tell()

    def _tell(self) -> None:
        self._finished(len(self._asked) - len(self._pending))
