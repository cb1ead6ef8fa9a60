"""One policy over time, as the page tells it: charts on one time axis, and its decisions in words."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from markupsafe import Markup

from specloop_sim.report import levels, markers
from specloop_sim.report.axis import Axis
from specloop_sim.report.chart import Chart, draw, line_of
from specloop_sim.report.frame import Sheet
from specloop_sim.report.model import Event, Point, Report, Run
from specloop_sim.report.picture import Picture, both
from specloop_sim.report.scale import duration, moment

OPEN = 20
"""Decisions in the open; the rest is folded up."""
LISTED = 1000
"""Decisions listed at all, so that the page stays below a megabyte."""

ACCEPTANCE_HEIGHT, SMALL_HEIGHT = 150.0, 84.0

INTERVAL = "the band is its interval; "
COMPARE = "it falls by arithmetic as K grows, so compare it within a level"

Drawing = tuple[str, str, Callable[..., str]]
"""Caption, note, and what draws it given a sheet and whether it has the dates."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A decision in the list."""

    number: int
    when: str
    action: str
    change: str
    reason: str
    advised: bool


@dataclass(frozen=True, slots=True)
class Story:
    """What the template shows of a run."""

    anchor: str
    policy: str
    stays: str
    strip: Markup | None
    pictures: tuple[Picture, ...]
    sentences: tuple[Sentence, ...]
    folded: tuple[Sentence, ...]
    left_out: int


def stories(report: Report) -> list[Story]:
    """All runs of a report."""
    return [_story(report, run, f"run-{place}") for place, run in enumerate(report.runs, start=1)]


def _story(report: Report, run: Run, anchor: str) -> Story:
    axis = Axis(report.seconds, report.epoch, report.phases, tuple(event.seconds for event in run.events))
    sentences = tuple(_sentence(place, one, report.epoch) for place, one in enumerate(run.events[:LISTED], start=1))
    return Story(
        anchor=anchor,
        policy=run.policy,
        stays=_stays(run, report.seconds),
        strip=_strip(run, axis, anchor),
        pictures=tuple(_pictures(run, axis)),
        sentences=sentences[:OPEN],
        folded=sentences[OPEN:],
        left_out=max(0, len(run.events) - LISTED),
    )


def _sentence(number: int, event: Event, epoch: float | None) -> Sentence:
    change = f"{event.before} → {event.after}"
    return Sentence(
        number, moment(event.seconds, epoch), event.action, change, event.reason, event.carried_out is False
    )


def _stays(run: Run, seconds: float) -> str:
    whole = max(seconds, 1.0)
    times = levels.shares(run).items()
    return ", ".join(f"{level} {duration(spent, 2)} ({100 * spent / whole:.0f} %)" for level, spent in times)


def _strip(run: Run, axis: Axis, anchor: str) -> Markup | None:
    if not run.events and not axis.phases:
        return None
    return both(lambda sheet: markers.draw(run.events[:LISTED], axis, sheet, f"{anchor}-decision-"))


def _pictures(run: Run, axis: Axis) -> Iterator[Picture]:
    """From top to bottom; the last one has the dates."""
    drawings = [*_acceptance(run, axis), *_levels(run, axis), *_temperature(run, axis), *_load(run, axis)]
    for place, (caption, note, drawing) in enumerate(drawings, start=1):
        yield Picture(caption, both(partial(drawing, dated=place == len(drawings))), note)


def _acceptance(run: Run, axis: Axis) -> Iterator[Drawing]:
    if known(run.acceptance):
        line = line_of("acceptance", run.acceptance, axis.seconds, "policy")
        drawn = Chart("Acceptance rate", [line], ACCEPTANCE_HEIGHT, share=True, limits=run.limits)
        banded = any(point.low is not None for point in run.acceptance)
        yield "Acceptance rate", INTERVAL * banded + COMPARE, partial(_chart, drawn, axis)


def _levels(run: Run, axis: Axis) -> Iterator[Drawing]:
    if run.stays:
        yield "Level and K", "most aggressive on top", partial(levels.draw, run, axis)


def _temperature(run: Run, axis: Axis) -> Iterator[Drawing]:
    if known(run.temperature):
        line = line_of(run.temperature_label, run.temperature, axis.seconds, "hot", filled=True)
        drawn = Chart(run.temperature_label, [line], SMALL_HEIGHT, share=True)
        yield run.temperature_label, "share of requests", partial(_chart, drawn, axis)


def _load(run: Run, axis: Axis) -> Iterator[Drawing]:
    if known(run.load):
        line = line_of(run.load_label, run.load, axis.seconds, "load", filled=True)
        drawn = Chart(run.load_label, [line], SMALL_HEIGHT)
        yield run.load_label, "", partial(_chart, drawn, axis)


def _chart(chart: Chart, axis: Axis, sheet: Sheet, dated: bool) -> str:
    return draw(replace(chart, dated=dated), axis, sheet)


def known(points: Sequence[Point]) -> bool:
    """Whether a series says anything at all."""
    return any(point.value is not None for point in points)
