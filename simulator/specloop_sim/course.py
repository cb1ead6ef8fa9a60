"""The course of one request through its decode steps: how many tokens each yields.

It depends on the request, the level and the request's luck alone, never on what else runs, so it is worked out once,
when the request starts.  The luck of a step is one number u: a draft is made when u is below the match share m, and
its first i tokens are accepted when u is below m p_i.  Step n of a request has the same u at every level.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specloop_policy.ladder import Level, Method
from specloop_sim.luck import WHOLE, Spread, deal, deal_all
from specloop_sim.request import Request
from specloop_sim.text import CHARACTERS, AcceptanceProfile, Kind, acceptance, match_share

Integers = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True)
class Course:
    """Decode steps of one request, in order."""

    emitted: Integers
    """Tokens out before each step, and after the last: one entry more than there are steps."""
    rejected: Integers | None = None
    """How many of the K drafts were rejected in each step, K + 1 where none was made; drafts beyond the end of the text
    are accepted or rejected too, as in vLLM.  None where nothing is drafted at all."""

    def __len__(self) -> int:
        return len(self.emitted) - 1


@dataclass(frozen=True, slots=True)
class Drafting:
    """How an engine drafts, and the seed of its luck."""

    level: Level
    seed: int
    clustering: bool = True
    """Whether requests differ in how hard they are; off, all have the same survival."""
    probabilistic: bool = False
    """Whether a draft model samples its drafts (vLLM's `draft_sample_method`)."""
    acceptance_factor: float = 1.0
    """On the chance of every draft to be accepted: a replica whose drafter is not what it should be."""


def course_of(request: Request, drafting: Drafting, start: int = 1, step: int = 0) -> Course:
    """Decode steps from token `start` (0-based; token 0 comes from the prefill) to the end of the answer.

    `step` is the number of decode steps that the request has behind it.
    """
    level = drafting.level
    if level.drafter is None or level.tokens == 0:
        return Course(np.arange(start, max(start, request.output_tokens) + 1))
    numbers = deal(drafting.seed, request.id, step + 1 + request.output_tokens - start)
    edges = chances_of(request, drafting).edges(float(numbers[0]) / WHOLE)
    rejected = edges.searchsorted(numbers[step + 1 :], side="right")
    return _cut(rejected, level.tokens, start, request.output_tokens)


def courses_of(requests: Sequence[Request], drafting: Drafting) -> list[Course]:
    """Whole courses of many requests, the same as `course_of` gives for each, at a fifth of the time.

    All their numbers lie in one array, the one for hardness in front of each request's own.
    """
    level = drafting.level
    if level.drafter is None or level.tokens == 0 or len(requests) == 1:
        return [course_of(request, drafting) for request in requests]
    lengths = np.array([request.output_tokens for request in requests])
    numbers = deal_all(drafting.seed, [(request.id, request.output_tokens) for request in requests])
    firsts = np.concatenate(([0], np.cumsum(lengths[:-1])))
    edges = np.array(
        [
            chances_of(request, drafting).edges(hardness)
            for request, hardness in zip(requests, (numbers[firsts] / WHOLE).tolist(), strict=True)
        ]
    )
    rejected = np.zeros(len(numbers), np.int8)
    for column in edges.T:
        rejected += numbers >= column.repeat(lengths)
    emitted = _yields(level.tokens).take(rejected)
    emitted[firsts] = 1  # token 0 comes from the prefill
    np.add.accumulate(emitted, out=emitted)
    before = emitted[firsts] - 1
    lasts = emitted.searchsorted(before + lengths)
    emitted -= before.repeat(lengths)
    emitted[lasts] = lengths
    return [
        Course(emitted[first : last + 1], rejected[first + 1 : last + 1])
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)
    ]


def _cut(rejected: NDArray[np.int64], tokens: int, start: int, end: int) -> Course:
    """As many of these steps as it takes from token `start` to the end of the text."""
    emitted = np.empty(len(rejected) + 1, np.int32)
    emitted[0] = start
    _yields(tokens).take(rejected, out=emitted[1:], mode="clip")
    np.add.accumulate(emitted, out=emitted)
    steps = int(emitted.searchsorted(end))
    emitted[steps] = max(start, end)
    return Course(emitted[: steps + 1], rejected[:steps])


@lru_cache
def _yields(tokens: int) -> NDArray[np.int32]:
    """Tokens that a step yields, by drafts rejected: what was accepted and one of the target's own."""
    return np.array([*range(tokens + 1, 0, -1), 1], np.int32)


def chances_of(request: Request, drafting: Drafting) -> "_Chances":
    """What a request's text gives the drafter."""
    level = drafting.level
    assert level.drafter is not None  # without one nothing is drafted
    return _chances(
        request.kind,
        level.drafter.method,
        round(request.temperature, 2),
        level.tokens,
        drafting.clustering,
        drafting.probabilistic,
        drafting.acceptance_factor,
        request.profile,
    )


class _Chances:
    """What one kind of text at one temperature gives one drafter: chances, ready to be compared with luck."""

    __slots__ = ("_by_hardness", "_match_share", "_same_for_all", "_spread")

    def __init__(
        self,
        kind: Kind,
        method: Method,
        temperature: float,
        tokens: int,
        clustering: bool,
        probabilistic: bool,
        factor: float,
        profile: AcceptanceProfile | None,
    ) -> None:
        chances = acceptance(kind, method, temperature, tokens, probabilistic, profile)
        survivals = tuple(accumulate((min(1.0, chance * factor) for chance in chances), mul))
        self._match_share = match_share(kind, method, profile)
        self._spread = Spread(survivals, self._match_share, CHARACTERS[kind].spread_shape) if clustering else None
        self._same_for_all = self._edges(np.array(survivals))
        self._by_hardness: dict[int, NDArray[np.uint32]] = {}
        """Edges by place in the table of hardness, made when first asked for."""

    def edges(self, share: float) -> NDArray[np.uint32]:
        """Rising edges for the request at this share of all requests, easiest first: below the first all K drafts are
        accepted, below the last but one the first draft is, below the last there is a draft."""
        if self._spread is None:
            return self._same_for_all
        place = self._spread.place(share)
        edges = self._by_hardness.get(place)
        if edges is None:
            edges = self._by_hardness[place] = self._edges(self._spread.survival(place))
        return edges

    def _edges(self, survivals: NDArray[np.float64]) -> NDArray[np.uint32]:
        edges = np.empty(len(survivals) + 1)
        edges[-1] = 1.0
        edges[:-1] = survivals[::-1]
        edges *= self._match_share * (WHOLE - 1)
        return edges.astype(np.uint32)


_chances = lru_cache(maxsize=1024)(_Chances)
