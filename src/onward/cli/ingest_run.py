"""One run of `onward ingest`: submits sources, runs the pipeline, and prints the result."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click
from rich.text import Text

from onward.cli import INTERRUPTED
from onward.cli.app_access import open_pipeline
from onward.cli.output import Output
from onward.cli.params import print_json
from onward.cli.pipeline_run import RESUME_HINT, run
from onward.ops.lookup import show_command
from onward.ops.queries.ingestion_report import (
    IngestionReport,
    WaitingDocuments,
    attachment_lines,
    read_ingestion_report,
    run_totals,
)
from onward.ops.text.format import clock_time, counted, duration, number, one_line, source_name
from onward.retry.errors import OnwardError

if TYPE_CHECKING:
    from onward import App
    from onward.early_processes import EarlyProcesses

FAILED, UNFINISHED = 1, 3
_STYLES = {"completed": "green", "failed": "red"}


def ingest_sources(
    sources: Sequence[str],
    began: float,
    early: EarlyProcesses,
    *,
    no_wait: bool,
    processes: int | None,
    as_json: bool,
    options: Sequence[str] = (),
) -> int:
    """Ingest sources and print the result; return the exit code. `began` is when the command began (monotonic)."""
    from onward.pipeline.fetch.location import printable

    given = _read_options(sources, options)
    with open_pipeline() as app:
        # Opened now: a wrong setting is reported here, not by a worker.
        _ = app.embedder, app.summarizer, app.blobs
        if (gateway := app.gateway()) is not None:
            from onward.gateway import BrokerUnavailable

            with suppress(BrokerUnavailable):  # the events wait in the store until it is back
                gateway.check()
        totals_before: dict[str, dict[str, int]] = {}
        errors: dict[str, str] = {}
        for location in sources:
            if error := _submit(app, location, given, totals_before):
                errors[printable(location)] = error
                if not as_json:
                    click.echo(f"Error: {one_line(error)}", err=True)
        refused = [{"source": source, "error": error} for source, error in errors.items()]
        submitted = list(totals_before)
        if submitted and no_wait:
            if as_json:
                print_json({"submitted": submitted, "refused": refused})
            else:
                lines = [f"{source_name(source)}: submitted" for source in submitted]
                click.echo("\n".join([*lines, "Process it with:\n  onward worker"]))
            return UNFINISHED if refused else 0
        reports, stopped, seconds = [], False, 0.0
        if submitted:
            others = f" and {counted(len(submitted) - 1, 'other source')}" if len(submitted) > 1 else ""
            title = f"{source_name(submitted[0])}{others}"
            stopped = run(app, title, sources=submitted, processes=processes, early=early)
            reports = [read_ingestion_report(app, source, before) for source, before in totals_before.items()]
            seconds = time.monotonic() - began
        if as_json:
            results = [report.as_dict() for report in reports]
            facts = {"sources": results, "refused": refused, "seconds": round(seconds, 3), "stopped": stopped}
            print_json(facts)
        elif reports:
            _print_reports(app, reports, seconds, stopped=stopped)
    if stopped:
        return INTERRUPTED
    if all(report.status == "failed" for report in reports):
        return FAILED
    return UNFINISHED if refused or not all(report.is_clean for report in reports) else 0


def _read_options(sources: Sequence[str], options: Sequence[str]) -> dict[str, str]:
    """Read options, and check that each source has them; nothing is submitted before."""
    from onward.pipeline.fetch.fetch_errors import UnusableSource
    from onward.pipeline.fetch.location import canonical
    from onward.pipeline.source_settings import WrongOption, check_options, read_options

    try:
        given = read_options(options)
        for location in sources if given else ():
            with suppress(UnusableSource):  # reported when it is submitted
                check_options(canonical(location), given)
    except WrongOption as error:
        raise click.UsageError(str(error)) from error
    return given


def _submit(app: App, location: str, options: Mapping[str, str], totals_before: dict[str, dict[str, int]]) -> str:
    """Submit a source and note its totals before this run; return an error if it is refused."""
    from onward.pipeline.fetch import canonical
    from onward.pipeline.fetch.location import is_path, printable
    from onward.pipeline.sources import submit

    name = one_line(printable(location))
    try:
        source = canonical(location)
        if source in totals_before:
            return ""
        if is_path(source):
            try:
                os.lstat(source)  # other problems are found when it is fetched
            except PermissionError:
                return f"the source '{name}' may not be read: allow it for this user, or leave it out"
            except OSError:
                return f"there is no file or folder '{name}': check its name"
        before = run_totals(app, source)
        submit(app, location, options)
        totals_before[source] = before
    except OnwardError as error:
        return str(error)
    except UnicodeEncodeError:
        return f"the name '{name}' is not UTF-8; rename it, or ingest its folder"
    return ""


def _print_reports(app: App, reports: list[IngestionReport], seconds: float, *, stopped: bool) -> None:
    from onward.pipeline.documents import source_id

    out = Output()
    for report in reports:
        _print_report(out, report, stopped=stopped)
    fresh = sum(max(0, report.added.get("messages", 0)) for report in reports)
    rate = f", {number(fresh / seconds)} messages a second" if fresh >= 10 and seconds > 0 else ""
    many = f"{counted(len(reports), 'source')} in " if len(reports) > 1 else "In "
    out.write(f"{many}{duration(seconds)}{rate}.")
    if stopped:
        out.write(f"Stopped. {RESUME_HINT}", style="yellow")
        return
    if failed := sum(report.failed for report in reports):
        first = next(trouble for report in reports for trouble in report.troubles)
        out.write(f"{counted(failed, 'document')} failed. To see which and why:", style="red")
        out.write("  onward documents --status failed")
        out.wrapped(f"  {show_command(app, first.collection, first.id)}")
    incomplete = [
        report.source
        for report in reports
        if report.passed_over.total or report.without_text or report.damaged.ids
    ]
    if incomplete:
        out.write("To list what was passed over, has no text or is damaged:")
    for source in incomplete:
        out.wrapped(f"  {show_command(app, 'archives', source_id(source))}")
    for report in reports:
        for waiting in report.waiting:
            out.write(_waiting_text(report.source, waiting), style="yellow")
    if any(report.waiting for report in reports):
        out.write("They are tried again by a running `onward worker`, or by the next `onward ingest`.")
        out.write("To see them:\n  onward documents --status pending\n  onward status")
    if any(report.documents.get("messages", {}).get("processed") for report in reports):
        out.write("Next: ", ("onward search WORDS…", "bold"), ", ", ("onward summaries", "bold"))


def _print_report(out: Output, report: IngestionReport, *, stopped: bool) -> None:
    status = "stopped" if stopped and report.status == "running" else report.status
    out.write((source_name(report.source), "bold"), "  ", (status, _STYLES.get(status, "yellow")))
    for line in [] if report.request_failed else _describe(report):
        out.hanging(Text("  "), Text(line))
    for trouble in report.troubles:
        many = f"{number(trouble.count)} × " if trouble.count > 1 else ""
        out.hanging(Text("  "), Text(f"{many}{one_line(trouble.error, 300)}", "red"))
    if (more := report.failed - sum(trouble.count for trouble in report.troubles)) > 0:
        out.write(f"  … and {counted(more, 'other')}", style="red")
    out.print()


def _describe(report: IngestionReport) -> list[str]:
    """Return the lines about a source: the counts of messages, chunks and summaries."""
    messages, items, documents = report.messages, report.items, report.documents
    parts = [f"{number(messages[name])} {name}" for name in ("parsed", "failed") if messages.get(name)]
    every = counted(messages.get("messages", 0), "message") + (f": {', '.join(parts)}" if parts else "")
    if messages.get("duplicates"):
        every += f"; {counted(messages['duplicates'], 'duplicate')} left out"
    if not messages:  # no archive is completely parsed yet
        so_far = sum(documents.get("messages", {}).values()) - report.attachments.get("searchable", 0)
        every = f"{counted(so_far, 'message')} so far" if so_far else ""
    lines = []
    other = [
        f"{number(items[name])} {word}"
        for name, word in (("failed", "could not be read"), ("removed", "removed"))
        if items.get(name)
    ]
    if items.get("new") and items.get("unchanged"):  # not in the first run
        other.insert(0, f"{number(items['new'])} new or changed")
    if items.get("items", 0) > 1 or other:
        lines.append(", ".join([counted(items.get("items", 0), "item"), *other]))
    if not every:
        return [*lines, *report.passed_over.lines()]
    added = any(report.added.get(name) for name in ("messages", "chunks", "threads", "summaries"))
    if items and not items.get("new") and not items.get("removed") and not added:
        lines.append(f"nothing new: {every}")
    else:
        new = report.added.get("messages", 0) - report.added.get("attachments", 0)
        if 0 < new < messages.get("parsed", 0):
            every += f"; {number(new)} of them new"
        chunks = counted(sum(documents.get("chunks", {}).values()), "chunk")
        summarised = counted(documents.get("threads", {}).get("processed", 0), "thread")
        lines += [every, f"{chunks}, {summarised} summarised"]
    if report.attachments:
        lines += attachment_lines(report.attachments)
    if report.without_text:
        blank = counted(len(report.without_text), "message")
        lines.append(f"{blank} without text, found by subject and attachments alone")
    if report.damaged.ids:
        lines.append(str(report.damaged))
    return [*lines, *report.passed_over.lines()]


def _waiting_text(source: str, waiting: WaitingDocuments) -> str:
    until = f" until {clock_time(waiting.until)}" if waiting.until else ""
    if waiting.dependency:
        until = f" for the {waiting.dependency}, which is down"
        until += f" and asked again at {clock_time(waiting.until)}" if waiting.until else ""
    if waiting.incomplete:
        until = " until their messages and chunks are finished"
    verb = "waits" if waiting.count == 1 else "wait"
    noun = counted(waiting.count, waiting.collection.removesuffix("s"))
    error = f": {one_line(waiting.error, 200)}" if waiting.error else ""
    return f"{noun} of {source_name(source)} {verb}{until}{error}"
