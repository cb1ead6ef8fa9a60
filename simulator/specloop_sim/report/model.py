"""What a report shows, as `simulate`, `replay`, `sweep` and `demo` fill it in; `page.render` makes the page of it.

Times are seconds after the start of what is shown, in order; shares and acceptance are fractions, 0 to 1; all numbers
are finite.  What is left empty has no section on the page: a replay has no contenders, a simulation no candidates.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Which command the report comes from; it decides how the verdict speaks."""

    SIMULATE = "simulate"
    REPLAY = "replay"
    SWEEP = "sweep"
    DEMO = "demo"


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a time, with its interval where it has one; None where nothing is known, which breaks the line."""

    seconds: float
    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Rung:
    """A level of a ladder with its K."""

    level: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Stay:
    """A stretch of time at one level."""

    start: float
    end: float
    level: str


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of the policy on what a chart shows, in the chart's unit: "step down below", 0.4."""

    label: str
    value: float


@dataclass(frozen=True, slots=True)
class Event:
    """A decision that changed something, or would have."""

    seconds: float
    action: str
    before: str
    after: str
    rule: str | None
    reason: str
    carried_out: bool | None = None
    """Whether it was; None where all of them were."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one policy saw and did over time."""

    policy: str
    ladder: tuple[Rung, ...]
    """Most aggressive first."""
    acceptance: tuple[Point, ...] = ()
    limits: tuple[Limit, ...] = ()
    """The policy's limits on acceptance."""
    stays: tuple[Stay, ...] = ()
    """In order of time; what lies between two of them is a change under way."""
    temperature: tuple[Point, ...] = ()
    """Share of requests above the policy's limit."""
    temperature_label: str = "Hot requests"
    """What that share is: "Requests above temperature 0.6"."""
    load: tuple[Point, ...] = ()
    load_label: str = "Requests running per replica"
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Contender:
    """A policy, or a level that stays, on the same requests; each is given once."""

    name: str
    figures: Mapping[str, float]
    """Names as in the JSON answer: `meanRequestSeconds` and the like."""
    is_policy: bool = False
    best: bool = False
    """Whether it is the best static level in hindsight."""
    speed: tuple[Point, ...] = ()
    """Speed over time, in the unit of the report's `speed_label`."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One set of parameters that a sweep tried."""

    speed_percent: float
    """Speed gained, percent, as the report's `speed_label` says; more is better."""
    changes: float
    restarts: float
    parameters: Mapping[str, str]
    front: bool = False
    """Whether no other candidate is both faster and calmer."""
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Phase:
    """A named stretch of the traffic."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Report:
    """Everything on the page."""

    kind: Kind
    title: str
    seconds: float
    """Length of the time axis."""
    facts: tuple[tuple[str, str], ...] = ()
    """What was put in, as name and value: trace, requests, profile, replicas, seed, version."""
    simulated: tuple[str, ...] = ()
    """Sentences: what in this report was simulated."""
    measured: tuple[str, ...] = ()
    """Sentences: what was measured on real systems."""
    unknown: tuple[str, ...] = ()
    """Sentences: what cannot be known from this."""
    epoch: float | None = None
    """The start in seconds since 1970 where the times are dates; the page then shows UTC."""
    runs: tuple[Run, ...] = ()
    contenders: tuple[Contender, ...] = ()
    compares_by: str = "meanRequestSeconds"
    """The figure that contenders are compared by."""
    compares_why: str = ""
    """A sentence that says why by this one."""
    speed_label: str = "Mean request time, seconds"
    """What `Contender.speed` is, with its unit; for a sweep what `Candidate.speed_percent` is measured against: "Speed
    against the best static level"."""
    candidates: tuple[Candidate, ...] = ()
    phases: tuple[Phase, ...] = ()
