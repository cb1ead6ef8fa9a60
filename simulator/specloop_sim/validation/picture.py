"""Small charts as SVG: ink on a white sheet, so that they read the same on a light page and on a dark one."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from math import log2

BLUE, ORANGE, GREEN, PURPLE, RED = "#1f5fbf", "#b8520a", "#1a7f4b", "#7a3fb0", "#b3202c"
GREY = "#5b6670"
"""Each at least 4.5 : 1 on white (WCAG 2.1, contrast minimum)."""
WIDTH, PLOT_HEIGHT = 760.0, 300.0
RIGHT, TOP, LEGEND_ROW, BOTTOM = 24.0, 44.0, 22.0, 54.0
CHARACTER = 6.6
"""Width of a character at 12 pixels, a little above the mean of common sans-serif fonts."""


class Mark(StrEnum):
    """How a series is drawn."""

    LINE = "line"
    DASHES = "dashes"
    DOT = "dot"
    RING = "ring"
    CROSS = "cross"


@dataclass(frozen=True, slots=True)
class Series:
    """Points with one meaning."""

    label: str
    mark: Mark
    colour: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """One direction: from where to where, what stands at which value."""

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    doubling: bool = False
    """Whether each doubling takes the same room."""

    def share(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        low, high, at = (
            (log2(x) for x in (self.low, self.high, value)) if self.doubling else (self.low, self.high, value)
        )
        return (at - low) / (high - low)


def numbers(values: Iterable[float], form: str = "g") -> tuple[tuple[float, str], ...]:
    """Ticks at these values."""
    return tuple((value, format(value, form)) for value in values)


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart; `rules` are horizontal lines with a word each, at their right end."""

    title: str
    across: Axis
    up: Axis
    series: tuple[Series, ...]
    rules: tuple[tuple[float, str], ...] = ()

    @property
    def left(self) -> float:
        """Where the plot begins."""
        return 46.0 + CHARACTER * max(len(word) for _, word in self.up.ticks)

    @property
    def right(self) -> float:
        """Where the plot ends."""
        return WIDTH - RIGHT - CHARACTER * max((len(word) for _, word in self.rules), default=0)


def draw(chart: Chart) -> str:
    """The chart as the text of an SVG file."""
    left, right = chart.left, chart.right
    rows = _legend_rows(chart, WIDTH - left - RIGHT)
    top = TOP + LEGEND_ROW * len(rows)
    height = top + PLOT_HEIGHT + BOTTOM

    def place(across: float, up: float) -> tuple[float, float]:
        return (
            left + chart.across.share(across) * (right - left),
            top + (1.0 - chart.up.share(up)) * PLOT_HEIGHT,
        )

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" role="img"'
        ' font-family="system-ui, sans-serif" font-size="12" fill="#1f2933">',
        f"<title>{escape(chart.title)}</title>",
        f'<rect x=".5" y=".5" width="{WIDTH - 1:g}" height="{height - 1:g}" rx="6" fill="#fff" stroke="#c9d0d6"/>',
        f'<text x="{left:g}" y="26" font-size="15" font-weight="600">{escape(chart.title)}</text>',
        *_legend(rows, left),
        *_axes(chart, top, place),
        *(line for series in chart.series for line in _series(series, place)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


Place = Callable[[float, float], tuple[float, float]]


def _legend_rows(chart: Chart, room: float) -> list[list[tuple[float, Series]]]:
    """Series side by side, each with where it begins, in as many rows as it takes."""
    rows: list[list[tuple[float, Series]]] = [[]]
    at = 0.0
    for series in chart.series:
        width = 38.0 + CHARACTER * len(series.label)
        if rows[-1] and at + width > room:
            rows.append([])
            at = 0.0
        rows[-1].append((at, series))
        at += width
    return rows


def _legend(rows: list[list[tuple[float, Series]]], left: float) -> Iterable[str]:
    for row, entries in enumerate(rows):
        y = TOP + LEGEND_ROW * row + 4.0
        for at, series in entries:
            x = left + at
            if series.mark in (Mark.LINE, Mark.DASHES):
                yield _polyline([(x, y), (x + 18.0, y)], series)
            else:
                yield _mark(x + 9.0, y, series)
            yield f'<text x="{x + 23:g}" y="{y + 4:g}">{escape(series.label)}</text>'


def _axes(chart: Chart, top: float, place: Place) -> Iterable[str]:
    left, right = chart.left, chart.right
    bottom, middle = top + PLOT_HEIGHT, top + PLOT_HEIGHT / 2.0
    for value, word in chart.up.ticks:
        _, y = place(chart.across.low, value)
        yield f'<path d="M{left:g} {y:.1f}H{right:g}" stroke="#e3e7ea"/>'
        yield f'<text x="{left - 8:g}" y="{y + 4:.1f}" text-anchor="end">{escape(word)}</text>'
    for value, word in chart.across.ticks:
        x, _ = place(value, chart.up.low)
        yield f'<path d="M{x:.1f} {bottom:g}v5" stroke="{GREY}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 19:g}" text-anchor="middle">{escape(word)}</text>'
    yield f'<path d="M{left:g} {top:g}V{bottom:g}H{right:g}" fill="none" stroke="{GREY}"/>'
    for value, word in chart.rules:
        _, y = place(chart.across.low, value)
        yield f'<path d="M{left:g} {y:.1f}H{right:g}" stroke="{GREY}" stroke-dasharray="2 3"/>'
        yield f'<text x="{right + 6:g}" y="{y + 4:.1f}" fill="{GREY}">{escape(word)}</text>'
    x = (left + right) / 2.0
    yield f'<text x="{x:g}" y="{bottom + 42:g}" text-anchor="middle">{escape(chart.across.label)}</text>'
    if chart.up.label:
        yield (
            f'<text x="20" y="{middle:g}" text-anchor="middle" transform="rotate(-90 20 {middle:g})">'
            f"{escape(chart.up.label)}</text>"
        )


def _series(series: Series, place: Place) -> Iterable[str]:
    points = [place(*point) for point in series.points]
    if series.mark in (Mark.LINE, Mark.DASHES):
        yield _polyline(points, series)
    else:
        yield from (_mark(x, y, series) for x, y in points)


def _polyline(points: Iterable[tuple[float, float]], series: Series) -> str:
    dashes = ' stroke-dasharray="5 4"' if series.mark is Mark.DASHES else ""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{series.colour}" stroke-width="2"{dashes}/>'


def _mark(x: float, y: float, series: Series) -> str:
    if series.mark is Mark.CROSS:
        return f'<path d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8" stroke="{series.colour}" stroke-width="2"/>'
    fill = "#fff" if series.mark is Mark.RING else series.colour
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{fill}" stroke="{series.colour}" stroke-width="2"/>'
