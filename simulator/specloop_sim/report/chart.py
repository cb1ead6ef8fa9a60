"""Charts of figures over time: lines, their bands, the policy's limits, and the moments of the decisions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specloop_sim.report import lines
from specloop_sim.report.axis import AXIS_HEIGHT, Axis, background, dates, readable
from specloop_sim.report.frame import WIDE, Sheet
from specloop_sim.report.model import Limit, Point
from specloop_sim.report.scale import Scale, plain, round_ticks
from specloop_sim.report.svg import element, number, text
from specloop_sim.report.thin import thinned

TOP = 10.0
"""Room above the plot for the highest label."""
TALL = 120.0
"""Height from which a chart has room for five labels."""


@dataclass(frozen=True, slots=True)
class Line:
    """A series, thinned to what the widest sheet shows, and its class in the style sheet."""

    name: str
    points: Sequence[Point]
    ends: tuple[float, float] | None
    """Its first and its last known value; None where nothing is known."""
    style: str
    filled: bool = False
    dense: bool = False
    """Whether it was thinned; a finer pen keeps its ups and downs apart."""


def line_of(name: str, points: Sequence[Point], seconds: float, style: str, *, filled: bool = False) -> Line:
    """A series over `seconds`, made ready to be drawn."""
    kept = thinned(points, WIDE.points, seconds)
    first = next((point.value for point in points if point.value is not None), None)
    last = next((point.value for point in reversed(points) if point.value is not None), None)
    ends = None if first is None or last is None else (first, last)
    return Line(name, kept, ends, style, filled, kept is not points)


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart over time."""

    label: str
    lines: Sequence[Line]
    height: float
    share: bool = False
    """Whether its figures are fractions of one, shown in percent."""
    limits: Sequence[Limit] = ()
    dated: bool = True
    """Whether the time axis is labelled under this chart."""


def draw(chart: Chart, axis: Axis, sheet: Sheet) -> str:
    """The chart on a sheet."""
    series = [(line, thinned(line.points, sheet.points, axis.seconds)) for line in chart.lines]
    ticks = _ticks(chart)
    bottom = TOP + chart.height
    x, y = sheet.time(axis.seconds), Scale(ticks[0], ticks[-1], bottom, TOP)
    return sheet.picture(
        bottom + (AXIS_HEIGHT if chart.dated else 4.0),
        f"{chart.label}: {spoken(chart)}",
        *background(axis, sheet, TOP, bottom),
        *(_grid(chart, value, y, sheet) for value in ticks),
        *(shape for line, points in series for shape in _drawn(line, points, x, y)),
        *(_limit(limit, y, sheet) for limit in chart.limits),
        *(dates(axis, sheet, bottom) if chart.dated else ()),
        data_low=str(ticks[0]),
        data_high=str(ticks[-1]),
        data_top=TOP,
        data_bottom=bottom,
        data_unit="share" if chart.share else None,
        **readable(axis, sheet),
    )


def spoken(chart: Chart) -> str:
    """What a chart shows, for those who do not see it."""
    if len(chart.lines) == 1:
        return _course(chart, chart.lines[0])
    return "; ".join(f"{line.name} {_course(chart, line)}" for line in chart.lines)


def _course(chart: Chart, line: Line) -> str:
    if line.ends is None:
        return "unknown throughout"
    known = [point.value for point in line.points if point.value is not None]
    first, last, low, high = (_said(chart, value) for value in (*line.ends, min(known), max(known)))
    return f"from {first} to {last}, lowest {low}, highest {high}"


def _said(chart: Chart, value: float) -> str:
    return f"{100 * value:.0f} %" if chart.share else f"{value:,.4g}"


def _ticks(chart: Chart) -> Sequence[float]:
    if chart.share:
        return (0.0, 0.25, 0.5, 0.75, 1.0) if chart.height >= TALL else (0.0, 0.5, 1.0)
    values = (point.value for line in chart.lines for point in line.points if point.value is not None)
    return round_ticks(0.0, max(values, default=1.0), 5 if chart.height >= TALL else 3)


def _grid(chart: Chart, value: float, y: Scale, sheet: Sheet) -> str:
    place = y(value)
    words = f"{100 * value:g} %" if chart.share else plain(value)
    line = element("path", class_="grid", d=f"M{number(sheet.left)},{number(place)}H{number(sheet.right)}")
    return line + text(words, sheet.left - 6, place + 4, class_="tick end")


def _drawn(line: Line, points: Sequence[Point], x: Scale, y: Scale) -> Iterator[str]:
    band = lines.band(points, x, y)
    if band:
        yield element("path", class_=f"band {line.style}", d=band)
    if line.filled:
        yield element("path", class_=f"area {line.style}", d=lines.area(points, x, y))
    pen = f"line {line.style} dense" if line.dense else f"line {line.style}"
    yield element("path", class_=pen, d=lines.line(points, x, y), data_name=line.name)


def _limit(limit: Limit, y: Scale, sheet: Sheet) -> str:
    place = y(limit.value)
    line = element("path", class_="limit", d=f"M{number(sheet.left)},{number(place)}H{number(sheet.right)}")
    words = f"{limit.label} {100 * limit.value:g} %"
    return line + text(words, sheet.right - 4, place - 5, class_="note end halo")
