"""Dates, times and spans as people give them on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onward.facts.dates import ALLOWED, SPANS, read_past, read_span, read_time

if TYPE_CHECKING:
    _ParamType = click.ParamType[float]
else:
    _ParamType = click.ParamType  # older releases of click have no type arguments here


class Date(_ParamType):
    """A point in time, as seconds since the epoch; without a time zone it is a local one.

    An hour alone is the last such hour, a span is so long ago.
    """

    name = "date"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return value if isinstance(value, float) else read_past(str(value).strip().lower())
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no date; give {ALLOWED}", param, ctx)


class When(_ParamType):
    """A point in time to come, as seconds since the epoch; an hour alone is one of today."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return value if isinstance(value, float) else read_time(str(value).strip().lower())
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no time; give 18:30, tomorrow or 2026-03-09T14:30", param, ctx)


class Span(_ParamType):
    """How long, in seconds."""

    name = "span"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        seconds = read_span(str(value).strip().lower())
        if seconds is None:
            self.fail(f"{value!r} is no span; give {SPANS}", param, ctx)
        return seconds
