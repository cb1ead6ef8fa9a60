"""Samples of one pod over a span, and how its counters moved: what judges and windows are made from."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise

from specloop_engine.sample import Dialect, Drafting, Sample, Served

FLOAT_NOISE = 1e-9
"""Relative error of counters that went through other programs as text."""

LLAMACPP_DIGITS = 6
"""Significant digits that llama.cpp prints: beyond a million, its totals are rounded."""

SERVED = tuple(field.name for field in fields(Served))

SILENT_UNTIL_FIRST_DRAFT = frozenset({Dialect.VLLM_V0, Dialect.LLAMACPP})
"""Engines that show nothing of speculation before the first draft."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A sample with the counters that it has, by their name in words."""

    sample: Sample
    counters: dict[str, float]


@dataclass(frozen=True)
class Span:
    """Samples of one pod, oldest first, at least one, and what is known of its setting meanwhile."""

    samples: tuple[Sample, ...]
    levels: tuple[str, ...] = ()
    """Levels that the pod ran, oldest first, each once."""
    tokens: int | None = None
    """K that the process is known to be set to; None when unknown."""

    @property
    def before(self) -> Sample:
        """The sample at the start."""
        return self.samples[0]

    @property
    def after(self) -> Sample:
        """The sample at the end."""
        return self.samples[-1]

    @property
    def ends(self) -> tuple[Sample, Sample]:
        """The samples at start and end."""
        return self.before, self.after

    @cached_property
    def sound(self) -> tuple[Counted, ...]:
        """The samples that have no flaw."""
        return tuple(Counted(one, counters(one)) for one in self.samples if flaw(one) is None)

    def steps(self) -> Iterator[tuple[Counted, Counted]]:
        """Neighbouring samples; those that say nothing sound are passed over."""
        return pairwise(self.sound)


def counters(sample: Sample) -> dict[str, float]:
    """The counters that a sample has, by their name in words."""
    drafting = sample.drafting or Drafting()
    found = {
        "drafts": drafting.drafts,
        "draft tokens": drafting.draft_tokens,
        "accepted tokens": drafting.accepted_tokens,
        **{f"tokens accepted at position {i}": n for i, n in enumerate(drafting.accepted_per_position)},
        "generation tokens": sample.generation_tokens,
        "prompt tokens": sample.prompt_tokens,
        "finished requests": sample.finished_requests,
        "one-token requests": sample.one_token_requests,
        "requests ended by length": sample.length_requests,
        "first tokens": sample.first_tokens,
        "engine steps": sample.engine_steps,
    }
    return {name: value for name, value in found.items() if value is not None}


def served_counters(sample: Sample) -> dict[str, float]:
    """What a sample counts of how well it served, by name in words.

    Apart from the others: they tell nothing of acceptance, and those of HTTP move while the engine hangs.
    """
    found = {name.replace("_", " "): getattr(sample.served, name) for name in SERVED} if sample.served else {}
    return {name: value for name, value in found.items() if value is not None}


def moves(before: Counted, after: Counted) -> Iterator[tuple[str, float, float]]:
    """Counters with their value before and after; one that has just appeared began at zero."""
    for name, value in after.counters.items():
        yield name, before.counters.get(name, 0.0), value


def flaw(sample: Sample) -> str | None:
    """What makes a sample useless as an end of a window; None when it is sound."""
    if sample.dialect is None:
        return "the page has no series of an engine"
    if (wrong := unsound(counters(sample))) is not None:
        return wrong
    rate = sample.drafting.lifetime_rate if sample.drafting else None
    if rate is not None and not (math.isnan(rate) or 0.0 <= rate <= 1.0):
        return f"the gauge of the acceptance rate is {rate:g}"
    return None


def unsound(counters: Mapping[str, float]) -> str | None:
    """Which counter has a value that none can have."""
    for name, value in counters.items():
        if not (math.isfinite(value) and value >= 0.0):
            return f"the counter of {name} is {value:g}"
    return None


def rounding(sample: Sample, value: float) -> float:
    """How far a counter's printed value may be from the true one."""
    if sample.dialect is not Dialect.LLAMACPP or value < 10.0**LLAMACPP_DIGITS:
        return FLOAT_NOISE * value
    return float(10.0 ** (math.floor(math.log10(value)) + 1 - LLAMACPP_DIGITS))


def with_first_drafts(span: Span) -> Span:
    """The span with zeros where an engine that speculates had not drafted yet and so showed nothing."""
    first = next((sample for sample in span.samples if sample.drafting is not None), None)
    if first is None and not span.tokens:
        return span
    shown = Drafting() if first is None or first.drafting is None else first.drafting
    zeros = Drafting(0.0, 0.0, 0.0, (0.0,) * len(shown.accepted_per_position))
    tokens = span.tokens if first is None else first.tokens
    until = len(span.samples) if first is None else span.samples.index(first)
    silent = (_with_zeros(sample, zeros, tokens) for sample in span.samples[:until])
    return replace(span, samples=(*silent, *span.samples[until:]))


def _with_zeros(sample: Sample, zeros: Drafting, tokens: int | None) -> Sample:
    if sample.dialect not in SILENT_UNTIL_FIRST_DRAFT or not sample.shows_drafting:
        return sample
    if sample.dialect is Dialect.VLLM_V0:
        zeros = Drafting(lifetime_rate=math.nan)
    return replace(sample, drafting=zeros, tokens=tokens)
