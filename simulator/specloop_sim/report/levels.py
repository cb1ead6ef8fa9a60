"""The level over time: one row for each level of the ladder, a bar for each stay, a step from one to the next."""

from collections.abc import Sequence
from itertools import pairwise

from specloop_sim.report.axis import AXIS_HEIGHT, Axis, background, dates, readable
from specloop_sim.report.frame import Sheet
from specloop_sim.report.model import Run, Rung, Stay
from specloop_sim.report.scale import Scale, duration
from specloop_sim.report.svg import element, fitted, number, text

ROW = 36.0
BAR = 26.0
"""Where the bar lies in its row: below the row's name."""
TOP = 4.0


def draw(run: Run, axis: Axis, sheet: Sheet, dated: bool) -> str:
    """The levels of a run on a sheet."""
    rungs = rows(run)
    bottom = TOP + ROW * len(rungs)
    x = sheet.time(axis.seconds)
    heights = {rung.level: TOP + ROW * place + BAR for place, rung in enumerate(rungs)}
    return sheet.picture(
        bottom + (AXIS_HEIGHT if dated else 4.0),
        f"Level over time: {spoken(run)}",
        *background(axis, sheet, TOP, bottom),
        *(_guide(height, sheet) for height in heights.values()),
        element("path", class_="steps", d=_steps(run.stays, x, heights)),
        element("path", class_="stays", d=_bars(run.stays, x, heights), data_name="level"),
        *(_name(rung, heights[rung.level], sheet) for rung in rungs),
        *(dates(axis, sheet, bottom) if dated else ()),
        data_rows="\n".join(map(named, rungs)),
        data_row=ROW,
        data_top=TOP,
        **readable(axis, sheet),
    )


def rows(run: Run) -> Sequence[Rung]:
    """The ladder, and below it what ran without being on it."""
    known = {rung.level for rung in run.ladder}
    strange = dict.fromkeys(stay.level for stay in run.stays if stay.level not in known)
    return (*run.ladder, *(Rung(level, 0) for level in strange))


def named(rung: Rung) -> str:
    """A level with its K."""
    return f"{rung.level} · K = {rung.tokens}" if rung.tokens else rung.level


def shares(run: Run) -> dict[str, float]:
    """Seconds at each level that was ever in force, in the ladder's order."""
    times = {rung.level: 0.0 for rung in rows(run)}
    for stay in run.stays:
        times[stay.level] += stay.end - stay.start
    return {level: seconds for level, seconds in times.items() if seconds > 0}


def spoken(run: Run) -> str:
    """What the chart shows, for those who do not see it."""
    return ", ".join(f"{level} for {duration(seconds, 2)}" for level, seconds in shares(run).items())


def _guide(height: float, sheet: Sheet) -> str:
    return element("path", class_="grid", d=f"M{number(sheet.left)},{number(height)}H{number(sheet.right)}")


def _name(rung: Rung, height: float, sheet: Sheet) -> str:
    name = fitted(named(rung), sheet.right - sheet.left - 8, sheet.font)
    return text(name, sheet.left + 4, height - 8, class_="note start halo")


def _bars(stays: Sequence[Stay], x: Scale, heights: dict[str, float]) -> str:
    return "".join(f"M{number(x(one.start))},{number(heights[one.level])}H{number(x(one.end))}" for one in stays)


def _steps(stays: Sequence[Stay], x: Scale, heights: dict[str, float]) -> str:
    return "".join(_step(one, other, x, heights) for one, other in pairwise(stays))


def _step(one: Stay, other: Stay, x: Scale, heights: dict[str, float]) -> str:
    from_, to = heights[one.level], heights[other.level]
    return f"M{number(x(one.end))},{number(from_)}L{number(x(other.start))},{number(to)}"
