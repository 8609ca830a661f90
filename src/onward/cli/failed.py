"""`onward failed`: look into failed queues, and put back, put away or remove what is in them."""

from __future__ import annotations

import shlex
import sys
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.actions import interruptible
from onward.cli.choosing import Count
from onward.cli.exporting import new_file, output_option, write_lines
from onward.cli.letters import all_option, archived_option, filter_options, letter_line, print_letter
from onward.cli.opening import reading
from onward.cli.output import console, json_option, print_entry, print_json
from onward.cli.removing import archive, purge
from onward.cli.requeueing import requeue
from onward.facts.letters import brief_facts, choose, letter_at, letter_facts, queue_facts, queues
from onward.facts.wording import counted, moment, number, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console


LISTED = 50
INSPECTED = 5


@click.group()
def failed() -> None:
    """Look into failed queues, and put back, put away or remove what is in them.

    A failed queue holds the dead letters of a service: events that were given up for now. QUEUE is its
    name or the service's, or the number of one letter.
    """


for command in (requeue, purge, archive):
    failed.add_command(command)


@failed.command("list")
@click.argument("queue", required=False)
@archived_option
@click.option("--limit", type=Count(), help=f"At most so many; {LISTED} by default, all with --json.")
@json_option
def list_(queue: str | None, archived: bool, limit: int | None, as_json: bool) -> None:
    """List failed queues, or the letters in one, the oldest first.

    \b
    Examples:
      onward failed list
      onward failed list parsing.failed
      onward failed list --archived --json
    """
    with reading() as app:
        if queue is None:
            found = [queue_facts(app, name, services, archived) for name, services in queues(app).items()]
            shown = [one for one in found if one["archived"] or (one["letters"] and not archived)]
            print_json(shown[:limit]) if as_json else _print_queues(shown, archived, limit or len(shown))
            return
        choice = choose(app, queue, archived=archived)
        if as_json:
            print_json([brief_facts(one) for one in islice(choice.letters(), limit)])
            return
        letters = list(islice(choice.letters(), limit or LISTED))
        out = console()
        for letter in letters:
            print_entry(out, letter_line(letter))
        if not letters:
            out.print(Text(f"{one_line(choice.name)} {'has no archived letters' if archived else 'is empty'}."))
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
        line.append(f"  {counted(one['letters'], 'letter')}")
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
@click.option("--limit", type=Count(), default=INSPECTED, show_default=True, help="At most so many letters.")
@json_option
def inspect(queue: str, archived: bool, limit: int, as_json: bool) -> None:
    """Show whole letters: the original event, its errors, the last traceback. Changes nothing.

    \b
    Examples:
      onward failed inspect 17
      onward failed inspect parsing.failed --limit 1
    """
    with reading() as app:
        choice = choose(app, queue, archived=archived)
        if choice.row is not None:
            letters = [letter_at(app, choice.row, archived=True if archived else None)]
        else:
            letters = list(islice(choice.letters(), limit))
        if as_json:
            print_json([letter_facts(one) for one in letters])
            return
        out = console()
        for letter in letters:
            print_letter(out, letter)
        if not letters:
            out.print(Text(f"{one_line(choice.name)} {'has no archived letters' if archived else 'is empty'}."))
        _print_more(out, len(letters), choice.total())


@failed.command()
@click.argument("queue", required=False, metavar="[QUEUE]")
@all_option
@filter_options
@archived_option
@output_option
def export(queue: str | None, everything: bool, archived: bool, output: Path | None, **filters: Any) -> None:
    """Write whole letters as JSON, one a line (NDJSON). Changes nothing.

    A file is there when it is complete, or not at all. `raw` are bytes that could not be read, in base64.

    \b
    Examples:
      onward failed export parsing.failed > letters.ndjson
      onward failed export --all --output letters.ndjson.gz
    """
    with reading() as app:
        choice = choose(app, queue, everything=everything, archived=archived, **filters)
        lines = (letter_facts(one) for one in choice.letters())
        if output is None:
            write_lines(sys.stdout, lines)
            return
        with interruptible(), new_file(output) as file:
            count = write_lines(file, lines)
        click.echo(f"{counted(count, 'letter')} written to {one_line(str(output))}.", err=True)
