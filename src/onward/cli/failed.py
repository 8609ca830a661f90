"""`onward failed`: look into failed queues, and put back, put away or remove what is in them."""

from __future__ import annotations

import shlex
import sys
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.action_run import interruptible
from onward.cli.app_access import open_store_app
from onward.cli.dead_letter_actions import archive, purge, requeue
from onward.cli.params import (
    Count,
    all_option,
    archived_option,
    dead_letter_filter_options,
    json_option,
    output_option,
)
from onward.cli.render.dead_letters import dead_letter_line, print_dead_letter
from onward.cli.render.output import console, print_entry, print_json
from onward.ops.document_export import new_file, write_lines
from onward.ops.queries.dead_letters import (
    dead_letter_at,
    dead_letter_brief,
    dead_letter_facts,
    failed_queue_facts,
    select_dead_letters,
)
from onward.ops.text.format import counted, moment, number, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console


LISTED = 50
INSPECTED = 5


@click.group()
def failed() -> None:
    """Look into failed queues, and put back, put away or remove what is in them.

    A failed queue holds the dead letters of a service: events that were given up for now. QUEUE is its
    name or the service's, or the number of one dead letter.
    """


for command in (requeue, purge, archive):
    failed.add_command(command)


@failed.command("list")
@click.argument("queue", required=False)
@archived_option
@click.option("--limit", type=Count(), help=f"At most this many; {LISTED} by default, all with --json.")
@json_option
def list_(queue: str | None, archived: bool, limit: int | None, as_json: bool) -> None:
    """List failed queues, or the dead letters in one, the oldest first.

    \b
    Examples:
      onward failed list
      onward failed list parsing.failed
      onward failed list --archived --json
    """
    with open_store_app() as app:
        if queue is None:
            found = failed_queue_facts(app, archived=archived)
            shown = [one for one in found if one["archived"] or (one["letters"] and not archived)]
            print_json(shown[:limit]) if as_json else _print_queues(shown, archived, limit or len(shown))
            return
        choice = select_dead_letters(app, queue, archived=archived)
        if as_json:
            print_json([dead_letter_brief(one) for one in islice(choice.letters(), limit)])
            return
        letters = list(islice(choice.letters(), limit or LISTED))
        out = console()
        for letter in letters:
            print_entry(out, dead_letter_line(letter))
        if not letters:
            out.print(
                Text(f"{one_line(choice.name)} {'has no archived dead letters' if archived else 'is empty'}.")
            )
        _print_more(out, len(letters), choice.total())
        if letters:
            out.print(Text.assemble(("To look at one: ", "dim"), f"onward failed inspect {letters[0].row}"))


def _print_more(out: Console, shown: int, total: int) -> None:
    if shown < total:
        out.print(Text(f"{number(shown)} of {number(total)} shown; --limit {total} shows more.", "dim"))


def _print_queues(found: list[dict[str, Any]], archived: bool, limit: int) -> None:
    out = console()
    if not found:
        out.print(Text(f"No failed queue has {'an archived' if archived else 'a'} letter.", "green"))
        return
    for one in found[:limit]:
        service = f"  ({one_line(one['service'])})" if one["service"] else ""
        line = Text.assemble((one_line(one["queue"]), "bold"), (service, "dim"))
        line.append(f"  {counted(one['letters'], 'dead letter')}")
        if one["archived"]:
            line.append(f", {number(one['archived'])} archived")
        out.print(line, soft_wrap=True)
        if one["most_frequent_error"]:
            out.print(Text(f"    mostly {one['most_frequent_error']}", "red"), soft_wrap=True)
            out.print(Text(f"    oldest {_local(one['oldest'])}, newest {_local(one['newest'])}", "dim"))
    _print_more(out, len(found[:limit]), len(found))
    option = " --archived" if archived else ""
    first = next((one for one in found if one["archived" if archived else "letters"]), found[0])
    name = shlex.quote(one_line(first["queue"]))
    out.print(Text.assemble(("To look into one: ", "dim"), f"onward failed list{option} {name}"), soft_wrap=True)


def _local(at: str) -> str:
    return moment(datetime.fromisoformat(at).timestamp())


@failed.command()
@click.argument("queue", metavar="QUEUE|ROW")
@archived_option
@click.option(
    "--limit", type=Count(), default=INSPECTED, show_default=True, help="Show at most this many dead letters."
)
@json_option
def inspect(queue: str, archived: bool, limit: int, as_json: bool) -> None:
    """Show whole dead letters: the original event, its errors, the last traceback. Changes nothing.

    \b
    Examples:
      onward failed inspect 17
      onward failed inspect parsing.failed --limit 1
    """
    with open_store_app() as app:
        choice = select_dead_letters(app, queue, archived=archived)
        if choice.row is not None:
            letters = [dead_letter_at(app, choice.row, archived=True if archived else None)]
        else:
            letters = list(islice(choice.letters(), limit))
        if as_json:
            print_json([dead_letter_facts(one) for one in letters])
            return
        out = console()
        for letter in letters:
            print_dead_letter(out, letter)
        if not letters:
            out.print(
                Text(f"{one_line(choice.name)} {'has no archived dead letters' if archived else 'is empty'}.")
            )
        _print_more(out, len(letters), choice.total())


@failed.command()
@click.argument("queue", required=False, metavar="[QUEUE]")
@all_option
@dead_letter_filter_options
@archived_option
@output_option
def export(queue: str | None, everything: bool, archived: bool, output: Path | None, **filters: Any) -> None:
    """Write whole dead letters as JSON, one a line (NDJSON). Changes nothing.

    A file is there when it is complete, or not at all. `raw` are bytes that could not be read, in base64.

    \b
    Examples:
      onward failed export parsing.failed > letters.ndjson
      onward failed export --all --output letters.ndjson.gz
    """
    with open_store_app() as app:
        choice = select_dead_letters(app, queue, everything=everything, archived=archived, **filters)
        lines = (dead_letter_facts(letter) for letter in choice.letters())
        if output is None:
            write_lines(sys.stdout, lines)
            return
        with interruptible(), new_file(output) as file:
            count = write_lines(file, lines)
        click.echo(f"{counted(count, 'dead letter')} written to {one_line(str(output))}.", err=True)
