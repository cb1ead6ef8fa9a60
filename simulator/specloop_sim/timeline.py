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

    def __init__(self) -> None:
        self._first = 0
        self._table = np.zeros((4, 1024))

    def make_room(self, now: int, end: int) -> None:
        """Forget steps before `now`, and hold steps up to `end` (exclusive)."""
        width = self._table.shape[1]
        if end - self._first <= width:
            return
        kept = self._table[:, now - self._first :]
        self._table = np.zeros((4, max(width, 2 * (end - now))))
        self._table[:, : kept.shape[1]] = kept
        self._first = now

    def rows(self, start: int, end: int) -> Array:
        """Steps `start` to `end` (exclusive), to read or to add to: rows of the four below."""
        return self._table[:, start - self._first : end - self._first]

    def add_prompt(self, step: int, context: int, tokens: int, yielded: int) -> None:
        """Add a prompt's share of one step; single cells, which are cheaper than slices of one."""
        place = step - self._first
        self._table[0, place] += context
        self._table[2, place] += tokens
        self._table[3, place] += yielded

    def context(self, start: int, end: int) -> Array:
        """Tokens of context, with the prompts that are being computed."""
        return self._table[0, start - self._first : end - self._first]

    def decoding(self, start: int, end: int) -> Array:
        """Requests that decode."""
        return self._table[1, start - self._first : end - self._first]

    def yielded(self, start: int, end: int) -> Array:
        """Tokens that come out or are computed for good: answers, and prompts in the step that completes them."""
        return self._table[3, start - self._first : end - self._first]
