"""Dead letters on the command line: which ones somebody means, and how they are shown."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.text import Text

from onward.cli.choosing import Count, fingerprint_of, not_empty
from onward.cli.dates import Date
from onward.cli.opening import resolve
from onward.cli.output import counted, harmless, iso, moment, one_line, size
from onward.cli.show import made_visible
from onward.recovery.requeueing import LetterFilter
from onward.recovery.requeueing import letters as find_letters
from onward.retry.redact import redact

if TYPE_CHECKING:
    from rich.console import Console

    from onward import App
    from onward.model.ledger import DeadLetter

STRAY_QUEUE = "events.failed"
RAW_SHOWN = 2_000
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


@dataclass(frozen=True, slots=True)
class Choice:
    """The dead letters that a command is about."""

    app: App
    name: str
    wanted: tuple[LetterFilter, ...]
    limit: int | None
    about: dict[str, Any]
    """For the action log."""
    archived: bool = False
    row: int | None = None

    def of(self, count: int) -> str:
        """So many of these letters."""
        if self.row is not None:
            return f"Letter {self.row}" if count else "No letter"
        return f"{counted(count, 'letter')} of {self.name}"

    def total(self) -> int:
        """How many there are in the queue, whatever the other filters say."""
        if self.row is not None:
            return 1
        counts, state = self.app.store.counts(), "archived" if self.archived else "dead"
        services = {one.service for one in self.wanted}
        return sum(one.get(state, 0) for name, one in counts.items() if services == {None} or name in services)

    def letters(self) -> Iterator[DeadLetter]:
        if self.row is not None:
            return iter([letter_at(self.app, self.row, archived=self.archived)])
        each = (find_letters(self.app.store, one, archived=self.archived) for one in self.wanted)
        return islice(chain.from_iterable(each), self.limit)


def choose(
    app: App,
    queue: str | None,
    *,
    everything: bool = False,
    archived: bool = False,
    group: str | None = None,
    error_type: str | None = None,
    since: float | None = None,
    document: str | None = None,
    limit: int | None = None,
) -> Choice:
    """The letters of a queue (or service, or one by its number), or of all, that match."""
    if everything == (queue is not None):
        remedy = (
            f"give a failed queue, or --all.\n{_listed(app)}"
            if queue is None
            else "give a queue or --all, not both"
        )
        raise click.UsageError(remedy)
    about = {
        "queue": queue,
        "all": everything,
        "archived": archived,
        "group": group,
        "error_type": error_type,
        "since": iso(since),
        "document": document,
        "limit": limit,
    }
    known = queues(app)
    services: list[str] = []
    if queue is not None:
        services = known.get(queue) or [one for many in known.values() for one in many if one and one == queue]
        if not services and queue.isdecimal() and queue.isascii():
            given = (group, error_type, since, document, limit)
            if any(one is not None for one in given):
                raise click.UsageError(f"{queue} is one letter; --group, --since, … choose among those of a queue")
            return Choice(app, f"letter {queue}", (), None, about, archived, int(queue))
        if not services:
            raise click.UsageError(f"there is no failed queue {one_line(queue)!r}.\n{_listed(app)}")
    if error_type is not None:
        _check_error_type(app, error_type, archived)
    wanted = LetterFilter(
        fingerprint=_fingerprint(app, group, archived) if group is not None else None,
        error_type=error_type,
        since=since,
        document=_document(app, document) if document is not None else None,
        limit=limit,
    )
    filters = tuple(replace(wanted, service=one) for one in services) or (wanted,)
    name = (
        "all failed queues" if queue is None else next(one for one, many in known.items() if services[0] in many)
    )
    return Choice(app, name, filters, limit, about, archived)


def queues(app: App) -> dict[str, list[str]]:
    """Every failed queue, with the services whose letters it holds (an empty name: of none)."""
    found: dict[str, list[str]] = {}
    for one in sorted(app.store.subscriptions(), key=lambda one: one.service):
        found.setdefault(one.failed_queue or f"{one.service}.failed", []).append(one.service)
    known = {service for many in found.values() for service in many}
    for service, states in sorted(app.store.counts().items()):
        if service not in known and (states.get("dead") or states.get("archived")):
            found.setdefault(f"{service}.failed" if service else STRAY_QUEUE, []).append(service)
    return found


def _listed(app: App) -> str:
    names = "\n".join(f"  {one_line(name)}" for name in queues(app))
    return (
        f"There are:\n{names}" if names else "There are none: no service has subscribed, and nothing has failed."
    )


def _fingerprint(app: App, given: str, archived: bool) -> str:
    given = given.strip()
    if app.store.find_dead_letters(fingerprint=given, archived=archived, limit=1):
        return given
    return fingerprint_of(app, given)


def _check_error_type(app: App, given: str, archived: bool) -> None:
    """Refuse an error type that nothing has ever failed with: it is likely misspelt.

    One whose letters have all gone back is none: whoever repeats a command finds nothing left to do.
    """
    if app.store.find_dead_letters(error_type=given, archived=archived, limit=1):
        return
    groups = app.store.letter_groups(archived=archived)
    known = {letter_at(app, one.example, archived=archived).error_type for one in groups} - {""}
    if known and given not in {one.error_type for one in app.store.failure_groups()}:
        there = ", ".join(one_line(one) for one in sorted(known))
        what = "archived letter" if archived else "letter"
        raise click.UsageError(f"no {what} has the error type {one_line(given)!r}; there are: {there}")


def _document(app: App, given: str) -> tuple[str, str]:
    """A document that may not have come yet: COLLECTION/ID is taken as it is."""
    collection, slash, id = given.strip().partition("/")
    finished = {one.finishes for one in app.store.subscriptions()}
    if slash and (collection in finished or collection in app.store.document_counts()):
        return collection, id
    return resolve(app, given)


def letter_at(app: App, row: int, *, archived: bool | None = None) -> DeadLetter:
    """The dead letter of this number; None: archived or not."""
    for one in (False, True):
        found = app.store.find_dead_letters(after=row - 1, archived=one, limit=1) if row < 2**63 else []
        if found and found[0].row == row:
            if archived in (None, one):
                return found[0]
            there = "is archived; `onward failed archive --restore` brings it back" if one else "is not archived"
            raise click.UsageError(f"letter {row} {there}")
    raise click.UsageError(f"there is no dead letter {row}; see `onward failed list`")


# -- for programs


def letter_facts(letter: DeadLetter) -> dict[str, Any]:
    """A whole dead letter."""
    return {
        "row": letter.row,
        "failed_queue": letter.failed_queue,
        "original_event": letter.original_event | {"timestamp": iso(letter.original_event["timestamp"])},
        "idempotency_key": letter.idempotency_key,
        "attempt_count": letter.attempt_count,
        "last_error": redact(letter.last_error),
        "error_type": letter.error_type,
        "abandoned_reason": letter.abandoned_reason,
        "service_name": letter.service_name,
        "timestamp": iso(letter.timestamp),
        "errors": [_error_facts(one) for one in letter.errors],
        "fingerprint": letter.fingerprint,
        "deaths": letter.deaths,
        "round": letter.round,
        "documents": [{"collection": collection, "id": id} for collection, id in letter.documents],
        "raw": base64.b64encode(letter.raw).decode() if letter.raw is not None else None,
    }


def _error_facts(error: dict[str, Any]) -> dict[str, Any]:
    told = {name: redact(value) if isinstance(value, str) else value for name, value in error.items()}
    return told | {"at": iso(error.get("at"))}


def brief_facts(letter: DeadLetter) -> dict[str, Any]:
    """What one line of a list tells."""
    whole = letter_facts(letter)
    names = ("row", "failed_queue", "service_name", "timestamp", "documents", "attempt_count", "round")
    return {name: whole[name] for name in (*names, "abandoned_reason", "error_type", "last_error", "fingerprint")}


# -- for people


def error_line(letter: DeadLetter, most: int = 200) -> str:
    return one_line(redact(f"{letter.error_type}: {letter.last_error}".strip(": ")), most) or "no error is known"


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
