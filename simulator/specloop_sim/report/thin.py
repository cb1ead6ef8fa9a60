"""Long series made short without hiding their extremes: the lowest and the highest point of each stretch stay."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import attrgetter

from specloop_sim.report.model import Point

SECONDS = attrgetter("seconds")


def thinned(points: Sequence[Point], limit: int, seconds: float) -> Sequence[Point]:
    """At most `limit` points of a series over `seconds`: from each of `limit / 2` stretches of equal length its lowest
    and its highest, with the widest interval there was; a stretch in which nothing is known breaks the line."""
    if len(points) <= limit:
        return points
    return [kept for stretch in _stretches(points, limit // 2, seconds) for kept in _extremes(stretch)]


def _stretches(points: Sequence[Point], count: int, seconds: float) -> Iterator[Sequence[Point]]:
    begin = 0
    for place in range(1, count):
        end = bisect_left(points, place * seconds / count, begin, key=SECONDS)
        yield points[begin:end]
        begin = end
    yield points[begin:]


def _extremes(points: Sequence[Point]) -> Iterator[Point]:
    known = [point for point in points if point.value is not None]
    if not known:
        yield from points[:1]
        return
    values = [point.value or 0.0 for point in known]
    low = min([point.low for point in known if point.low is not None], default=None)
    high = max([point.high for point in known if point.high is not None], default=None)
    for place in sorted({values.index(min(values)), values.index(max(values))}):
        yield Point(known[place].seconds, known[place].value, low, high)
