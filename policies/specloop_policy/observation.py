"""What the world looks like to the decision core: windows of counters per pod, and the workload they came from.

A window is the change of one pod's counters over one span.  Windows of one pod never overlap, so that nothing is
counted twice; a window that says nothing about acceptance says why in its outcome.
"""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """What a window is worth; where several fit, the first in this order is reported."""

    EMPTY = "Empty"
    INVALID = "Invalid"
    RESET = "Reset"
    STALLED = "Stalled"
    STALE = "Stale"
    MIXED = "Mixed"
    OFF = "Off"
    SETTLING = "Settling"
    THIN = "Thin"
    MEASURED = "Measured"


@dataclass(frozen=True, slots=True)
class Window:
    """The change of one pod's counters from `start` to `end` (seconds since the epoch).

    Counts are changes over the window unless the name says otherwise; they are floats because the V0 engine's are
    derived.  A quantity that the engine does not report is None, never 0.
    """

    pod: str
    start: float
    end: float
    outcome: Outcome
    reason: str = ""
    """Why the outcome is not `Measured`, in words; or how the figures were derived."""
    level: str = ""
    """Name of the level that the pod ran throughout, "" when unknown."""
    tokens: int | None = None
    """K as the engine shows it: the number of draft positions; 0 when speculation is off; None when not shown."""
    process_start: float | None = None
    """When the engine process started, seconds since the epoch."""
    drafts: float = 0.0
    draft_tokens: float = 0.0
    accepted_tokens: float = 0.0
    accepted_per_position: tuple[float, ...] = ()
    """Accepted drafts by position, first position first; empty when the engine does not say."""
    generation_tokens: float = 0.0
    prompt_tokens: float = 0.0
    finished_requests: float = 0.0
    """Finished requests of more than one token: health probes are no evidence."""
    length_requests: float = 0.0
    """Finished requests that ran into their length limit."""
    first_tokens: float = 0.0
    """Tokens that came from a prefill rather than from a decode step."""
    running: float | None = None
    """Requests in the batch, mean over the window."""
    waiting: float | None = None
    kv_cache_percent: float | None = None
    """KV cache in use, mean over the window, percent."""
    temperatures: tuple[tuple[float, float], ...] = ()
    """Requests by temperature: (upper edge, requests at or below it), edges rising, the last infinite."""
    accepted_tokens_before: float = 0.0
    """The process's accepted tokens at `start`, over its whole life: was it healthy once?"""
    draft_tokens_before: float = 0.0

    @property
    def seconds(self) -> float:
        """Length of the window in seconds."""
        return self.end - self.start

    @property
    def decode_steps(self) -> float:
        """Decode steps summed over requests: generated tokens less those from prefills and accepted drafts."""
        return max(0.0, self.generation_tokens - self.first_tokens - self.accepted_tokens)


@dataclass(frozen=True, slots=True)
class Service:
    """How pods served between two samples: sums that can be added over pods and over time; all are counts or seconds.

    A quantity that the engine does not report is None, never 0.
    """

    decode_seconds: float | None = None
    """Time from first to last token, summed over finished requests; one-token requests have none."""
    decode_tokens: float | None = None
    """Tokens after the first, summed over the same requests."""
    first_token_seconds: float | None = None
    """Time to first token, summed over requests."""
    first_tokens: float | None = None
    """Requests whose first token came."""
    finished_requests: float | None = None
    """Requests that ended as they should, one-token requests left out."""
    output_tokens: float | None = None
    """Their tokens."""
    generated_tokens: float | None = None
    """Tokens that came out, whosever: of requests under way and of failed ones too."""
    length_requests: float | None = None
    """Those of them that ran into their length limit."""
    failed_requests: float | None = None
    """Requests that ended by error or abort, or with an HTTP status of 5xx, whichever are more."""
    cache_queries: float | None = None
    """Tokens looked up in the prefix cache."""
    cache_hits: float | None = None
    preemptions: float | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """The target as it runs: the level that its configuration asks for, and its replicas."""

    level: str | None
    """Name of the running level; None when what runs is not in the ladder."""
    replicas: int = 1
    setting: str = ""
    """The running setting in words, for the reason when it is not in the ladder."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at the target: every window still of interest, oldest first, and the workload."""

    windows: tuple[Window, ...]
    workload: Workload
