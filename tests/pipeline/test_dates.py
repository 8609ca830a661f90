"""Dates as people write them, in the zone of whoever writes them, also on days when the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.pipeline.dates import ClockChange, read_past, read_time

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ("Europe/Berlin", "America/New_York", "America/Santiago", "Asia/Kolkata", "Australia/Lord_Howe", "UTC")
NOON = datetime(2026, 11, 17, 12, tzinfo=UTC).timestamp()


def at(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("text", "meant"),
    (
        ("2026-07-01t12:00", at(2026, 7, 1, 10)),
        ("2026-01", at(2025, 12, 31, 23)),
        ("today", at(2026, 11, 16, 23)),
        ("12:30", at(2026, 11, 17, 11, 30)),
        ("23:00", at(2026, 11, 16, 22)),  # the last such hour
        ("2026-07-01t12:00+00:00", at(2026, 7, 1, 12)),
    ),
)
def test_a_date_is_one_of_the_zone_that_is_given(text: str, meant: float) -> None:
    assert read_past(text, NOON, BERLIN) == meant


def test_a_time_that_the_clocks_skip_is_refused_with_the_one_that_comes_instead() -> None:
    with pytest.raises(ClockChange, match=r"no 02:30 on 2026-03-29 in Europe/Berlin.*such as 03:30"):
        read_time("2026-03-29t02:30", BERLIN)


def test_a_time_that_comes_twice_is_refused_with_both() -> None:
    with pytest.raises(ClockChange, match="comes twice") as refused:
        read_time("2026-10-25t02:30", BERLIN)
    first, second = (
        read_time(one.lower(), BERLIN) for one in str(refused.value).partition("give ")[2].split(" or ")
    )
    assert (first, second) == (at(2026, 10, 25, 0, 30), at(2026, 10, 25, 1, 30))


def test_a_day_begins_with_its_first_hour_also_where_midnight_is_skipped() -> None:
    assert read_time("2026-09-06", ZoneInfo("America/Santiago")) == at(2026, 9, 6, 4)


@given(st.datetimes(datetime(1990, 1, 1), datetime(2036, 1, 1)), st.sampled_from(ZONES))  # noqa: DTZ001
def test_a_time_that_is_read_is_the_one_that_was_written_and_the_only_one(when: datetime, name: str) -> None:
    zone, when = ZoneInfo(name), when.replace(second=0, microsecond=0)
    possible = {
        moment.timestamp()
        for hours in range(-15, 16)
        for half in (0, 30)
        if (moment := when.replace(tzinfo=UTC) + timedelta(hours=hours, minutes=half))
        .astimezone(zone)
        .replace(tzinfo=None)
        == when
    }
    try:
        found = {read_time(when.isoformat().lower(), zone)}
    except ClockChange:
        assert len(possible) != 1
    else:
        assert found == possible
