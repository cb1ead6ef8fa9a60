"""Workloads: what a trace does not say, namely temperatures, kinds of text, acceptance, and how they change.

A workload is a YAML file; docs/reference/workload.md has every field.  The shipped ones lie in workloads/.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from specloop_policy.ladder import LOOKUP_METHODS, Method
from specloop_sim.file_model import BadFile, Fault, Part, read_model
from specloop_sim.plain_yaml import Where
from specloop_sim.text import SIMULATED_LOOKUPS, AcceptanceProfile, Kind

DEFAULT = "steady"
"""The workload where none is named."""
MOST_REQUESTS = 20_000_000
"""As many as a trace may have."""

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
Sentence = Annotated[str, Field(max_length=500)]
Weight = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Table = Annotated[list[Share], Field(min_length=1, max_length=16)]
Seconds = Annotated[float, Field(gt=0, le=31_536_000, allow_inf_nan=False)]
Tokens = Annotated[float, Field(ge=1, le=1_000_000, allow_inf_nan=False)]
LaxKind = Annotated[Kind, Field(strict=False)]
LaxMethod = Annotated[Method, Field(strict=False)]


class WorkloadError(ValueError):
    """A workload that cannot be used; one line that says where, what is wrong and how to mend it."""


def _temperature(text: Any) -> Any:
    if isinstance(text, str) and not (re.fullmatch(r"[0-9](\.[0-9]{1,2})?", text) and float(text) <= 2.0):
        raise ValueError('a temperature is 0 to 2 with at most two decimals, such as "0.2"')
    return text


Temperature = Annotated[str, BeforeValidator(_temperature)]


class Phase(Part):
    """A stretch of the traffic; what it leaves out is as in the phase before."""

    name: Name
    start_percent: Annotated[float, Field(gt=0, lt=100)] | None = None
    start_seconds: Seconds | None = None
    ramp_percent: Annotated[float, Field(ge=0, le=100)] | None = None
    ramp_seconds: Annotated[float, Field(ge=0, le=31_536_000, allow_inf_nan=False)] | None = None
    kinds: Annotated[dict[LaxKind, Weight], Field(min_length=1)] | None = None
    temperatures: Annotated[dict[Temperature, Weight], Field(min_length=1)] | None = None
    acceptance: str | None = None
    load: Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)] | None = None

    def start(self, seconds: float) -> float:
        """When it begins, in a trace of this length."""
        return self.start_seconds or (self.start_percent or 0.0) / 100.0 * seconds

    def ramp(self, seconds: float) -> float:
        """How long it takes to set in, in a trace of this length."""
        return self.ramp_seconds or (self.ramp_percent or 0.0) / 100.0 * seconds


class Acceptance(Part):
    """Acceptance that differs from the built-in tables."""

    source: str | None = None
    conditional: dict[LaxMethod, Table] = Field(default_factory=dict)
    match_share: Share | None = None
    match_acceptance: Share | None = None
    factor: dict[LaxMethod, Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)]] = Field(default_factory=dict)
    by_temperature: bool = True

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.conditional or self.factor) and self.match_share is None and self.match_acceptance is None:
            raise ValueError("it changes nothing; give conditional, factor, matchShare or matchAcceptance")
        unknown = [one for one in self.conditional if one in LOOKUP_METHODS and one not in SIMULATED_LOOKUPS]
        if unknown and self.match_share is None:
            raise ValueError(f"{unknown[0]} drafts only where it finds a match; give matchShare too")
        return self

    def profile(self, name: str) -> AcceptanceProfile:
        """The same as the engine model takes it."""
        return AcceptanceProfile(
            name,
            tuple((method, tuple(table)) for method, table in self.conditional.items()),
            self.match_share,
            self.match_acceptance,
            tuple(self.factor.items()),
            self.by_temperature,
        )


class Traffic(Part):
    """Arrivals and lengths, for where no trace is given."""

    seconds: Seconds
    requests_per_second: Annotated[float, Field(gt=0, le=10_000, allow_inf_nan=False)]
    prompt_tokens: Tokens
    output_tokens: Tokens
    start_time: str | None = None

    @model_validator(mode="after")
    def _starts_at_a_date(self) -> Self:
        if self.start_time is not None:
            try:
                zone = datetime.fromisoformat(self.start_time).tzinfo
            except ValueError:
                zone = None
            if zone is None:
                raise ValueError("startTime is a date with a zone, such as 2026-01-05T00:00:00Z")
        return self

    @property
    def start(self) -> float | None:
        """Epoch seconds of the beginning."""
        return None if self.start_time is None else datetime.fromisoformat(self.start_time).timestamp()


class Replica(Part):
    """How one replica differs from the profile."""

    speed_percent: Annotated[float, Field(ge=1, le=1000)] = 100.0
    acceptance_percent: Annotated[float, Field(ge=0, le=200)] = 100.0
    startup_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] | None = None


class Workload(Part):
    """What a trace does not say."""

    name: Name
    description: Sentence = ""
    source: Annotated[str, Field(max_length=4000)] = ""
    phases: Annotated[list[Phase], Field(min_length=1, max_length=100)]
    acceptance: dict[Name, Acceptance] = Field(default_factory=dict)
    traffic: Traffic | None = None
    prefix_cache_percent: Annotated[float, Field(ge=0, le=100)] = 0.0
    replicas: Annotated[list[Replica], Field(default_factory=list, max_length=1000)]


def load_workload(text: str, name: str) -> Workload:
    """The workload in a text; `name` is the file's, for errors.  Raises WorkloadError in one line."""
    try:
        return read_model(text, name, Workload, "workload", _contradictions)
    except BadFile as error:
        raise WorkloadError(str(error)) from None


def shipped_workloads() -> tuple[str, ...]:
    """Names of the workloads that come with the package, in alphabetical order."""
    folder = files("specloop_sim") / "workloads"
    return tuple(sorted(one.name.removesuffix(".yaml") for one in folder.iterdir() if one.name.endswith(".yaml")))


@cache
def workload_named(name: str) -> Workload:
    """The shipped workload of this name; raises WorkloadError listing those there are."""
    if name not in shipped_workloads():
        raise WorkloadError(f"no workload is called {name!r}; there are {', '.join(shipped_workloads())}")
    file = f"{name}.yaml"
    return load_workload((files("specloop_sim") / "workloads" / file).read_text(encoding="utf-8"), file)


def _contradictions(workload: Workload) -> Iterator[Fault]:
    """What the fields of a workload decide together, with the place of each fault."""
    names: set[str] = set()
    for place, phase in enumerate(workload.phases):
        where: Where = ("phases", place)
        if phase.name in names:
            yield (*where, "name"), f"two phases are called {phase.name}; names are unique"
        names.add(phase.name)
        yield from ((where + key, message) for key, message in _phase_faults(phase, place == 0))
        if phase.acceptance is not None and phase.acceptance not in workload.acceptance:
            known = ", ".join(workload.acceptance) or "none"
            yield (
                (*where, "acceptance"),
                f"no profile is called {phase.acceptance!r}; there are: {known}",
            )
    yield from _falling(workload.phases)
    if workload.traffic is not None:
        most = max([1.0, *(phase.load or 0.0 for phase in workload.phases)])
        if workload.traffic.seconds * workload.traffic.requests_per_second * most > MOST_REQUESTS:
            yield ("traffic",), f"this may make more than {MOST_REQUESTS:,} requests; shorten it or lower the rate"


def _phase_faults(phase: Phase, first: bool) -> Iterator[Fault]:
    starts = [name for name in ("start_percent", "start_seconds") if getattr(phase, name) is not None]
    if first and starts:
        yield (to_camel(starts[0]),), "the first phase begins at 0; remove this"
    if first and (phase.kinds is None or phase.temperatures is None):
        yield (), "the first phase needs kinds and temperatures; later ones take over what they leave out"
    if not first and len(starts) != 1:
        yield (), "a phase after the first has either startPercent or startSeconds"
    if phase.ramp_percent is not None and phase.ramp_seconds is not None:
        yield ("rampSeconds",), "a phase has either rampPercent or rampSeconds"
    for name, weights in (("kinds", phase.kinds), ("temperatures", phase.temperatures)):
        if weights is not None and not sum(weights.values()):
            yield (name,), "all weights are 0; give one of them more"
    if phase.temperatures and len({float(one) for one in phase.temperatures}) < len(phase.temperatures):
        yield ("temperatures",), "a temperature is given twice; remove one of them"


def _falling(phases: list[Phase]) -> Iterator[Fault]:
    """Starts of one unit that do not rise; of mixed units that is known once the length is."""
    for name in ("start_percent", "start_seconds"):
        before = 0.0
        for place, phase in enumerate(phases):
            start = getattr(phase, name)
            if start is not None and start <= before:
                yield ("phases", place, to_camel(name)), f"{start:g} is not after {before:g}; phases stand in order"
            before = before if start is None else start
