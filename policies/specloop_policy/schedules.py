"""Schedules: time windows in cron's words and a time zone, each forcing a level while it lasts.

The words are crontab's: five fields; weekdays 0 to 7 from Sunday to Sunday, or by name; where day of month and day of
week are both restricted, a day need fit only one of them.  The clocks' changes: a start that the clock skips comes an
hour later, as if it had not been put forward; one that the clock shows twice begins the window twice.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

from specloop_policy.decision import ScheduledLevel
from specloop_policy.model import Schedule

WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""Names of cron's numbers 0 to 7: the scheduler's own numbers begin with Monday."""

WEEKDAY_RANGE = re.compile(r"(?:(\*)|([0-7]|[a-z]{3})(?:-([0-7]|[a-z]{3}))?)(?:/([1-9][0-9]?))?", re.ASCII)

CLOCK_CHANGE = timedelta(hours=3)
"""More than any clock is put forward at once: a start that falls into the gap is found by a look from before it."""

INSTANT = timedelta(microseconds=1)

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def scheduled_level(schedules: Sequence[Schedule], now: float) -> ScheduledLevel | None:
    """The schedule in force at `now` (seconds since the epoch): the first in the policy's order, None when none is."""
    moment = datetime.fromtimestamp(now, UTC)
    for one in schedules:
        if _in_force(one, moment):
            return ScheduledLevel(one.name, one.level)
    return None


def _in_force(schedule: Schedule, moment: datetime) -> bool:
    """Whether a window began within its own length before `moment`; lengths are real seconds, also over a change of
    the clocks."""
    earliest = moment - timedelta(seconds=schedule.duration_seconds) + INSTANT
    found = triggers(schedule.cron, schedule.time_zone)
    if any(start <= moment for one in found for start in _starts(one, earliest, count=1)):
        return True
    return any(earliest <= start for one in found for start in _starts(one, earliest - CLOCK_CHANGE, until=moment))


def _starts(
    trigger: CronTrigger, since: datetime, *, count: int = -1, until: datetime | None = None
) -> Iterator[datetime]:
    """Starts from `since` on, in order."""
    while count:
        start = trigger.get_next_fire_time(None, since)
        if start is None or (until is not None and start > until):
            return
        yield start
        since, count = start.astimezone(UTC) + INSTANT, count - 1


@lru_cache(maxsize=256)
def triggers(cron: str, time_zone: str) -> tuple[CronTrigger, ...]:
    """The scheduler's triggers for five cron fields; none where no such day ever comes.

    Raises ValueError for fields that are none.
    """
    fields = cron.lower().split()
    if len(fields) != 5:
        raise ValueError(f"cron needs five fields, and {cron!r} has {len(fields)}")
    *clock, day, month, weekday = fields
    zone = ZoneInfo(time_zone)
    days = [(day, "*"), ("*", _weekdays(weekday))]
    if day.startswith("*") or weekday.startswith("*"):
        days = [(day, _weekdays(weekday))]
    found = (CronTrigger.from_crontab(" ".join((*clock, one, month, other)), timezone=zone) for one, other in days)
    return tuple(one for one in found if one.get_next_fire_time(None, LONG_AGO) is not None)


def _weekdays(field: str) -> str:
    """Cron's day-of-week field in names; ranges are spelled out, for the scheduler's week begins elsewhere."""
    return "*" if field == "*" else ",".join(_named(part) for part in field.split(","))


def _named(part: str) -> str:
    found = WEEKDAY_RANGE.fullmatch(part)
    if found is None:
        raise ValueError(f"day of week {part!r} is none: 0 to 7 or sun to sat, a range or a step of them")
    star, low, high, step = found.groups()
    first = 0 if star else _number(low)
    # A step without an end goes on to the end of the week, as Kubernetes has it; `*/2` is sun, tue, thu, sat.
    last = _number(high, as_end=True) if high else 6 if star or step else first
    if first > last:
        raise ValueError(f"day of week {part!r} runs backwards")
    return ",".join(dict.fromkeys(WEEKDAYS[day] for day in range(first, last + 1, int(step or 1))))


def _number(day: str, *, as_end: bool = False) -> int:
    """Cron's number of a day; Sunday ends a week as 7."""
    if day.isdecimal():
        return int(day)
    if day not in WEEKDAYS:
        raise ValueError(f"no day of the week is called {day!r}")
    return 7 if as_end and day == "sun" else WEEKDAYS.index(day)
