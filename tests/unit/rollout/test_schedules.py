"""When a schedule is in force: cron's fields, time zones, changes of the clocks, and the order of the list."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specloop_policy.decision import ScheduledLevel
from specloop_policy.model import Schedule
from specloop_policy.schedules import scheduled_level, triggers

HOUR = 3600


def schedule(
    cron: str, *, hours: float = 1.0, zone: str = "Etc/UTC", name: str = "nightly", level: str = "disabled"
) -> Schedule:
    return Schedule(name=name, cron=cron, time_zone=zone, duration_seconds=round(hours * HOUR), level=level)


def at(text: str) -> float:
    """Seconds since the epoch of a moment in UTC, written 2026-11-29 22:00."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def in_force(one: Schedule, moment: str) -> bool:
    return scheduled_level([one], at(moment)) is not None


def spans(one: Schedule, first: str, last: str, *, minutes: int = 5) -> list[str]:
    """The times, in UTC, at which it comes into force and leaves it between two moments, looking every few minutes."""
    moment, end, found, was = at(first), at(last), [], False
    while moment <= end:
        now = scheduled_level([one], moment) is not None
        if now != was:
            found.append(datetime.fromtimestamp(moment, UTC).strftime("%d %H:%M"))
        was, moment = now, moment + 60.0 * minutes
    return found


def days(cron: str, zone: str = "Etc/UTC") -> str:
    """The days of the week from Monday 30 November 2026 on at whose noon it is in force."""
    one, names = schedule(cron, hours=0.5, zone=zone), ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
    monday = at("2026-11-30 12:00")
    return " ".join(name for place, name in enumerate(names) if scheduled_level([one], monday + place * 24 * HOUR))


@pytest.mark.parametrize(
    ("moment", "yes"),
    [
        ("2026-11-29 21:59:59.999", False),
        ("2026-11-29 22:00", True),
        ("2026-11-29 22:59:59.999", True),
        ("2026-11-29 23:00", False),
        ("2026-11-30 22:30", True),
    ],
)
def test_a_window_begins_at_its_start_and_ends_before_its_end(moment: str, yes: bool) -> None:
    assert in_force(schedule("0 22 * * *"), moment) is yes


def test_a_schedule_in_force_says_its_name_and_level() -> None:
    one = schedule("0 22 * * *", name="batch", level="ngram")
    assert scheduled_level([one], at("2026-11-29 22:30")) == ScheduledLevel("batch", "ngram")


@pytest.mark.parametrize(
    ("moment", "yes"), [("2026-11-30 00:00", True), ("2026-11-30 05:59", True), ("2026-11-30 06:00", False)]
)
def test_a_window_goes_on_over_midnight(moment: str, yes: bool) -> None:
    """From 22:00 for eight hours: until 06:00 of the next day."""
    assert in_force(schedule("0 22 * * *", hours=8), moment) is yes


def test_a_window_longer_than_a_day_goes_on_over_days() -> None:
    """From Friday at 18:00 for 60 hours: until Monday at 06:00."""
    one = schedule("0 18 * * fri", hours=60)
    assert spans(one, "2026-12-01 00:00", "2026-12-09 00:00", minutes=60) == ["04 18:00", "07 06:00"]


def test_a_window_that_begins_anew_before_it_ends_has_no_gap() -> None:
    assert spans(schedule("0 */6 * * *", hours=7), "2026-11-29 00:00", "2026-11-30 00:00") == ["29 00:00"]


@pytest.mark.parametrize(
    ("weekday", "expected"),
    [
        ("*", "mon tue wed thu fri sat sun"),
        ("0", "sun"),
        ("1", "mon"),
        ("2", "tue"),
        ("3", "wed"),
        ("4", "thu"),
        ("5", "fri"),
        ("6", "sat"),
        ("7", "sun"),
        ("1-5", "mon tue wed thu fri"),
        ("0-6", "mon tue wed thu fri sat sun"),
        ("0-7", "mon tue wed thu fri sat sun"),
        ("5-7", "fri sat sun"),
        ("0,6", "sat sun"),
        ("1,3-4,7", "mon wed thu sun"),
        ("1-5/2", "mon wed fri"),
        ("*/2", "tue thu sat sun"),  # 0, 2, 4, 6
        ("3/2", "wed fri"),  # 3, 5
        ("mon", "mon"),
        ("SUN", "sun"),
        ("mon-fri", "mon tue wed thu fri"),
        ("sat-sun", "sat sun"),
        ("sun-tue", "mon tue sun"),
        ("tue,thu", "tue thu"),
        ("mon-5", "mon tue wed thu fri"),
        ("mon-fri/2", "mon wed fri"),
    ],
)
def test_days_of_the_week_are_counted_from_sunday_as_cron_does(weekday: str, expected: str) -> None:
    assert days(f"0 12 * * {weekday}") == expected


def test_minutes_hours_and_months_take_lists_ranges_and_steps() -> None:
    quarter = schedule("15,45 8-9 * * *", hours=1 / 12)
    assert spans(quarter, "2026-11-29 00:00", "2026-11-30 00:00") == [
        *("29 08:15", "29 08:20", "29 08:45", "29 08:50"),
        *("29 09:15", "29 09:20", "29 09:45", "29 09:50"),
    ]
    assert spans(schedule("*/30 22 * * *", hours=1 / 12), "2026-11-29 00:00", "2026-11-30 00:00") == [
        *("29 22:00", "29 22:05", "29 22:30", "29 22:35"),
    ]
    assert in_force(schedule("0 0 1 jan,jul *"), "2027-01-01 00:30")
    assert not in_force(schedule("0 0 1 jan,jul *"), "2027-02-01 00:30")


def test_a_day_needs_to_fit_only_one_of_day_of_month_and_day_of_week() -> None:
    """crontab(5): every 13th, and every Friday; 4, 11 and 18 December 2026 are Fridays, the 13th is a Sunday."""
    assert spans(schedule("0 0 13 * 5", hours=24), "2026-12-01 00:00", "2026-12-19 00:00", minutes=240) == [
        *("04 00:00", "05 00:00", "11 00:00", "12 00:00", "13 00:00", "14 00:00", "18 00:00", "19 00:00"),
    ]


def test_a_star_with_a_step_restricts_no_day_by_itself() -> None:
    """crontab(5) calls a field restricted that does not begin with a star: odd days that are Mondays."""
    assert spans(schedule("0 0 */2 * 1", hours=24), "2026-12-01 00:00", "2026-12-31 00:00", minutes=240) == [
        *("07 00:00", "08 00:00", "21 00:00", "22 00:00"),
    ]


def test_a_day_that_never_comes_is_never_in_force() -> None:
    assert triggers("0 0 31 2 *", "Etc/UTC") == ()
    assert not in_force(schedule("0 0 31 2 *", hours=168), "2027-03-01 00:00")


def test_a_leap_day_comes_when_it_comes() -> None:
    assert not in_force(schedule("0 0 29 2 *"), "2027-02-28 00:30")
    assert in_force(schedule("0 0 29 2 *"), "2028-02-29 00:30")


@pytest.mark.parametrize(
    ("zone", "start"),
    [
        ("Etc/UTC", "22:00"),
        ("Europe/Berlin", "21:00"),  # UTC+1 in November
        ("America/New_York", "03:00"),  # UTC-5
        ("Asia/Kolkata", "16:30"),  # UTC+5:30
        ("Asia/Kathmandu", "16:15"),  # UTC+5:45
        ("Pacific/Kiritimati", "08:00"),  # UTC+14
    ],
)
def test_the_fields_are_the_time_zone_s(zone: str, start: str) -> None:
    assert spans(schedule("0 22 * * *", zone=zone), "2026-11-29 00:00", "2026-11-30 00:00")[0] == f"29 {start}"


def test_the_day_of_the_week_is_the_time_zone_s() -> None:
    """Noon in UTC is Tuesday 02:00 in Kiritimati (UTC+14) while it is Monday in Greenwich."""
    assert days("0 2 * * 2", zone="Pacific/Kiritimati") == "mon"


class TestBerlinPutsItsClocksForward:
    """On Sunday 29 March 2026 at 02:00 of UTC+1, which is 01:00 UTC, clocks go to 03:00 of UTC+2."""

    def test_a_start_after_the_change_moves_with_the_clock(self) -> None:
        """22:00 is 21:00 UTC on the 28th and 20:00 UTC on the 29th; eight real hours each."""
        found = spans(schedule("0 22 * * *", hours=8, zone="Europe/Berlin"), "2026-03-28 12:00", "2026-03-30 12:00")
        assert found == ["28 21:00", "29 05:00", "29 20:00", "30 04:00"]

    def test_a_start_that_the_clock_skips_comes_all_the_same_and_lasts_as_long(self) -> None:
        """There is no 02:30 on the 29th: 02:30 of UTC+1 is 01:30 UTC, and two real hours later it is 03:30 UTC.

        The day after, 02:30 of UTC+2 is 00:30 UTC.
        """
        found = spans(schedule("30 2 * * *", hours=2, zone="Europe/Berlin"), "2026-03-28 12:00", "2026-03-30 12:00")
        assert found == ["29 01:30", "29 03:30", "30 00:30", "30 02:30"]

    def test_the_hour_that_is_skipped_is_missing_from_every_hour(self) -> None:
        """Minutes 0 to 29 of every hour, while hours are whole, are the first half of every hour in UTC too."""
        found = spans(schedule("0 * * * *", hours=0.5, zone="Europe/Berlin"), "2026-03-29 00:00", "2026-03-29 02:55")
        assert found == ["29 00:00", "29 00:30", "29 01:00", "29 01:30", "29 02:00", "29 02:30"]


class TestBerlinPutsItsClocksBack:
    """On Sunday 25 October 2026 at 03:00 of UTC+2, which is 01:00 UTC, clocks go to 02:00 of UTC+1."""

    def test_a_start_after_the_change_moves_with_the_clock(self) -> None:
        """22:00 is 20:00 UTC on the 24th and 21:00 UTC on the 25th; eight real hours each, so 05:00 on the clock."""
        found = spans(schedule("0 22 * * *", hours=8, zone="Europe/Berlin"), "2026-10-24 12:00", "2026-10-26 12:00")
        assert found == ["24 20:00", "25 04:00", "25 21:00", "26 05:00"]

    def test_a_start_that_the_clock_shows_twice_begins_the_window_twice(self) -> None:
        """02:30 is 00:30 UTC and again 01:30 UTC: two real hours after the second it is 03:30 UTC."""
        found = spans(schedule("30 2 * * *", hours=2, zone="Europe/Berlin"), "2026-10-24 12:00", "2026-10-25 12:00")
        assert found == ["25 00:30", "25 03:30"]


def test_clocks_that_move_by_half_an_hour_are_followed() -> None:
    """Lord Howe: UTC+10:30, in summer UTC+11; on 4 October 2026 clocks go from 02:00 to 02:30, at 15:30 UTC of the 3rd.

    02:15 of UTC+10:30 is 15:45 UTC; it is skipped and comes a quarter of an hour after the change; one real hour.
    """
    found = spans(schedule("15 2 * * *", zone="Australia/Lord_Howe"), "2026-10-03 00:00", "2026-10-04 12:00")
    assert found == ["03 15:45", "03 16:45"]


def test_the_first_in_the_list_wins() -> None:
    all_day = schedule("0 0 * * *", hours=24, name="all-day", level="k3")
    night = schedule("0 22 * * *", hours=8, name="night", level="disabled")
    assert scheduled_level([night, all_day], at("2026-11-29 23:00")) == ScheduledLevel("night", "disabled")
    assert scheduled_level([all_day, night], at("2026-11-29 23:00")) == ScheduledLevel("all-day", "k3")
    assert scheduled_level([night, all_day], at("2026-11-29 12:00")) == ScheduledLevel("all-day", "k3")


def test_no_schedule_in_force_is_none() -> None:
    assert scheduled_level([], at("2026-11-29 22:00")) is None
    assert scheduled_level([schedule("0 22 * * *")], at("2026-11-29 12:00")) is None


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("0 22 * *", "five fields"),
        ("0 22 * * * *", "five fields"),
        ("@daily", "five fields"),
        ("61 * * * *", "61"),
        ("* 24 * * *", "24"),
        ("* * 32 * *", "32"),
        ("* * * 13 *", "13"),
        ("*/0 * * * *", "Increment"),
        ("five * * * *", "five"),
        ("* * * * 8", "'8' is none"),
        ("* * * * 6-1", "'6-1' runs backwards"),
        ("* * * * fri-mon", "'fri-mon' runs backwards"),
        ("* * * * day", "no day of the week is called 'day'"),
        ("* * * * 1-", "'1-' is none"),
        ("* * * * */0", "'*/0' is none"),
        ("* * * * -1", "'-1' is none"),
        ("* * * * 1,,2", "'' is none"),
    ],
)
def test_fields_that_are_none_are_refused_in_words(cron: str, words: str) -> None:
    with pytest.raises(ValueError) as raised:
        triggers(cron, "Etc/UTC")
    assert words in str(raised.value)


@given(
    st.integers(0, 59),
    st.integers(0, 23),
    st.integers(0, 6),
    st.integers(1, 7 * 24 * 60),
    st.integers(0, 14 * 24 * 60),
)
def test_a_weekly_window_is_in_force_for_exactly_its_length(
    minute: int, hour: int, weekday: int, length: int, asked: int
) -> None:
    """Against the arithmetic of minutes of the week, from Sunday 29 November 2026 on, where no clock changes."""
    sunday = datetime(2026, 11, 29, tzinfo=UTC)
    one = schedule(f"{minute} {hour} * * {weekday}", hours=length / 60.0)
    since_start = (asked - (weekday * 1440 + hour * 60 + minute)) % (7 * 1440)
    found = scheduled_level([one], (sunday + timedelta(minutes=asked)).timestamp())
    assert (found is not None) == (since_start < length)
