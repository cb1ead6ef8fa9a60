"""The course of one request through its decode steps: how many tokens each yields.

It depends on the request, the level and the request's luck alone, never on what else runs, so it is worked out once,
when the request starts.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from specloop_policy.ladder import Level, Method
from specloop_sim.luck import WHOLE, deal, deal_share, spread_of
from specloop_sim.request import Request
from specloop_sim.text import CHARACTERS, LOOKUP_METHODS, Kind, acceptance, match_share, survival

NO_DRAFT = -1


@dataclass(frozen=True, slots=True)
class Course:
    """Decode steps of one request, in order."""

    emitted: NDArray[np.int64]
    """Tokens out before each step, and after the last: one entry more than there are steps."""
    accepted: NDArray[np.int64]
    """Drafts accepted in each step, those beyond the end of the text too, as vLLM counts; -1 where none was made."""

    def __len__(self) -> int:
        return len(self.accepted)


@dataclass(frozen=True, slots=True)
class Drafting:
    """How an engine drafts, and the seed of its luck."""

    level: Level
    seed: int
    clustering: bool = True
    """Whether requests differ in how hard they are; off, all have the profile's survival."""
    probabilistic: bool = False
    """Whether a draft model samples its drafts (vLLM's `draft_sample_method`)."""


def course_of(request: Request, drafting: Drafting, start: int = 1) -> Course:
    """Decode steps from token `start` (0-based; token 0 comes from the prefill) to the end of the answer."""
    level = drafting.level
    if level.drafter is None or level.tokens == 0:
        return _plain(start, request.output_tokens)
    method = level.drafter.method
    # Looked-up drafts are right for other reasons than a model's, so their luck is another.
    purpose = "lookup" if method in LOOKUP_METHODS else "draft"
    numbers = deal(drafting.seed, request.id, purpose, request.output_tokens + level.tokens)
    runs = run_lengths(numbers, _thresholds(request, drafting, method))
    if purpose == "lookup":
        matches = deal(drafting.seed, request.id, "match", len(runs))
        runs[matches >= match_share(request.kind, method) * WHOLE] = NO_DRAFT
    return _walk(runs, start, request.output_tokens)


def _plain(start: int, end: int) -> Course:
    return Course(np.arange(start, end + 1), np.full(max(0, end - start), NO_DRAFT))


def run_lengths(numbers: NDArray[np.uint32], thresholds: NDArray[np.uint32]) -> NDArray[np.int64]:
    """For each place, how many drafts in a row are right if a step starts there; a draft is where it is below.

    `thresholds` ends with a 0, which nothing is below; there are as many places as numbers less drafts.
    """
    right = numbers[:, None] < thresholds
    width = len(thresholds)
    places = len(numbers) - width + 1
    # Draft j of the step at place t is token t + j: a diagonal of `right`, read as a row.
    diagonals = np.ndarray((places, width), np.bool_, right, strides=(width, width + 1))
    return diagonals.argmin(axis=1)


def _walk(runs: NDArray[np.int64], start: int, end: int) -> Course:
    """From step to step: each emits what was accepted and one token of the target's own."""
    jumps = (np.maximum(runs, 0) + 1).tolist()
    places = []
    place = start
    while place < end:
        places.append(place)
        place += jumps[place]
    accepted = runs[places] if places else np.empty(0, np.int64)
    places.append(max(start, end))
    return Course(np.array(places), accepted)


def _thresholds(request: Request, drafting: Drafting, method: Method) -> NDArray[np.uint32]:
    # A hundredth of a degree makes no difference, and keeps the tables few.
    temperature = round(request.temperature, 2)
    key = (request.kind, method, temperature, drafting.level.tokens, drafting.probabilistic)
    if not drafting.clustering:
        return _same_for_all(*key)
    spread = spread_of(survival(*key), match_share(request.kind, method), CHARACTERS[request.kind].spread_shape)
    return _as_thresholds(spread.acceptance(deal_share(drafting.seed, request.id, "hardness")))


@lru_cache(maxsize=4096)
def _same_for_all(
    kind: Kind, method: Method, temperature: float, tokens: int, probabilistic: bool
) -> NDArray[np.uint32]:
    return _as_thresholds(np.array(acceptance(kind, method, temperature, tokens, probabilistic)))


def _as_thresholds(chances: NDArray[np.float64]) -> NDArray[np.uint32]:
    thresholds = np.zeros(len(chances) + 1, np.uint32)
    thresholds[:-1] = np.minimum(chances * WHOLE, WHOLE - 1)
    return thresholds
