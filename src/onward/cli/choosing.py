"""The options that choose documents: by status, collection, source, failure group or age."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from onward.cli.dates import Span
from onward.facts.choosing import empty
from onward.model.documents import Status

MOST = 1_000_000_000
Command = TypeVar("Command", bound=Callable[..., Any])


class Count(click.IntRange):
    """How many, or a number that was listed: no more than a store can count."""

    def __init__(self) -> None:
        super().__init__(1, MOST)


def not_empty(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty filter, as a script makes of a variable that is not set: it would mean everything."""
    if value is not None and not value.strip():
        raise click.UsageError(empty(param.opts[0]))
    return value


def filter_options(command: Command) -> Command:
    """The options that choose documents."""
    for option in reversed(
        (
            click.option(
                "--status",
                type=click.Choice([one.value for one in Status]),
                help="Documents that stand so; `failed` are also those that failed in too many rounds.",
            ),
            click.option("--collection", metavar="NAME", callback=not_empty, help="Documents of this collection."),
            click.option(
                "--source",
                metavar="SOURCE",
                callback=not_empty,
                help="Documents of this source; the end of it will do.",
            ),
            click.option(
                "--group", metavar="FINGERPRINT", callback=not_empty, help="Documents of this failure group."
            ),
            click.option(
                "--older-than",
                type=Span(),
                metavar="SPAN",
                help="Not changed for so long: 90s, 10m, 1h30m, 30d, 4w.",
            ),
        )
    ):
        command = option(command)
    return command
