"""Metric pages of a vLLM V1 process made from what it has counted, with the names and labels of real ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

START = 1_795_900_000.0
"""When the processes of these pages started, seconds since the epoch."""

EDGES = tuple(round(0.1 * tenths, 1) for tenths in range(21))
"""Upper edges of the histogram of temperatures, without the infinite one."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What one process has counted since it started, and its gauges now."""

    drafts: float = 0.0
    draft_tokens: float = 0.0
    accepted: tuple[float, ...] | None = ()
    """Accepted tokens by position; None: speculation is off, and none of its series exist."""
    generation_tokens: float = 0.0
    prompt_tokens: float = 0.0
    stopped: float = 0.0
    """Requests that ended by themselves."""
    cut: float = 0.0
    """Requests that ran into their length limit."""
    one_token: float = 0.0
    """Of all these, requests of one token."""
    temperatures: tuple[tuple[float, float], ...] | None = None
    """(temperature, requests at it); None: nobody counts temperatures."""
    running: float = 0.0
    waiting: float = 0.0
    kv_cache: float = 0.4
    """Share of the KV cache in use."""
    process_start: float | None = START

    def after(
        self,
        survival: Sequence[float] = (),
        *,
        drafts: float = 0.0,
        requests: float = 0.0,
        coverage: float = 1.0,
        cut: float = 0.0,
        hot: float = 0.0,
        running: float | None = None,
    ) -> Self:
        """The counts once `drafts` more were made and accepted as `survival` says, and `requests` more had ended.

        A draft has as many tokens as the process has positions; `coverage` is the share of decode steps that drafted,
        `cut` and `hot` are of the requests.  Without drafts each request is given 200 steps.
        """
        assert self.accepted is not None or not survival
        gained = tuple(drafts * share for share in survival)
        steps = drafts / coverage if drafts else 200.0 * requests
        positions = len(self.accepted or ())
        temperatures = self.temperatures
        if temperatures is not None:
            temperatures = (*temperatures, (0.2, requests - hot), (0.8, hot))
        return replace(
            self,
            drafts=self.drafts + drafts,
            draft_tokens=self.draft_tokens + drafts * positions,
            accepted=None if self.accepted is None else added(self.accepted, gained),
            generation_tokens=self.generation_tokens + steps + requests + sum(gained),
            prompt_tokens=self.prompt_tokens + 500.0 * requests,
            stopped=self.stopped + requests - cut,
            cut=self.cut + cut,
            temperatures=temperatures,
            running=self.running if running is None else running,
        )


def added(before: Sequence[float], gained: Sequence[float]) -> tuple[float, ...]:
    """Position by position, as many as there were before."""
    return tuple(one + (gained[place] if place < len(gained) else 0.0) for place, one in enumerate(before))


def idle(positions: int, *, process_start: float | None = START, hot: bool = False, running: float = 8.0) -> Counted:
    """A process that speculates with K = `positions` and has answered nothing yet; `hot`: temperatures are counted."""
    return Counted(
        accepted=(0.0,) * positions,
        temperatures=() if hot else None,
        process_start=process_start,
        running=running,
    )


def off(*, running: float = 8.0) -> Counted:
    """A process that does not speculate and has answered nothing yet."""
    return Counted(accepted=None, running=running)


def page(counted: Counted, model: str = "meta-llama/Llama-3.3-70B-Instruct") -> str:
    """The process's `/metrics` page."""
    own = f'engine="0",model_name="{model}"'
    lines: list[str] = []

    def family(name: str, kind: str, *series: tuple[str, str, float]) -> None:
        """One family, each series by its suffix, its labels beside the process's own, and its value."""
        lines.extend((f"# HELP {name} {name.partition(':')[2] or name}", f"# TYPE {name} {kind}"))
        for suffix, labels, value in series:
            shown = ",".join(part for part in (own, labels) if part)
            lines.append(f"{name}{suffix}{{{shown}}} {value!r}")

    if counted.process_start is not None:
        lines.append("# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.")
        lines.append("# TYPE process_start_time_seconds gauge")
        lines.append(f"process_start_time_seconds {counted.process_start!r}")
    if counted.accepted is not None:
        family("vllm:spec_decode_num_drafts", "counter", ("_total", "", counted.drafts))
        family("vllm:spec_decode_num_draft_tokens", "counter", ("_total", "", counted.draft_tokens))
        family("vllm:spec_decode_num_accepted_tokens", "counter", ("_total", "", sum(counted.accepted)))
        family(
            "vllm:spec_decode_num_accepted_tokens_per_pos",
            "counter",
            *(("_total", f'position="{place}"', value) for place, value in enumerate(counted.accepted)),
        )
    family("vllm:num_requests_running", "gauge", ("", "", counted.running))
    family("vllm:num_requests_waiting", "gauge", ("", "", counted.waiting))
    family("vllm:kv_cache_usage_perc", "gauge", ("", "", counted.kv_cache))
    family("vllm:prompt_tokens", "counter", ("_total", "", counted.prompt_tokens))
    family("vllm:generation_tokens", "counter", ("_total", "", counted.generation_tokens))
    reasons = {"stop": counted.stopped, "length": counted.cut, "abort": 0.0, "error": 0.0}
    family(
        "vllm:request_success",
        "counter",
        *(("_total", f'finished_reason="{reason}"', value) for reason, value in reasons.items()),
    )
    ended = counted.stopped + counted.cut
    family(
        "vllm:request_generation_tokens",
        "histogram",
        ("_bucket", 'le="1.0"', counted.one_token),
        ("_bucket", 'le="+Inf"', ended),
        ("_count", "", ended),
    )
    family("vllm:time_to_first_token_seconds", "histogram", ("_bucket", 'le="+Inf"', ended), ("_count", "", ended))
    if counted.temperatures is not None:
        buckets = []
        for edge in (*EDGES, float("inf")):
            label = "+Inf" if edge == float("inf") else repr(edge)
            below = sum(count for temperature, count in counted.temperatures if temperature <= edge)
            buckets.append(("_bucket", f'le="{label}"', below))
        family("specloop_request_temperature", "histogram", *buckets)
    return "\n".join(lines) + "\n"
