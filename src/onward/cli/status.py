"""`onward status` and `onward actions`: what needs an operator, the status of everything, and what people did."""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

from onward.cli.app_access import open_reading_app
from onward.cli.output import STATUS_STYLES, Output, count_cell, events_wait
from onward.cli.params import COUNT, json_option, print_json
from onward.ops.actions.action import action_facts
from onward.ops.lookup import EMPTY, store_exists, store_file
from onward.ops.queries.ingestion_report import SkippedFiles, attachment_lines
from onward.ops.queries.status import SystemStatus, read_status
from onward.ops.text.format import counted, counted_in, duration, moment, number, one_line, size, whole_duration
from onward.ops.text.models import upgrade_sentence
from onward.ops.text.needs import need_command, need_sentence, outbox_sentences
from onward.ops.text.outages import outage_text
from onward.retry.redact import redact
from onward.settings import load_settings

SHOWN_SOURCES = 10
_SOURCE_STYLES = {"completed": "green", "partially_completed": "yellow", "failed": "red", "running": "cyan"}
_STATUSES = ("pending", "processed", "failed", "failed_max_retries", "discarded")


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
    if not store_exists(settings.store):
        system = SystemStatus(str(store_file(settings.store) or redact(settings.store)), 0)
    else:
        with open_reading_app() as app:
            system = read_status(app)
    if as_json:
        print_json(system.as_dict())
    elif not system.documents and not system.stages and not system.incoming.waiting:
        click.echo(f"{EMPTY}\nThe store will be {system.store}.")
    else:
        _print(Output(), system)


def _print(out: Output, system: SystemStatus) -> None:
    _print_needs(out, system)
    _print_sources(out, system.sources)
    if system.documents and (not system.sources or "archives" not in system.documents):
        _print_documents(out, system)
    if system.stages:
        _print_stages(out, system)
    if system.upgrade is not None and system.upgrade.missing:
        out.wrapped(f"Better vectors ({system.upgrade.model}): {upgrade_sentence(system.upgrade)}")
        out.print()
    if system.failures:
        _print_failures(out, system)
    _print_waits(out, system)
    alive = counted(len(system.workers), "worker") if system.workers else "no worker"
    ago = system.retry_job.seconds_ago
    job = "the retry job has not run yet" if ago is None else f"retry job {whole_duration(ago)} ago"
    # Only a file has a size: a server's disk is the server's business.
    about = (f"{alive} alive", job, one_line(system.store), size(system.size) if system.size else "")
    out.write(" · ".join(filter(None, about)), style="dim")


def _print_needs(out: Output, system: SystemStatus) -> None:
    if system.needs:
        out.write("Needs a person", style="bold red")
    else:
        out.write("Nothing needs a person.", style="green")
    for need in system.needs:
        text, command = one_line(need_sentence(need)), need_command(need)
        if command and out.is_terminal and len(text) + len(command) + 5 > out.width:
            out.wrapped(f"  {text}:")
            out.write(f"    {command}", style="bold")
        else:
            out.write(f"  {text}{':  ' if command else ''}", (command, "bold"))
    out.print()


# -- what there is


def _print_sources(out: Output, sources: list[dict[str, Any]]) -> None:
    """Print the unfinished sources first; if there are many, the others are only counted."""
    ordered = sorted(sources, key=lambda item: item["status"] == "completed")
    for item in ordered[:SHOWN_SOURCES]:
        style = _SOURCE_STYLES.get(item["status"], "")
        out.write((one_line(item["source"]), "bold"), "  ", (item["status"], style))
        if "archives" in item["documents"]:
            counts = [counted(item[f"{noun}s"], noun) for noun in ("message", "chunk", "thread")]
        else:
            counts = [counted_in(count, one_line(name)) for name, count in sorted(item["documents"].items())]
        unfinished = [
            (f", {number(item[what])} {what.replace('_', ' ')}", style)
            for what, style in (("pending", "yellow"), ("failed", "red"), ("set_aside", "yellow"))
            if item[what]
        ]
        out.write("  " + ", ".join(counts), *unfinished)
        if item["attachments"]:
            for line in attachment_lines(item["attachments"]):
                out.write(f"  {line}", style="dim")
        if item["without_text"]:
            out.write(f"  {counted(item['without_text'], 'message')} without text", style="dim")
        for line in SkippedFiles(item["passed_over"]["kinds"], ignored=item["ignored"]["kinds"]).lines():
            out.write(f"  {line}", style="dim")
    if rest := ordered[SHOWN_SOURCES:]:
        clean = sum(item["status"] == "completed" for item in rest)
        out.write(f"… and {counted(len(rest), 'other source')}, {number(clean)} of them completed", style="dim")


def _print_documents(out: Output, system: SystemStatus) -> None:
    """Print all collections by status: an app's own documents, which need not belong to a source."""
    shown = [item for item in _STATUSES if item in ("pending", "processed", "failed") or system.count(item)]
    rows = [
        (collection, [count_cell(counts.get(item, 0), STATUS_STYLES.get(item, "red")) for item in shown])
        for collection, counts in sorted(system.documents.items())
    ]
    out.table(("documents", *(item.replace("failed_max_retries", "given up") for item in shown)), rows)


def _print_stages(out: Output, system: SystemStatus) -> None:
    styles = {"waiting": "yellow", "working": "cyan", "done": "green", "dead_letters": "red"}
    if any(stage.unrouted for stage in system.stages):
        styles["unrouted"] = "yellow"
    rows = []
    for stage in system.stages:
        waits = duration(stage.oldest_waits_seconds) if stage.waiting else ""
        if stage.due_in_seconds is not None:
            waits = f"due in {duration(round(stage.due_in_seconds))}"
        counts = [count_cell(getattr(stage, name), style) for name, style in styles.items()]
        rows.append((stage.service, [*counts, Text(waits, "dim")]))
    out.table(("stage", *(name.replace("_", " ") for name in styles), "oldest waits"), rows)
    if any(stage.dead_letters and stage.finishes for stage in system.stages) and system.count("pending"):
        text = "Dead letters of documents that are still pending need nobody: the retry job tries them again."
        out.print(Text(text, "dim"), soft_wrap=not out.is_terminal)
        out.print()


# -- what is wrong


def _print_failures(out: Output, system: SystemStatus) -> None:
    out.write("Why documents fail", style="bold")
    for item in system.failures:
        documents, letters, waiting = item["documents"], item["dead_letters"], item["waiting"]
        many = counted(documents, "document") if documents else counted(letters, "dead letter") if letters else ""
        if waiting:
            many = events_wait(waiting)
        style = "yellow" if waiting else "red"
        service = one_line(item["service"]) or "(no service)"
        out.entry("  ", (many, style), f" · {service} · ", (item["verdict"], "bold"))
        out.entry(f"    {one_line(item['error'], 300)}")
        out.write(f"    onward failures show {item['fingerprint']}", style="dim")
    if system.other_failures:
        out.write(f"  … and {number(system.other_failures)} more: onward failures list", style="dim")
    out.print()


def _print_waits(out: Output, system: SystemStatus) -> None:
    # Those that need a person are among the needs at the top.
    lines = [outage_text(outage) for outage in system.outages if not outage.needs_person]
    for item in system.set_aside:
        whose = f"{counted(item['documents'], 'document')} of {item['source'] or 'no source'}"
        text = f"{whose} set aside, retried in {duration(round(item['due_in_seconds']))}"
        lines.append(f"{text} ({counted(item['retries'], 'retry')} so far): {item['error']}")
    if system.incoming.waiting and system.workers and not system.incoming.late:
        lines.append(f"{counted(system.incoming.waiting, 'publication')} on the way to the ledger")
    # What waits for long is among the needs at the top.
    lines += outbox_sentences(system.outbox)[system.outbox.late :]
    for line in lines:
        out.write(f"● {one_line(line, 300)}", style="yellow")
    if lines:
        out.print()


# -- what people did


@click.command()
@click.option("--limit", type=COUNT, default=50, show_default=True, help="List at most this many.")
@click.option("--before", type=COUNT, metavar="NUMBER", help="Go on behind the action of this number.")
@json_option
def actions(limit: int, before: int | None, as_json: bool) -> None:
    """Show what people have changed by hand, the latest first: who, when, what, and how much of it.

    \b
    Examples:
      onward actions
      onward actions --limit 10 --json
    """
    with open_reading_app() as app:
        found = app.store.actions(limit=limit + 1, before=before)
    shown = found[:limit]
    if as_json:
        print_json([action_facts(one) for one in shown])
        return
    out = Output()
    if not shown:
        out.write("Nothing has been changed by hand." if before is None else "There are no earlier ones.")
    for one in shown:
        about = " ".join(f"{name}={_brief(value)}" for name, value in one.about.items())
        out.entry(
            (f"{one.id:>5}  ", "dim"),
            f"{moment(one.at)}  {one_line(one.who, 20):12}  ",
            (f"{one_line(one.action, 40):18}", "bold"),
            f"  {number(one.touched):>6}  ",
            (one_line(redact(about), 200), "dim"),
        )
    if len(found) > limit:
        out.hint("Earlier ones: ", f"onward actions --before {shown[-1].id}")


def _brief(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(one) for one in value[:3]) + (f",… ({len(value)})" if len(value) > 3 else "")
    return str(value).lower() if isinstance(value, bool) else str(value)
