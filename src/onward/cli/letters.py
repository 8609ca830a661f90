"""Dead letters on the command line: the options that choose them, and how they are shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.text import Text

from onward.cli.choosing import Count, not_empty
from onward.cli.dates import Date
from onward.facts.letters import RAW_SHOWN, error_line, made_visible
from onward.facts.wording import counted, harmless, moment, one_line, size
from onward.retry.redact import redact

if TYPE_CHECKING:
    from rich.console import Console

    from onward.model.ledger import DeadLetter

Command = TypeVar("Command", bound=Callable[..., Any])

all_option = click.option("--all", "everything", is_flag=True, help="All failed queues.")
archived_option = click.option("--archived", is_flag=True, help="What was archived, instead.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only say what would be done.")


def filter_options(command: Command) -> Command:
    """The options that choose letters of a queue."""
    for option in reversed(
        (
            click.option(
                "--group", metavar="FINGERPRINT", callback=not_empty, help="Only letters of this failure group."
            ),
            click.option(
                "--error-type",
                metavar="TYPE",
                callback=not_empty,
                help="Only letters whose last error is of this type.",
            ),
            click.option(
                "--since",
                type=Date(),
                metavar="WHEN",
                help="Only letters given up since then: 2h (ago), 14:30, yesterday, 2026-03-09.",
            ),
            click.option(
                "--document",
                metavar="ID",
                callback=not_empty,
                help="Only letters about this document (COLLECTION/ID).",
            ),
            click.option("--limit", type=Count(), help="At most so many, the oldest first."),
        )
    ):
        command = option(command)
    return command


# -- for people


def letter_line(letter: DeadLetter) -> Text:
    """A letter on one line."""
    named = ", ".join(one_line(f"{collection}/{id}", 60) for collection, id in letter.documents[:1])
    more = len(letter.documents) - 1
    documents = f"{named} and {more} more" if more > 0 else named or "no document"
    tries = "1 try" if letter.attempt_count == 1 else f"{letter.attempt_count} tries"
    return Text.assemble(
        (f"{letter.row:>7}", "green"),
        f"  {moment(letter.timestamp)}  {documents}  ",
        (f"{tries}, {letter.abandoned_reason}  ", "dim"),
        (error_line(letter), "red"),
    )


def print_letter(out: Console, letter: DeadLetter) -> None:
    """Print all that is known of a letter."""
    event = letter.original_event
    out.print(Text(f"Letter {letter.row} in {one_line(letter.failed_queue)}", "bold"), soft_wrap=True)
    tries = "1 try" if letter.attempt_count == 1 else f"{letter.attempt_count} tries"
    facts = [
        (
            "given up",
            f"{moment(letter.timestamp)}, {letter.abandoned_reason}, after {tries} in round {letter.round}",
        ),
        ("deaths", f"{letter.deaths}" if letter.deaths else ""),
        ("event", f"{event['event_type']} {event['event_id']} of {moment(event['timestamp'])}"),
        ("documents", ", ".join(f"{collection}/{id}" for collection, id in letter.documents)),
        ("group", letter.fingerprint),
        ("key", letter.idempotency_key),
    ]
    for name, value in facts:
        if value:
            out.print(Text.assemble((f"  {name:10}", "dim"), one_line(value)), soft_wrap=True)
    data = json.dumps(event["data"], ensure_ascii=False, indent=2)
    out.print(Text(_indented(data)), soft_wrap=True)
    for error in letter.errors:
        where = " ".join(one_line(str(error[name])) for name in ("worker", "version") if error.get(name))
        text = one_line(redact(f"{error.get('error_type', '')}: {error.get('message', '')}"), 1_000)
        line = Text.assemble(
            (f"  {moment(error.get('at')):18}", "dim"), (text, "red"), (f"  {where}".rstrip(), "dim")
        )
        out.print(line, soft_wrap=True)
    if letter.errors and (trace := letter.errors[-1].get("traceback")):
        out.print(Text(_indented(redact(str(trace)).rstrip()), "dim"), soft_wrap=True)
    if letter.raw is not None:
        text = made_visible(letter.raw[:RAW_SHOWN]).decode()
        cut = f", of which the first {counted(RAW_SHOWN, 'byte')}" if len(letter.raw) > RAW_SHOWN else ""
        out.print(Text(f"  raw, {size(len(letter.raw))}{cut}:", "dim"))
        out.print(Text(_indented(redact(text))), soft_wrap=True)
    out.print()


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in harmless(text).split("\n"))
