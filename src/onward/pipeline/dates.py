"""Dates, times and spans as people write them."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, tzinfo

ALLOWED = (
    "a date such as 2026-03-09, 2026-03 or 2026, a time such as 2026-03-09T14:30 or 14:30, today, yesterday, "
    "or how long ago: 30m, 2h, 7d"
)
SPANS = "a span such as 90s, 10m, 2h, 1h30m, 30d or 4w"
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
_LONGEST_SPAN = 100 * 366 * 86_400.0
_PART = r"(\d{1,9}(?:\.\d{1,3})?) *([smhdw])"
_HOUR = re.compile(r"\d?\d:\d\d(:\d\d)?", re.ASCII)


class ClockChange(ValueError):
    """A time that the clocks of its zone skip, or show twice; the message says what to write instead."""


def read_span(text: str) -> float | None:
    """Return the seconds of a span: one or several parts, the longest unit first; None if it is no span."""
    if not re.fullmatch(rf"(?:{_PART} *)+", text, re.ASCII):
        return None
    parts = re.findall(_PART, text, re.ASCII)
    units = [_UNITS[unit] for _, unit in parts]
    seconds = sum(float(count) * unit for (count, _), unit in zip(parts, units, strict=True))
    return seconds if units == sorted(set(units), reverse=True) and seconds <= _LONGEST_SPAN else None


def read_past(text: str, now: float | None = None, zone: tzinfo | None = None) -> float:
    """Return a point in time up to now, in seconds since the epoch; raise ValueError or OverflowError if not.

    A time without a zone is one of `zone`; None: of this process.
    """
    here = datetime.now().astimezone(zone) if now is None else datetime.fromtimestamp(now).astimezone(zone)
    if (ago := read_span(text)) is not None:
        return here.timestamp() - ago
    if _HOUR.fullmatch(text):
        found = _at_hour(here.date(), text, zone)
        # Early in the morning, 23:00 is that of yesterday.
        return found if found <= here.timestamp() else _at_hour(here.date() - timedelta(days=1), text, zone)
    return _read(text, here.date(), zone)


def read_time(text: str, zone: tzinfo | None = None) -> float:
    """Return a point in time in the future, of `zone` or of this process; an hour alone is one of today."""
    today = datetime.now().astimezone(zone).date()  # whoever says "today" means theirs
    return _at_hour(today, text, zone) if _HOUR.fullmatch(text) else _read(text, today, zone)


def _at_hour(day: date, hour: str, zone: tzinfo | None) -> float:
    return _read(f"{day.isoformat()}T{hour.zfill(len(hour) + (hour[1] == ':'))}", day, zone)


def _read(text: str, today: date, zone: tzinfo | None) -> float:
    named = {"today": today, "yesterday": today - timedelta(days=1), "tomorrow": today + timedelta(days=1)}
    if text in named:
        found = datetime.combine(named[text], datetime.min.time())
    elif len(text) == 4:
        found = datetime(int(text), 1, 1)  # noqa: DTZ001 - the local zone is added below
    elif len(text) == 7 and text[4] == "-":
        found = datetime(int(text[:4]), int(text[5:]), 1)  # noqa: DTZ001
    else:
        found = datetime.fromisoformat(text.upper())
    if found.tzinfo:
        return found.timestamp()
    first, second = (_placed(found.replace(fold=fold), zone) for fold in (0, 1))
    # A day begins when its first hour does, also where the clocks skip or repeat midnight.
    if first.utcoffset() != second.utcoffset() and (":" in text or "t" in text.lower()):
        raise ClockChange(_clock_change(found, first, second, zone))
    return first.timestamp()


def _placed(found: datetime, zone: tzinfo | None) -> datetime:
    """Return a local time with its zone; `fold` says which of two is meant."""
    return found.astimezone() if zone is None else found.replace(tzinfo=zone)


def _clock_change(found: datetime, first: datetime, second: datetime, zone: tzinfo | None) -> str:
    day, where = found.strftime("%Y-%m-%d"), f"in {zone}" if zone else "here"
    offsets = [f"{one:%z}"[:3] + ":" + f"{one:%z}"[3:5] for one in (first, second)]
    if first.timestamp() < second.timestamp():
        both = " or ".join(f"{found.isoformat(timespec='minutes')}{one}" for one in offsets)
        return f"{found:%H:%M} comes twice on {day} {where}, when the clocks are put back: give {both}"
    after = datetime.fromtimestamp(first.timestamp()).astimezone(zone)
    return (
        f"there is no {found:%H:%M} on {day} {where}, when the clocks are put forward: "
        f"give another time, such as {after:%H:%M}"
    )
