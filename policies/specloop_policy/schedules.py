"""Schedules: time windows in cron's words and a time zone, each forcing a level while it lasts."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

from specloop_policy.decision import ScheduledLevel
from specloop_policy.model import Schedule

WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""Names of cron's numbers 0 to 7: the scheduler's own numbers begin with Monday."""


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
    earliest = moment - timedelta(seconds=schedule.duration_seconds) + timedelta(microseconds=1)
    start = trigger(schedule.cron, schedule.time_zone).get_next_fire_time(None, earliest)
    return start is not None and start <= moment


@lru_cache(maxsize=256)
def trigger(cron: str, time_zone: str) -> CronTrigger:
    """The scheduler's trigger for five cron fields; raises ValueError for fields that are none."""
    fields = cron.split()
    if len(fields) != 5:
        raise ValueError(f"cron needs five fields, and {cron!r} has {len(fields)}")
    return CronTrigger.from_crontab(" ".join((*fields[:4], _weekdays(fields[4]))), timezone=ZoneInfo(time_zone))


def _weekdays(field: str) -> str:
    """Cron's day-of-week field with names in place of numbers; ranges are spelled out, for the week begins elsewhere."""
    return ",".join(_named(part) for part in field.split(","))


def _named(part: str) -> str:
    found = re.fullmatch(r"([0-7])(?:-([0-7])(?:/([1-7]))?)?", part)
    if found is None:
        return part
    first, last, every = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
    if first > last:
        raise ValueError(f"day of week {part!r} runs backwards")
    return ",".join(dict.fromkeys(WEEKDAYS[day] for day in range(first, last + 1, every)))
