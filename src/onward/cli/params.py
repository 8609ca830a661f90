"""Types and options that several commands share: dates, counts, filters and files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from onward.model.documents import Status
from onward.ops.dates import ALLOWED, SPANS, read_past, read_span, read_time
from onward.ops.queries.documents import empty_option

if TYPE_CHECKING:
    _ParamType = click.ParamType[float]
else:
    _ParamType = click.ParamType  # older releases of click have no type arguments here

PIPELINE = "onward.pipeline.app:app"
"""The reference of Onward's own pipeline."""
MAX_COUNT = 1_000_000_000
STDOUT = "-"
Command = TypeVar("Command", bound=Callable[..., Any])


class Count(click.IntRange):
    """A count or a row number, no larger than a store can have."""

    def __init__(self) -> None:
        super().__init__(1, MAX_COUNT)


class Rate(click.FloatRange):
    """How many a second."""

    def __init__(self) -> None:
        super().__init__(0, min_open=True)


class Date(_ParamType):
    """A point in time, as seconds since the epoch; local unless it has a time zone.

    An hour alone is the last such hour; a span is that long ago.
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
    """A length of time, in seconds."""

    name = "span"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        seconds = read_span(str(value).strip().lower())
        if seconds is None:
            self.fail(f"{value!r} is no span; give {SPANS}", param, ctx)
        return seconds


def not_empty(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty filter, as passed by a script with an unset variable: it would select everything."""
    if value is not None and not value.strip():
        raise click.UsageError(empty_option(param.opts[0]))
    return value


def _with(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


document_filter_options = _with(
    click.option(
        "--status",
        type=click.Choice([status.value for status in Status]),
        help="Only documents with this status; `failed` includes those that failed in too many rounds.",
    ),
    click.option("--collection", metavar="NAME", callback=not_empty, help="Only documents of this collection."),
    click.option(
        "--source",
        metavar="SOURCE",
        callback=not_empty,
        help="Only documents of this source; the end of its name is enough.",
    ),
    click.option(
        "--group", metavar="FINGERPRINT", callback=not_empty, help="Only documents of this failure group."
    ),
    click.option(
        "--older-than",
        type=Span(),
        metavar="SPAN",
        help="Only documents that have not changed for this long: 90s, 10m, 1h30m, 30d, 4w.",
    ),
)
app_option = click.option(
    "--app",
    "reference",
    default=PIPELINE,
    metavar="MODULE:APP",
    help="The app, such as shop.orders:app; Onward's own pipeline by default.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
all_option = click.option("--all", "everything", is_flag=True, help="All failed queues.")
archived_option = click.option("--archived", is_flag=True, help="Archived dead letters instead.")
dead_letter_filter_options = _with(
    click.option(
        "--group", metavar="FINGERPRINT", callback=not_empty, help="Only dead letters of this failure group."
    ),
    click.option(
        "--error-type",
        metavar="TYPE",
        callback=not_empty,
        help="Only dead letters whose last error is of this type.",
    ),
    click.option(
        "--since",
        type=Date(),
        metavar="WHEN",
        help="Only dead letters since then: 2h (ago), 14:30, yesterday, 2026-03-09.",
    ),
    click.option(
        "--document",
        metavar="ID",
        callback=not_empty,
        help="Only dead letters about this document (COLLECTION/ID).",
    ),
    click.option("--limit", type=Count(), help="At most this many, the oldest first."),
)
canary_option = click.option(
    "--canary", type=click.IntRange(1), metavar="N", help="Put N back, and the rest only when these are processed."
)
rate_option = click.option("--rate", type=Rate(), metavar="PER_SECOND", help="At most this many a second.")


def _output(ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    if value is not None and not value.strip():
        raise click.UsageError(empty_option("--output"))
    return None if value is None or value == STDOUT else Path(value)


def _output_file(ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    if value == STDOUT:
        raise click.UsageError(
            "what is archived goes to a file, which is safe before anything is removed: name one"
        )
    return _output(ctx, param, value)


output_option = click.option(
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True),
    callback=_output,
    metavar="FILE",
    help="A new file, packed if its name ends in .gz; standard output (-) by default.",
)
output_file_option = click.option(
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True),
    callback=_output_file,
    metavar="FILE",
    required=True,
    help="A new file, such as failed.ndjson.gz; packed if its name ends in .gz.",
)
