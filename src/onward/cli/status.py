"""`onward status`: what needs a person, and how everything stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from onward.cli.opening import reading
from onward.cli.output import console, json_option, print_entry, print_json
from onward.facts.finding import EMPTY, store_exists, store_file
from onward.facts.standing import Standing, look
from onward.facts.wording import counted, duration, number, one_line, size
from onward.retry.redact import redact
from onward.settings import load_settings

if TYPE_CHECKING:
    from rich.console import Console

SHOWN_SOURCES = 10
NARROWEST = 12
"""A column of names is at least so wide in a table."""
_NONE = "·"
_STYLES = {"completed": "green", "partially_completed": "yellow", "failed": "red", "running": "cyan"}
_STATUSES = ("pending", "processed", "failed", "failed_max_retries", "discarded")
_WORDS = {"failed_max_retries": "given up"}


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show what needs a person first, then sources, stages, failures, outages and workers.

    \b
    Examples:
      onward status
      onward status --json
    """
    settings = load_settings()
    file = store_file(settings)
    if not store_exists(settings.store):
        standing = Standing(str(file or redact(settings.store)), 0)
    else:
        with reading() as app:
            standing = look(app)
    if as_json:
        print_json(asdict(standing))
    elif not standing.documents and not standing.stages:
        click.echo(f"{EMPTY}\nThe store will be {standing.store}.")
    else:
        _print(standing)


def _print(standing: Standing) -> None:
    out = console()
    _print_needs(out, standing)
    if standing.sources:
        _print_sources(out, standing)
    if not standing.sources or "archives" not in standing.documents:
        _print_documents(out, standing)
    if standing.stages:
        _print_stages(out, standing)
    _print_failures(out, standing)
    _print_waits(out, standing)
    alive = counted(len(standing.workers), "worker") if standing.workers else "no worker"
    about = [f"{alive} alive", _job(standing), one_line(standing.store)]
    if standing.size:
        about.append(size(standing.size))  # of a file; a server's disk is the server's business
    out.print(Text(" · ".join(part for part in about if part), "dim"), soft_wrap=True)


def _print_needs(out: Console, standing: Standing) -> None:
    if not standing.needs:
        out.print(Text("Nothing needs a person.", "green"))
    else:
        out.print(Text("Needs a person", "bold red"))
    for need in standing.needs:
        text = one_line(need.text)
        if need.command and out.is_terminal and len(text) + len(need.command) + 5 > out.width:
            out.print(Text(f"  {text}:"))
            out.print(Text(f"    {need.command}", "bold"), soft_wrap=True)
        else:
            line = Text.assemble("  ", text, ":  " if need.command else "", (need.command, "bold"))
            out.print(line, soft_wrap=True)
    out.print()


def _job(standing: Standing) -> str:
    ago = standing.retry_job.get("seconds_ago")
    return "the retry job has not run yet" if ago is None else f"retry job {duration(max(0, round(ago)))} ago"


# -- what there is


def _print_sources(out: Console, standing: Standing) -> None:
    """Those that are not done first; the rest is only counted when there are many."""
    ordered = sorted(standing.sources, key=lambda one: one["status"] == "completed")
    for one in ordered[:SHOWN_SOURCES]:
        name = Text(one_line(one["source"]), "bold")
        out.print(Text.assemble(name, "  ", (one["status"], _STYLES.get(one["status"], ""))), soft_wrap=True)
        out.print(_source_line(one), soft_wrap=True)
    if rest := ordered[SHOWN_SOURCES:]:
        clean = sum(one["status"] == "completed" for one in rest)
        out.print(Text(f"… and {counted(len(rest), 'other source')}, {number(clean)} of them completed", "dim"))


def _source_line(one: dict[str, Any]) -> Text:
    if "archives" in one["documents"]:
        counts = [counted(one[f"{noun}s"], noun) for noun in ("message", "chunk", "thread")]
    else:
        counts = [f"{number(count)} {one_line(name)}" for name, count in sorted(one["documents"].items())]
    line = Text("  " + ", ".join(counts))
    for what, style in (("pending", "yellow"), ("failed", "red"), ("set_aside", "yellow")):
        if one[what]:
            line.append(f", {number(one[what])} {what.replace('_', ' ')}", style)
    return line


def _print_documents(out: Console, standing: Standing) -> None:
    """All collections by status: an app's own documents, which need not belong to a source."""
    styles = {"pending": "yellow", "processed": "green", "discarded": "dim"}
    shown = [one for one in _STATUSES if one in ("pending", "processed", "failed") or standing.count(one)]
    rows = [
        (collection, [_number(counts.get(one, 0), styles.get(one, "red")) for one in shown])
        for collection, counts in sorted(standing.documents.items())
    ]
    _print_table(out, ("documents", *(_WORDS.get(one, one) for one in shown)), rows)


def _print_stages(out: Console, standing: Standing) -> None:
    unrouted = any(one["unrouted"] for one in standing.stages)
    heads = ("stage", "waiting", "working", "done", "dead letters", *(["unrouted"] * unrouted), "oldest waits")
    rows = []
    for one in standing.stages:
        waits = ""
        if one["next_due"]:
            waits = f"due in {duration(round(one['due_in_seconds']))}"
        elif one["waiting"]:
            waits = duration(one["oldest_waits_seconds"])
        numbers = [
            _number(one["waiting"], "yellow"),
            _number(one["working"], "cyan"),
            _number(one["done"], "green"),
            _number(one["dead_letters"], "red"),
            *([_number(one["unrouted"], "yellow")] * unrouted),
        ]
        rows.append((one["service"], [*numbers, Text(waits, "dim")]))
    _print_table(out, heads, rows)
    if any(one["dead_letters"] and one["finishes"] for one in standing.stages) and standing.count("pending"):
        text = "Dead letters of documents that are still pending need nobody: the retry job tries them again."
        out.print(Text(text, "dim"), soft_wrap=not out.is_terminal)
        out.print()


def _print_table(out: Console, heads: Sequence[str], rows: Sequence[tuple[str, list[Text]]]) -> None:
    """Print a table; where it does not fit, a few words for each row."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", border_style="dim")
    table.add_column(heads[0], overflow="fold", min_width=max(len(heads[0]), NARROWEST))
    for head in heads[1:]:
        table.add_column(head, justify="right", no_wrap=True)
    for name, cells in rows:
        table.add_row(Text(one_line(name)), *cells)
    if Measurement.get(out, out.options.update(max_width=1000), table).minimum <= out.width:
        out.print(table)
        return
    out.print()
    for name, cells in rows:
        named = [
            (head, cell) for head, cell in zip(heads[1:], cells, strict=True) if cell.plain not in ("", _NONE)
        ]
        told = Text(", ").join(Text.assemble(f"{head} ", cell) for head, cell in named)
        out.print(Text.assemble(f"{one_line(name)}: ", told if named else Text("nothing", "dim")))
    out.print()


def _number(count: int, style: str = "") -> Text:
    return Text(number(count), style) if count else Text(_NONE, "dim")


# -- what is wrong


def _print_failures(out: Console, standing: Standing) -> None:
    if not standing.failures:
        return
    out.print(Text("Why documents fail", "bold"))
    for one in standing.failures:
        many = counted(one["documents"], "document") if one["documents"] else ""
        many = many or (counted(one["dead_letters"], "dead letter") if one["dead_letters"] else "")
        style = "yellow" if one["waiting"] else "red"
        if one["waiting"]:
            many = f"{counted(one['waiting'], 'event')} {'waits' if one['waiting'] == 1 else 'wait'}"
        head = Text.assemble("  ", (many, style), f" · {one_line(one['service'])} · ", (one["verdict"], "bold"))
        print_entry(out, head)
        print_entry(out, Text(f"    {one_line(one['error'], 300)}"))
        out.print(Text(f"    onward failures show {one['fingerprint']}", "dim"), soft_wrap=True)
    if standing.other_failures:
        out.print(Text(f"  … and {number(standing.other_failures)} more: onward failures list", "dim"))
    out.print()


def _print_waits(out: Console, standing: Standing) -> None:
    lines = []
    for one in standing.outages:
        if one["needs_person"]:
            continue  # it stands at the top
        asked = one["asked_in_seconds"]
        again = f", asked again in {duration(round(asked))}" if asked is not None else ""
        text = f"{one['dependency']} has been down for {duration(round(one['seconds']))}{again}: {one['reason']}"
        lines.append(text.removesuffix(": "))
    for one in standing.set_aside:
        whose = f"{counted(one['documents'], 'document')} of {one['source'] or 'no source'}"
        text = f"{whose} set aside, retried in {duration(round(one['due_in_seconds']))}"
        lines.append(f"{text} ({counted(one['retries'], 'retry')} so far): {one['error']}")
    for line in lines:
        out.print(Text(f"● {one_line(line, 300)}", "yellow"), soft_wrap=True)
    if lines:
        out.print()
