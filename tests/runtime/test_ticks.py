"""When a schedule falls due: against a model that looks at every minute, and where clocks are changed."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onward.runtime.service import RegistrationError
from onward.runtime.ticks import CronTicks, IntervalTicks, read_ticks

HOUR, DAY = 3_600, 86_400
BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "America/Sao_Paulo")
WEEKDAYS = {"*": range(7), "SUN": (0,), "1-5": range(1, 6)}
VALUES = {
    "*": range(60),
    "*/15": range(0, 60, 15),
    "*/6": range(0, 24, 6),
    "5,35": (5, 35),
    "1-3": (1, 2, 3),
    "2,14": (2, 14),
    **{str(number): (number,) for number in range(60)},
}


def days_match(local: datetime, day: str, month: str, weekday: str) -> bool:
    of_month = day == "*" or local.day in VALUES[day]
    of_week = (local.weekday() + 1) % 7 in WEEKDAYS[weekday]
    both = of_month and of_week if "*" in (day, weekday) else of_month or of_week
    return both and (month == "*" or local.month in VALUES[month])


def modelled(expression: str, zone: ZoneInfo, after: int, until: int) -> list[float]:
    """Look at every minute. A fixed time is one moment of each day, any other expression follows the clock."""
    minute, hour, *days = expression.split()
    follows_clock = minute.startswith("*") or hour.startswith("*")
    hours = range(24) if hour == "*" else VALUES[hour]
    found: set[float] = set()

    def matches(local: datetime) -> bool:
        return local.minute in VALUES[minute] and local.hour in hours and days_match(local, *days)

    if follows_clock:
        moments = range(after - after % 60, until + 60, 60)
        found = {float(one) for one in moments if matches(datetime.fromtimestamp(one, zone))}
    else:
        local = datetime.fromtimestamp(after - DAY, zone).replace(tzinfo=None, hour=0, minute=0, second=0)
        for _ in range((until - after + 3 * DAY) // 60):
            if matches(local):
                real = local
                while real.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) != real:
                    real += timedelta(minutes=1)  # it does not exist
                found.add(real.replace(tzinfo=zone, fold=0).timestamp())
            local += timedelta(minutes=1)
    return sorted(one for one in found if after < one <= until)


EXPRESSIONS = st.tuples(
    st.sampled_from(("*", "*/15", "0", "30", "5,35")),
    st.sampled_from(("*", "*/6", "2", "3", "1-3", "2,14", "0")),
    st.sampled_from(("*", "1", "8", "29")),
    st.sampled_from(("*", "3", "10", "11")),
    st.sampled_from(tuple(WEEKDAYS)),
).map(" ".join)
CHANGES = [  # of clocks in 2026, in Europe and America
    int(datetime(2026, *day, 1, tzinfo=UTC).timestamp()) for day in ((3, 29), (10, 25), (3, 8), (11, 1))
]
STARTS = st.tuples(st.sampled_from(CHANGES), st.integers(-2 * DAY, DAY)).map(sum)


@given(EXPRESSIONS, st.sampled_from(ZONES), STARTS, st.integers(0, 2 * DAY), st.integers(1, 50))
@example("30 2 * * *", "Europe/Berlin", CHANGES[0] - HOUR, DAY, 10)
@example("30 2 * * *", "Europe/Berlin", CHANGES[1] - HOUR, DAY, 10)
@example("30 2 * * *", "Europe/Berlin", CHANGES[1] + 900, DAY, 10)  # in the hour that is repeated
@example("*/15 2 * * *", "Europe/Berlin", CHANGES[1] - 2 * HOUR, DAY, 50)
def test_ticks_are_those_of_a_model_that_looks_at_every_minute(
    expression: str, zone: str, start: int, length: int, limit: int
) -> None:
    until = start + length
    ticks = CronTicks(expression, ZoneInfo(zone))
    expected = modelled(expression, ZoneInfo(zone), start, until)
    assert ticks.latest(start, until, 10_000) == expected
    assert ticks.latest(start, until, limit) == expected[-limit:]
    following = ticks.after(start)
    if expected:
        assert following == expected[0]
    else:
        assert following is None or following > until


@given(st.integers(1, 10 * DAY), st.integers(0, 2**31), st.integers(0, 50_000), st.integers(1, 20))
def test_ticks_of_an_interval_are_its_multiples(seconds: int, start: int, length: int, limit: int) -> None:
    ticks, until = IntervalTicks(seconds, UTC), start + length
    expected = [float(one) for one in range(start - start % seconds, until + 1, seconds) if one > start]
    assert ticks.latest(start, until, limit) == expected[-limit:]
    following = ticks.after(start)
    assert following is not None
    assert (following > start, following - start <= seconds, following % seconds) == (True, True, 0)


@given(EXPRESSIONS, st.sampled_from(ZONES), STARTS)
def test_one_tick_leads_to_the_next(expression: str, zone: str, start: int) -> None:
    ticks = CronTicks(expression, ZoneInfo(zone))
    found = [float(start)]
    for _ in range(5):
        if (following := ticks.after(found[-1])) is not None:
            found.append(following)
    assert all(one < other for one, other in pairwise(found))
    assert ticks.latest(start, found[-1], 5) == found[1:]


def local(ticks: list[float]) -> list[str]:
    return [f"{datetime.fromtimestamp(one, BERLIN):%d %H:%M %Z}" for one in ticks]


@pytest.mark.parametrize(
    ("expression", "spring", "autumn"),
    (
        # A fixed time that does not exist runs when the clock has been moved; one that exists twice runs once.
        ("30 2 * * *", ["29 03:00 CEST", "30 02:30 CEST"], ["25 02:30 CEST", "26 02:30 CET"]),
        ("0 1-3 29,25 * *", ["29 01:00 CET", "29 03:00 CEST"], ["25 01:00 CEST", "25 02:00 CEST", "25 03:00 CET"]),
        # What runs every so many minutes follows the clock on the wall.
        ("*/30 2 29,25 * *", [], ["25 02:00 CEST", "25 02:30 CEST", "25 02:00 CET", "25 02:30 CET"]),
    ),
)
def test_where_clocks_are_changed(expression: str, spring: list[str], autumn: list[str]) -> None:
    ticks = CronTicks(expression, BERLIN)
    for day, expected in (((2026, 3, 29), spring), ((2026, 10, 25), autumn)):
        midnight = datetime(*day, tzinfo=BERLIN).timestamp()
        assert local(ticks.latest(midnight, midnight + 2 * DAY, 10)) == expected


def test_an_hourly_schedule_runs_every_hour_also_on_the_day_of_25_hours() -> None:
    midnight = datetime(2026, 10, 25, tzinfo=BERLIN).timestamp()
    found = CronTicks("0 * * * *", BERLIN).latest(midnight, midnight + 25 * HOUR, 100)
    assert {later - one for one, later in pairwise(found)} == {3_600.0}
    assert len(found) == 25


def test_a_long_pause_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[float] = []
    walk = CronTicks._from

    def counted(self: CronTicks, moment: float) -> object:
        for one in walk(self, moment):
            looked.append(one)
            yield one

    monkeypatch.setattr(CronTicks, "_from", counted)
    ticks = CronTicks("* * * * *", ZoneInfo("UTC"))
    assert ticks.latest(0.0, 1_800_000_000.0, 1) == [1_800_000_000.0]  # of 57 years of minutes
    assert len(looked) <= 61


@pytest.mark.parametrize(
    ("schedule", "timezone", "said"),
    (
        (
            "0 25 * * *",
            "UTC",
            r"has the cron expression '0 25 \* \* \*', which cannot be read: Bad hour; give minute",
        ),
        ("@daily", "UTC", "cannot be read: Wrong number of fields"),
        ("0 0 30 2 *", "UTC", "cannot be read: Bad day-of-month"),
        ("* * */20 * 1L", "UTC", "which never falls due"),
        ("0 7 * * *", "Europe/Atlantis", "timezone='Europe/Atlantis', which is not known; give one like"),
        ("0 7 * * *", "../etc/passwd", "which is not known"),
        (timedelta(milliseconds=1), "UTC", "give whole seconds, at least one"),
        (timedelta(seconds=1.5), "UTC", "give whole seconds, at least one"),
        (60, "UTC", r"has the schedule 60; give a cron expression .* or a timedelta"),
    ),
)
def test_a_wrong_schedule_is_refused_with_the_remedy(schedule: object, timezone: str, said: str) -> None:
    with pytest.raises(RegistrationError, match=said):
        read_ticks(schedule, timezone, of="schedule 'daily'")


def test_without_the_package_for_cron_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(RegistrationError, match=r"pip install 'onward\[schedules\]'"):
        read_ticks("0 7 * * *", "UTC", of="schedule 'daily'")
    assert str(read_ticks(timedelta(minutes=15), "UTC", of="schedule 'often'")) == "every 15 min"
