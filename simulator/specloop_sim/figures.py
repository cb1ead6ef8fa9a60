"""How a contestant did: figures over all requests, and over stretches of time."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specloop_sim.fleet import Fleet
from specloop_sim.request import Finished

STRETCHES = 60
"""Stretches that a run is cut into: a minute each of an hour, as many as a chart on a phone can show apart."""


@dataclass(frozen=True, slots=True)
class Figures:
    """How a contestant did; names as the command line prints them.

    A request that a restart cut off is sent again and counted once, from its first arrival to its end.
    """

    output_tokens: int
    output_tokens_per_second: float
    tpot_milliseconds_p50: float
    tpot_milliseconds_p99: float
    ttft_milliseconds_p50: float
    ttft_milliseconds_p99: float
    mean_request_seconds: float
    busy_gpu_seconds: float
    restarts: int
    changes: int
    finished_requests: int
    retried_requests: int
    """Cut off by a restart, and sent again."""
    refused_requests: int
    """Longer than what the engine takes."""
    unfinished_requests: int
    """Not answered when the run was over."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Part of a run: from `start` on, by the requests that ended in it."""

    start: float
    seconds: float
    finished_requests: int
    mean_request_seconds: float | None
    output_tokens_per_second: float


class Answers:
    """What is kept of answered requests: four numbers each."""

    def __init__(self) -> None:
        self._ends = array("d")
        self._e2e = array("d")
        self._ttft = array("d")
        self._tpot = array("d")
        self._tokens = array("q")

    def add(self, finished: Iterable[Finished]) -> None:
        """Take note of answers."""
        for one in finished:
            self._ends.append(one.end)
            self._e2e.append(one.e2e_seconds)
            self._ttft.append(one.ttft_seconds or 0.0)
            self._tpot.append(one.tpot_seconds)
            self._tokens.append(one.tokens)

    @property
    def last_end(self) -> float:
        """When the last answer was out; 0 where there was none."""
        return max(self._ends, default=0.0)

    def figures(self, fleet: Fleet, seconds: float, changes: int) -> Figures:
        """Figures of a run that took `seconds`."""
        tokens = _array(self._tokens)
        tpot = 1000.0 * _array(self._tpot)[tokens > 1]
        ttft = 1000.0 * _array(self._ttft)
        return Figures(
            output_tokens=int(tokens.sum()),
            output_tokens_per_second=float(tokens.sum() / seconds),
            tpot_milliseconds_p50=_percentile(tpot, 50),
            tpot_milliseconds_p99=_percentile(tpot, 99),
            ttft_milliseconds_p50=_percentile(ttft, 50),
            ttft_milliseconds_p99=_percentile(ttft, 99),
            mean_request_seconds=float(_array(self._e2e).mean()) if len(tokens) else 0.0,
            busy_gpu_seconds=fleet.busy_seconds,
            restarts=fleet.restarts,
            changes=changes,
            finished_requests=len(tokens),
            retried_requests=fleet.retried,
            refused_requests=fleet.refused,
            unfinished_requests=fleet.outstanding,
        )

    def stretches(self, seconds: float) -> list[Stretch]:
        """The run in equal stretches of time."""
        width = seconds / STRETCHES
        place = np.minimum((_array(self._ends) / width).astype(np.int64), STRETCHES - 1)
        counts = np.bincount(place, minlength=STRETCHES)
        e2e = np.bincount(place, weights=_array(self._e2e), minlength=STRETCHES)
        tokens = np.bincount(place, weights=_array(self._tokens), minlength=STRETCHES)
        return [
            Stretch(
                start=one * width,
                seconds=width,
                finished_requests=int(counts[one]),
                mean_request_seconds=float(e2e[one] / counts[one]) if counts[one] else None,
                output_tokens_per_second=float(tokens[one] / width),
            )
            for one in range(STRETCHES)
        ]


def _array(values: "array[float] | array[int]") -> NDArray[np.float64]:
    return np.frombuffer(values, dtype=values.typecode).astype(np.float64) if len(values) else np.zeros(0)


def _percentile(values: NDArray[np.float64], percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else 0.0
