"""The time axis that all charts of a stack share, with the phases of the traffic and the moments of the decisions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specloop_sim.report.frame import Sheet
from specloop_sim.report.model import Phase
from specloop_sim.report.scale import time_ticks
from specloop_sim.report.svg import element, fitted, number, text

AXIS_HEIGHT = 22.0
"""Room for the labels under a chart."""
PHASES_HEIGHT = 20.0


@dataclass(frozen=True, slots=True)
class Axis:
    """Length, start, phases and the moments to mark."""

    seconds: float
    epoch: float | None = None
    phases: Sequence[Phase] = ()
    moments: Sequence[float] = ()


def background(axis: Axis, sheet: Sheet, top: float, bottom: float) -> Iterator[str]:
    """Every second phase shaded, and a hairline at each decision."""
    x = sheet.time(axis.seconds)
    for phase in axis.phases[1::2]:
        left, right = x(phase.start), x(phase.end)
        yield element("rect", class_="phase", x=left, y=top, width=right - left, height=bottom - top)
    for place in sorted({number(x(moment)) for moment in axis.moments}, key=float):
        yield element("path", class_="moment", d=f"M{place},{number(top)}V{number(bottom)}")


def dates(axis: Axis, sheet: Sheet, bottom: float) -> Iterator[str]:
    """The axis with its labels; those at the ends stay on the sheet."""
    x = sheet.time(axis.seconds)
    yield element("path", class_="axis", d=f"M{number(sheet.left)},{number(bottom)}H{number(sheet.right)}")
    for at, label in time_ticks(axis.seconds, axis.epoch, sheet.time_labels):
        place = x(at)
        side = "end" if place > sheet.right - 16 else "middle"
        yield element("path", class_="axis", d=f"M{number(place)},{number(bottom)}v4")
        yield text(label, place, bottom + 17, class_=f"tick {side}")


def phase_names(axis: Axis, sheet: Sheet, baseline: float) -> Iterator[str]:
    """Names of the phases, as far as they fit into their stretch."""
    x = sheet.time(axis.seconds)
    for phase in axis.phases:
        left, right = x(phase.start), x(phase.end)
        name = fitted(phase.name, right - left - 6, sheet.font)
        if name:
            yield text(name, (left + right) / 2, baseline, class_="note middle")


def readable(axis: Axis, sheet: Sheet) -> dict[str, str | float | None]:
    """What the page's script needs to turn a place on the picture into a time."""
    return {"data_left": sheet.left, "data_right": sheet.right, "data_seconds": str(axis.seconds)}
