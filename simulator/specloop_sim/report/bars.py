"""How the contenders did, as bars from nought, in one picture."""

from collections.abc import Sequence

from specloop_sim.report.figures import Measure, shown
from specloop_sim.report.frame import Sheet
from specloop_sim.report.model import Contender
from specloop_sim.report.scale import Scale
from specloop_sim.report.svg import element, fitted, text

ROW, BAR = 44.0, 16.0
VALUE_WIDTH = 64.0
"""Room for the figure behind the longest bar."""


def draw(contenders: Sequence[Contender], measure: Measure, sheet: Sheet) -> str:
    """One bar for each contender that has the figure, best first."""
    ranked = ranking(contenders, measure)
    longest = max((one.figures[measure.key] for one in ranked), default=0.0)
    x = Scale(0.0, longest, 2.0, sheet.right - VALUE_WIDTH)
    said = ", ".join(f"{titled(one)} {shown(one.figures[measure.key])}" for one in ranked)
    return sheet.picture(
        ROW * len(ranked) + 4,
        f"{measure.heading}, best first: {said}",
        *(_row(one, one.figures[measure.key], place, x, sheet) for place, one in enumerate(ranked)),
    )


def ranking(contenders: Sequence[Contender], measure: Measure) -> list[Contender]:
    """Best first; those without the figure left out."""
    sign = 1 if measure.less_is_better else -1
    known = [one for one in contenders if measure.key in one.figures]
    return sorted(known, key=lambda one: sign * one.figures[measure.key])


def titled(contender: Contender) -> str:
    """Its name with what it is."""
    if contender.is_policy:
        return f"{contender.name} (policy)"
    return f"{contender.name} (best in hindsight)" if contender.best else contender.name


def style_of(contender: Contender) -> str:
    """Its class in the style sheet."""
    return "policy" if contender.is_policy else "best" if contender.best else "static"


def _row(contender: Contender, value: float, place: int, x: Scale, sheet: Sheet) -> str:
    top = ROW * place
    style = style_of(contender)
    name = fitted(titled(contender), sheet.right - 4, sheet.font)
    width = max(1.0, x(value) - x(0.0))
    return (
        text(name, 2, top + 15, class_=f"name {style}")
        + element("rect", class_=f"bar {style}", x=x(0.0), y=top + 21, width=width, height=BAR, rx=2)
        + text(shown(value), x(value) + 6, top + 34, class_="value start")
    )
