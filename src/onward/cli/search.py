"""`onward search`, `similar` and `summaries`: messages by words and by meaning, and what threads are about."""

from __future__ import annotations

import re
import shlex
from itertools import chain
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.app_access import open_reading_app
from onward.cli.output import Output
from onward.cli.params import DATE, json_option, print_json
from onward.cli.search_output import print_as_csv, print_as_json, print_facets, print_hits, print_total
from onward.ops.bad_input import NotFound
from onward.ops.lookup import EMPTY, resolve, resolve_source, short_ids
from onward.ops.queries.search_results import hit_facts, result_pages
from onward.ops.queries.threads import count_files, first_lines, read_summaries, summary_facts
from onward.ops.text.format import counted, files_not_listed, moment, one_line, printable
from onward.pipeline.query_language import KINDS, describe
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App
    from onward.pipeline.search import Query, Results

PAGE = 10
MOST = 100_000  # results of one command
FILTERS = ("source", "author", "since", "until", "thread", "kind", "language")


class _SearchCommand(click.Command):
    """A command whose arguments may begin with a minus: `onward search paint -limewash`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # No option of it has one minus, besides that for help: what else has one is moved behind all options.
        valued = {name for param in self.params for name in param.opts if not getattr(param, "is_flag", True)}
        end = args.index("--") if "--" in args else len(args)
        options: list[str] = []
        excluded: list[str] = []
        for before, arg in zip(["", *args], args[:end], strict=False):
            is_word = re.match("-[^-]", arg) and arg not in ctx.help_option_names and before not in valued
            (excluded if is_word else options).append(arg)
        return super().parse_args(ctx, [*options, "--", *args[end + 1 :], *excluded])


@click.command(cls=_SearchCommand)
@click.argument("words", nargs=-1, metavar="[WORDS…]")
@click.option("--source", metavar="SOURCE", help="Only messages of this source (its name, or the end of it).")
@click.option("--author", metavar="NAME", help="Only messages of authors whose name or address contains this.")
@click.option("--since", type=DATE, metavar="DATE", help="Only messages from this date on.")
@click.option("--until", type=DATE, metavar="DATE", help="Only messages before this date.")
@click.option("--thread", metavar="ID", help="Only messages of this thread (its id, or the start of it).")
@click.option("--kind", type=click.Choice(sorted(KINDS)), help="Only messages of this kind.")
@click.option("--language", metavar="NAME", help="Only messages in this language: de, or python for code.")
@click.option(
    "--sort",
    type=click.Choice(["relevance", "date"]),
    default="relevance",
    show_default=True,
    help="The best first, or the newest.",
)
@click.option("--facets", is_flag=True, help="Count the results by source, author, year, kind and language.")
@click.option("--explain", is_flag=True, help="Say how the query was understood, and why each result is there.")
@click.option("--limit", type=click.IntRange(1, MOST), default=PAGE, show_default=True, help="Results a page.")
@click.option("--page", type=click.IntRange(1), default=1, show_default=True, help="Which page.")
@click.option("--save", metavar="NAME", help="Save the query, which @NAME then stands for.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a table for a spreadsheet.")
@json_option
def search(
    words: tuple[str, ...],
    source: str | None,
    author: str | None,
    since: float | None,
    until: float | None,
    thread: str | None,
    kind: str | None,
    language: str | None,
    sort: str,
    facets: bool,
    explain: bool,
    limit: int,
    page: int,
    save: str | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Find messages, best first.

    Any of the words counts, all of them count more. Without words, the newest messages that pass the
    filters are listed. Put a query with quotes or stars into single quotes, so that the shell leaves it as it is.

    \b
    "vent tube"               these words together
    -storm  -"vent tube"      not with this
    harb*                     words that begin so
    subject:drift  from:jörg  to:list  path:src/tide.py
    source:harbour-list  kind:pdf  lang:de  has:attachment
    after:2026-03  before:7d  -from:jörg  -kind:code
    @NAME                     a saved search, see `onward searches`

    \b
    DATE is 2026-03-09, 2026-03, 2026, 2026-03-09T14:30, today, yesterday, or how long ago: 7d.

    \b
    Examples:
      onward search why did the tide gauge drift
      onward search '"vent tube" from:jörg after:2026-03' -storm
      onward search boathouse key --source harbour-list.mbox --page 2
      onward search release --kind code --sort date --facets
      onward search tide gauge --limit 5000 --csv > hits.csv
    """
    from onward.pipeline.search import Query

    given = click.get_current_context().params
    filters = [name for name in FILTERS if given[name] is not None]
    text = printable(" ".join(words))
    _check_usage(text, filters, save, as_csv=as_csv, as_json=as_json)
    with open_reading_app() as app:
        sources = app.store.sources()
        query = Query(
            text,
            source=resolve_source(app, source) if source and sources else None,
            author=printable(author) if author else None,
            thread=resolve(app, thread, ("threads", "summaries"))[1] if thread else None,
            since=since,
            until=until,
            kind=kind,
            language=language.lower() if language else None,
            sort="date" if sort == "date" else "relevance",
        )
        if save is not None:
            from onward.pipeline.saved_searches import save_search

            click.echo(f"Saved: onward search @{save_search(app, save, text).name}", err=True)
        rest = result_pages(app, query, limit=limit, offset=(page - 1) * limit, facets=facets, explain=explain)
        first = next(rest)
        parts = chain([first], rest)
        if first.note:
            click.echo(f"Warning: {one_line(redact(first.note), 400)}", err=True)
        if as_json:
            print_as_json(query, first, parts, page)
        elif as_csv:
            print_as_csv(first, parts)
        elif not sources:
            click.echo(EMPTY)
        else:
            _print_found(app, query, first, parts, several=len(sources) > 1, explain=explain)


def _check_usage(text: str, filters: list[str], save: str | None, *, as_csv: bool, as_json: bool) -> None:
    if not text.strip() and not filters:
        raise click.UsageError("Give words to search for, or a filter such as --author or --since.")
    if as_csv and as_json:
        raise click.UsageError("Give --csv or --json, not both.")
    if save is not None and (filters or not text.strip()):
        options = ", ".join(f"--{name}" for name in filters) or "options"
        raise click.UsageError(
            f"--save keeps the words of a query, and no {options}: write filters as operators, such as from:jörg, "
            "source:harbour-list, after:2026-03, kind:pdf or lang:de."
        )


def _print_found(
    app: App, query: Query, first: Results, parts: chain[Results], *, several: bool, explain: bool
) -> None:
    out = Output()
    if explain and first.parsed is not None:
        out.wrapped(describe(first.parsed), "dim")
        out.print()
    if first.did_you_mean:
        out.hint("Did you mean: ", f"onward search {shlex.quote(one_line(first.did_you_mean))}")
        out.print()
    if first.hits:
        shown = print_hits(app, first, parts, several=several, explain=explain)
        print_facets(first)
        if print_total(app, query, first, shown):
            out.write(("The next page: ", "dim"), _next_page(click.get_current_context().params))
    elif first.total:
        out.wrapped(f"{counted(first.total, 'message')} match, but this page is behind the last of them.")
    else:
        limits = ", ".join(f"--{name}" for name in FILTERS if getattr(query, name) is not None)
        out.write(f"Nothing found for {one_line(query.text)!r}." if query.text else "Nothing found.")
        out.wrapped(f"Try {f'without {limits}, or ' if limits else ''}with other or fewer words.", "dim")


def _next_page(given: dict[str, Any]) -> str:
    """Return the command that shows the next page of a search."""
    parts = list[str]()
    texts = [name for name in ("source", "author", "thread", "kind", "language") if given[name] is not None]
    parts += [f"--{name} {shlex.quote(one_line(given[name]))}" for name in texts]
    dates = [name for name in ("since", "until") if given[name] is not None]
    parts += [f"--{name} {moment(given[name]).replace(' ', 'T')}" for name in dates]
    if given["sort"] != "relevance":
        parts.append(f"--sort {given['sort']}")
    parts += [f"--{name}" for name in ("facets", "explain") if given[name]]
    if given["limit"] != PAGE:
        parts.append(f"--limit {given['limit']}")
    parts.append(f"--page {given['page'] + 1}")
    words = [shlex.quote(one_line(word)) for word in given["words"]]
    separated = any(word.startswith("--") for word in given["words"])
    return " ".join(["onward search", *([*parts, "--", *words] if separated else [*words, *parts])])


@click.command()
@click.argument("id", metavar="ID")
@click.option("--limit", type=click.IntRange(1, 1000), default=PAGE, show_default=True, help="The most to list.")
@json_option
def similar(id: str, limit: int, as_json: bool) -> None:
    """List messages that are about the same as a message.

    \b
    Examples:
      onward similar 4e682402
      onward similar 4e682402 --limit 3 --json
    """
    from onward.pipeline.search import similar as find_similar

    with open_reading_app() as app:
        _, message = resolve(app, id, ("messages",))
        found = find_similar(app, message, limit=limit)
        if as_json:
            print_json({"id": message, "total": found.total, "results": hit_facts(found.hits)})
        elif found.hits:
            print_hits(app, found, [found], several=len(app.store.sources()) > 1)
        else:
            click.echo("No other message is about the same.")


@click.command()
@click.option("--source", metavar="SOURCE", help="Only threads of this source (its name, or the end of it).")
@click.option("--thread", metavar="ID", help="The whole summary of one thread (its id, or the start of it).")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="The most threads to list.")
@click.option("--all", "files", is_flag=True, help="List files and web pages, too, not only threads of mail.")
@json_option
def summaries(source: str | None, thread: str | None, limit: int, files: bool, as_json: bool) -> None:
    """List the summarised threads, by their newest message.

    A summary begins with what a thread is about; then comes the decision, if there is one.

    \b
    Examples:
      onward summaries
      onward summaries --all --source handbook
      onward summaries --source harbour-list.mbox --limit 5
      onward summaries --thread 02ba096c
    """
    with open_reading_app() as app:
        if thread is not None:
            _print_summary(app, thread, as_json)
            return
        chosen = resolve_source(app, source) if source else None
        found = sorted(read_summaries(app, chosen, files=files), key=lambda item: (-(item[1] or 0.0), item[0].id))
        shown = found[:limit]
        left_out = 0 if files else count_files(app, chosen)
        if as_json:
            listed = [summary_facts(*item) for item in shown]
            print_json({"total": len(found), "files_left_out": left_out, "summaries": listed})
            return
        if not found and not left_out:
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
    if left_out:
        out.wrapped(f"{files_not_listed(left_out)}; --all lists them, too.", "dim")
    if shown:
        out.hint("To read one: ", f"onward summaries --thread {ids[shown[0][0].id]}")


def _print_summary(app: App, thread: str, as_json: bool) -> None:
    from onward.cli.show import print_summary
    from onward.pipeline.documents import Summary

    _, id = resolve(app, thread, ("summaries", "threads"))
    summary = app.get(Summary, id)
    if summary is None:
        raise NotFound(f"the thread {id} has no summary yet; `onward show {id}` says how it stands")
    print_json(summary.model_dump(mode="json")) if as_json else print_summary(Output(), summary)
