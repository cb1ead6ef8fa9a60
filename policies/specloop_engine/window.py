"""Two samples of one pod differenced into a window: its outcome, its counts and its gauges.

Finished requests and those that ran into their length limit leave one-token requests out: a health probe asks for one
token and gets it, so that it counts as both.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from specloop_engine.drafted import Drafted, change, drafted
from specloop_engine.judges import judge
from specloop_engine.sample import Dialect, Sample
from specloop_engine.span import Span, with_first_drafts
from specloop_policy.observation import Outcome, Window

LLAMACPP_STAND_IN = "finished requests are predicted tokens / 200, llama.cpp counts none"


def difference(
    pod: str,
    before: Sample,
    after: Sample | None,
    between: Iterable[Sample] = (),
    *,
    levels: Sequence[str] = (),
    tokens: int | None = None,
) -> Window:
    """The window between two samples of one pod; samples in between sharpen its gauges and show restarts.

    `levels` are the levels that the pod ran, oldest first: several make the window `Mixed`, none leaves its level
    unknown.  `tokens` is the K that the process is known to be set to: V0 never shows it, llama.cpp not before its
    first draft; 0 says that speculation is off.  Without `after` the window is `Stale`.
    """
    if after is None:
        return stale(pod, before.at, before.at, levels=levels)
    span = with_first_drafts(Span((before, *between, after), tuple(dict.fromkeys(levels)), tokens))
    outcome, reason = judge(span)
    window = _frame(pod, span, outcome, reason)
    if outcome is Outcome.MEASURED:
        return _with_counts(_with_drafts(window, drafted(span)), span)
    return _with_counts(window, span) if outcome is Outcome.OFF else window


def stale(pod: str, start: float, end: float, *, levels: Sequence[str] = ()) -> Window:
    """The window of a span in which no sample came."""
    return Window(pod, start, end, Outcome.STALE, "no newer sample came", _only(levels))


def _only(levels: Sequence[str]) -> str:
    """The one level of a span; "" when there are several or none."""
    return levels[0] if len(set(levels)) == 1 else ""


def _frame(pod: str, span: Span, outcome: Outcome, reason: str) -> Window:
    """The window without its counts, which mean nothing unless it is measured or off."""
    return Window(
        pod,
        span.before.at,
        span.after.at,
        outcome,
        reason,
        _only(span.levels),
        _tokens(span, outcome),
        span.after.process_start,
        running=_mean(sample.running for sample in span.samples),
        waiting=_mean(sample.waiting for sample in span.samples),
        kv_cache_percent=_mean(sample.kv_cache_percent for sample in span.samples),
    )


def _tokens(span: Span, outcome: Outcome) -> int | None:
    if outcome is Outcome.OFF:
        return 0
    if outcome is not Outcome.MEASURED:
        return None
    return span.tokens if span.after.tokens is None else span.after.tokens


def _mean(values: Iterable[float | None]) -> float | None:
    """Mean of what was said; gauges that are negative or no number say nothing."""
    said = [value for value in values if value is not None and math.isfinite(value) and value >= 0.0]
    return sum(said) / len(said) if said else None


def _with_drafts(window: Window, found: Drafted | str) -> Window:
    assert isinstance(found, Drafted)  # a contradiction would have made the window Invalid
    return replace(
        window,
        reason=found.derived,
        drafts=found.drafts,
        draft_tokens=found.draft_tokens,
        accepted_tokens=found.accepted_tokens,
        accepted_per_position=found.accepted_per_position,
        accepted_tokens_before=found.accepted_tokens_before,
        draft_tokens_before=found.draft_tokens_before,
    )


def _with_counts(window: Window, span: Span) -> Window:
    one_token = change(span, "one_token_requests")
    finished = max(0.0, change(span, "finished_requests") - one_token)
    stand_in = LLAMACPP_STAND_IN if span.after.dialect is Dialect.LLAMACPP else ""
    return replace(
        window,
        reason="; ".join(part for part in (window.reason, stand_in) if part),
        generation_tokens=change(span, "generation_tokens"),
        prompt_tokens=change(span, "prompt_tokens"),
        finished_requests=finished,
        length_requests=min(finished, max(0.0, change(span, "length_requests") - one_token)),
        first_tokens=change(span, "first_tokens"),
        temperatures=_temperatures(span),
    )


def _temperatures(span: Span) -> tuple[tuple[float, float], ...]:
    """Requests by temperature inside the span; empty when the histogram cannot be true or is another one."""
    before, after = dict(span.before.temperatures), dict(span.after.temperatures)
    if before and before.keys() != after.keys():
        return ()
    found = tuple((edge, count - before.get(edge, 0.0)) for edge, count in after.items())
    counts = [0.0, *(count for _, count in found)]
    rising = all(earlier <= later for earlier, later in pairwise(counts))
    return found if rising and math.isfinite(counts[-1]) else ()
