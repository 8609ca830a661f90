"""`onward documents`: list, export, archive, discard or purge documents."""

from __future__ import annotations

import heapq
import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.text import Text

from onward.cli.app_access import open_store_app
from onward.cli.document_actions import archive, discard, export, purge
from onward.cli.params import Count, not_empty
from onward.cli.render.output import console, print_entry, print_json
from onward.model.documents import Status
from onward.ops.lookup import EMPTY, check_collection, resolve_source, short_ids, show_command
from onward.ops.queries.document_details import state_facts
from onward.ops.queries.documents import count_documents, find_titles
from onward.ops.text.format import counted, number, one_line
from onward.recovery.next_step import describe_error

if TYPE_CHECKING:
    from onward import App, DocumentState

PAGE = 500
LISTED = 50
_TIMES_IN_BODIES = ("submitted_at", "seconds")
_STYLES = {"processed": "green", "pending": "yellow", "discarded": "dim"}


Command = TypeVar("Command", bound=Callable[..., Any])


def _list_options(command: Command) -> Command:
    """Add the options of `onward documents`, with or without `list`."""
    for option in reversed(
        (
            click.option(
                "--status",
                type=click.Choice([status.value for status in Status]),
                help="Only documents with this status; `failed` includes failed_max_retries.",
            ),
            click.option(
                "--collection",
                metavar="NAME",
                callback=not_empty,
                help="Only documents of this collection: archives, messages, …",
            ),
            click.option(
                "--source",
                metavar="SOURCE",
                callback=not_empty,
                help="Only documents of this source (its name, or the end of it).",
            ),
            click.option(
                "--limit", type=Count(), help=f"The most documents to list; {LISTED} by default, all with --json."
            ),
            click.option("--after", metavar="COLLECTION/ID", default="", help="Start after this document."),
            click.option("--json", "as_json", is_flag=True, help="Export as JSON, one document a line (NDJSON)."),
            click.option("--full", is_flag=True, help="With --json: also the body of each document."),
            click.option(
                "--without-times",
                is_flag=True,
                help="With --json: leave out times, which differ between two equal runs.",
            ),
        )
    ):
        command = option(command)
    return command


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
      onward documents --collection messages --source harbour-list.mbox --limit 20
      onward documents --json --full > everything.ndjson
      onward documents export --status failed --output failed.ndjson
      onward documents archive --status failed --older-than 30d --output failed.ndjson.gz
    """
    if ctx.invoked_subcommand is None:
        _list(**options)
    elif any(options.values()):
        raise click.UsageError(f"give options after `{ctx.invoked_subcommand}`")


@documents.command("list")
@_list_options
def list_(**options: Any) -> None:
    """List documents by collection and id, as `onward documents` does."""
    _list(**options)


for _command in (export, archive, discard, purge):
    documents.add_command(_command)


def _list(
    *,
    status: str | None,
    collection: str | None,
    source: str | None,
    limit: int | None,
    after: str,
    as_json: bool,
    full: bool,
    without_times: bool,
) -> None:
    if (full or without_times) and not as_json:
        raise click.UsageError("--full and --without-times go with --json")
    with open_store_app() as app:
        names = sorted(app.store.document_counts())
        if collection is not None:
            check_collection(app, collection)
        chosen = resolve_source(app, source) if source is not None else None
        start = _start(after, collection)
        found = _states(app, [collection] if collection else names, status=status, source=chosen, start=start)
        if as_json:
            for line in _exported(app, islice(found, limit), full=full, without_times=without_times):
                print_json(line, indent=None)
            return
        if not names:
            click.echo(EMPTY)
            return
        shown = list(islice(found, (limit or LISTED) + 1))
        total = None if after else count_documents(app, collection=collection, status=status, source=chosen)
        _print(app, shown, limit or LISTED, total)


def _start(after: str, collection: str | None) -> tuple[str, str]:
    name, slash, id = after.partition("/")
    if after and not slash:
        if collection is None:
            raise click.BadParameter(
                f"{after!r} must be COLLECTION/ID, as it is listed, unless --collection is given",
                param_hint="'--after'",
            )
        return collection, after
    return name, id


def _states(
    app: App, names: Sequence[str], *, status: str | None, source: str | None, start: tuple[str, str]
) -> Iterator[DocumentState]:
    for name in names:
        if name < start[0]:
            continue
        after = start[1] if name == start[0] else ""
        statuses = [status, Status.FAILED_MAX_RETRIES.value] if status == Status.FAILED else [status]
        pages = (_pages(app, name, wanted, source, after) for wanted in statuses)
        yield from heapq.merge(*pages, key=lambda state: state.id)


def _pages(
    app: App, collection: str, status: str | None, source: str | None, after: str
) -> Iterator[DocumentState]:
    while found := app.store.states(collection, status=status, source=source, after=after, limit=PAGE):
        after = found[-1].id
        yield from found


def _exported(
    app: App, states: Iterator[DocumentState], *, full: bool, without_times: bool
) -> Iterator[dict[str, Any]]:
    while page := list(islice(states, PAGE)):
        bodies: dict[tuple[str, str], str] = {}
        if full:
            for name in {state.collection for state in page}:
                ids = [state.id for state in page if state.collection == name]
                bodies |= {(name, id): body for id, _, body in app.store.read_bodies(name, ids)}
        for state in page:
            facts = state_facts(state)
            if full and (text := bodies.get((state.collection, state.id))) is not None:
                facts["body"] = json.loads(text)
            if without_times:
                del facts["times"]
                for name in _TIMES_IN_BODIES:
                    facts.get("body", {}).pop(name, None)
            yield facts


def _print(app: App, found: list[DocumentState], limit: int, total: int | None) -> None:
    out = console()
    shown = found[:limit]
    if not shown:
        out.print(Text("No such documents."))
        return
    ids = short_ids(app, [state.id for state in shown])
    titles = find_titles(app, shown)
    for state in shown:
        style = _STYLES.get(state.status, "red")
        title = one_line(titles.get((state.collection, state.id), ""), 100)
        about = Text.assemble(
            (f"{ids[state.id]:8}", "green"), f"  {state.collection:10}", (f"{state.status:10}  ", style)
        )
        print_entry(out, Text.assemble(about, title))
        if (error := describe_error(state.last_error)) and state.status != "processed":
            out.print(Text(f"          {one_line(error, 300)}", "red"), soft_wrap=True)
    if len(found) > limit:
        more = "There are more:" if total is None else f"{number(limit)} of {number(total)} shown; to go on:"
        out.print(Text(more, "dim"))
        out.print(Text(f"  {_again(shown[-1])}"), soft_wrap=True)
    else:
        out.print(Text(f"{counted(len(shown), 'document')}.", "dim"))
    out.print(Text.assemble(("To look at one: ", "dim"), show_command(app, shown[0].collection, shown[0].id)))


def _again(last: DocumentState) -> str:
    given = click.get_current_context().params
    parts = ["onward documents"]
    names = [name for name in ("status", "collection", "source", "limit") if given[name] is not None]
    parts += [f"--{name} {shlex.quote(one_line(str(given[name])))}" for name in names]
    return " ".join([*parts, f"--after {last.collection}/{last.id}"])
