"""Dates, times and spans as people write them."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

ALLOWED = (
    "a date such as 2026-03-09, 2026-03 or 2026, a time such as 2026-03-09T14:30 or 14:30, today, yesterday, "
    "or how long ago: 30m, 2h, 7d"
)
SPANS = "a span such as 90s, 10m, 2h, 1h30m, 30d or 4w"
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
_LONGEST_SPAN = 100 * 366 * 86_400.0
_PART = r"(\d{1,9}(?:\.\d{1,3})?) *([smhdw])"
_HOUR = re.compile(r"\d?\d:\d\d(:\d\d)?", re.ASCII)


def read_span(text: str) -> float | None:
    """Return the seconds of a span: one or several parts, the longest unit first; None if it is no span."""
    if not re.fullmatch(rf"(?:{_PART} *)+", text, re.ASCII):
        return None
    parts = re.findall(_PART, text, re.ASCII)
    units = [_UNITS[unit] for _, unit in parts]
    seconds = sum(float(count) * unit for (count, _), unit in zip(parts, units, strict=True))
    return seconds if units == sorted(set(units), reverse=True) and seconds <= _LONGEST_SPAN else None


def read_past(text: str, now: float | None = None) -> float:
    """Return a point in time up to now, in seconds since the epoch; raise ValueError or OverflowError if not."""
    here = datetime.now().astimezone() if now is None else datetime.fromtimestamp(now).astimezone()
    if (ago := read_span(text)) is not None:
        return here.timestamp() - ago
    if _HOUR.fullmatch(text):
        found = _at_hour(here.date(), text)
        # Early in the morning, 23:00 is that of yesterday.
        return found if found <= here.timestamp() else _at_hour(here.date() - timedelta(days=1), text)
    return _read(text, here.date())


def read_time(text: str) -> float:
    """Return a point in time in the future; an hour alone is one of today."""
    today = datetime.now().astimezone().date()  # whoever says "today" means theirs
    return _at_hour(today, text) if _HOUR.fullmatch(text) else _read(text, today)


def _at_hour(day: date, hour: str) -> float:
    return _read(f"{day.isoformat()}T{hour.zfill(len(hour) + (hour[1] == ':'))}", day)


def _read(text: str, today: date) -> float:
    named = {"today": today, "yesterday": today - timedelta(days=1), "tomorrow": today + timedelta(days=1)}
    if text in named:
        found = datetime.combine(named[text], datetime.min.time())
    elif len(text) == 4:
        found = datetime(int(text), 1, 1)  # noqa: DTZ001 - the local zone is added below
    elif len(text) == 7 and text[4] == "-":
        found = datetime(int(text[:4]), int(text[5:]), 1)  # noqa: DTZ001
    else:
        found = datetime.fromisoformat(text.upper())
    return (found if found.tzinfo else found.astimezone()).timestamp()
