"""`onward status`: problems that need an operator, and the status of everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.app_access import open_store_app
from onward.cli.params import json_option
from onward.cli.render.output import console, print_entry, print_json
from onward.cli.render.tables import count_cell, print_table
from onward.ops.lookup import EMPTY, store_exists, store_file
from onward.ops.queries.ingestion_report import SkippedFiles
from onward.ops.queries.status import SystemStatus, read_status
from onward.ops.text.format import counted, duration, number, one_line, size
from onward.ops.text.needs import outage_sentence
from onward.retry.redact import redact
from onward.settings import load_settings

if TYPE_CHECKING:
    from rich.console import Console

SHOWN_SOURCES = 10
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
        standing = SystemStatus(str(file or redact(settings.store)), 0)
    else:
        with open_store_app() as app:
            standing = read_status(app)
    if as_json:
        print_json(standing.as_dict())
    elif not standing.documents and not standing.stages:
        click.echo(f"{EMPTY}\nThe store will be {standing.store}.")
    else:
        _print(standing)


def _print(standing: SystemStatus) -> None:
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


def _print_needs(out: Console, standing: SystemStatus) -> None:
    if not standing.needs:
        out.print(Text("Nothing needs a person.", "green"))
    else:
        out.print(Text("Needs a person", "bold red"))
    for need in standing.needs:
        text, command = one_line(need.text), need.command
        if command and out.is_terminal and len(text) + len(command) + 5 > out.width:
            out.print(Text(f"  {text}:"))
            out.print(Text(f"    {command}", "bold"), soft_wrap=True)
        else:
            line = Text.assemble("  ", text, ":  " if command else "", (command, "bold"))
            out.print(line, soft_wrap=True)
    out.print()


def _job(standing: SystemStatus) -> str:
    ago = standing.retry_job.seconds_ago
    return "the retry job has not run yet" if ago is None else f"retry job {duration(max(0, round(ago)))} ago"


# -- what there is


def _print_sources(out: Console, standing: SystemStatus) -> None:
    """Print the unfinished sources first; if there are many, the others are only counted."""
    ordered = sorted(standing.sources, key=lambda item: item["status"] == "completed")
    for item in ordered[:SHOWN_SOURCES]:
        name = Text(one_line(item["source"]), "bold")
        out.print(Text.assemble(name, "  ", (item["status"], _STYLES.get(item["status"], ""))), soft_wrap=True)
        out.print(_source_line(item), soft_wrap=True)
        if item["without_text"]:
            out.print(Text(f"  {counted(item['without_text'], 'message')} without text", "dim"), soft_wrap=True)
        for line in SkippedFiles(item["passed_over"]["kinds"], ignored=item["ignored"]["kinds"]).lines():
            out.print(Text(f"  {line}", "dim"), soft_wrap=True)
    if rest := ordered[SHOWN_SOURCES:]:
        clean = sum(item["status"] == "completed" for item in rest)
        out.print(Text(f"… and {counted(len(rest), 'other source')}, {number(clean)} of them completed", "dim"))


def _source_line(item: dict[str, Any]) -> Text:
    if "archives" in item["documents"]:
        counts = [counted(item[f"{noun}s"], noun) for noun in ("message", "chunk", "thread")]
    else:
        counts = [f"{number(count)} {one_line(name)}" for name, count in sorted(item["documents"].items())]
    line = Text("  " + ", ".join(counts))
    for what, style in (("pending", "yellow"), ("failed", "red"), ("set_aside", "yellow")):
        if item[what]:
            line.append(f", {number(item[what])} {what.replace('_', ' ')}", style)
    return line


def _print_documents(out: Console, standing: SystemStatus) -> None:
    """Print all collections by status: an app's own documents, which need not belong to a source."""
    styles = {"pending": "yellow", "processed": "green", "discarded": "dim"}
    shown = [item for item in _STATUSES if item in ("pending", "processed", "failed") or standing.count(item)]
    rows = [
        (collection, [count_cell(counts.get(item, 0), styles.get(item, "red")) for item in shown])
        for collection, counts in sorted(standing.documents.items())
    ]
    print_table(out, ("documents", *(_WORDS.get(item, item) for item in shown)), rows)


def _print_stages(out: Console, standing: SystemStatus) -> None:
    unrouted = any(stage.unrouted for stage in standing.stages)
    heads = ("stage", "waiting", "working", "done", "dead letters", *(["unrouted"] * unrouted), "oldest waits")
    rows = []
    for stage in standing.stages:
        waits = ""
        if stage.due_in_seconds is not None:
            waits = f"due in {duration(round(stage.due_in_seconds))}"
        elif stage.waiting:
            waits = duration(stage.oldest_waits_seconds)
        numbers = [
            count_cell(stage.waiting, "yellow"),
            count_cell(stage.working, "cyan"),
            count_cell(stage.done, "green"),
            count_cell(stage.dead_letters, "red"),
            *([count_cell(stage.unrouted, "yellow")] * unrouted),
        ]
        rows.append((stage.service, [*numbers, Text(waits, "dim")]))
    print_table(out, heads, rows)
    if any(stage.dead_letters and stage.finishes for stage in standing.stages) and standing.count("pending"):
        text = "Dead letters of documents that are still pending need nobody: the retry job tries them again."
        out.print(Text(text, "dim"), soft_wrap=not out.is_terminal)
        out.print()


# -- what is wrong


def _print_failures(out: Console, standing: SystemStatus) -> None:
    if not standing.failures:
        return
    out.print(Text("Why documents fail", "bold"))
    for item in standing.failures:
        many = counted(item["documents"], "document") if item["documents"] else ""
        many = many or (counted(item["dead_letters"], "dead letter") if item["dead_letters"] else "")
        style = "yellow" if item["waiting"] else "red"
        if item["waiting"]:
            many = f"{counted(item['waiting'], 'event')} {'waits' if item['waiting'] == 1 else 'wait'}"
        head = Text.assemble("  ", (many, style), f" · {one_line(item['service'])} · ", (item["verdict"], "bold"))
        print_entry(out, head)
        print_entry(out, Text(f"    {one_line(item['error'], 300)}"))
        out.print(Text(f"    onward failures show {item['fingerprint']}", "dim"), soft_wrap=True)
    if standing.other_failures:
        out.print(Text(f"  … and {number(standing.other_failures)} more: onward failures list", "dim"))
    out.print()


def _print_waits(out: Console, standing: SystemStatus) -> None:
    lines = []
    for outage in standing.outages:
        if outage.needs_person:
            continue  # it is among the needs at the top
        asked = outage.asked_in_seconds
        again = f"; asked again in {duration(round(asked))}" if asked is not None else ""
        lines.append(f"{outage_sentence(outage)}{again}")
    for item in standing.set_aside:
        whose = f"{counted(item['documents'], 'document')} of {item['source'] or 'no source'}"
        text = f"{whose} set aside, retried in {duration(round(item['due_in_seconds']))}"
        lines.append(f"{text} ({counted(item['retries'], 'retry')} so far): {item['error']}")
    for line in lines:
        out.print(Text(f"● {one_line(line, 300)}", "yellow"), soft_wrap=True)
    if lines:
        out.print()
