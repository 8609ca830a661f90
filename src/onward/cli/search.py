"""`onward search` and `onward summaries`: find messages by words and by meaning, and what threads are about."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.app_access import open_store_app
from onward.cli.output import Output, marked
from onward.cli.params import DATE, json_option, print_json
from onward.ops.bad_input import NotFound
from onward.ops.lookup import EMPTY, resolve, resolve_source, short_ids, show_command
from onward.ops.queries.threads import first_lines, read_summaries, search_facts, summary_facts
from onward.ops.text.format import counted, moment, number, one_line, printable, source_name
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App
    from onward.pipeline.search import Results

EXCERPT = 280
PAGE = 10


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="WORDS…")
@click.option("--source", metavar="SOURCE", help="Only messages of this source (its name, or the end of it).")
@click.option("--author", metavar="NAME", help="Only messages of authors whose name or address contains this.")
@click.option("--since", type=DATE, metavar="DATE", help="Only messages from this date on.")
@click.option("--until", type=DATE, metavar="DATE", help="Only messages before this date.")
@click.option("--thread", metavar="ID", help="Only messages of this thread (its id, or the start of it).")
@click.option("--limit", type=click.IntRange(1, 1000), default=PAGE, show_default=True, help="Results a page.")
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
        elif found.hits:
            _print_hits(app, found, several=len(sources) > 1)
        elif found.total:
            Output().wrapped(
                f"{counted(found.total, 'message')} match, but page {page} is behind the last of them."
            )
        else:
            names = ("source", "author", "since", "until", "thread")
            limits = ", ".join(f"--{name}" for name in names if getattr(query, name) is not None)
            out = Output()
            out.write(f"Nothing found for {one_line(query.text)!r}.")
            out.wrapped(f"Try {f'without {limits}, or ' if limits else ''}with other or fewer words.", "dim")


def _print_hits(app: App, found: Results, *, several: bool) -> None:
    out = Output()
    ids = short_ids(app, [hit.message.id for hit in found.hits])
    for rank, hit in enumerate(found.hits, found.offset + 1):
        message = hit.message
        title = marked(hit.title if hit.title.strip() else "(no subject)", terminal=out.is_terminal)
        title.stylize("bold")
        out.write((f"{rank:>3}  ", "cyan"), title)
        about = [one_line(message.author, 60), moment(message.date)]
        if several:
            about.append(one_line(source_name(message.source).rstrip("/").rsplit("/", 1)[-1], 40))
        out.write("     ", (ids[message.id], "green"), ("  " + " · ".join(filter(None, about)), "dim"))
        excerpt = marked(hit.excerpt, terminal=out.is_terminal)
        if len(excerpt) > EXCERPT:
            excerpt.truncate(EXCERPT, overflow="ellipsis")
        out.indented(5, excerpt)
        out.print()
    last = found.offset + len(found.hits)
    span = f"{number(found.offset + 1)} to {number(last)} of " if found.total > 1 else ""
    out.write(f"{span}{counted(found.total, 'message')}.", style="dim")
    out.hint("To read one:   ", show_command(app, "messages", found.hits[0].message.id))
    if last < found.total:
        out.write(("The next page: ", "dim"), _next_page(click.get_current_context().params))


def _next_page(given: dict[str, Any]) -> str:
    """Return the command that shows the next page of a search."""
    parts = ["onward search", *(shlex.quote(one_line(word)) for word in given["words"])]
    texts = [name for name in ("source", "author", "thread") if given[name] is not None]
    parts += [f"--{name} {shlex.quote(one_line(given[name]))}" for name in texts]
    dates = [name for name in ("since", "until") if given[name] is not None]
    parts += [f"--{name} {moment(given[name]).replace(' ', 'T')}" for name in dates]
    if given["limit"] != PAGE:
        parts.append(f"--limit {given['limit']}")
    return " ".join([*parts, f"--page {given['page'] + 1}"])


@click.command()
@click.option("--source", metavar="SOURCE", help="Only threads of this source (its name, or the end of it).")
@click.option("--thread", metavar="ID", help="The whole summary of one thread (its id, or the start of it).")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="The most threads to list.")
@json_option
def summaries(source: str | None, thread: str | None, limit: int, as_json: bool) -> None:
    """List the summarised threads, by their newest message.

    \b
    Examples:
      onward summaries
      onward summaries --source harbour-list.mbox --limit 5
      onward summaries --thread 02ba096c
    """
    with open_store_app() as app:
        if thread is not None:
            _print_summary(app, thread, as_json)
            return
        chosen = resolve_source(app, source) if source else None
        found = sorted(read_summaries(app, chosen), key=lambda item: (-(item[1] or 0.0), item[0].id))
        shown = found[:limit]
        if as_json:
            print_json({"total": len(found), "summaries": [summary_facts(*item) for item in shown]})
            return
        if not found:
            click.echo("There are no summaries yet; see `onward status`." if app.store.sources() else EMPTY)
            return
        ids = short_ids(app, [item.id for item, _ in shown])
    out = Output()
    for item, latest in shown:
        subject = one_line(item.subject) or "(no subject)"
        about = " · ".join(filter(None, (counted(item.messages, "message"), moment(latest))))
        out.write((ids[item.id], "green"), "  ", (subject, "bold"), (f"  {about}", "dim"))
        out.indented(10, Text(first_lines(item.markdown)))
        out.print()
    rest = f", the newest {len(shown)} of them here; --limit shows more" if len(found) > len(shown) else ""
    out.write(f"{counted(len(found), 'thread')}{rest}.", style="dim")
    out.hint("To read one: ", f"onward summaries --thread {ids[shown[0][0].id]}")


def _print_summary(app: App, thread: str, as_json: bool) -> None:
    from onward.cli.show import print_summary
    from onward.pipeline.documents import Summary

    _, id = resolve(app, thread, ("summaries", "threads"))
    summary = app.get(Summary, id)
    if summary is None:
        raise NotFound(f"the thread {id} has no summary yet; `onward show {id}` says how it stands")
    print_json(summary.model_dump(mode="json")) if as_json else print_summary(Output(), summary)
