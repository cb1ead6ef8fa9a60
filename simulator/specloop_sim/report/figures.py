"""The figures that contenders are compared by: their names in words, and how many digits they deserve."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure in words."""

    key: str
    heading: str
    """For a table, with the unit."""
    less_is_better: bool = True
    only_if_any: bool = False
    """Whether it is worth a column only where it is not nought for all."""


MEASURES = (
    Measure("meanRequestSeconds", "mean request, s"),
    Measure("tpotMillisecondsP50", "TPOT p50, ms"),
    Measure("tpotMillisecondsP99", "TPOT p99, ms"),
    Measure("ttftMillisecondsP50", "TTFT p50, ms"),
    Measure("ttftMillisecondsP99", "TTFT p99, ms"),
    Measure("outputTokensPerSecond", "tokens/s", less_is_better=False),
    Measure("busyGpuSeconds", "busy GPU, s"),
    Measure("changes", "changes"),
    Measure("restarts", "restarts"),
    Measure("finishedRequests", "answered", less_is_better=False),
    Measure("unfinishedRequests", "not answered", only_if_any=True),
    Measure("retriedRequests", "sent again", only_if_any=True),
    Measure("refusedRequests", "refused", only_if_any=True),
)
"""In the order of the table's columns; the one that decides is moved to the front."""

REDUNDANT = frozenset({"outputTokens"})
"""Figures without a column: a trace has the same output tokens for all, and clients that wait share one time, so that
tokens per second say the same."""

BY_KEY = {measure.key: measure for measure in MEASURES}


def measure_of(key: str) -> Measure:
    """A figure by its name in the JSON answer; one that is not listed is spelt out: `cacheHits` as "cache hits"."""
    return BY_KEY.get(key) or Measure(key, re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", key).lower())


def shown(value: float) -> str:
    """A figure with three digits or all before the point."""
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def signed(percent: float) -> str:
    """A change in percent with its sign; "±0 %" where it rounds to nothing."""
    rounded = round(percent, 1) if abs(percent) < 10 else round(percent)
    return f"{rounded:+g} %".replace("-", "−") if rounded else "±0 %"
