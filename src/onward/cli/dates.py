"""Dates as people give them on the command line."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

import click

ALLOWED = "a date such as 2026-03-09, 2026-03 or 2026, a time such as 2026-03-09T14:30, today or yesterday"


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
