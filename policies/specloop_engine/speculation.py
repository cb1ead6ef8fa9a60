"""The speculative setting of an engine as a value, whatever the engine and the way it is written."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specloop_engine.json_object import dumps
from specloop_policy.ladder import LOOKUP_METHODS, Drafter, Ladder, Level, Method

LOOKUP_RANGE_METHODS = frozenset({Method.NGRAM, Method.NGRAM_GPU})
"""Methods that look n-grams of a shortest and a longest length up."""

BatchTable = tuple[tuple[int, int, int], ...]
"""K by number of scheduled requests: (first, last, K)."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """A drafter with its K, as an engine is started with them."""

    method: str
    """In vLLM's words, also for llama.cpp; a method that SpecLoop does not know stands in the engine's own."""
    model: str | None = None
    tokens: int | None = None
    """K; None where it is not said and the engine takes it from the model."""
    lookup_min: int | None = None
    lookup_max: int | None = None
    """Shortest and longest n-gram as the engine uses them; None: the method, or the engine, has no such length."""
    table: BatchTable = ()
    others: tuple[tuple[str, str], ...] = ()
    """The other keys, each with its value as JSON, in the order of their names."""

    @property
    def largest(self) -> int | None:
        """The largest K that it ever drafts: vLLM cuts the table's to `tokens`."""
        if self.tokens is None or not self.table:
            return self.tokens
        return min(self.tokens, max(tokens for _, _, tokens in self.table))

    def uses(self, drafter: Drafter) -> bool:
        """Whether it drafts with this drafter; what one of them leaves open does not count against it."""
        lengths = (self.lookup_min, drafter.lookup_min), (self.lookup_max, drafter.lookup_max)
        return self.is_kind_of(drafter) and all(None in pair or pair[0] == pair[1] for pair in lengths)

    def is_kind_of(self, drafter: Drafter) -> bool:
        """Whether method and model are this drafter's."""
        return self.method == drafter.method and drafter.model in (None, self.model)


def fits(speculation: Speculation | None, level: Level) -> bool:
    """Whether a setting (None: off) is this level."""
    if speculation is None or level.drafter is None:
        return speculation is None and level.drafter is None
    return speculation.largest == level.tokens and speculation.uses(level.drafter)


def match(speculation: Speculation | None, ladder: Ladder) -> Level | None:
    """The level of the ladder that a setting is, the first if several; None: Unmanaged."""
    return next((level for level in ladder.levels if fits(speculation, level)), None)


def running_drafter(speculation: Speculation | None) -> tuple[Drafter, int] | None:
    """What a ladder is derived from: the drafter that runs, and its K; None when off, or when either is not known."""
    tokens = speculation.largest if speculation else None
    if speculation is None or tokens is None or speculation.method not in set(Method):
        return None
    method = Method(speculation.method)
    longest = speculation.lookup_max if speculation.lookup_max is not None else speculation.lookup_min
    name = "lookup" if method in LOOKUP_METHODS else "draft"
    return Drafter(name, method, speculation.model, speculation.lookup_min, longest), tokens


@dataclass(frozen=True, slots=True)
class StartupProfile:
    """What only a restart changes: the drafter, the largest K, and the table that live control needs."""

    drafter: Speculation
    """The setting without K and table."""
    tokens: int | None
    table: BatchTable

    def reaches(self, level: Level) -> bool:
        """Whether live control can bring a process with this profile to a level; 0 drafts stand for `disabled`."""
        if not self.table or self.tokens is None or level.tokens > self.tokens:
            return False
        return level.drafter is None or self.drafter.uses(level.drafter)


def startup_profile(speculation: Speculation | None) -> StartupProfile | None:
    """The profile of a setting; equal profiles differ in nothing that takes a restart."""
    if speculation is None:
        return None
    drafter = Speculation(
        speculation.method,
        speculation.model,
        lookup_min=speculation.lookup_min,
        lookup_max=speculation.lookup_max,
        others=speculation.others,
    )
    return StartupProfile(drafter, speculation.tokens, speculation.table)


def configuration_key(config: Mapping[str, Any] | None, image: str) -> str:
    """A name for a configuration on an image (None: off), by which a failed one is known again."""
    text = dumps([dict(sorted((config or {}).items())), image])
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]
