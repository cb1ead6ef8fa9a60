"""What one engine process said at one moment: its counters and gauges, whatever the engine and its version."""

from dataclasses import dataclass
from enum import StrEnum


class Dialect(StrEnum):
    """Which engine's metrics a page holds."""

    VLLM_V1 = "vLLM V1"
    VLLM_V0 = "vLLM V0"
    LLAMACPP = "llama.cpp"


@dataclass(frozen=True, slots=True)
class Drafting:
    """Speculation counters since the process started; floats because a counter may be NaN.

    None: this engine does not say.  V0 says nothing but its lifetime rate, V1 before 0.8.5 does not count drafts.
    """

    drafts: float | None = None
    draft_tokens: float | None = None
    accepted_tokens: float | None = None
    accepted_per_position: tuple[float, ...] = ()
    lifetime_rate: float | None = None
    """V0 alone: the gauge, acceptance over the process's life; NaN before the first draft."""


@dataclass(frozen=True, slots=True)
class Served:
    """How well the process has served since it started; what `Sample` has already is not here again.

    None: this engine does not say.
    """

    decode_seconds: float | None = None
    """Time from first to last token, summed over the requests that ended."""
    answer_tokens: float | None = None
    """Tokens of these requests."""
    ended_requests: float | None = None
    """How many they were, whatever ended them and however many tokens they had."""
    first_token_seconds: float | None = None
    """Time from arrival to first token, summed over `Sample.first_tokens`."""
    failed_requests: float | None = None
    """Requests that ended by abort or error."""
    failed_responses: float | None = None
    """Requests for completions that were answered with a status of 5xx."""
    cache_queries: float | None = None
    """Prompt tokens looked up in the prefix cache; blocks in the first releases of V1."""
    cache_hits: float | None = None
    """Those of them that were there."""
    preemptions: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters and gauges of one engine process at `at` (seconds since the epoch).

    Counters run since the process started.  None means that the page has no such series: absent, zero and NaN are
    three different things.
    """

    at: float
    dialect: Dialect | None
    """None: the page has no engine series at all."""
    process_start: float | None = None
    """When the process started, seconds since the epoch."""
    incarnation: str | None = None
    """Whatever else tells one process from the next; llama-server's Process-Start-Time-Unix header, for one, which
    is no time since the epoch in spite of its name."""
    shows_drafting: bool = True
    """False: this build has no speculation series, be it on or off."""
    drafting: Drafting | None = None
    """None: speculation is off; llama.cpp: or nothing was drafted yet."""
    tokens: int | None = None
    """K as the page shows it (number of positions, or the live K where a plugin exports it); 0 when off."""
    generation: int | None = None
    """Generation of the live setting, where a plugin exports it."""
    generation_tokens: float | None = None
    prompt_tokens: float | None = None
    finished_requests: float | None = None
    """Requests that ended as they should: neither aborted nor failed."""
    one_token_requests: float | None = None
    """Requests that ended with at most one token: health probes."""
    length_requests: float | None = None
    """Requests that ran into their length limit."""
    first_tokens: float | None = None
    """Tokens that came from a prefill, one a request."""
    engine_steps: float | None = None
    """Steps of the engine, of whatever kind: they move as long as it works."""
    running: float | None = None
    waiting: float | None = None
    kv_cache_percent: float | None = None
    temperatures: tuple[tuple[float, float], ...] = ()
    """Requests by temperature since the process started: (upper edge, requests at or below), the last infinite."""
    served: Served | None = None
    """None: this was recorded before it was looked at."""
