"""Policies against levels that stay: bars, speed over time, and a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from specloop_sim.report import bars, chart
from specloop_sim.report.axis import Axis
from specloop_sim.report.bars import ranking, style_of, titled
from specloop_sim.report.chart import Chart, Line, line_of
from specloop_sim.report.figures import MEASURES, REDUNDANT, Measure, measure_of, shown, signed
from specloop_sim.report.model import Contender, Report
from specloop_sim.report.picture import Picture, both
from specloop_sim.report.verdict import DISABLED, against, best_static

SPEED_HEIGHT = 190.0
POLICY_STYLES = ("policy", "second", "third")
"""Lines of policies in the chart of speed; further ones look like levels that stay, and the table tells them apart."""


@dataclass(frozen=True, slots=True)
class Row:
    """A contender in the table."""

    name: str
    style: str
    against: str
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contest:
    """What the template shows of the comparison."""

    why: str
    rival: str
    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    bars: Picture
    speed: Picture | None


def contest(report: Report) -> Contest | None:
    """The comparison, best first; None where there is nothing to compare."""
    measure = measure_of(report.compares_by)
    ranked = ranking(report.contenders, measure)
    if not ranked:
        return None
    columns = _columns(ranked, measure)
    best = best_static(report)
    return Contest(
        why=report.compares_why,
        rival=best.name if best is not None else "",
        headings=tuple(column.heading for column in columns),
        rows=tuple(_row(one, best, columns) for one in ranked),
        bars=_bars(ranked, measure),
        speed=_speed(report),
    )


def _columns(contenders: Sequence[Contender], first: Measure) -> list[Measure]:
    keys = dict.fromkeys(key for one in contenders for key in one.figures if key not in REDUNDANT)
    others = [measure_of(key) for key in keys if measure_of(key) not in MEASURES]
    columns = [one for one in (*MEASURES, *others) if one.key in keys and one != first]
    return [first, *(one for one in columns if not one.only_if_any or _any(one, contenders))]


def _any(measure: Measure, contenders: Sequence[Contender]) -> bool:
    return any(one.figures.get(measure.key) for one in contenders)


def _row(one: Contender, best: Contender | None, columns: Sequence[Measure]) -> Row:
    key = columns[0].key
    percent = against(one.figures[key], best.figures[key]) if best is not None and one is not best else None
    cells = tuple(shown(one.figures[column.key]) if column.key in one.figures else "–" for column in columns)
    return Row(titled(one), style_of(one), "–" if percent is None else signed(percent), cells)


def _bars(ranked: Sequence[Contender], measure: Measure) -> Picture:
    note = "less is better" if measure.less_is_better else "more is better"
    caption = measure.heading[0].upper() + measure.heading[1:]
    return Picture(caption, both(partial(bars.draw, ranked, measure)), f"{note}; best first")


def _speed(report: Report) -> Picture | None:
    lines = list(_lines(report))
    if not lines:
        return None
    drawn = Chart(report.speed_label, lines, SPEED_HEIGHT)
    axis = Axis(report.seconds, report.epoch, report.phases)
    key = dict.fromkeys((line.style, line.name if line.style != "static" else "others") for line in lines)
    return Picture(report.speed_label, both(partial(chart.draw, drawn, axis)), "over time", tuple(reversed(key)))


def _lines(report: Report) -> Iterator[Line]:
    """Policies last, so that they lie on top."""
    policies = [one.name for one in report.contenders if one.is_policy]
    styles = dict(zip(policies, POLICY_STYLES, strict=False))
    for one in sorted(report.contenders, key=lambda one: (one.is_policy, one.best, one.name == DISABLED)):
        if one.speed:
            yield line_of(titled(one), one.speed, report.seconds, styles.get(one.name) or _plain(one))


def _plain(one: Contender) -> str:
    if one.is_policy:
        return "static"
    return "off" if one.name == DISABLED and not one.best else style_of(one)
