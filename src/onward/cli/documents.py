"""`onward documents`, `retry` and `cancel`: list, export, archive, discard, purge, retry or cancel documents."""

from __future__ import annotations

import heapq
import shlex
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from onward.cli.action_run import runs_action, write_export
from onward.cli.app_access import open_reading_app
from onward.cli.output import STATUS_STYLES, Output
from onward.cli.params import COUNT, SPAN, STATUS, TIME, all_of, filter_option, output_option, print_json
from onward.ops import lookup
from onward.ops.actions import documents as actions
from onward.ops.actions.cancel import CancelDocuments
from onward.ops.actions.document_retries import CancelScheduledRetry, RetryDocuments
from onward.ops.document_export import exported
from onward.ops.queries.document_details import TIMES, body_facts, state_facts
from onward.ops.queries.documents import (
    DocumentFilter,
    count_documents,
    select_documents,
    statuses_of,
)
from onward.ops.queries.titles import find_titles
from onward.ops.text.format import counted, number, one_line
from onward.recovery.next_step import describe_error

if TYPE_CHECKING:
    from pathlib import Path

    from onward import App, DocumentState
    from onward.ops.actions.action import Action

LISTED = 50
_TIMES_IN_BODIES = ("submitted_at", "seconds")
_list_options = all_of(
    click.option(
        "--status", type=STATUS, help="Only documents with this status; `failed` includes failed_max_retries."
    ),
    filter_option("--collection", "NAME", "Only documents of this collection: archives, messages, …"),
    filter_option("--source", "SOURCE", "Only documents of this source (its name, or the end of it)."),
    filter_option("--title", "WORDS", "Only documents with these words in their subject or path."),
    click.option("--limit", type=COUNT, help=f"The most documents to list; {LISTED} by default, all with --json."),
    click.option("--after", metavar="COLLECTION/ID", default="", help="Start after this document."),
    click.option("--json", "as_json", is_flag=True, help="Export as JSON, one document a line (NDJSON)."),
    click.option("--full", is_flag=True, help="With --json: also the body of each document."),
    click.option(
        "--without-times", is_flag=True, help="With --json: leave out times, which differ between two equal runs."
    ),
)
_filter_options = all_of(
    click.option(
        "--status",
        type=STATUS,
        help="Only documents with this status; `failed` includes those that failed in too many rounds.",
    ),
    filter_option("--collection", "NAME", "Only documents of this collection."),
    filter_option("--source", "SOURCE", "Only documents of this source; the end of its name is enough."),
    filter_option("--title", "WORDS", "Only documents with these words in their subject or path."),
    filter_option("--group", "FINGERPRINT", "Only documents of this failure group."),
    click.option(
        "--older-than",
        type=SPAN,
        metavar="SPAN",
        help="Only documents that have not changed for this long: 90s, 10m, 1h30m, 30d, 4w.",
    ),
)


@click.group(invoke_without_command=True)
@_list_options
@click.pass_context
def documents(ctx: click.Context, /, **options: Any) -> None:
    """List documents by collection and id; or export, archive, discard or purge them.

    --json exports them in that order, one JSON object a line. With --without-times the exports of two
    runs over the same source are the same, byte for byte.

    \b
    Examples:
      onward documents --status failed
      onward documents --title 'tide tables'
      onward documents --collection messages --source harbour-list.mbox --limit 20
      onward documents --json --full > everything.ndjson
      onward documents export --status failed --output failed.ndjson
      onward documents archive --status failed --older-than 30d --output failed.ndjson.gz
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, **options)
    elif any(options.values()):
        raise click.UsageError(f"give options after `{ctx.invoked_subcommand}`")


@documents.command("list")
@_list_options
def list_(
    status: str | None,
    collection: str | None,
    source: str | None,
    title: str | None,
    limit: int | None,
    after: str,
    as_json: bool,
    full: bool,
    without_times: bool,
) -> None:
    """List documents by collection and id, as `onward documents` does."""
    if (full or without_times) and not as_json:
        raise click.UsageError("--full and --without-times go with --json")
    with open_reading_app() as app:
        names = sorted(app.store.document_counts())
        if collection is not None:
            lookup.check_collection(app, collection)
        chosen = lookup.resolve_source(app, source) if source is not None else None
        first, slash, id = after.partition("/")
        if after and not slash:
            if collection is None:
                raise click.BadParameter(
                    f"{after!r} must be COLLECTION/ID, as it is listed, unless --collection is given",
                    param_hint="'--after'",
                )
            first, id = collection, after
        filters: dict[str, Any] = {"collection": collection, "source": chosen}
        statuses = statuses_of(status, (None,))
        pages: Iterable[Iterable[DocumentState]]
        pages = (lookup.all_states(app.store, (first, id), status=one, **filters) for one in statuses)
        if title is not None:
            titled = select_documents(app, DocumentFilter(title=title, **filters), statuses)
            pages = [sorted((one for one in titled if _place(one) > (first, id)), key=_place)]
        found = heapq.merge(*pages, key=_place)
        if as_json:
            for line in _lines(app, islice(found, limit), full=full, without_times=without_times):
                print_json(line, indent=None)
        elif not names:
            click.echo(lookup.EMPTY)
        else:
            shown = list(islice(found, (limit or LISTED) + 1))
            total = (
                None
                if after or title
                else count_documents(app, collection=collection, status=status, source=chosen)
            )
            _print(app, shown, limit or LISTED, total)


def _place(state: DocumentState) -> tuple[str, str]:
    return state.collection, state.id


def _lines(
    app: App, states: Iterator[DocumentState], *, full: bool, without_times: bool
) -> Iterator[dict[str, Any]]:
    for page in lookup.pages(states, lookup.PAGE):
        keys = [(state.collection, state.id) for state in page] if full else []
        bodies = dict(lookup.read_bodies(app.store, keys))
        for state in page:
            facts = state_facts(state)
            if (body := bodies.get((state.collection, state.id))) is not None:
                facts["body"] = body_facts(state.collection, body)
            if without_times:
                for name in TIMES:
                    del facts[name]
                for name in _TIMES_IN_BODIES:
                    facts.get("body", {}).pop(name, None)
            yield facts


def _print(app: App, found: list[DocumentState], limit: int, total: int | None) -> None:
    out = Output()
    shown = found[:limit]
    if not shown:
        out.write("No such documents.")
        return
    ids = lookup.short_ids(app, [state.id for state in shown])
    titles = find_titles(app, [(state.collection, state.id) for state in shown])
    width = max(8, *(len(state.collection) for state in shown))
    for state in shown:
        out.entry(
            (f"{ids[state.id]:8}", "green"),
            f"  {state.collection:{width}}  ",
            (f"{state.status:10}  ", STATUS_STYLES.get(state.status, "red")),
            one_line(titles.get((state.collection, state.id), ""), 100),
        )
        if (error := describe_error(state.last_error)) and state.status != "processed":
            out.write(f"          {one_line(error, 300)}", style="red")
    last = shown[-1]
    if len(found) > limit:
        more = "There are more:" if total is None else f"{number(limit)} of {number(total)} shown; to go on:"
        given = click.get_current_context().params
        names = [name for name in ("status", "collection", "source", "title", "limit") if given[name] is not None]
        options = "".join(f" --{name} {shlex.quote(one_line(str(given[name])))}" for name in names)
        out.write(more, style="dim")
        out.write(f"  onward documents{options} --after {last.collection}/{last.id}")
    else:
        out.write(f"{counted(len(shown), 'document')}.", style="dim")
    out.hint("To look at one: ", lookup.show_command(app, shown[0].collection, shown[0].id))


@documents.command()
@_filter_options
@output_option("A new file, packed if its name ends in .gz; standard output (-) by default.")
def export(output: Path | None, **given: Any) -> None:
    """Export documents with their bodies, states, errors and dead letters, one JSON object a line (NDJSON).

    \b
    Examples:
      onward documents export --status failed --output failed.ndjson
      onward documents export --collection messages --source harbour-list.mbox | wc -l
    """
    filters = DocumentFilter(**given)
    with open_reading_app() as app:
        states = select_documents(app, filters, statuses_of(filters.status, (None,)))
        count = write_export(exported(app, states), output)
    if count is not None:
        Output(stderr=True).write(f"{counted(count, 'document')} exported to {one_line(str(output))}")


@documents.command()
@_filter_options
@output_option("A new file, such as failed.ndjson.gz; packed if its name ends in .gz.", required=True)
@runs_action()
def archive(output: Path, **given: Any) -> Action:
    """Export documents that were given up to a file, then remove them with everything made from them.

    What was made from them is exported as well. Only documents that failed or were discarded are archived.
    To bring them back, ingest their source again. An archive with messages stays: see `onward forget`.

    \b
    Examples:
      onward documents archive --status failed --older-than 30d --output failed.ndjson.gz --dry-run
      onward documents archive --group 5d41402a --output group.ndjson
    """
    return actions.ArchiveDocuments(DocumentFilter(**given), output)


@documents.command()
@_filter_options
@runs_action(final=True)
def discard(**given: Any) -> Action:
    """Give documents up for good: they become discarded, and are kept.

    Without --status, documents that failed. `onward retry` still brings them back.

    \b
    Examples:
      onward documents discard --collection messages --status failed --dry-run
      onward documents discard --group 5d41402a --confirm
    """
    return actions.DiscardDocuments(DocumentFilter(**given))


@documents.command()
@_filter_options
@runs_action(final=True)
def purge(**given: Any) -> Action:
    """Remove documents for ever, with everything made from them.

    Without --status, only documents that failed or were discarded. `onward documents archive` keeps a copy.
    An archive with messages stays: `onward forget` removes a source with everything that came from it.

    \b
    Examples:
      onward documents purge --status discarded --dry-run
      onward documents purge --status discarded --older-than 30d --confirm
    """
    return actions.PurgeDocuments(DocumentFilter(**given))


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]…")
@click.option("--group", metavar="FINGERPRINT", help="All unfinished documents of this failure group.")
@click.option("--collection", metavar="NAME", help="What failed or is stuck of this collection.")
@click.option("--source", metavar="SOURCE", help="What failed or is stuck of this source; its end is enough.")
@click.option("--title", metavar="WORDS", help="What failed or is stuck with these words in its subject or path.")
@click.option("--status", type=STATUS, help="Documents with this status, instead of what failed or is stuck.")
@click.option("--at", type=TIME, metavar="WHEN", help="At this time: 18:30, tomorrow, 2026-03-09T14:30.")
@click.option("--in", "after", type=SPAN, metavar="SPAN", help="After this time: 90s, 10m, 2h, 1d.")
@click.option("--reset", is_flag=True, help="Begin with the first round, even what is processed or under way.")
@click.option("--priority", type=click.IntRange(-1000, 1000), help="The highest goes first; 0 is usual.")
@click.option("--cancel", is_flag=True, help="Take back the time that was set, as far as it has not come.")
@runs_action()
def retry(
    ids: tuple[str, ...],
    at: float | None,
    after: float | None,
    reset: bool,
    priority: int | None,
    cancel: bool,
    **given: Any,
) -> Action:
    """Try documents again: now, or at a time.

    Name them by their ids (the beginning of one is enough), or choose them by failure group, collection or
    source. Of a collection or source, what failed is meant, and what is pending with nothing under way;
    --status chooses others.

    \b
    Examples:
      onward retry a0e78889
      onward retry --group 5d41402a --at 18:30
      onward retry --collection chunks --status failed --in 10m --dry-run
      onward retry --source harbour-list.mbox --cancel
    """
    filters = DocumentFilter(**given)
    if not cancel:
        return RetryDocuments(ids, filters=filters, at=at, after=after, reset=reset, priority=priority)
    if at is not None or after is not None or reset or priority is not None:
        raise click.UsageError("--cancel goes without --at, --in, --reset and --priority")
    return CancelScheduledRetry(ids, filters=filters)


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="COLLECTION/ID…")
@runs_action()
def cancel(ids: tuple[str, ...]) -> Action:
    """Cancel documents that are not finished: they become discarded, and no try of them begins any more.

    The beginning of an id is enough. A handler that is running for one goes on, but nothing of it is committed.
    Other documents of the same event go on. `onward retry` brings a cancelled document back. The exit code is 0
    if all were cancelled, 3 if some were final already, 1 if all were.

    \b
    Examples:
      onward cancel messages/a0e78889
      onward cancel send_mail_calls/5f2c send_mail_calls/77b1 --dry-run
    """
    return CancelDocuments(ids)
