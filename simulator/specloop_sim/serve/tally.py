"""Histograms as they are counted: edges, counts, sum."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray


class Tally:
    """A Prometheus histogram: how many observations fell at or below each edge, and their sum."""

    __slots__ = ("_counts", "edges", "sum")

    def __init__(self, edges: Iterable[float]) -> None:
        self.edges = tuple(map(float, edges))
        self._counts = [0] * (len(self.edges) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count one value, or the same one several times."""
        self._counts[bisect_left(self.edges, value)] += times
        self.sum += value * times

    def observe_all(self, values: NDArray[np.float64], times: NDArray[np.float64]) -> None:
        """Count many values, each so many times."""
        places = np.searchsorted(self.edges, values)
        counts = np.bincount(places, weights=times, minlength=len(self._counts))
        self._counts = [before + int(more) for before, more in zip(self._counts, counts, strict=True)]
        self.sum += float(values @ times)

    def cumulative(self) -> Iterator[tuple[str, int]]:
        """Edges as the text format writes them, each with the observations at or below it; the last is +Inf."""
        total = 0
        for edge, count in zip((*self.edges, float("inf")), self._counts, strict=True):
            total += count
            yield ("+Inf" if edge == float("inf") else str(edge)), total

    @property
    def count(self) -> int:
        """All observations."""
        return sum(self._counts)


def one_two_five(highest: float) -> list[float]:
    """1, 2, 5, 10, 20, 50, ... up to `highest`, as vLLM divides numbers of tokens."""
    edges, power = list[float](), 1.0
    while power <= highest:
        edges += [power * digit for digit in (1.0, 2.0, 5.0) if power * digit <= highest]
        power *= 10.0
    return edges
