"""`onward failed`: look into failed queues, and put back, put away or remove what is in them."""

from __future__ import annotations

import json
import shlex
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from onward.cli.action_run import runs_action, write_export
from onward.cli.app_access import open_reading_app
from onward.cli.output import Output
from onward.cli.params import (
    COUNT,
    DATE,
    all_of,
    canary_option,
    event_classes_of,
    events_option,
    filter_option,
    json_option,
    output_option,
    print_json,
    rate_option,
)
from onward.ops.actions import dead_letters as actions
from onward.ops.queries import dead_letters as queries
from onward.ops.text.format import counted, harmless, moment, number, one_line, size
from onward.ops.text.history import MAX_SHOWN_BYTES, error_text, last_error_text, raw_text, reason_text, tries_text
from onward.retry.iso_time import read_time
from onward.retry.redact import redact

if TYPE_CHECKING:
    from pathlib import Path

    from onward.model.ledger import DeadLetter
    from onward.ops.actions.action import Action

LISTED = 50
_archived_option = click.option("--archived", is_flag=True, help="Archived dead letters instead.")
_selection_options = all_of(
    click.argument("queue", required=False, metavar="[QUEUE]"),
    click.option("--all", "everything", is_flag=True, help="All failed queues."),
    filter_option("--group", "FINGERPRINT", "Only dead letters of this failure group."),
    filter_option("--error-type", "TYPE", "Only dead letters whose last error is of this type."),
    click.option(
        "--since",
        type=DATE,
        metavar="WHEN",
        help="Only dead letters since then: 2h (ago), 14:30, yesterday, 2026-03-09.",
    ),
    filter_option("--document", "ID", "Only dead letters about this document (COLLECTION/ID)."),
    click.option("--limit", type=COUNT, help="At most this many, the oldest first."),
)


@click.group()
def failed() -> None:
    """Look into failed queues, and put back, put away or remove what is in them.

    A failed queue holds the dead letters of a service: events that were given up for now. QUEUE is its
    name or the service's, or the number of one dead letter.
    """


@failed.command("list")
@click.argument("queue", required=False)
@_archived_option
@click.option("--limit", type=COUNT, help=f"At most this many; {LISTED} by default, all with --json.")
@json_option
def list_(queue: str | None, archived: bool, limit: int | None, as_json: bool) -> None:
    """List failed queues, or the dead letters in one, the oldest first.

    \b
    Examples:
      onward failed list
      onward failed list parsing.failed
      onward failed list --archived --json
    """
    with open_reading_app() as app:
        if queue is None:
            found = queries.failed_queue_facts(app, archived=archived)
            shown = [one for one in found if one["archived"] or (one["dead_letters"] and not archived)]
            print_json(shown[:limit]) if as_json else _print_queues(shown, archived, limit or len(shown))
            return
        choice = queries.DeadLetterSelection(queue).find(app, archived=archived)
        if as_json:
            print_json([queries.dead_letter_brief(one) for one in islice(choice.letters(), limit)])
            return
        out = Output()
        dead_letters = list(islice(choice.letters(), limit or LISTED))
        for dead_letter in dead_letters:
            named = ", ".join(one_line(f"{collection}/{id}", 60) for collection, id in dead_letter.documents[:1])
            more = len(dead_letter.documents) - 1
            documents = f"{named} and {more} more" if more > 0 else named or "no document"
            out.entry(
                (f"{dead_letter.row:>7}", "green"),
                f"  {moment(dead_letter.timestamp)}  {documents}  ",
                (f"{tries_text(dead_letter)}, {dead_letter.abandoned_reason}  ", "dim"),
                (last_error_text(dead_letter), "red"),
            )
        _print_rest(out, choice, len(dead_letters), archived)
        if dead_letters:
            out.hint("To look at one: ", f"onward failed inspect {dead_letters[0].row}")


def _print_rest(out: Output, choice: queries.ChosenDeadLetters, shown: int, archived: bool) -> None:
    if not shown:
        out.write(f"{one_line(choice.name)} {'has no archived dead letters' if archived else 'is empty'}.")
    _print_more(out, shown, choice.total())


def _print_more(out: Output, shown: int, total: int) -> None:
    if shown < total:
        out.write(f"{number(shown)} of {number(total)} shown; --limit {total} shows more.", style="dim")


def _print_queues(found: list[dict[str, Any]], archived: bool, limit: int) -> None:
    out = Output()
    if not found:
        out.write(f"No failed queue has {'an archived' if archived else 'a'} dead letter.", style="green")
        return
    for one in found[:limit]:
        service = f"  ({one_line(one['service'])})" if one["service"] else ""
        also = f", {number(one['archived'])} archived" if one["archived"] else ""
        letters = f"  {counted(one['dead_letters'], 'dead letter')}{also}"
        out.write((one_line(one["queue"]), "bold"), (service, "dim"), letters)
        if one["most_frequent_error"]:
            oldest, newest = (
                moment(datetime.fromisoformat(one[name]).timestamp()) for name in ("oldest", "newest")
            )
            out.write(f"    mostly {one['most_frequent_error']}", style="red")
            out.write(f"    oldest {oldest}, newest {newest}", style="dim")
    _print_more(out, len(found[:limit]), len(found))
    option = " --archived" if archived else ""
    first = next((one for one in found if one["archived" if archived else "dead_letters"]), found[0])
    out.write(("To look into one: ", "dim"), f"onward failed list{option} {shlex.quote(one_line(first['queue']))}")


@failed.command()
@click.argument("queue", metavar="QUEUE|ROW")
@_archived_option
@click.option("--limit", type=COUNT, default=5, show_default=True, help="Show at most this many dead letters.")
@json_option
def inspect(queue: str, archived: bool, limit: int, as_json: bool) -> None:
    """Show whole dead letters: the original event, its errors, the last traceback. Changes nothing.

    \b
    Examples:
      onward failed inspect 17
      onward failed inspect parsing.failed --limit 1
    """
    with open_reading_app() as app:
        choice = queries.DeadLetterSelection(queue).find(app, archived=archived)
        if choice.row is not None:
            dead_letters = [queries.dead_letter_at(app, choice.row, archived=True if archived else None)]
        else:
            dead_letters = list(islice(choice.letters(), limit))
        if as_json:
            print_json([queries.dead_letter_facts(one) for one in dead_letters])
            return
        out = Output()
        for dead_letter in dead_letters:
            _print_dead_letter(out, dead_letter)
        _print_rest(out, choice, len(dead_letters), archived)


def _print_dead_letter(out: Output, dead_letter: DeadLetter) -> None:
    facts = queries.dead_letter_facts(dead_letter)
    event = facts["original_event"]
    about = "" if dead_letter.unread or event is None else f"{event['event_type']} {event['event_id']}"
    out.write(f"Dead letter {dead_letter.row} in {one_line(dead_letter.failed_queue)}", style="bold")
    for name, value in (
        ("given up", f"{moment(dead_letter.timestamp)}, {reason_text(dead_letter)}"),
        ("deaths", f"{dead_letter.deaths or ''}"),
        ("event", about and f"{about} of {moment(read_time(event['timestamp']))}"),
        ("documents", ", ".join(f"{collection}/{id}" for collection, id in dead_letter.documents)),
        ("group", dead_letter.fingerprint),
        ("key", dead_letter.idempotency_key),
    ):
        if value:
            out.write((f"  {name:10}", "dim"), one_line(value))
    shown = event if dead_letter.unread else event["data"]
    if shown is not None:
        out.write(_indented(json.dumps(shown, ensure_ascii=False, indent=2)))
    for error in dead_letter.errors:
        where = " ".join(one_line(str(error[name])) for name in ("worker", "version") if error.get(name))
        at, text = moment(error.get("at")), one_line(error_text(error), 1_000)
        out.write((f"  {at:18}", "dim"), (text, "red"), (f"  {where}".rstrip(), "dim"))
    if dead_letter.errors and (trace := dead_letter.errors[-1].get("traceback")):
        out.write(_indented(redact(str(trace)).rstrip()), style="dim")
    if (raw := dead_letter.raw) is not None:
        cut = f", of which the first {counted(MAX_SHOWN_BYTES, 'byte')}" if len(raw) > MAX_SHOWN_BYTES else ""
        out.write(f"  raw, {size(len(raw))}{cut}:", style="dim")
        out.write(_indented(raw_text(raw)))
    if facts["properties"]:
        out.write("  properties:", style="dim")
        out.write(_indented(json.dumps(facts["properties"], ensure_ascii=False, indent=2)))
    out.print()


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in harmless(text).split("\n"))


@failed.command()
@_selection_options
@_archived_option
@output_option("A new file, packed if its name ends in .gz; standard output (-) by default.")
def export(queue: str | None, archived: bool, output: Path | None, **filters: Any) -> None:
    """Write whole dead letters as JSON, one a line (NDJSON). Changes nothing.

    A file is there when it is complete, or not at all. `raw` are bytes that could not be read, in base64.

    \b
    Examples:
      onward failed export parsing.failed > letters.ndjson
      onward failed export --all --output letters.ndjson.gz
    """
    with open_reading_app() as app:
        choice = queries.DeadLetterSelection(queue, **filters).find(app, archived=archived)
        count = write_export((queries.dead_letter_facts(one) for one in choice.letters()), output)
    if count is not None:
        click.echo(f"{counted(count, 'dead letter')} written to {one_line(str(output))}.", err=True)


@failed.command()
@_selection_options
@rate_option
@canary_option
@events_option
@runs_action()
def requeue(rate: float | None, canary: int | None, reference: str | None, **given: Any) -> Action:
    """Put dead letters back: each original event is tried again, in a new round of its documents.

    What was put back is out of the queue, so that the same command goes on where it was stopped. What
    has recovered meanwhile is skipped. Bytes that could not be read as an event are read again; what still
    cannot be read stays, with the new error.

    \b
    Examples:
      onward failed requeue parsing.failed --dry-run
      onward failed requeue embedding.generation.failed --rate 5 --canary 3
      onward failed requeue --all --error-type TimeoutError --since yesterday
      onward failed requeue events.failed --app shop.orders:app
    """
    selection = queries.DeadLetterSelection(**given)
    return actions.RequeueDeadLetters(selection, canary=canary or 0, rate=rate, events=event_classes_of(reference))


@failed.command()
@_selection_options
@_archived_option
@click.option("--recovered", is_flag=True, help="Only dead letters about nothing that is still unfinished.")
@runs_action(final=True)
def purge(archived: bool, recovered: bool, **given: Any) -> Action:
    """Remove dead letters for ever. Their documents do not change; export first what may be wanted.

    \b
    Examples:
      onward failed purge parsing.failed --dry-run
      onward failed purge --all --archived --confirm
    """
    return actions.PurgeDeadLetters(queries.DeadLetterSelection(**given), archived=archived, recovered=recovered)


@failed.command()
@_selection_options
@click.option("--restore", is_flag=True, help="Bring archived dead letters back to their queue.")
@runs_action()
def archive(restore: bool, **given: Any) -> Action:
    """Archive dead letters: they are kept, but counted and shown no more, except with --archived.

    \b
    Examples:
      onward failed archive parsing.failed --error-type UnreadableMail
      onward failed archive parsing.failed --restore
    """
    kind = actions.RestoreDeadLetters if restore else actions.ArchiveDeadLetters
    return kind(queries.DeadLetterSelection(**given))
