"""Whether a rule's condition holds: surely, surely not, or not known, and the sentence that says so."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from operator import attrgetter, methodcaller

from specloop_policy.acceptance import Interval, Pool
from specloop_policy.economics import Economics
from specloop_policy.model import GainLimit, When


class Truth(StrEnum):
    """What is known about a condition."""

    HOLDS = "holds"
    FAILS = "fails"
    INCONCLUSIVE = "inconclusive"
    """There is evidence, and it does not decide."""
    UNKNOWN = "unknown"
    """There is no such signal."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A truth and its sentence: value, interval, limit and window."""

    truth: Truth
    text: str


FAILED = Judgement(Truth.FAILS, "")
"""A condition that surely fails: why a rule does not ask for anything is never told, so that it needs no sentence."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A quantity as one span shows it."""

    what: str
    interval: Interval
    seconds: float
    unit: str = " %"
    scale: float = 100.0

    def words(self) -> str:
        """Such as: acceptance 32 % (29 to 35 %) over 300 s."""
        value, low, high = (self.scale * x for x in (self.interval.value, self.interval.low, self.interval.high))
        shown = f"{self.what} {value:.0f}{self.unit}"
        if round(low) != round(high):
            shown += f" ({low:.0f} to {high:.0f}{self.unit})"
        return f"{shown} over {self.seconds:.0f} s"


def judge(when: When, spans: Sequence[Pool], economics: Economics) -> Judgement:
    """Judge a condition on pools of evidence, the shortest span first: all that it names must hold."""
    parts = []
    for part in _parts(when, spans, economics):
        if part.truth is Truth.FAILS:
            return part
        parts.append(part)
    for truth in (Truth.UNKNOWN, Truth.INCONCLUSIVE):
        for part in parts:
            if part.truth is truth:
                return part
    return Judgement(Truth.HOLDS, " and ".join(part.text for part in parts))


Measure = Callable[[Pool], Interval | None]
"""Reads one quantity off a pool; None where nobody reports it."""

ACCEPTANCE: Measure = attrgetter("acceptance")
COVERAGE: Measure = attrgetter("coverage")


def _parts(when: When, spans: Sequence[Pool], economics: Economics) -> Iterator[Judgement]:
    if when.acceptance is not None:
        limit = when.acceptance
        yield on_spans("acceptance", spans, ACCEPTANCE, limit.below_percent, limit.above_percent)
    if when.temperature is not None:
        above = when.temperature.above
        share = methodcaller("hotter_than", float(above))
        yield on_spans(f"share of requests hotter than {above}", spans, share, None, when.temperature.share_percent)
    if when.coverage is not None:
        limit = when.coverage
        yield on_spans("coverage", spans, COVERAGE, limit.below_percent, limit.above_percent)
    if when.gain is not None:
        yield _gain(when.gain, spans, economics)
    recent = spans[:1]
    if when.running is not None:
        low, high = when.running.below, when.running.above
        yield on_spans("requests running", recent, _running, low, high, unit="", scale=1.0)
    if when.kv_cache is not None:
        limit = when.kv_cache
        yield on_spans("KV cache", recent, _kv_cache, limit.below_percent, limit.above_percent, scale=1.0)


def _gain(limit: GainLimit, spans: Sequence[Pool], economics: Economics) -> Judgement:
    gain = partial(economics.gain, economics.measured)
    known = spans if economics.times is not None else ()
    judged = on_spans("estimated gain", known, gain, limit.below_percent, limit.above_percent)
    if limit.below_percent is None or limit.below_percent < 0:
        return judged
    margin = economics.policy.cost_model.margin_percent
    useless = on_spans("tokens added by drafts", spans, economics.added, margin, None)
    if useless.truth is Truth.HOLDS:
        return Judgement(Truth.HOLDS, f"{useless.text}, which no step time makes worth it")
    return useless if judged.truth is Truth.UNKNOWN and useless.truth is Truth.INCONCLUSIVE else judged


def _running(pool: Pool) -> Interval | None:
    return _exact(pool.running)


def _kv_cache(pool: Pool) -> Interval | None:
    return _exact(pool.kv_cache_percent)


def _exact(value: float | None) -> Interval | None:
    return None if value is None else Interval(value, value, value)


def on_spans(
    what: str,
    spans: Sequence[Pool],
    measure: Measure,
    below: int | None,
    above: int | None,
    *,
    unit: str = " %",
    scale: float = 100.0,
) -> Judgement:
    """Judge one limit by the shortest span that is conclusive; longer ones are not even looked at then.

    A collapse and a recovery show in a short span soon, whatever the calm hour before says; a small shift shows in a
    long span once the short ones cannot tell.
    """
    limit = below if below is not None else above
    assert limit is not None  # the model asks for exactly one side
    side = "below" if below is not None else "above"
    longest = None
    for span in spans:
        interval = measure(span)
        if interval is None:
            continue
        under, over = interval.high * scale < limit, interval.low * scale > limit
        if under if below is not None else over:
            words = Reading(what, interval, span.seconds, unit, scale).words()
            return Judgement(Truth.HOLDS, f"{words} is {side} the limit of {limit}{unit}")
        if under or over or interval.low == interval.high:
            return FAILED
        longest = interval, span
    if longest is None:
        return Judgement(Truth.UNKNOWN, f"{what} is unknown")
    interval, span = longest
    words = Reading(what, interval, span.seconds, unit, scale).words()
    return Judgement(Truth.INCONCLUSIVE, f"{words} is too near the limit of {limit}{unit} to tell")
