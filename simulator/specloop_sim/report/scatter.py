"""A sweep's candidates by speed and calm: those that nothing beats in both are joined by a line."""

from collections.abc import Iterator, Sequence

from specloop_sim.report.axis import AXIS_HEIGHT
from specloop_sim.report.figures import signed
from specloop_sim.report.frame import Sheet
from specloop_sim.report.model import Candidate
from specloop_sim.report.scale import Scale, plain, round_ticks
from specloop_sim.report.svg import element, number, text

TOP, HEIGHT = 14.0, 280.0
TITLE = 20.0
"""Room for the name of the axis."""


def draw(candidates: Sequence[Candidate], speed_label: str, sheet: Sheet) -> str:
    """Speed upwards, changes to the right."""
    across = round_ticks(0.0, max(one.changes for one in candidates), 6 if sheet.name == "wide" else 4)
    speeds = [one.speed_percent for one in candidates]
    up = round_ticks(min(speeds), max(speeds), 5)
    bottom = TOP + HEIGHT
    x = Scale(across[0], across[-1], sheet.left, sheet.right - 8)
    y = Scale(up[0], up[-1], bottom, TOP)
    return sheet.picture(
        bottom + AXIS_HEIGHT + TITLE,
        spoken(candidates, speed_label),
        *(_across(value, y, sheet) for value in up),
        *(text(plain(value), x(value), bottom + 17, class_="tick middle") for value in across),
        text("changes of level", (sheet.left + sheet.right) / 2, bottom + AXIS_HEIGHT + 14, class_="note middle"),
        *_front(candidates, x, y),
        *dict.fromkeys(_dot(one, x, y) for one in sorted(candidates, key=_rank)),
    )


def spoken(candidates: Sequence[Candidate], speed_label: str) -> str:
    """What the picture shows, for those who do not see it."""
    front = sum(one.front for one in candidates)
    speeds = [one.speed_percent for one in candidates]
    return (
        f"{speed_label} against changes of level for {len(candidates)} candidates: from "
        f"{signed(min(speeds))} to {signed(max(speeds))}; no other is both faster and calmer than {front} of them"
    )


def _rank(one: Candidate) -> tuple[bool, bool]:
    return one.chosen, one.front


def _across(value: float, y: Scale, sheet: Sheet) -> str:
    style = "axis" if value == 0 else "grid"
    line = element("path", class_=style, d=f"M{number(sheet.left)},{number(y(value))}H{number(sheet.right)}")
    return line + text(f"{plain(value)} %", sheet.left - 6, y(value) + 4, class_="tick end")


def _front(candidates: Sequence[Candidate], x: Scale, y: Scale) -> Iterator[str]:
    front = sorted((one.changes, one.speed_percent) for one in candidates if one.front)
    if len(front) > 1:
        places = " ".join(f"{number(x(changes))},{number(y(speed))}" for changes, speed in front)
        yield element("path", class_="front-line", d=f"M{places}")


def _dot(one: Candidate, x: Scale, y: Scale) -> str:
    place = {"cx": number(x(one.changes)), "cy": number(y(one.speed_percent))}
    if one.chosen:
        ring = element("circle", class_="ring", r="10", **place)
        return ring + element("circle", class_="dot front", r="5", **place)
    return element("circle", class_="dot front" if one.front else "dot", r="5" if one.front else "3", **place)
