"""From figures to places on the paper: scales, and the round numbers at which an axis is labelled."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

MINUTE, HOUR, DAY = 60, 3600, 86400
UNITS = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (1, "s"))
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
"""In English whatever the locale says: the same report has the same bytes everywhere."""

TIME_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(MINUTE * count for count in (1, 2, 5, 10, 15, 30)),
    *(HOUR * count for count in (1, 2, 3, 6, 12)),
    *(DAY * count for count in (1, 2, 7, 14, 28, 91, 182, 364)),
)
"""Steps between two labels that people can count in."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A straight line from [low, high] to [start, end] on the paper."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a value; what lies outside lands on the edge."""
        if self.high <= self.low:
            return self.start
        share = (min(self.high, max(self.low, value)) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def round_ticks(low: float, high: float, count: int) -> tuple[float, ...]:
    """About `count` round numbers that cover low to high, both ends covered."""
    if not high > low:
        high = low + 1.0
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * times for times in (1, 2, 2.5, 5, 10) if power * times >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(place * step for place in range(first, last + 1))


def plain(value: float) -> str:
    """A number as an axis says it."""
    return (f"{value:,.10g}" if abs(value) < 1e6 else f"{value:,.0f}").replace("-", "−")


def time_ticks(seconds: float, epoch: float | None, count: int) -> Sequence[tuple[float, str]]:
    """At most `count` times with their labels: seconds after the start, or UTC where the start has a date."""
    step = next((step for step in TIME_STEPS if seconds / step <= count), 364 * DAY * math.ceil(seconds / 364 / DAY))
    if epoch is None:
        return [(float(at), _elapsed(at, step)) for at in range(0, int(seconds) + 1, step)]
    first = math.ceil(epoch / step) * step
    return [(at - epoch, _clock(at, step)) for at in range(first, int(epoch + seconds) + 1, step)]


def _elapsed(at: int, step: int) -> str:
    if at == 0:
        return "0"
    unit, name = next((unit, name) for unit, name in UNITS if step % unit == 0)
    return f"{at // unit} {name}"


def _clock(at: float, step: int) -> str:
    time = datetime.fromtimestamp(at, UTC)
    if at % DAY == 0:
        return f"{time.day} {MONTHS[time.month - 1]}"
    return f"{time:%H:%M:%S}" if step < MINUTE else f"{time:%H:%M}"


def moment(seconds: float, epoch: float | None) -> str:
    """A time in words: "1 h 5 min 20 s" after the start, or its date in UTC."""
    if epoch is not None:
        return f"{datetime.fromtimestamp(epoch + seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return duration(seconds)


def duration(seconds: float, parts: int = 4) -> str:
    """A length of time in words, without what is nought: "2 d 3 h", "15 min 20 s"; `parts` units at most, from the
    largest one on."""
    rest = round(seconds)
    said: list[tuple[int, str]] = []
    for unit, name in UNITS:
        count, rest = divmod(rest, unit)
        if count or said:
            said.append((count, name))
    return " ".join(f"{count} {name}" for count, name in said[:parts] if count) or "0 s"
