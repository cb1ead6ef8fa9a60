"""The decisions on the time axis: numbered markers in two rows, each a link to its sentence; where there is no room,
neighbours share one."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from specloop_sim.report.axis import PHASES_HEIGHT, Axis, background, phase_names, readable
from specloop_sim.report.frame import NAMESPACE, Sheet
from specloop_sim.report.model import Event
from specloop_sim.report.scale import moment
from specloop_sim.report.svg import element, number, text, width_of

RADIUS, GAP = 11.0, 3.0
ROWS, ROW = 2, 27.0
SHAPES_HEIGHT = 12.0

DOWN, UP = "M-4.5,0h9l-4.5,6z", "M-4.5,6h9l-4.5,-6z"
DIAMOND, BAR = "M0,0l4,3.5l-4,3.5l-4,-3.5z", "M-5,2h10v3h-10z"
SHAPES = {"StepDown": DOWN, "Disable": DOWN, "StepUp": UP, "Probe": DIAMOND}
"""Below a marker: where the level goes, a diamond for a probe, and a bar for anything else."""


@dataclass(frozen=True, slots=True)
class Marker:
    """Events first to last (counted from 0), drawn in a row round a centre."""

    first: int
    last: int
    row: int
    centre: float
    half: float
    """Half of its width."""

    @property
    def label(self) -> str:
        """The numbers that it stands for."""
        return numbers(self.first, self.last)


def numbers(first: int, last: int) -> str:
    """ "3", or "3–5"; counted from 1."""
    return f"{first + 1}" if first == last else f"{first + 1}–{last + 1}"


def draw(events: Sequence[Event], axis: Axis, sheet: Sheet, anchor: str) -> str:
    """The strip of markers; `anchor` begins the names of the sentences in the list: "run-1-decision-"."""
    x = sheet.time(axis.seconds)
    markers = placed([x(event.seconds) for event in events], sheet)
    top = PHASES_HEIGHT if axis.phases else 1.0
    bottom = top + ROW * (1 + max((one.row for one in markers), default=-1))
    height = bottom + (SHAPES_HEIGHT if events else 0.0)
    shapes = ((event.action, number(round(x(event.seconds)))) for event in events)
    return element(
        "svg",
        *background(axis, sheet, 0.0, height),
        *phase_names(axis, sheet, 14.0),
        *(_shape(action, place, bottom) for action, place in dict.fromkeys(shapes)),
        *(_drawn(one, events, axis, anchor, top + ROW * one.row + RADIUS + 2) for one in markers),
        class_=f"sheet {sheet.name} strip",
        role="group",
        aria_label="Decisions on the time axis",
        view_box=f"0 0 {sheet.width:g} {number(height)}",
        xmlns=NAMESPACE,
        **readable(axis, sheet),
    )


def placed(places: Sequence[float], sheet: Sheet) -> Sequence[Marker]:
    """Markers that neither overlap nor leave the sheet; an event that finds no room joins the marker before it."""
    found: list[Marker] = []
    for event, place in enumerate(places):
        alone = [_marker(event, event, row, place - RADIUS, sheet) for row in range(ROWS)]
        fitting = next((one for one in alone if _fits(one, found)), None)
        found.append(_joined(found, event, sheet) if fitting is None else fitting)
    return found


def _joined(found: list[Marker], event: int, sheet: Sheet) -> Marker:
    """The last marker with one event more; it takes others with it where it has grown too wide for its row."""
    while True:
        before = found.pop()
        marker = _marker(before.first, event, before.row, before.centre - before.half, sheet)
        if _fits(marker, found):
            return marker


def _marker(first: int, last: int, row: int, left: float, sheet: Sheet) -> Marker:
    half = max(RADIUS, width_of(numbers(first, last), sheet.font) / 2 + 6)
    return Marker(first, last, row, min(sheet.width - half - 1, max(half + 1, left + half)), half)


def _fits(marker: Marker, found: Sequence[Marker]) -> bool:
    before = next((one for one in reversed(found) if one.row == marker.row), None)
    return before is None or before.centre + before.half + GAP <= marker.centre - marker.half


def _drawn(marker: Marker, events: Sequence[Event], axis: Axis, anchor: str, middle: float) -> str:
    inside = events[marker.first : marker.last + 1]
    advised = all(event.carried_out is False for event in inside)
    left, width = marker.centre - marker.half, 2 * marker.half
    return element(
        "a",
        element("title", escape(_words(marker.label, inside, axis))),
        element("rect", x=left, y=middle - RADIUS, width=width, height=2 * RADIUS, rx=RADIUS),
        text(marker.label, marker.centre, middle + 4.5, class_="middle"),
        href=f"#{anchor}{marker.first + 1}",
        class_="marker advised" if advised else "marker",
        data_at=str(inside[0].seconds),
    )


def _shape(action: str, place: str, top: float) -> str:
    return element("path", class_="way", d=SHAPES.get(action, BAR), transform=f"translate({place},{number(top)})")


def _words(label: str, events: Sequence[Event], axis: Axis) -> str:
    first, last = events[0], events[-1]
    begin, end = moment(first.seconds, axis.epoch), moment(last.seconds, axis.epoch)
    if first is last:
        return f"Decision {label} at {begin}: {first.action} {first.before} → {first.after}"
    return f"Decisions {label}, {begin} to {end}"
