"""How much is known about acceptance: pooled counts and intervals that do not mistake one request for many.

Drafts of one request are alike, so a plain binomial interval claims far too much.  Draft tokens are divided by a
design effect (control tables: 1.6 for maths, 55 for chat, 660 for code edits; 50 unless better is known), which never
exceeds a request's own draft tokens, and the interval is Wilson's, which stays inside 0 and 1.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import zip_longest
from math import sqrt
from operator import attrgetter
from statistics import NormalDist

from specloop_policy.observation import Outcome, Window

Histogram = tuple[tuple[float, float], ...]
"""A cumulative histogram: (upper edge, count at or below), edges rising, the last infinite."""

EDGE_TOLERANCE = 1e-9
"""Edges are decimals read from text: 0.6 and 0.6000000001 are one edge."""

CONFIDENCE = 0.95
"""Two-sided confidence of an interval, shared among the looks taken at the same evidence (Bonferroni)."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with the range it is taken to lie in; fractions unless the name says otherwise."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float, offset: float = 0.0) -> "Interval":
        """The interval of `offset + factor * value`, factor not negative."""
        return Interval(offset + factor * self.value, offset + factor * self.low, offset + factor * self.high)

    def shifted(self, by: float) -> "Interval":
        """The interval of `value + by`."""
        return self.scaled(1.0, by)


@lru_cache(maxsize=32)
def standard_errors(looks: int) -> float:
    """Standard errors either side for 95 % over this many looks: 1.96 for one, 2.58 for five."""
    return NormalDist().inv_cdf(1.0 - (1.0 - CONFIDENCE) / (2.0 * looks))


def wilson(successes: float, trials: float, weight: float, looks: int) -> Interval:
    """Wilson's score interval of a proportion whose trials are worth `weight` independent ones in all."""
    share = successes / trials
    z = standard_errors(looks)
    spread = z * z / weight
    centre = (share + spread / 2.0) / (1.0 + spread)
    half = z * sqrt(share * (1.0 - share) / weight + spread / (4.0 * weight)) / (1.0 + spread)
    low, high = centre - half, centre + half
    return Interval(share, min(share, low) if low > 0.0 else 0.0, max(share, high) if high < 1.0 else 1.0)


def effective(trials: float, requests: float, design_effect: float) -> float:
    """Independent trials that clustered ones are worth; the design effect is at most the trials of one request."""
    per_request = trials / requests if requests > 0.0 else trials
    return trials / max(1.0, min(design_effect, per_request))


TRIALS = attrgetter("finished_requests", "draft_tokens", "accepted_tokens")
STEPS = attrgetter("drafts", "generation_tokens", "first_tokens")


def _totals(windows: Iterable[Window], counts: Callable[[Window], tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(map(sum, zip(*map(counts, windows), strict=True)))


@dataclass(eq=False)
class Pool:
    """Several windows as one; `looks` says how many pools are drawn from the same evidence.

    Everything is added up when first asked for, as most decisions ask for little.  Nobody changes a pool; it is not
    frozen because every decision makes several, and a frozen one takes three times as long.
    """

    windows: tuple[Window, ...]
    seconds: float
    """Span covered, seconds."""
    design_effect: float
    looks: int = 1
    trials: tuple[float, ...] | None = None
    """Finished requests, draft tokens and accepted ones, where somebody has added them up already."""

    @cached_property
    def _trials(self) -> tuple[float, ...]:
        return self.trials if self.trials is not None else _totals(self.windows, TRIALS)

    @cached_property
    def _steps(self) -> tuple[float, ...]:
        return _totals(self.windows, STEPS)

    @property
    def requests(self) -> float:
        """Finished requests."""
        return self._trials[0]

    @property
    def drafts(self) -> float:
        """Decode steps that drafted, summed over requests."""
        return self._steps[0]

    @property
    def draft_tokens(self) -> float:
        """Draft tokens."""
        return self._trials[1]

    @property
    def accepted_tokens(self) -> float:
        """Accepted draft tokens."""
        return self._trials[2]

    @property
    def decode_steps(self) -> float:
        """Decode steps, summed over requests: tokens that came neither from a prefill nor from a draft."""
        return max(0.0, self._steps[1] - self._steps[2] - self._trials[2])

    @property
    def length_requests(self) -> float:
        """Finished requests that ran into their length limit."""
        return sum(one.length_requests for one in self.windows)

    @cached_property
    def accepted_per_position(self) -> tuple[float, ...]:
        """Accepted drafts by position, first position first."""
        return tuple(map(sum, zip_longest(*(one.accepted_per_position for one in self.windows), fillvalue=0.0)))

    @cached_property
    def running(self) -> float | None:
        """Requests in the batch, mean per pod; None when not reported."""
        return _mean([(one.running, one.end - one.start) for one in self.windows])

    @cached_property
    def kv_cache_percent(self) -> float | None:
        """KV cache in use, mean per pod, percent; None when not reported."""
        return _mean([(one.kv_cache_percent, one.end - one.start) for one in self.windows])

    @cached_property
    def acceptance(self) -> Interval | None:
        """Accepted per draft token; None when nothing was drafted."""
        if self.draft_tokens <= 0.0:
            return None
        weight = effective(self.draft_tokens, self.requests, self.design_effect)
        return wilson(self.accepted_tokens, self.draft_tokens, weight, self.looks)

    @property
    def acceptance_length(self) -> float | None:
        """Tokens per speculative step, the bonus token included; None when nothing was drafted."""
        return 1.0 + self.accepted_tokens / self.drafts if self.drafts > 0.0 else None

    @property
    def covered(self) -> float | None:
        """Share of decode steps that drafted; None when there was no decode step."""
        steps = self.decode_steps
        return min(self.drafts, steps) / steps if steps > 0.0 else None

    @cached_property
    def coverage(self) -> Interval | None:
        """`covered` with the range it is taken to lie in."""
        steps = self.decode_steps
        if steps <= 0.0:
            return None
        weight = effective(steps, self.requests, self.design_effect)
        return wilson(min(self.drafts, steps), steps, weight, self.looks)

    @cached_property
    def added_tokens_per_step(self) -> Interval | None:
        """Tokens that drafts add to a mean decode step, drafted or not; None when there was no decode step."""
        steps, drafts, acceptance = self.decode_steps, self.drafts, self.acceptance
        if steps <= 0.0:
            return None
        if acceptance is None or drafts <= 0.0:
            return Interval(0.0, 0.0, 0.0)
        return acceptance.scaled(min(drafts, steps) / steps * self.draft_tokens / drafts)

    @property
    def tokens_per_step(self) -> Interval | None:
        """Tokens of a mean decode step, drafted or not; None when there was no decode step."""
        added = self.added_tokens_per_step
        return None if added is None else added.shifted(1.0)

    @property
    def survival(self) -> tuple[float, ...]:
        """p_i, accepted drafts at each position per draft; empty when the engine does not say."""
        if self.drafts <= 0.0:
            return ()
        return tuple(accepted / self.drafts for accepted in self.accepted_per_position)

    @property
    def context_tokens(self) -> float:
        """Mean context of a running request: its prompt and half its answer."""
        prompts = sum(one.prompt_tokens for one in self.windows)
        return (prompts + self._steps[1] / 2.0) / self.requests if self.requests > 0.0 else 0.0

    def hotter_than(self, temperature: float) -> Interval | None:
        """Share of requests above a temperature; None when nobody counts temperatures.

        Between two edges of the histogram the next edge above is taken, which says too little rather than too much.
        """
        below = (temperature - EDGE_TOLERANCE,)
        total = cool = 0.0
        for one in self.windows:
            if one.temperatures:
                total += one.temperatures[-1][1]
                cool += one.temperatures[bisect_left(one.temperatures, below)][1]
        return wilson(total - cool, total, total, self.looks) if total > 0.0 else None


def _mean(weighted: Iterable[tuple[float | None, float]]) -> float | None:
    known = [(value, weight) for value, weight in weighted if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total > 0.0 else None


def at_tokens(evidence: Pool, present: int, tokens: int) -> Pool:
    """The counts to expect of the same requests and drafter at K = `tokens`, from those at K = `present`.

    Each step drafts in the same proportion; positions that are not drafted now are taken to be accepted like the mean
    of those that are.  A prediction: position 0 alone moved from 83 % to 76 % between K = 1 and K = 8 (vLLM issue
    48892), so what it says is checked after the change.
    """
    if tokens == present or evidence.drafts <= 0.0:
        return evidence
    survival = extended(evidence.survival or constant_from_mean(evidence), tokens)
    drafted = evidence.draft_tokens / evidence.drafts
    length = min(drafted, tokens) if tokens < present else drafted * tokens / present
    draft_tokens = evidence.drafts * length
    per_position = tuple(evidence.drafts * share for share in survival)
    whole = Window(
        pod="",
        start=0.0,
        end=evidence.seconds,
        outcome=Outcome.MEASURED,
        drafts=evidence.drafts,
        draft_tokens=draft_tokens,
        accepted_tokens=min(draft_tokens, sum(per_position)),
        accepted_per_position=per_position,
        generation_tokens=evidence.decode_steps + min(draft_tokens, sum(per_position)),
        prompt_tokens=evidence.context_tokens * evidence.requests,
        finished_requests=evidence.requests,
        length_requests=evidence.length_requests,
        running=evidence.running,
        kv_cache_percent=evidence.kv_cache_percent,
    )
    return Prediction((whole,), evidence.seconds, evidence.design_effect, evidence.looks, seen=evidence)


@dataclass(eq=False)
class Prediction(Pool):
    """Counts to expect, made from counts that were seen; what K does not touch stays as it was seen."""

    seen: Pool | None = None

    @property
    def context_tokens(self) -> float:
        """Mean context of a running request, as seen."""
        return self.seen.context_tokens if self.seen is not None else 0.0

    def hotter_than(self, temperature: float) -> Interval | None:
        """Share of requests above a temperature, as seen."""
        return self.seen.hotter_than(temperature) if self.seen is not None else None


def extended(survival: Sequence[float], tokens: int) -> tuple[float, ...]:
    """Survival for `tokens` positions: cut, or continued with the mean acceptance of the positions known.

    The mean (the root of the last survival) rather than the last position's own: more accepted drafts anywhere never
    lower it, so that better evidence never leads to a more cautious prediction.
    """
    known = len(survival)
    if tokens <= known or not survival:
        return tuple(survival[:tokens])
    mean = survival[-1] ** (1.0 / known)
    return (*survival, *(survival[-1] * mean**i for i in range(1, tokens - known + 1)))


def constant_from_mean(evidence: Pool) -> tuple[float, ...]:
    """Survival with one acceptance for every position that yields the tokens per draft seen, by bisection."""
    if evidence.drafts <= 0.0:
        return ()
    tokens = max(1, round(evidence.draft_tokens / evidence.drafts))
    wanted = evidence.accepted_tokens / evidence.drafts
    low, high = 0.0, 1.0
    for _ in range(40):  # 2^-40 is far below what a count of drafts can tell
        middle = (low + high) / 2.0
        if sum(middle**i for i in range(1, tokens + 1)) < wanted:
            low = middle
        else:
            high = middle
    return tuple(high**i for i in range(1, tokens + 1))
