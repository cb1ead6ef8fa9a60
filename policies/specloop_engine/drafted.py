"""What was drafted and accepted inside a span: counted where the engine counts, derived where it does not."""

import math
from dataclasses import dataclass, replace

from specloop_engine.sample import Drafting, Sample
from specloop_engine.span import Span, rounding

V0_SLACK = 0.05
"""Share of the drafted tokens by which figures derived from V0's gauge may be off: the gauge is set every 5 seconds
and the tokens every step, which at both ends of a window of five minutes together is 3 %."""


@dataclass(frozen=True, slots=True)
class Drafted:
    """Changes inside a span, and how they were derived where they were not counted."""

    drafts: float = 0.0
    draft_tokens: float = 0.0
    accepted_tokens: float = 0.0
    accepted_per_position: tuple[float, ...] = ()
    accepted_tokens_before: float = 0.0
    """Over the process's life until the span began."""
    draft_tokens_before: float = 0.0
    derived: str = ""


def drafted(span: Span) -> Drafted | str:
    """What was drafted inside a span in which the process and its setting stayed, or what contradicts itself."""
    before, after = (sample.drafting or Drafting() for sample in span.ends)
    if after.lifetime_rate is not None:
        return _from_gauge(span, before, after)
    if after.draft_tokens is None or after.accepted_tokens is None:
        return "the page has only one of the counters of draft tokens and of accepted tokens"
    counted = _from_counters(span, before, after, after.draft_tokens, after.accepted_tokens)
    contradiction = _contradiction(span, counted, after)
    return contradiction or replace(counted, accepted_tokens=min(counted.accepted_tokens, counted.draft_tokens))


def _from_counters(
    span: Span, before: Drafting, after: Drafting, draft_tokens: float, accepted_tokens: float
) -> Drafted:
    at_start = before.accepted_per_position or (0.0,) * len(after.accepted_per_position)
    tokens = draft_tokens - (before.draft_tokens or 0.0)
    accepted = accepted_tokens - (before.accepted_tokens or 0.0)
    drafts, derived = _drafts(span, before, after, tokens, accepted)
    return Drafted(
        drafts,
        tokens,
        accepted,
        tuple(end - start for start, end in zip(at_start, after.accepted_per_position, strict=False)),
        before.accepted_tokens or 0.0,
        before.draft_tokens or 0.0,
        derived,
    )


def _drafts(
    span: Span, before: Drafting, after: Drafting, draft_tokens: float, accepted_tokens: float
) -> tuple[float, str]:
    """Number of drafts: vLLM 0.8.3 and 0.8.4 do not count them."""
    if after.drafts is not None:
        return after.drafts - (before.drafts or 0.0), ""
    if span.tokens:
        return draft_tokens / span.tokens, f"drafts derived: draft tokens / K = {span.tokens}"
    if draft_tokens <= 0.0:
        return 0.0, ""
    steps = change(span, "generation_tokens") - change(span, "first_tokens") - accepted_tokens
    return max(0.0, steps), "drafts derived: every decode step is taken for one"


def change(span: Span, counter: str) -> float:
    """The change of a counter of the sample; 0 where the engine has none."""
    before, after = (getattr(sample, counter) for sample in span.ends)
    return 0.0 if after is None else float(after - (before or 0.0))


def _contradiction(span: Span, counted: Drafted, after: Drafting) -> str | None:
    """Why the counters cannot all be true."""
    slack = rounding(span.after, after.draft_tokens or 0.0)
    if counted.accepted_tokens > counted.draft_tokens + slack:
        return f"{counted.accepted_tokens:g} tokens accepted of {counted.draft_tokens:g} drafted"
    if after.drafts is None:
        return None
    slack = rounding(span.after, after.drafts)
    for position, accepted in enumerate(counted.accepted_per_position):
        if accepted > counted.drafts + slack:
            return f"{accepted:g} tokens accepted at position {position} in {counted.drafts:g} drafts"
    return None


def _from_gauge(span: Span, before: Drafting, after: Drafting) -> Drafted | str:
    """V0: the window recovered from the lifetime rate, where every step drafts K tokens."""
    at_start = math.nan if before.lifetime_rate is None else before.lifetime_rate
    at_end = math.nan if after.lifetime_rate is None else after.lifetime_rate
    if math.isnan(at_end):
        return Drafted() if math.isnan(at_start) else "the gauge of the acceptance rate went back to NaN"
    if not span.tokens:
        return "V0 shows only the acceptance over the process's life; to recover the window K must be known"
    start, end = (
        _v0_totals(sample, rate, span.tokens) for sample, rate in zip(span.ends, (at_start, at_end), strict=True)
    )
    if change(span, "generation_tokens") <= 0.0:
        return Drafted(accepted_tokens_before=start[1], draft_tokens_before=start[0])
    tokens, accepted = end[0] - start[0], end[1] - start[1]
    slack = V0_SLACK * max(tokens, 0.0)
    if not -slack <= accepted <= tokens + slack:
        return f"the lifetime rate went from {at_start:g} to {at_end:g}, too far for the tokens in between"
    accepted = min(max(accepted, 0.0), tokens)
    derived = f"derived from V0's lifetime rate with K = {span.tokens}"
    return Drafted(tokens / span.tokens, tokens, accepted, (), start[1], start[0], derived)


def _v0_totals(sample: Sample, rate: float, tokens: int) -> tuple[float, float]:
    """Drafted and accepted tokens over the process's life, D = K G / (1 + K R) and R D."""
    if math.isnan(rate):
        return 0.0, 0.0
    draft_tokens = tokens * (sample.generation_tokens or 0.0) / (1.0 + tokens * rate)
    return draft_tokens, rate * draft_tokens
