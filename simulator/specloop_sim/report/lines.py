"""Series as SVG paths: lines that break where nothing is known, the area below them, and bands."""

from collections.abc import Callable, Sequence

from specloop_sim.report.model import Point
from specloop_sim.report.scale import Scale
from specloop_sim.report.svg import number

Value = Callable[[Point], float | None]


def line(points: Sequence[Point], x: Scale, y: Scale) -> str:
    """A line through the points, broken where nothing is known; a point on its own is a dot."""
    return "".join(
        f"M{places[0]}" + (f"L{' '.join(places[1:])}" if len(places) > 1 else "h0")
        for places in (_places(part, x, y, _value) for part in parts(points, _value))
    )


def area(points: Sequence[Point], x: Scale, y: Scale) -> str:
    """What lies between the line and nought."""
    floor = number(y(0.0))
    return "".join(
        f"M{number(x(part[0].seconds))},{floor}L{' '.join(_places(part, x, y, _value))}"
        f" {number(x(part[-1].seconds))},{floor}Z"
        for part in parts(points, _value)
    )


def band(points: Sequence[Point], x: Scale, y: Scale) -> str:
    """What lies between the ends of the intervals."""
    bounded = [Point(one.seconds, None) if None in (one.low, one.high) else one for one in points]
    return "".join(
        f"M{' '.join([*_places(part, x, y, _high), *reversed(_places(part, x, y, _low))])}Z"
        for part in parts(bounded, _value)
    )


def parts(points: Sequence[Point], value: Value) -> list[list[Point]]:
    """Stretches without a gap."""
    found: list[list[Point]] = [[]]
    for point in points:
        if value(point) is None:
            found.append([])
        else:
            found[-1].append(point)
    return [part for part in found if part]


def _places(points: Sequence[Point], x: Scale, y: Scale, value: Value) -> list[str]:
    return [f"{number(x(point.seconds))},{number(y(value(point) or 0.0))}" for point in points]


def _value(point: Point) -> float | None:
    return point.value


def _low(point: Point) -> float | None:
    return point.low


def _high(point: Point) -> float | None:
    return point.high
