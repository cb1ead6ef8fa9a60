"""Levels in order: what a policy may choose from, most aggressive first, `disabled` last."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

MAX_TOKENS = 8
"""Largest K that SpecLoop sets: the field report found more than eight useless."""


class Method(StrEnum):
    """How a drafter proposes tokens, in vLLM's words."""

    DRAFT_MODEL = "draft_model"
    NGRAM = "ngram"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    MTP = "mtp"
    SUFFIX = "suffix"
    DFLASH = "dflash"
    DSPARK = "dspark"
    MEDUSA = "medusa"
    MLP_SPECULATOR = "mlp_speculator"
    NGRAM_GPU = "ngram_gpu"
    CUSTOM_CLASS = "custom_class"


LOOKUP_METHODS = frozenset({Method.NGRAM, Method.NGRAM_GPU, Method.SUFFIX})
"""Methods that look the draft up in text at hand: no weights, next to no draft time, no draft without a match."""


@dataclass(frozen=True, slots=True)
class Drafter:
    """What proposes tokens."""

    name: str
    method: Method
    model: str | None = None
    lookup_min: int | None = None
    lookup_max: int | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """A drafter with its K, or none: `drafter` is None and `tokens` 0."""

    name: str
    drafter: Drafter | None = None
    tokens: int = 0
    """K; the largest, where it depends on the batch."""
    by_batch: tuple[tuple[int, int], ...] = ()
    """K from so many requests in a step on, rising in requests; below the first it is `tokens`."""

    @property
    def speculates(self) -> bool:
        """Whether anything is drafted at this level."""
        return self.drafter is not None

    def tokens_at(self, requests: float) -> int:
        """K while so many requests are in a step."""
        return next((tokens for edge, tokens in reversed(self.by_batch) if requests >= edge), self.tokens)

    def table(self, last: int) -> tuple[tuple[int, int, int], ...]:
        """K by number of requests, up to `last`: (first, last, K), one range after the other."""
        edges = [(1, self.tokens), *((edge, tokens) for edge, tokens in self.by_batch if edge <= last)]
        ends = [edge - 1 for edge, _ in edges[1:]] + [last]
        return tuple((first, end, tokens) for (first, tokens), end in zip(edges, ends, strict=True))


DISABLED = Level("disabled")


@dataclass(frozen=True, slots=True)
class Ladder:
    """The levels of a policy, most aggressive first; names are unique and the last level is `disabled`."""

    levels: tuple[Level, ...]

    def names(self) -> tuple[str, ...]:
        """Names of the levels, most aggressive first."""
        return tuple(level.name for level in self.levels)

    def find(self, name: str | None) -> Level | None:
        """The level of this name, None when the ladder has none."""
        for level in self.levels:
            if level.name == name:
                return level
        return None

    def index(self, level: Level) -> int:
        """Place of a level, 0 for the most aggressive; ValueError when it is not in the ladder."""
        return self.levels.index(level)

    def below(self, level: Level) -> tuple[Level, ...]:
        """Levels less aggressive than this one, nearest first."""
        return self.levels[self.index(level) + 1 :]

    def above(self, level: Level) -> tuple[Level, ...]:
        """Levels more aggressive than this one, nearest first."""
        return self.levels[: self.index(level)][::-1]

    def is_above(self, one: str | None, other: str | None) -> bool:
        """Whether both are names of levels here and the first is the more aggressive."""
        upper, lower = self.find(one), self.find(other)
        return upper is not None and lower is not None and self.index(upper) < self.index(lower)


NGRAM_FALLBACK = Drafter("lookup", Method.NGRAM, lookup_min=2, lookup_max=4)
NGRAM_FALLBACK_TOKENS = 4


def derive_ladder(running: Drafter | None, tokens: int) -> Ladder:
    """The ladder of a policy that names no levels, from the drafter and K that the target runs.

    The running K (cut to 8), then 5 and 3 where smaller, then n-gram lookup, then disabled.  A target that runs
    n-gram already gets no second one; a target that runs nothing gets n-gram and disabled.
    """
    levels: list[Level] = []
    if running is not None:
        top = min(tokens, MAX_TOKENS)
        levels += [Level(f"k{k}", running, k) for k in dict.fromkeys((top, 5, 3)) if k <= top]
    if running is None or running.method is not Method.NGRAM:
        levels.append(Level("ngram", NGRAM_FALLBACK, NGRAM_FALLBACK_TOKENS))
    return Ladder((*levels, DISABLED))


def same_drafter(one: Level, other: Level) -> bool:
    """Whether two levels differ in K alone."""
    return one.drafter == other.drafter


def matching(levels: Iterable[Level], tokens: int) -> tuple[Level, ...]:
    """Levels that an engine showing K = `tokens` may be at."""
    return tuple(level for level in levels if level.tokens == tokens)
