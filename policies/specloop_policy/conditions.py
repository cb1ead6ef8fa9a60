"""Whether a rule's condition holds: surely, surely not, or not known, and the sentence that says so."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

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
    parts = list(_parts(when, spans, economics))
    truths = {part.truth for part in parts}
    for truth in (Truth.FAILS, Truth.UNKNOWN, Truth.INCONCLUSIVE):
        if truth in truths:
            return Judgement(truth, next(part.text for part in parts if part.truth is truth))
    return Judgement(Truth.HOLDS, " and ".join(part.text for part in parts))


def _parts(when: When, spans: Sequence[Pool], economics: Economics) -> Iterator[Judgement]:
    if when.acceptance is not None:
        limit = when.acceptance
        yield on_spans("acceptance", [(one, one.acceptance) for one in spans], limit.below_percent, limit.above_percent)
    if when.temperature is not None:
        above = when.temperature.above
        shares = [(one, one.hotter_than(float(above))) for one in spans]
        yield on_spans(f"share of requests hotter than {above}", shares, None, when.temperature.share_percent)
    if when.coverage is not None:
        limit = when.coverage
        yield on_spans("coverage", [(one, one.coverage) for one in spans], limit.below_percent, limit.above_percent)
    if when.gain is not None:
        yield _gain(when.gain, spans, economics)
    recent = spans[:1]
    if when.running is not None:
        sizes = [(one, _exact(one.running)) for one in recent]
        yield on_spans("requests running", sizes, when.running.below, when.running.above, unit="", scale=1.0)
    if when.kv_cache is not None:
        uses = [(one, _exact(one.kv_cache_percent)) for one in recent]
        yield on_spans("KV cache", uses, when.kv_cache.below_percent, when.kv_cache.above_percent, scale=1.0)


def _gain(limit: GainLimit, spans: Sequence[Pool], economics: Economics) -> Judgement:
    useless = next((one for one in spans if economics.cannot_pay(one)), None)
    if useless is not None and useless.tokens_per_step and limit.below_percent is not None and limit.below_percent >= 0:
        tokens = useless.tokens_per_step
        return Judgement(
            Truth.HOLDS,
            f"speculation yields at most {tokens.high:.2f} tokens a step over {useless.seconds:.0f} s, "
            "which no step time makes worth it",
        )
    gains = [(one, economics.gain(economics.measured, one)) for one in spans]
    return on_spans("estimated gain", gains, limit.below_percent, limit.above_percent)


def _exact(value: float | None) -> Interval | None:
    return None if value is None else Interval(value, value, value)


def on_spans(
    what: str,
    found: Sequence[tuple[Pool, Interval | None]],
    below: int | None,
    above: int | None,
    *,
    unit: str = " %",
    scale: float = 100.0,
) -> Judgement:
    """Judge one limit by the shortest span that is conclusive.

    A collapse and a recovery show in a short span soon, whatever the calm hour before says; a small shift shows in a
    long span once the short ones cannot tell.
    """
    readings = [Reading(what, value, one.seconds, unit, scale) for one, value in found if value is not None]
    if not readings:
        return Judgement(Truth.UNKNOWN, f"{what} is unknown")
    limit = below if below is not None else above
    assert limit is not None  # the model asks for exactly one side
    side = "below" if below is not None else "above"
    for one in readings:
        under, over = one.interval.high * scale < limit, one.interval.low * scale > limit
        exact = one.interval.low == one.interval.high
        if under or over or exact:
            holds = under if below is not None else over
            return Judgement(
                Truth.HOLDS if holds else Truth.FAILS,
                f"{one.words()} is {'' if holds else 'not '}{side} the limit of {limit}{unit}",
            )
    return Judgement(Truth.INCONCLUSIVE, f"{readings[-1].words()} is too near the limit of {limit}{unit} to tell")
