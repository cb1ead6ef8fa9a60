"""Profiles of one's own hardware, from a YAML file; docs/reference/profile.md has every field."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from specloop_policy.cost import Line, LineStepTimes, MeasuredStepTimes
from specloop_policy.ladder import DISABLED, LOOKUP_METHODS, Drafter, Level, Method
from specloop_sim.file_model import BadFile, Fault, Part, read_model
from specloop_sim.profile import DraftMemory, Profile, UnknownProfile

GIGABYTE = 1e9

Amount = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, le=1e15, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]
LaxMethod = Annotated[Method, Field(strict=False)]


class LinePart(Part):
    """A straight line, in seconds: per token of context, per token computed, and constant."""

    per_context_token: Amount = 0.0
    per_token: Amount
    constant: Amount

    def line(self) -> Line:
        """The same as the cost model takes it."""
        return Line(self.per_context_token, self.per_token, self.constant)


class Lines(Part):
    """Step times as lines."""

    target: LinePart
    overhead_seconds: Seconds = 0.0
    drafts: dict[LaxMethod, LinePart] = Field(default_factory=dict)
    draft_passes: bool = False
    lookup_share: Annotated[float, Field(ge=0, le=1)] = 0.0


class Row(Part):
    """One measured step."""

    batch: Annotated[int, Field(ge=1, le=100_000)]
    tokens: Annotated[int, Field(ge=0, le=16)]
    seconds: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]


class Measured(Part):
    """Step times of one drafter as measured."""

    method: LaxMethod
    steps: Annotated[list[Row], Field(min_length=2, max_length=10_000)]
    prompt_seconds_per_token: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class DrafterPart(Part):
    """Memory that a drafter takes, over all GPUs together."""

    weight_gigabytes: Amount
    kv_bytes_per_token: Amount


class ProfilePart(Part):
    """One model on one kind of hardware, as one engine process serves it."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    model: str = ""
    kv_gigabytes: Positive
    kv_bytes_per_token: Positive
    startup_seconds: Seconds
    drafters: dict[LaxMethod, DrafterPart] = Field(default_factory=dict)
    lines: Lines | None = None
    measured: Measured | None = None
    max_num_seqs: Annotated[int, Field(ge=1, le=100_000)] = 256
    max_model_len: Annotated[int, Field(ge=1, le=100_000_000)] = 131_072
    prefill_tokens_per_step: Annotated[int, Field(ge=1, le=10_000_000)] = 8192

    def profile(self) -> Profile:
        """The same as the engine model takes it; raises UnknownProfile."""
        return Profile(
            name=self.name,
            model=self.model or "a model that is not named",
            times=self._times(),
            kv_bytes=self.kv_gigabytes * GIGABYTE,
            kv_bytes_per_token=self.kv_bytes_per_token,
            drafters=tuple(
                (method, DraftMemory(one.weight_gigabytes * GIGABYTE, one.kv_bytes_per_token))
                for method, one in self.drafters.items()
            ),
            startup_seconds=self.startup_seconds,
            max_num_seqs=self.max_num_seqs,
            max_model_len=self.max_model_len,
            prefill_tokens_per_step=self.prefill_tokens_per_step,
            prompt_seconds_per_token=self.measured.prompt_seconds_per_token if self.measured is not None else None,
        )

    def _times(self) -> LineStepTimes | MeasuredStepTimes:
        if self.measured is not None:
            rows = tuple((float(row.batch), row.tokens, row.seconds) for row in self.measured.steps)
            return MeasuredStepTimes(self.measured.method, rows)
        lines = self.lines
        assert lines is not None  # one of the two, _contradictions says otherwise
        return LineStepTimes(
            target=lines.target.line(),
            overhead_seconds=lines.overhead_seconds,
            drafts=tuple((str(method), one.line()) for method, one in lines.drafts.items()),
            draft_passes=lines.draft_passes,
            lookup_share=lines.lookup_share,
        )


def load_profile(text: str, name: str) -> Profile:
    """The profile in a text; `name` is the file's, for errors.  Raises UnknownProfile in one line."""
    try:
        return read_model(text, name, ProfilePart, "profile", _contradictions).profile()
    except BadFile as error:
        raise UnknownProfile(str(error)) from None


def _contradictions(part: ProfilePart) -> Iterator[Fault]:
    if (part.lines is None) == (part.measured is None):
        yield (), "step times are either lines or measured; give one of them"
        return
    methods = part.lines.drafts if part.lines is not None else {part.measured.method: None} if part.measured else {}
    for method in methods:
        if method in LOOKUP_METHODS:
            yield ("lines", "drafts", method), f"{method} drafts by looking up; give lookupShare instead"
        elif method not in part.drafters:
            yield ("drafters",), f"{method} has step times and no memory; add it here"
    if part.measured is not None:
        yield from _measured_faults(part, part.measured)


def _measured_faults(part: ProfilePart, measured: Measured) -> Iterator[Fault]:
    seen: set[tuple[int, int]] = set()
    for place, row in enumerate(measured.steps):
        if (row.batch, row.tokens) in seen:
            yield ("measured", "steps", place), f"batch {row.batch} with K = {row.tokens} is given twice; remove one"
        seen.add((row.batch, row.tokens))
    if not any(tokens == 0 for _, tokens in seen):
        yield ("measured", "steps"), "there is no plain step; measure some with tokens: 0"
        return
    try:
        made = part.profile()
        made.timer(DISABLED)
        made.timer(Level("most", Drafter("d", measured.method), max(tokens for _, tokens in seen)))
    except UnknownProfile as error:
        yield ("maxNumSeqs",), str(error)
