"""Named hardware and models: step times, memory and limits, each figure measured by others or derived beside it."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from specloop_policy.cost import Line, LineStepTimes, Load, MeasuredStepTimes
from specloop_policy.ladder import LOOKUP_METHODS, Level, Method
from specloop_sim.timeline import Array

GIB = float(2**30)
H100_BYTES_PER_SECOND = 3.35e12
"""Memory bandwidth of one H100 SXM (NVIDIA data sheet)."""
H100_FLOPS = 989e12
"""Dense bf16 arithmetic of one H100 SXM (NVIDIA data sheet)."""
H100_USABLE_BYTES = 79.6 * GIB * 0.92
"""What an engine may use of one H100: 79.6 GiB are visible, and vLLM 0.32.0 takes .92 of it by default."""
ENGINE_BYTES = 4.0 * GIB
"""Activations, CUDA graphs and communication buffers of one GPU: assumed."""


class UnknownProfile(ValueError):
    """There is no profile of this name, or it does not know this drafter; trying again does not help."""


@dataclass(frozen=True, slots=True)
class DraftMemory:
    """What a drafter takes of the GPUs' memory, over all GPUs together."""

    weight_bytes: float
    kv_bytes_per_token: float


@dataclass(frozen=True, slots=True)
class Profile:
    """One model on one kind of hardware, as one engine process serves it."""

    name: str
    model: str
    times: LineStepTimes | MeasuredStepTimes
    kv_bytes: float
    """Memory left for the KV cache when nothing is speculated, over all GPUs together."""
    kv_bytes_per_token: float
    drafters: tuple[tuple[Method, DraftMemory], ...]
    """Memory of drafters with weights; lookups take none."""
    startup_seconds: float
    """From the start of the process to the open port."""
    max_num_seqs: int = 256
    max_model_len: int = 131_072
    prefill_tokens_per_step: int = 8192
    """Prompt tokens that a step takes on beside its decoding: vLLM's `max_num_batched_tokens`, of which decoding is
    not taken off here."""
    prompt_seconds_per_token: float | None = None
    """What a prompt's token adds to a step whose time is read from a table; lines know it themselves."""

    def __post_init__(self) -> None:
        """A table is never read beyond its edge, and knows nothing of prompts; raises UnknownProfile."""
        if isinstance(self.times, LineStepTimes):
            return
        if self.times.method in LOOKUP_METHODS:
            raise UnknownProfile(f"profile {self.name}: lookups draft in some steps only, which no table by K shows")
        if self.prompt_seconds_per_token is None:
            raise UnknownProfile(f"profile {self.name} has measured steps; say prompt_seconds_per_token as well")
        most = max(batch for batch, _, _ in self.times.rows)
        if self.max_num_seqs > most:
            raise UnknownProfile(
                f"profile {self.name} was measured up to {most:g} requests at once, and max_num_seqs is "
                f"{self.max_num_seqs}; set it to {most:g} at most"
            )

    def methods(self) -> tuple[Method, ...]:
        """The drafter methods that this profile has figures for."""
        if isinstance(self.times, MeasuredStepTimes):
            return tuple(method for method, _ in self.drafters if method == self.times.method)
        lines = {method for method, _ in self.times.drafts}
        return (*(method for method, _ in self.drafters if method in lines), Method.NGRAM, Method.NGRAM_GPU)

    def kv_tokens(self, level: Level) -> int:
        """Tokens that the KV cache holds at this level; a draft model takes room for its weights and its own KV."""
        memory = self._memory(level)
        return int((self.kv_bytes - memory.weight_bytes) / (self.kv_bytes_per_token + memory.kv_bytes_per_token))

    def _memory(self, level: Level) -> DraftMemory:
        lines = isinstance(self.times, LineStepTimes)
        if level.drafter is None or (lines and level.drafter.method in LOOKUP_METHODS):
            return DraftMemory(0.0, 0.0)
        method = level.drafter.method
        found = dict(self.drafters).get(method)
        if found is None or method not in self.methods():
            known = ", ".join(self.methods())
            raise UnknownProfile(f"profile {self.name} has no figures for drafts by {method}; it has for {known}")
        return found

    def timer(self, level: Level) -> "Timer":
        """Seconds of steps at this level; raises UnknownProfile where the drafter is not known."""
        self._memory(level)
        if isinstance(self.times, LineStepTimes):
            return StepTimer(self.times, level)
        return MeasuredTimer(self.times, level, self.prompt_seconds_per_token or 0.0)


class Timer(Protocol):
    """Seconds of many steps at once, at one level."""

    def seconds(self, rows: Array) -> Array:
        """Seconds of each step, from rows of context tokens, decoding requests and tokens computed (timeline.py)."""


class StepTimer:
    """Seconds of many steps at once, at one level.

    With every running request drafting and nothing to prefill this is `LineStepTimes.seconds`.  Beyond that it knows
    that a lookup without a match verifies nothing, that a prompt's tokens cost what verified ones do, and that an
    engine whose live K is 0 still runs its drafter's first pass (seen on vLLM 0.32.0).
    """

    __slots__ = ("_constant", "_per_context", "_per_request", "_per_token")

    def __init__(self, times: LineStepTimes, level: Level) -> None:
        lookup = level.drafter is not None and level.drafter.method in LOOKUP_METHODS
        share = 1.0 + times.lookup_share if lookup else 1.0
        self._per_context = times.target.per_context_token * share
        self._per_token = times.target.per_token * share
        self._per_request = 0.0
        self._constant = times.target.constant * share + times.overhead_seconds
        if level.drafter is not None and not lookup:
            self._add_draft(dict(times.drafts)[level.drafter.method], max(1, level.tokens), times.draft_passes)

    def _add_draft(self, line: Line, tokens: int, passes: bool) -> None:
        # One pass is for one token of each request; the line of a whole proposal is for all tokens at once.
        self._per_context += line.per_context_token * (tokens if passes else 1)
        self._per_request += line.per_token * tokens
        self._constant += line.constant * (tokens if passes else 1)

    def seconds(self, rows: Array) -> Array:
        """Seconds of each step, from rows of context tokens, decoding requests and tokens computed (timeline.py)."""
        seconds: Array = rows[0] * self._per_context
        seconds += rows[1] * self._per_request
        seconds += rows[2] * self._per_token
        seconds += self._constant
        return seconds


class MeasuredTimer:
    """Seconds of many steps at once, at one level, from a measured table.

    Between the table's batches a step lies on the line between its neighbours.  One with fewer requests than the
    smallest batch (a step of prompts alone has none) takes as long as that batch, for it reads the same weights; one
    with more than the largest raises UnknownProfile.  Context is part of what was measured, so it does not count.
    """

    __slots__ = ("_batches", "_computed", "_per_prompt_token", "_seconds")

    def __init__(self, times: MeasuredStepTimes, level: Level, per_prompt_token: float) -> None:
        batches = sorted({batch for batch, _, _ in times.rows})
        known = [(batch, times.seconds(level, Load(batch, 0.0))) for batch in batches]
        points = [(batch, seconds) for batch, seconds in known if seconds is not None]
        if not points:
            raise UnknownProfile(
                f"the measured steps do not reach K = {level.tokens}; measure it, or draft less (levels: in the policy)"
            )
        self._batches, self._seconds = np.array(points).T
        self._computed = level.tokens + 1
        self._per_prompt_token = per_prompt_token

    def seconds(self, rows: Array) -> Array:
        """Seconds of each step, from rows of context tokens, decoding requests and tokens computed (timeline.py)."""
        if rows[1].max(initial=0.0) > self._batches[-1]:
            raise UnknownProfile(f"{rows[1].max():g} requests decode at once; measured up to {self._batches[-1]:g}")
        seconds: Array = np.interp(rows[1], self._batches, self._seconds)
        seconds += (rows[2] - rows[1] * self._computed) * self._per_prompt_token
        return seconds


# One H100, Llama-3.1-8B, bf16: lines fitted by SpecDecode-Bench (seconds).
_H100_8B = LineStepTimes(
    target=Line(3.92645679e-8, 2.10103129e-5, 5.88590713e-3),
    overhead_seconds=1.20683946e-3,
    drafts=(
        (Method.EAGLE, Line(2.37768493e-9, 8.41429603e-7, 2.13526175e-3)),
        # Assumed: EAGLE-3's head is one layer of the same size.
        (Method.EAGLE3, Line(2.37768493e-9, 8.41429603e-7, 2.13526175e-3)),
    ),
    lookup_share=0.005875,
)

# The same lines say how much of the data sheet an H100 gives, which carries over to other models:
#   weights  8.03e9 parameters x 2 bytes / 3.35e12 = 4.79 ms of the 5.886 ms constant: .81
#   tokens   8.03e9 x 2 flop / 989e12 = 16.2 us of 21.0 us: .77
#   context  32 layers x 8 heads x 128 x 2 x 2 bytes = 131,072 bytes / 3.35e12 = 39.1 ns of 39.3 ns: 1.0
WEIGHT_EFFICIENCY = 0.81
FLOP_EFFICIENCY = 0.77


def derived_line(parameters: float, kv_bytes_per_token: float, gpus: int, constant: float) -> Line:
    """A model's line on `gpus` H100s in tensor parallel: memory for weights and context, arithmetic for tokens.

    `constant` is what a pass takes beside reading its weights.
    """
    return Line(
        per_context_token=kv_bytes_per_token / (gpus * H100_BYTES_PER_SECOND),
        per_token=2.0 * parameters / (gpus * H100_FLOPS * FLOP_EFFICIENCY),
        constant=2.0 * parameters / (gpus * H100_BYTES_PER_SECOND * WEIGHT_EFFICIENCY) + constant,
    )


_70B, _70B_KV = 70.6e9, 80 * 8 * 128 * 2 * 2.0  # Llama-3.3-70B: 80 layers, 8 KV heads of 128, bf16
_1B, _1B_KV = 1.24e9, 16 * 8 * 64 * 2 * 2.0  # Llama-3.2-1B: 16 layers, 8 KV heads of 64, bf16
_ALL_REDUCE = 10e-6  # one small all-reduce over NVLink between four GPUs, two a layer: assumed

_4XH100_70B = LineStepTimes(
    # 141 GB of weights: 13.0 ms; 160 all-reduces: 1.6 ms; 46 us a token; 24 ns a token of context.
    target=derived_line(_70B, _70B_KV, gpus=4, constant=160 * _ALL_REDUCE),
    overhead_seconds=1.20683946e-3,  # of the scheduler, so the same as on one GPU
    drafts=(
        # One pass: .23 ms of weights, 32 all-reduces .32 ms, and .9 ms to launch, sample and prepare the next pass,
        # assumed: vLLM's draft models run one step of the engine's Python per pass.  A pass is .09 of a plain step.
        (Method.DRAFT_MODEL, derived_line(_1B, _1B_KV, gpus=4, constant=32 * _ALL_REDUCE + 0.9e-3)),
    ),
    draft_passes=True,
    lookup_share=0.005875,
)

PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            name="h100-llama-3.1-8b",
            model="meta-llama/Llama-3.1-8B-Instruct",
            times=_H100_8B,
            kv_bytes=H100_USABLE_BYTES - 8.03e9 * 2 - ENGINE_BYTES,
            kv_bytes_per_token=131_072.0,
            # EAGLE heads: one layer and the projection, .25e9 parameters (assumed from EAGLE's paper, .24e9 for 7B).
            drafters=(
                (Method.EAGLE, DraftMemory(0.5e9, 4096.0)),
                (Method.EAGLE3, DraftMemory(0.5e9, 4096.0)),
            ),
            startup_seconds=60.0,  # reports go from 34 s to 11 min; assumed near the fast end, with weights cached
        ),
        Profile(
            name="4xh100-llama-3.3-70b",
            model="meta-llama/Llama-3.3-70B-Instruct",
            times=_4XH100_70B,
            kv_bytes=4 * (H100_USABLE_BYTES - ENGINE_BYTES) - _70B * 2,
            kv_bytes_per_token=_70B_KV,
            drafters=((Method.DRAFT_MODEL, DraftMemory(_1B * 2, _1B_KV)),),
            startup_seconds=180.0,  # assumed, in the middle of the reports
        ),
    )
}


def profile_named(name: str) -> Profile:
    """The profile of this name; raises UnknownProfile listing those there are."""
    if name not in PROFILES:
        raise UnknownProfile(f"no profile is called {name!r}; there are {', '.join(PROFILES)}")
    return PROFILES[name]
