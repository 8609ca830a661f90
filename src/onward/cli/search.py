"""`onward search`: find messages by words and by meaning."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click
from rich.text import Text

from onward.cli.app_access import open_store_app
from onward.cli.params import Date, json_option
from onward.cli.render.output import console, marked, print_json
from onward.ops.lookup import EMPTY, resolve, resolve_source, short_ids, show_command
from onward.ops.queries.threads import search_facts
from onward.ops.text.format import counted, moment, number, one_line, printable, source_name
from onward.retry.redact import redact

if TYPE_CHECKING:
    from rich.console import Console

    from onward import App
    from onward.pipeline.search import Hit, Query, Results

EXCERPT = 280


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="WORDS…")
@click.option("--source", metavar="SOURCE", help="Only messages of this source (its name, or the end of it).")
@click.option("--author", metavar="NAME", help="Only messages of authors whose name or address contains this.")
@click.option("--since", type=Date(), metavar="DATE", help="Only messages from this date on.")
@click.option("--until", type=Date(), metavar="DATE", help="Only messages before this date.")
@click.option("--thread", metavar="ID", help="Only messages of this thread (its id, or the start of it).")
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="Results a page.")
@click.option("--page", type=click.IntRange(1), default=1, show_default=True, help="Which page.")
@json_option
def search(
    words: tuple[str, ...],
    source: str | None,
    author: str | None,
    since: float | None,
    until: float | None,
    thread: str | None,
    limit: int,
    page: int,
    as_json: bool,
) -> None:
    """Find messages, best first.

    Any of the words counts, all of them count more. "Words in quotes" must stand together, and what
    comes after -- or in quotes may begin with a minus: such words must not be there.

    \b
    DATE is 2026-03-09, 2026-03, 2026, 2026-03-09T14:30, today or yesterday.

    \b
    Examples:
      onward search why did the tide gauge drift
      onward search '"vent tube" -storm' --author jörg --since 2026-03
      onward search boathouse key --source harbour-list.mbox --page 2
    """
    from onward.pipeline.search import Query
    from onward.pipeline.search import search as find

    with open_store_app() as app:
        sources = app.store.sources()
        query = Query(
            printable(" ".join(words)),
            source=resolve_source(app, source) if source and sources else None,
            author=printable(author) if author else None,
            thread=resolve(app, thread, ("threads", "summaries"))[1] if thread else None,
            since=since,
            until=until,
        )
        found = find(app, query, limit=limit, offset=(page - 1) * limit)
        if found.note:
            click.echo(f"Warning: {one_line(redact(found.note), 400)}", err=True)
        if as_json:
            print_json(search_facts(query, found, page))
        elif not sources:
            click.echo(EMPTY)
        else:
            _print(app, query, found, page=page, limit=limit)


def _print(app: App, query: Query, found: Results, *, page: int, limit: int) -> None:
    out = console()
    if not found.hits:
        _say_nothing(out, query, found, page)
        return
    ids = short_ids(app, [hit.message.id for hit in found.hits])
    several = len(app.store.sources()) > 1
    for rank, hit in enumerate(found.hits, found.offset + 1):
        _print_hit(out, rank, hit, ids[hit.message.id], several=several)
    last = found.offset + len(found.hits)
    if found.total == 1:
        out.print(Text("1 message.", "dim"))
    else:
        span = f"{number(found.offset + 1)} to {number(last)} of {counted(found.total, 'message')}."
        out.print(Text(span, "dim"))
    out.print(Text.assemble(("To read one:   ", "dim"), show_command(app, "messages", found.hits[0].message.id)))
    if last < found.total:
        out.print(Text.assemble(("The next page: ", "dim"), _again(page + 1)), soft_wrap=True)


def _print_hit(out: Console, rank: int, hit: Hit, id: str, *, several: bool) -> None:
    message = hit.message
    title = marked(hit.title if hit.title.strip() else "(no subject)", out)
    title.stylize("bold")
    out.print(Text.assemble((f"{rank:>3}  ", "cyan"), title), soft_wrap=True)
    about = [part for part in (one_line(message.author, 60), moment(message.date)) if part]
    if several:
        about.append(one_line(source_name(message.source).rstrip("/").rsplit("/", 1)[-1], 40))
    out.print(Text.assemble("     ", (id, "green"), ("  " + " · ".join(about), "dim")), soft_wrap=True)
    excerpt = marked(hit.excerpt, out)
    if len(excerpt) > EXCERPT:
        excerpt.truncate(EXCERPT, overflow="ellipsis")
    width = max(20, min(out.width, 110) - 5)
    for line in excerpt.wrap(out, width):
        line.rstrip()
        out.print(Text.assemble("     ", line), soft_wrap=True)
    out.print()


def _say_nothing(out: Console, query: Query, found: Results, page: int) -> None:
    if found.total:
        pages = f"{counted(found.total, 'message')} match, but page {page} is behind the last of them."
        out.print(Text(pages))
        return
    out.print(Text(f"Nothing found for {one_line(query.text)!r}."), soft_wrap=True)
    limits = [
        name
        for name, value in (
            ("--source", query.source),
            ("--author", query.author),
            ("--since", query.since),
            ("--until", query.until),
            ("--thread", query.thread),
        )
        if value is not None
    ]
    advice = f"without {', '.join(limits)}, or " if limits else ""
    out.print(Text(f"Try {advice}with other or fewer words.", "dim"))


def _again(page: int) -> str:
    """Return the command that shows another page of the same search."""
    given = click.get_current_context().params
    parts = ["onward search", *(shlex.quote(one_line(word)) for word in given["words"])]
    texts = [name for name in ("source", "author", "thread") if given[name] is not None]
    parts += [f"--{name} {shlex.quote(one_line(given[name]))}" for name in texts]
    dates = [name for name in ("since", "until") if given[name] is not None]
    parts += [f"--{name} {moment(given[name]).replace(' ', 'T')}" for name in dates]
    if given["limit"] != 10:
        parts.append(f"--limit {given['limit']}")
    return " ".join([*parts, f"--page {page}"])
