"""What commands share that needs no extra: types of values, options, and printing JSON."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from onward.pipeline.dates import ALLOWED, SPANS, ClockChange, read_past, read_span, read_time

if TYPE_CHECKING:
    from onward import Event

    _ParamType = click.ParamType[float]
else:
    _ParamType = click.ParamType  # older releases of click have no type arguments here

PIPELINE = "onward.pipeline.app:app"  # the reference of Onward's own pipeline
MAX_PROCESSES = 4  # by default; more are of no use on one store
STDOUT = "-"
_HARMFUL_IN_JSON = re.compile(r"[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Command], Command]


def default_processes() -> int:
    """Return the number of worker processes of a run that names none."""
    return max(1, min(MAX_PROCESSES, os.cpu_count() or 1))


def print_json(facts: object, *, indent: int | None = 2) -> None:
    """Print facts as JSON; without an indent, on one line."""
    click.echo(_json(facts, indent))


def print_json_list(about: dict[str, object], name: str, items: Iterable[object]) -> None:
    """Print facts as JSON with a list of items, which are printed as they come."""
    click.echo(f'{_json(about, 2)[:-2]},\n  "{name}": [', nl=False)
    separator = ""
    for item in items:
        click.echo(separator + "\n    " + _json(item, 2).replace("\n", "\n    "), nl=False)
        separator = ","
    click.echo("\n  ]\n}" if separator else "]\n}")


def _json(facts: object, indent: int | None) -> str:
    text = json.dumps(facts, ensure_ascii=False, indent=indent)
    return _HARMFUL_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class _Seconds(_ParamType):
    """A point in time, as seconds since the epoch, or a length of time in seconds."""

    def __init__(self, name: str, read: Callable[[str], float | None], allowed: str) -> None:
        self.name, self._read, self._allowed = name, read, allowed

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = value if isinstance(value, float) else self._read(str(value).strip().lower())
        except ClockChange as error:
            self.fail(str(error), param, ctx)
        except (ValueError, OverflowError):
            seconds = None
        if seconds is None:
            self.fail(f"{value!r} is no {self.name}; give {self._allowed}", param, ctx)
        return seconds


DATE = _Seconds("date", read_past, ALLOWED)  # an hour alone is the last such hour; a span is that long ago
TIME = _Seconds("time", read_time, "18:30, tomorrow or 2026-03-09T14:30")  # an hour alone is one of today
SPAN = _Seconds("span", read_span, SPANS)
COUNT = click.IntRange(1, 1_000_000_000)  # a count or a row number, no larger than a store can have
# Not made of `Status`: its module takes longer to import than most commands need otherwise.
STATUS = click.Choice(["pending", "processed", "failed", "failed_max_retries", "discarded"])


def not_empty(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty filter, as passed by a script with an unset variable: it would select everything."""
    if value is not None and not value.strip():
        from onward.ops.queries.documents import empty_option  # takes a while to import

        raise click.UsageError(empty_option(param.opts[0]))
    return value


def filter_option(name: str, metavar: str, help: str) -> Option[Any]:
    """Return an option for a filter, which must not be empty."""
    return click.option(name, metavar=metavar, callback=not_empty, help=help)


def all_of(*options: Option[Any]) -> Option[Any]:
    """Return one decorator that adds several options."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def output_option(help: str, *, required: bool = False) -> Option[Any]:
    """Return the option --output: a new file, or None for standard output."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
        if required and value == STDOUT:
            raise click.UsageError(
                "what is archived goes to a file, which is safe before anything is removed: name one"
            )
        return None if not_empty(ctx, param, value) in (None, STDOUT) else Path(str(value))

    kind = click.Path(dir_okay=False, allow_dash=True)
    return click.option("--output", type=kind, callback=read, metavar="FILE", required=required, help=help)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
canary_option = click.option(
    "--canary", type=click.IntRange(1), metavar="N", help="Put N back, and the rest only when these are processed."
)
rate_option = click.option(
    "--rate", type=click.FloatRange(0, min_open=True), metavar="PER_SECOND", help="At most this many a second."
)
events_option = click.option(
    "--app",
    "reference",
    metavar="MODULE:APP",
    help="The app whose events are read again; Onward's own pipeline by default.",
)


def event_classes_of(reference: str | None) -> tuple[type[Event], ...]:
    """Return the event classes of an app, if one is given."""
    from onward.app import load_app

    return tuple(load_app(reference).registry.events()) if reference else ()


def list_by_default(ctx: click.Context, command: click.Command, options: dict[str, Any]) -> None:
    """Run the `list` command of a group if no command was given; its options belong behind a given one."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(command, **options)
    elif any(options.values()):
        raise click.UsageError(f"give options behind `{ctx.invoked_subcommand}`")
