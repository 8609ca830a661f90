"""Prints the results of a search: as text, as JSON, or as CSV."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.output import Output, marked
from onward.cli.params import print_json_list
from onward.ops.lookup import short_ids, show_command
from onward.ops.queries.search_results import hit_facts, search_csv, search_facts
from onward.ops.text.format import counted, moment, number, one_line, source_name
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App
    from onward.pipeline.search import Hit, Query, Results

EXCERPT = 280
_ADDRESS = re.compile(r"\s*<[^<>]*>\s*$")  # behind the name of an author
INDENT = 5
SHOWN_VALUES = 6  # of a facet


def print_hits(app: App, first: Results, parts: Iterable[Results], *, several: bool, explain: bool = False) -> int:
    """Print hits for people, each with its source if there are `several`; return how many."""
    out, count = Output(), 0
    for found in parts:
        ids = short_ids(app, [hit.message.id for hit in found.hits])
        for hit in found.hits:
            count += 1
            _print_hit(out, first.offset + count, hit, ids[hit.message.id], several=several)
            if explain:
                out.indented(INDENT, Text(reasons(hit), "dim"))
            out.print()
    return count


def _print_hit(out: Output, rank: int, hit: Hit, id: str, *, several: bool) -> None:
    message = hit.message
    title = marked(hit.title if hit.title.strip() else "(no subject)", terminal=out.is_terminal)
    title.stylize("bold")
    out.write((f"{rank:>3}  ", "cyan"), title)
    source = source_name(message.source).rstrip("/").rsplit("/", 1)[-1] if several else ""
    place = "/".join(filter(None, (one_line(source, 40), one_line(hit.path))))
    mail = message.attached_to
    if mail is not None:
        place = f"{mail.name} attached to “{one_line(mail.subject, 80) or '(no subject)'}”"
    about = filter(None, (one_line(message.author, 60), moment(message.date), place))
    out.write(" " * INDENT, (id, "green"), ("  " + " · ".join(about), "dim"))
    excerpt = marked(hit.excerpt, terminal=out.is_terminal)
    if len(excerpt) > EXCERPT:
        excerpt.truncate(EXCERPT, overflow="ellipsis")
    out.indented(INDENT, excerpt)


def reasons(hit: Hit) -> str:
    """Return why a message was found: what each word adds, how near its meaning is, and what that makes."""
    words = ", ".join(f"{one_line(reason.word, 40)} {reason.score:.1f}" for reason in hit.reasons)
    parts = [
        f"words {hit.text_score:.2f} ({words})" if words else "",
        f"meaning {hit.similarity:.2f}" if hit.similarity else "",
    ]
    return f"Score {hit.score:.2f}: {', '.join(filter(None, parts)) or 'it passes the filters'}"


def print_total(app: App, query: Query, first: Results, shown: int) -> bool:
    """Print how many messages were found, and how to read one; return whether there are more pages."""
    out, last = Output(), first.offset + shown
    # By date, only those that match well are listed: others would come between them.
    every = first.total if query.sort == "date" else max(first.every, first.total)
    span = f"{number(first.offset + 1)} to {number(last)} of " if every > 1 else ""
    if first.parsed is not None and not first.parsed.wanted:
        well = ""
    elif every > first.total:
        well = f"; {number(first.total)} {'matches' if first.total == 1 else 'match'} well"
    else:
        well = " that matches well" if every == 1 else " that match well"
    out.write(f"{span}{counted(every, 'message')}{well}.", style="dim")
    out.hint("To read one:   ", show_command(app, "messages", first.hits[0].message.id))
    return last < every


def print_facets(found: Results) -> None:
    """Print how many messages each source, author, year, kind and language has."""
    out = Output()
    for name, values in found.facets.items():
        listed = [f"{_value(name, value)} {number(count)}" for value, count in values[:SHOWN_VALUES]]
        more = len(values) - SHOWN_VALUES
        out.field(name, " · ".join([*listed, *([f"{number(more)} more"] if more > 0 else [])]))
    if any(found.facets.values()):
        out.print()


def _value(facet: str, value: str) -> str:
    if facet == "source":
        return one_line(source_name(value).rstrip("/").rsplit("/", 1)[-1], 40)
    return one_line(_ADDRESS.sub("", redact(value)) or value, 40)


def print_as_json(query: Query, first: Results, parts: Iterable[Results], page: int) -> None:
    """Print what is said about all results, then one object for each of them, as they come."""
    about = search_facts(query, replace(first, hits=[]), page)
    del about["results"]
    print_json_list(about, "results", chain.from_iterable(_numbered(first, parts)))


def print_as_csv(first: Results, parts: Iterable[Results]) -> None:
    """Print a table for a spreadsheet, with a head line."""
    header = True
    for facts in _numbered(first, parts):
        click.echo(search_csv(facts, header=header, line_end="\n"), nl=False)
        header = False


def _numbered(first: Results, parts: Iterable[Results]) -> Iterator[list[dict[str, Any]]]:
    rank = first.offset + 1
    for found in parts:
        yield hit_facts(found.hits, first=rank)
        rank += len(found.hits)
