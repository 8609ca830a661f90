"""Dates, times and spans are read as people write them."""

from __future__ import annotations

from datetime import datetime, timedelta

import click
import pytest

from onward.cli.params import DATE, SPAN, TIME

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


def now() -> float:
    return datetime.now().astimezone().timestamp()


@pytest.mark.parametrize(
    ("text", "seconds"),
    (
        ("90s", 90.0),
        ("0s", 0.0),
        ("1.5h", 1.5 * HOUR),
        ("1h30m", 1.5 * HOUR),
        ("1h 30m", 1.5 * HOUR),
        (" 1D12H ", 1.5 * DAY),
        ("1w1d1h1m1s", 8 * DAY + HOUR + MINUTE + 1),
    ),
)
def test_a_span_has_one_part_or_several(text: str, seconds: float) -> None:
    assert SPAN.convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ("", "h", "30", "1h30", "30m1h", "1h1h", "1h-30m", "1y", "99999w", "²h"))
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no span; give a span such as 90s, 10m, 2h, 1h30m"):
        SPAN.convert(text, None, None)


@pytest.mark.parametrize(("text", "ago"), (("30m", 30 * MINUTE), ("2h", 2 * HOUR), ("1d12h", 1.5 * DAY)))
def test_a_span_is_a_date_in_the_past(text: str, ago: float) -> None:
    before = now()
    assert before - ago <= DATE.convert(text, None, None) <= now() - ago


@pytest.mark.parametrize("minutes", (-90, -1, 2, 90))
def test_an_hour_alone_is_the_last_such_hour(minutes: int) -> None:
    there = (datetime.now().astimezone() + timedelta(minutes=minutes)).replace(second=0, microsecond=0)
    expected = there if minutes < 0 else there - timedelta(days=1)
    text = f"{there.hour}:{there.minute:02}"
    assert DATE.convert(text, None, None) == expected.timestamp()


def test_an_hour_to_come_is_one_of_today() -> None:
    today = datetime.now().astimezone().replace(hour=23, minute=59, second=0, microsecond=0)
    assert TIME.convert("23:59", None, None) == today.timestamp()


@pytest.mark.parametrize("text", ("noon", "25:99", "2:4", "", "99999w"))
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no date; give a date such as 2026-03-09"):
        DATE.convert(text, None, None)
