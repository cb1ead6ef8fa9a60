"""Requests out of a trace and a workload, or out of a workload alone; open loop as a list, closed loop as clients.

Request number i draws its phase, kind of text and temperature from seed and i alone, so that it is the same request
for every contestant, and in a longer part of the same trace.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specloop_sim.luck import WHOLE, deal
from specloop_sim.request import Request
from specloop_sim.text import LENGTH_SIGMA, AcceptanceProfile, Kind
from specloop_sim.traces.trace import Trace
from specloop_sim.workload import Workload, WorkloadError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

GRID = 10_000
"""Points at which the rate of synthetic arrivals is tabled, beside every point where it bends."""
MOST_TOKENS = 100_000
"""Longest synthetic prompt or answer, within the 131,072 that the profiles' models take; at a mean of 1,000 it is
5 sigma away, so it hardly moves the mean."""


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A phase with everything filled in, in seconds."""

    name: str
    start: float
    ramp: float
    kinds: tuple[Kind, ...]
    kind_edges: Floats
    """Rising to 1: the kind is the first one whose edge is above the number dealt."""
    temperatures: tuple[float, ...]
    temperature_edges: Floats
    profile: AcceptanceProfile | None
    load: float

    def chance(self, times: Floats) -> Floats:
        """How far it has set in, 0 to 1, at each of these times."""
        if self.ramp == 0.0:
            return (times >= self.start).astype(np.float64)
        return np.clip((times - self.start) / self.ramp, 0.0, 1.0)


def stages_of(workload: Workload, seconds: float) -> tuple[Stage, ...]:
    """The phases of a workload over traffic of this length.

    Raises WorkloadError where one of them would begin after the end, or before the one ahead of it.
    """
    profiles = {name: one.profile(name) for name, one in workload.acceptance.items()}
    stages: list[Stage] = []
    kinds: Mapping[Kind, float] = {}
    temperatures: Mapping[str, float] = {}
    profile, load = None, 1.0
    for phase in workload.phases:
        start = phase.start(seconds)
        if stages:
            _refuse_start(workload, phase.name, start, stages[-1], seconds)
        kinds = phase.kinds or kinds
        temperatures = phase.temperatures or temperatures
        load = load if phase.load is None else phase.load
        if "acceptance" in phase.model_fields_set:
            profile = profiles[phase.acceptance] if phase.acceptance is not None else None
        stages.append(
            Stage(
                phase.name,
                start,
                phase.ramp(seconds) if stages else 0.0,
                tuple(kind for kind, weight in kinds.items() if weight),
                _edges(kinds.values()),
                tuple(float(heat) for heat, weight in temperatures.items() if weight),
                _edges(temperatures.values()),
                profile,
                load,
            )
        )
    return tuple(stages)


def _refuse_start(workload: Workload, name: str, start: float, before: Stage, seconds: float) -> None:
    if before.start < start < seconds:
        return
    other = f"the traffic ends at {seconds:g} s" if start >= seconds else f"{before.name} at {before.start:g} s"
    raise WorkloadError(f"workload {workload.name}: phase {name} begins at {start:g} s, and {other}; mend its start")


def _edges(weights: Iterable[float]) -> Floats:
    """Weights above 0 as rising shares, the last one exactly 1."""
    edges = np.cumsum([weight for weight in weights if weight])
    edges /= edges[-1]
    edges[-1] = 1.0
    return edges


def phase_spans(workload: Workload, seconds: float) -> tuple[tuple[str, float, float], ...]:
    """Name, start and end of every phase over traffic of this length."""
    stages = stages_of(workload, seconds)
    ends = [*(stage.start for stage in stages[1:]), seconds]
    return tuple((stage.name, stage.start, end) for stage, end in zip(stages, ends, strict=True))


def requests_of(trace: Trace, workload: Workload, seed: int) -> list[Request]:
    """The requests of a trace, with what the workload says about them, in order of arrival.

    Raises WorkloadError where its phases do not fit the trace.
    """
    count = len(trace)
    dealer = _Dealer(stages_of(workload, trace.seconds), seed)
    lengths = trace.prompt_tokens.tolist(), trace.output_tokens.tolist()
    return dealer.requests(range(count), trace.arrivals, *lengths)


class OpenLoop:
    """Requests that come when they come, however long the answers take; they are given in order of arrival."""

    closed_loop = False

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests
        self._next = 0

    def arrivals(self, now: float, until: float, outstanding: int) -> list[Request]:
        """The requests that come by `until` and were not given yet."""
        first = self._next
        self._next = bisect_right(self._requests, until, lo=first, key=lambda request: request.arrival)
        return list(self._requests[first : self._next])


class ConcurrentClients:
    """Clients that each send their next request when the last one is answered, taking a trace's lengths in order.

    The trace's arrivals do not matter; after its last request its first follows, under a new id.  Phases go by the
    clock, over `seconds` (the trace's own length where it is not given) from time 0 on.
    """

    closed_loop = True

    def __init__(
        self, trace: Trace, workload: Workload, concurrency: int, seed: int, seconds: float | None = None
    ) -> None:
        self._trace = trace
        self._concurrency = concurrency
        self._dealer = _Dealer(stages_of(workload, trace.seconds if seconds is None else seconds), seed)
        self._sent = 0

    def arrivals(self, now: float, until: float, outstanding: int) -> list[Request]:
        """The requests that bring the number under way up to the clients'."""
        numbers = range(self._sent, self._sent + max(0, self._concurrency - outstanding))
        self._sent = numbers.stop
        rows = np.arange(numbers.start, numbers.stop) % len(self._trace)
        lengths = self._trace.prompt_tokens[rows].tolist(), self._trace.output_tokens[rows].tolist()
        return self._dealer.requests(numbers, np.full(len(numbers), now), *lengths)


class _Dealer:
    """Deals phase, kind of text and temperature to requests by their number."""

    def __init__(self, stages: tuple[Stage, ...], seed: int) -> None:
        self._stages = stages
        self._seed = seed
        self._dealt = np.empty((0, 3))

    def requests(self, numbers: range, times: Floats, prompts: list[int], outputs: list[int]) -> list[Request]:
        """Requests of these numbers at these times."""
        dealt = self._deal(numbers.stop)[numbers.start :]
        stages = self._stage_numbers(times, dealt[:, 0])
        kinds: list[Kind] = [Kind.CHAT] * len(numbers)
        temperatures = [0.0] * len(numbers)
        for number, stage in enumerate(self._stages):
            mine = np.flatnonzero(stages == number)
            drawn = (
                stage.kind_edges.searchsorted(dealt[mine, 1], "right").tolist(),
                stage.temperature_edges.searchsorted(dealt[mine, 2], "right").tolist(),
            )
            for place, kind, heat in zip(mine.tolist(), *drawn, strict=True):
                kinds[place] = stage.kinds[kind]
                temperatures[place] = stage.temperatures[heat]
        profiles = [self._stages[number].profile for number in stages.tolist()]
        rows = zip(numbers, times.tolist(), prompts, outputs, temperatures, kinds, profiles, strict=True)
        return [
            Request(f"r{number}", time, prompt, output, heat, kind, profile=profile)
            for number, time, prompt, output, heat, kind, profile in rows
        ]

    def _stage_numbers(self, times: Floats, dealt: Floats) -> Integers:
        """The last phase that has set in far enough for each request."""
        numbers = np.zeros(len(times), np.int64)
        for number, stage in enumerate(self._stages[1:], 1):
            numbers[dealt < stage.chance(times)] = number
        return numbers

    def _deal(self, count: int) -> Floats:
        """Three numbers from 0 to 1 for each of the first `count` requests; more of them begin with the same ones."""
        if count > len(self._dealt):
            enough = max(count, 2 * len(self._dealt))
            self._dealt = (deal(self._seed, "workload", 3 * enough) / WHOLE).reshape(-1, 3)
        return self._dealt[:count]


def synthetic_trace(workload: Workload, seed: int) -> Trace:
    """Arrivals and lengths as the workload's `traffic` describes them: Poisson arrivals, lognormal lengths.

    Raises WorkloadError where it describes none, or nothing arrives.
    """
    traffic = workload.traffic
    if traffic is None:
        raise WorkloadError(f"workload {workload.name} has no traffic; give a trace, or add traffic to it")
    arrivals = _arrivals(stages_of(workload, traffic.seconds), traffic.seconds, traffic.requests_per_second, seed)
    if not len(arrivals):
        raise WorkloadError(f"workload {workload.name}: nothing arrives in {traffic.seconds:g} s; raise the rate")
    normals = _normals(seed, len(arrivals))
    start = None if traffic.start is None else traffic.start + float(arrivals[0])
    return Trace(
        workload.name,
        arrivals - arrivals[0],
        _lengths(traffic.prompt_tokens, normals[:, 0]),
        _lengths(traffic.output_tokens, normals[:, 1]),
        start,
    )


def _arrivals(stages: tuple[Stage, ...], seconds: float, rate: float, seed: int) -> Floats:
    """A Poisson process whose rate follows the load: one of rate 1, with its time stretched.

    At the moments when a process of rate 1 has an event, the expected number of arrivals so far is read backwards.
    """
    times, loads = _loads(stages, seconds)
    expected = np.concatenate([[0.0], np.cumsum(np.diff(times) * (loads[1:] + loads[:-1]) / 2.0)]) * rate
    total = float(expected[-1])
    enough = int(total + 8.0 * total**0.5) + 16
    dealt = (deal(seed, "arrivals", enough) + 0.5) / WHOLE
    events = np.cumsum(-np.log(dealt))
    arrivals: Floats = np.interp(events[events < total], expected, times)
    return arrivals


def _loads(stages: tuple[Stage, ...], seconds: float) -> tuple[Floats, Floats]:
    """Times, and the load at each: the mean over the phases that a request may be of."""
    bends = [moment for one in stages for moment in (np.nextafter(one.start, 0.0), one.start, one.start + one.ramp)]
    times = np.unique(np.concatenate([np.linspace(0.0, seconds, GRID), bends]))
    times = times[times <= seconds]
    loads, later = np.zeros(len(times)), np.zeros(len(times))
    for stage in reversed(stages):
        reached = np.maximum(later, stage.chance(times))
        loads += (reached - later) * stage.load
        later = reached
    return times, loads


def _normals(seed: int, count: int) -> Floats:
    """Two standard normal numbers (Box and Muller 1958) for each of `count` requests."""
    dealt = ((deal(seed, "lengths", 2 * count) + 0.5) / WHOLE).reshape(-1, 2)
    radius, angle = np.sqrt(-2.0 * np.log(dealt[:, 0])), 2.0 * np.pi * dealt[:, 1]
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def _lengths(mean: float, normals: Floats) -> Integers:
    """Lognormal lengths of this mean: the median is it over exp(sigma^2 / 2)."""
    median = mean * np.exp(-(LENGTH_SIGMA**2) / 2.0)
    lengths: Integers = np.clip(np.rint(median * np.exp(LENGTH_SIGMA * normals)), 1, MOST_TOKENS).astype(np.int64)
    return lengths
