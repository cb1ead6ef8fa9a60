"""What a step costs and what it yields: the cost model, from published formulas and measured tables.

b requests run, K tokens are drafted, p_i is the chance that draft i is accepted (its survival).  Speculation pays if
and only if the tokens per step E(K) exceed the ratio r(b, K) of speculative to plain step time at the same load.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from specloop_policy.ladder import LOOKUP_METHODS, Level


def tokens_per_step(survival: Sequence[float]) -> float:
    """Expected tokens of one speculative step, 1 + sum of survivals (Leviathan 2023, section 3.1)."""
    return 1.0 + sum(survival)


def constant_survival(acceptance: float, tokens: int) -> tuple[float, ...]:
    """Survival when every draft is accepted with the same chance: p_i = acceptance ** i."""
    return tuple(acceptance**i for i in range(1, tokens + 1))


def closed_form_tokens(acceptance: float, tokens: int) -> float:
    """E(K) for one constant acceptance, (1 - a^(K+1)) / (1 - a) (Leviathan 2023, equation 1)."""
    if acceptance == 1.0:
        return float(tokens + 1)
    return (1.0 - acceptance ** (tokens + 1)) / (1.0 - acceptance)


def single_stream_speedup(acceptance: float, tokens: int, draft_cost: float) -> float:
    """Speed-up at batch 1, E(K) / (K c + 1), c the draft step per target step (Leviathan 2023, theorem 3.8)."""
    return closed_form_tokens(acceptance, tokens) / (tokens * draft_cost + 1.0)


@dataclass(frozen=True, slots=True)
class Load:
    """The batch of one pod: requests running, and their mean context in tokens."""

    running: float
    context_tokens: float


class StepTimes(Protocol):
    """Step times of one kind of hardware with one model."""

    def seconds(self, level: Level, load: Load) -> float | None:
        """Seconds of one step in which every running request drafts; None where nothing is known."""


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line through measured times, in seconds: per token of context, per token computed, constant."""

    per_context_token: float
    per_token: float
    constant: float

    def seconds(self, context_tokens: float, tokens: float) -> float:
        """Seconds for this much total context and this many tokens."""
        return self.per_context_token * context_tokens + self.per_token * tokens + self.constant


@dataclass(frozen=True, slots=True)
class LineStepTimes:
    """Step times as lines: the target verifies b(K+1) tokens, the drafter proposes b K, each step has an overhead.

    A draft line describes the whole proposal unless `draft_passes` says that it is one pass of K.  Methods without a
    line are unknown, except look-ups, whose cost is a share of the verify time.
    """

    target: Line
    overhead_seconds: float = 0.0
    drafts: tuple[tuple[str, Line], ...] = ()
    """Draft lines by method."""
    draft_passes: bool = False
    lookup_share: float = 0.0

    def seconds(self, level: Level, load: Load) -> float | None:
        """Seconds of one step at this level and load; None for a drafter without a line."""
        context = load.running * load.context_tokens
        tokens = level.tokens_at(load.running)
        verify = self.target.seconds(context, load.running * (tokens + 1))
        if level.drafter is None:
            return verify + self.overhead_seconds
        if level.drafter.method in LOOKUP_METHODS:
            return verify * (1.0 + self.lookup_share) + self.overhead_seconds
        line = dict(self.drafts).get(level.drafter.method)
        if line is None:
            return None
        if self.draft_passes:
            draft = tokens * line.seconds(context, load.running)
        else:
            draft = line.seconds(context, load.running * tokens)
        return verify + draft + self.overhead_seconds


@dataclass(frozen=True, slots=True)
class MeasuredStepTimes:
    """Step times as measured: rows of (batch, K, seconds) of one drafter, interpolated in both, never extrapolated.

    Between two batches, and between two K, the time is taken to lie on the line between its neighbours; outside the
    measured range it is unknown.
    """

    method: str
    rows: tuple[tuple[float, int, float], ...]

    def seconds(self, level: Level, load: Load) -> float | None:
        """Seconds of one step; None outside the measured batches and K, or for another drafter."""
        if level.drafter is not None and level.drafter.method != self.method:
            return None
        by_batch: dict[float, dict[float, float]] = {}
        for batch, tokens, seconds in self.rows:
            by_batch.setdefault(batch, {})[float(tokens)] = seconds
        own = float(level.tokens_at(load.running))
        at_level = {batch: interpolate(row, own) for batch, row in by_batch.items()}
        known = {batch: seconds for batch, seconds in at_level.items() if seconds is not None}
        return interpolate(known, load.running)


def interpolate(points: dict[float, float], at: float) -> float | None:
    """The value at `at` on the lines between neighbouring points; None outside them."""
    if at in points:
        return points[at]
    left = max((x for x in points if x < at), default=None)
    right = min((x for x in points if x > at), default=None)
    if left is None or right is None:
        return None
    share = (at - left) / (right - left)
    return points[left] + share * (points[right] - points[left])


@dataclass(frozen=True, slots=True)
class LevelCost:
    """A level's step time at the load at hand, against a plain step."""

    level: Level
    seconds: float
    plain_seconds: float

    def ratio(self, coverage: float = 1.0) -> float:
        """r: mean step time over plain step time when a share `coverage` of the steps drafts."""
        return 1.0 + coverage * (self.seconds / self.plain_seconds - 1.0)

    def gain(self, tokens: float, coverage: float = 1.0) -> float:
        """Speed gained against a plain step, 0.1 for ten percent, when a mean step yields `tokens`."""
        return tokens / self.ratio(coverage) - 1.0


def level_cost(times: StepTimes, level: Level, disabled: Level, load: Load) -> LevelCost | None:
    """Cost of a level at a load; None where its step time or the plain one is unknown."""
    seconds, plain = times.seconds(level, load), times.seconds(disabled, load)
    if seconds is None or plain is None or plain <= 0.0:
        return None
    return LevelCost(level, seconds, plain)


def break_even_tokens(cost: LevelCost, margin: float, coverage: float = 1.0) -> float:
    """Tokens per step from which the level pays: r (1 + margin)."""
    return cost.ratio(coverage) * (1.0 + margin)


def break_even_acceptance(cost: LevelCost) -> float:
    """The constant acceptance at which E(K) equals r, by bisection; 1.0 when none below 1 does."""
    low, high = 0.0, 1.0
    for _ in range(50):  # halves the interval to below float resolution of a percentage
        middle = (low + high) / 2.0
        if closed_form_tokens(middle, cost.level.tokens) < cost.ratio():
            low = middle
        else:
            high = middle
    return high


def best_level(yields: Iterable[tuple[Level, float, float]]) -> Level | None:
    """The level of the most tokens per second, ties to the smaller K; None when nothing is given.

    Each item is a level, its tokens per step and its seconds per step.
    """
    rated = [(tokens / seconds, -level.tokens, level) for level, tokens, seconds in yields]
    return max(rated, key=lambda item: item[:2])[2] if rated else None
