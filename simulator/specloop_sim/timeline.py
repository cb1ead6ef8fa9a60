"""The steps to come, each with what it holds, summed over the requests in it."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Timeline:
    """Four figures for each engine step from the present one on, by step number.

    Every request adds its whole course when it is admitted, so a step's figures are complete for all that has been
    admitted by then.
    """

    __slots__ = ("_first", "_table")

    def __init__(self, capacity: int = 1024) -> None:
        self._first = 0
        self._table = np.zeros((4, capacity))

    def make_room(self, now: int, end: int) -> None:
        """Forget steps before `now`, and hold steps up to `end` (exclusive)."""
        if end - self._first <= self._table.shape[1]:
            return
        kept = self._table[:, now - self._first :]
        table = np.zeros((4, max(self._table.shape[1], 2 * (end - now))))
        table[:, : kept.shape[1]] = kept
        self._table, self._first = table, now

    def context(self, start: int, end: int) -> Array:
        """Tokens of context in steps `start` to `end` (exclusive), to read or to add to; so are the others."""
        return self._row(0, start, end)

    def decoding(self, start: int, end: int) -> Array:
        """Requests that decode."""
        return self._row(1, start, end)

    def drafting(self, start: int, end: int) -> Array:
        """Requests with a draft to verify."""
        return self._row(2, start, end)

    def prefill(self, start: int, end: int) -> Array:
        """Prompt tokens computed."""
        return self._row(3, start, end)

    def _row(self, row: int, start: int, end: int) -> Array:
        return self._table[row, start - self._first : end - self._first]
