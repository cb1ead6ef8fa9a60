"""What an engine has counted since it started."""

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from specloop_engine.sample import Drafting
from specloop_sim.course import Course
from specloop_sim.request import Finish, Finished, Request

TEMPERATURE_EDGES = tuple(tenth / 10 for tenth in range(21))


@dataclass(slots=True)
class Counters:
    """Counters of an engine that drafts `tokens` at a time."""

    tokens: int
    prompt_tokens: int = 0
    generation_tokens: int = 0
    first_tokens: int = 0
    one_token_requests: int = 0
    finished: dict[Finish, int] = field(default_factory=lambda: dict.fromkeys(Finish, 0))
    steps: int = 0
    busy_seconds: float = 0.0
    """Time spent in steps."""
    _rejected: NDArray[np.int64] = field(init=False)
    """Decode steps by how many draft tokens were rejected, K + 1 for no draft."""
    _temperatures: list[int] = field(default_factory=lambda: [0] * (len(TEMPERATURE_EDGES) + 1))
    """Admitted requests by the first edge at or above their temperature."""

    def __post_init__(self) -> None:
        """Begin with no drafts."""
        self._rejected = np.zeros(self.tokens + 2, np.int64)

    def count_admission(self, request: Request) -> None:
        """A request has left the queue."""
        self._temperatures[_bucket(request)] += 1

    def count_first_token(self, request: Request) -> None:
        """A prompt is computed."""
        self.first_tokens += 1
        self.generation_tokens += 1
        self.prompt_tokens += request.prompt_tokens

    def count_steps(self, course: Course, start: int, end: int) -> None:
        """Decode steps `start` to `end` (exclusive) of a request are over."""
        self.generation_tokens += int(course.emitted[end] - course.emitted[start])
        if course.rejected is not None:
            self._rejected += np.bincount(course.rejected[start:end], minlength=self.tokens + 2)

    def count_end(self, finished: Finished) -> None:
        """A request is over."""
        self.finished[finished.finish] += 1
        self.one_token_requests += finished.tokens <= 1

    def drafting(self) -> Drafting:
        """Speculation's counters."""
        by_rejected = self._rejected[:-1].cumsum()
        # Where at most i of the K drafts were rejected, at least K - i were accepted.
        drafts, at_least = by_rejected[-1], by_rejected[-2::-1]
        return Drafting(
            drafts=float(drafts),
            draft_tokens=float(drafts * self.tokens),
            accepted_tokens=float(at_least.sum()),
            accepted_per_position=tuple(map(float, at_least)),
        )

    def temperatures(self, waiting: Iterable[Request]) -> tuple[tuple[float, float], ...]:
        """Admitted and waiting requests by temperature: upper edge, requests at or below it."""
        counts = self._temperatures.copy()
        for request in waiting:
            counts[_bucket(request)] += 1
        return tuple(zip((*TEMPERATURE_EDGES, math.inf), map(float, accumulate(counts)), strict=True))


def _bucket(request: Request) -> int:
    return bisect_left(TEMPERATURE_EDGES, request.temperature)
