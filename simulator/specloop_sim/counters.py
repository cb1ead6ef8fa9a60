"""What an engine has counted since it started."""

import math
from bisect import bisect_left
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
    """Counters of an engine that was started to draft `most_tokens` at a time."""

    most_tokens: int
    prompt_tokens: int = 0
    generation_tokens: int = 0
    first_tokens: int = 0
    one_token_requests: int = 0
    finished: dict[Finish, int] = field(default_factory=lambda: dict.fromkeys(Finish, 0))
    steps: int = 0
    busy_seconds: float = 0.0
    """Time spent in steps."""
    _tokens: int = field(init=False)
    """K in use."""
    _rejected: NDArray[np.int64] = field(init=False)
    """Decode steps at this K by how many draft tokens were rejected, K + 1 for no draft."""
    _earlier: NDArray[np.int64] = field(init=False)
    """At other K: drafts, draft tokens, and accepted ones at each position."""
    _temperatures: list[int] = field(default_factory=lambda: [0] * (len(TEMPERATURE_EDGES) + 1))
    """Requests that have come by the first edge at or above their temperature."""

    def __post_init__(self) -> None:
        """Begin with no drafts."""
        self._earlier = np.zeros(self.most_tokens + 2, np.int64)
        self._begin(self.most_tokens)

    def change_tokens(self, tokens: int) -> None:
        """From now on this many tokens are drafted at a time."""
        self._earlier = self._totals()
        self._begin(tokens)

    def count_arrival(self, request: Request) -> None:
        """A request has come."""
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
            self._rejected += np.bincount(course.rejected[start:end], minlength=self._tokens + 2)

    def count_end(self, finished: Finished) -> None:
        """A request is over."""
        self.finished[finished.finish] += 1
        self.one_token_requests += finished.tokens <= 1

    def drafting(self) -> Drafting:
        """Speculation's counters."""
        drafts, draft_tokens, *accepted = self._totals().tolist()
        return Drafting(
            drafts=float(drafts),
            draft_tokens=float(draft_tokens),
            accepted_tokens=float(sum(accepted)),
            accepted_per_position=tuple(map(float, accepted)),
        )

    def temperatures(self) -> tuple[tuple[float, float], ...]:
        """Requests that have come by temperature: upper edge, requests at or below it."""
        return tuple(zip((*TEMPERATURE_EDGES, math.inf), map(float, accumulate(self._temperatures)), strict=True))

    def _begin(self, tokens: int) -> None:
        self._tokens = tokens
        self._rejected = np.zeros(tokens + 2, np.int64)

    def _totals(self) -> NDArray[np.int64]:
        """Drafts, draft tokens and accepted ones at each position, at every K so far."""
        totals = self._earlier.copy()
        by_rejected = self._rejected[:-1].cumsum()
        # Where at most i of the K drafts were rejected, at least K - i were accepted.
        if self._tokens:
            totals[0] += by_rejected[-1]
            totals[1] += by_rejected[-1] * self._tokens
        totals[2 : self._tokens + 2] += by_rejected[-2::-1]
        return totals


def _bucket(request: Request) -> int:
    return bisect_left(TEMPERATURE_EDGES, request.temperature)
