"""Dates, times and spans as people give them on the command line."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

import click

ALLOWED = "a date such as 2026-03-09, 2026-03 or 2026, a time such as 2026-03-09T14:30, today or yesterday"
SPANS = "a span such as 90s, 10m, 2h, 30d or 4w"
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
_LONGEST_SPAN = 100 * 366 * 86_400.0


if TYPE_CHECKING:
    _ParamType = click.ParamType[float]
else:
    _ParamType = click.ParamType  # older releases of click have no type arguments here


class Date(_ParamType):
    """A point in time, as seconds since the epoch; without a time zone it is a local one."""

    name = "date"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return value if isinstance(value, float) else _read(str(value).strip().lower())
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no date; give {ALLOWED}", param, ctx)


class When(_ParamType):
    """A point in time to come, as seconds since the epoch; an hour alone is one of today."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return value if isinstance(value, float) else _read_time(str(value).strip().lower())
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no time; give 18:30, tomorrow or 2026-03-09T14:30", param, ctx)


class Span(_ParamType):
    """How long, in seconds."""

    name = "span"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?) *([smhdw])", str(value).strip().lower(), re.ASCII)
        seconds = float(found[1]) * _UNITS[found[2]] if found else _LONGEST_SPAN + 1
        if seconds > _LONGEST_SPAN:
            self.fail(f"{value!r} is no span; give {SPANS}", param, ctx)
        return seconds


def _read_time(text: str) -> float:
    if re.fullmatch(r"\d?\d:\d\d(:\d\d)?", text, re.ASCII):
        text = f"{date.today().isoformat()}T{text.zfill(len(text) + (text[1] == ':'))}"  # noqa: DTZ011
    return _read(text)


def _read(text: str) -> float:
    today = date.today()  # noqa: DTZ011 - whoever says "today" means theirs
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
