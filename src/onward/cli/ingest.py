"""`onward ingest`: submit sources and process them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from rich.text import Text

from onward.cli import INTERRUPTED
from onward.cli.app_access import check_models, open_pipeline
from onward.cli.params import json_option
from onward.cli.pipeline_run import RESUME_HINT, run
from onward.cli.render.output import console, print_json
from onward.ops.lookup import show_command
from onward.ops.queries.ingestion_report import IngestionReport, read_ingestion_report, totals
from onward.ops.text.format import clock_time, counted, duration, number, one_line, source_name
from onward.retry.errors import OnwardError

if TYPE_CHECKING:
    from rich.console import Console

    from onward import App

FAILED, UNFINISHED = 1, 3


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE…")
@click.option("--no-wait", is_flag=True, help="Only submit; a worker processes them.")
@click.option(
    "--processes", type=click.IntRange(1, 64), help="Worker processes; by default one for each core, at most 4."
)
@json_option
def ingest(sources: tuple[str, ...], no_wait: bool, processes: int | None, as_json: bool) -> None:
    """Ingest mailboxes, folders and URLs: fetch, parse, chunk, embed and summarise them.

    It ends when nothing is due within a minute. Ctrl-C finishes running handlers and ends; a second Ctrl-C
    ends at once. The next run continues from there. Ingesting a source again adds what is new.
    The logs of workers go to onward.log in the data folder (ONWARD_HOME).

    \b
    Exit codes: 0 done, 1 failed, 3 done but some documents failed or still wait, 130 stopped.

    \b
    Examples:
      onward ingest archive.mbox
      onward ingest docs/ https://example.org/list.mbox.gz
      onward ingest --no-wait big.mbox && onward worker
    """
    began = time.monotonic()
    with open_pipeline() as app:
        check_models(app)
        if (gateway := app.gateway()) is not None:
            gateway.check()
        submitted, refused = _submit(app, sources, as_json)
        if not submitted:
            if as_json:
                print_json(_facts([], refused, 0.0, stopped=False))
            raise SystemExit(FAILED)
        if no_wait:
            _print_submitted(list(submitted), refused, as_json)
            raise SystemExit(UNFINISHED if refused else 0)
        stopped = run(app, _title(list(submitted)), sources=list(submitted), processes=processes)
        reports = [read_ingestion_report(app, source, before) for source, before in submitted.items()]
        seconds = time.monotonic() - began
        if as_json:
            print_json(_facts(reports, refused, seconds, stopped=stopped))
        else:
            _print_summary(app, reports, seconds, stopped=stopped)
    raise SystemExit(INTERRUPTED if stopped else _exit_code(reports, refused))


def _submit(app: App, locations: Sequence[str], as_json: bool) -> tuple[dict[str, dict[str, int]], dict[str, str]]:
    """Submit the sources; return the totals of each before this run, and the errors of those refused."""
    from onward.pipeline.fetch import canonical
    from onward.pipeline.fetch.location import is_url, printable
    from onward.pipeline.sources import submit

    submitted: dict[str, dict[str, int]] = {}
    refused: dict[str, str] = {}
    for location in locations:
        try:
            source = canonical(location)
            if source in submitted:
                continue
            if not is_url(source):
                _check_exists(source, location)
            before = totals(app, source)
            submit(app, location)
            submitted[source] = before
        except (OnwardError, UnicodeEncodeError) as error:
            why = str(error)
            if isinstance(error, UnicodeEncodeError):
                why = f"the name '{one_line(printable(location))}' is not UTF-8; rename it, or ingest its folder"
            refused[printable(location)] = why
            if not as_json:
                click.echo(f"Error: {one_line(why)}", err=True)
    return submitted, refused


def _check_exists(source: str, location: str) -> None:
    """Raise if a path does not exist or is not readable; other problems are found when it is fetched."""
    import os

    from onward.pipeline.fetch.fetch_errors import SourceMissing, UnreadableSource
    from onward.pipeline.fetch.location import printable

    name = one_line(printable(location))
    try:
        os.lstat(source)
    except PermissionError:
        raise UnreadableSource(
            f"the source '{name}' may not be read: allow it for this user, or leave it out"
        ) from None
    except OSError:
        raise SourceMissing(f"there is no file or folder '{name}': check its name") from None


def _title(sources: list[str]) -> str:
    first = source_name(sources[0])
    return first if len(sources) == 1 else f"{first} and {counted(len(sources) - 1, 'other source')}"


def _exit_code(reports: list[IngestionReport], refused: dict[str, str]) -> int:
    if all(report.status == "failed" for report in reports):
        return FAILED
    return 0 if not refused and all(report.is_clean for report in reports) else UNFINISHED


def _facts(
    reports: list[IngestionReport], refused: dict[str, str], seconds: float, *, stopped: bool
) -> dict[str, object]:
    return {
        "sources": [report.as_dict() for report in reports],
        "refused": [{"source": source, "error": error} for source, error in refused.items()],
        "seconds": round(seconds, 3),
        "stopped": stopped,
    }


def _print_submitted(submitted: list[str], refused: dict[str, str], as_json: bool) -> None:
    if as_json:
        print_json({"submitted": submitted, "refused": [{"source": s, "error": e} for s, e in refused.items()]})
        return
    out = console()
    for source in submitted:
        out.print(Text(f"{source_name(source)}: submitted"), soft_wrap=True)
    out.print(Text("Process it with:\n  onward worker"))


def _print_summary(app: App, reports: list[IngestionReport], seconds: float, *, stopped: bool) -> None:
    out = console()
    for report in reports:
        _describe(out, report, stopped=stopped)
    out.print(Text(_total(reports, seconds)))
    if stopped:
        out.print(Text(f"Stopped. {RESUME_HINT}", "yellow"), soft_wrap=True)
        return
    _print_failed(app, out, reports)
    _print_skipped_files(app, out, reports)
    _print_waiting(out, reports)
    if any(report.documents.get("messages", {}).get("processed") for report in reports):
        out.print(Text.assemble("Next: ", ("onward search WORDS…", "bold"), ", ", ("onward summaries", "bold")))


_STYLES = {"completed": "green", "partially_completed": "yellow", "failed": "red", "running": "yellow"}


def _describe(out: Console, report: IngestionReport, *, stopped: bool) -> None:
    status = "stopped" if stopped and report.status == "running" else report.status
    out.print(
        Text.assemble((source_name(report.source), "bold"), "  ", (status, _STYLES.get(status, "yellow"))),
        soft_wrap=True,
    )
    if not report.request_failed:
        for line in describe_report(report):
            out.print(Text(f"  {line}"), soft_wrap=True)
    for trouble in report.troubles:
        if trouble.collection == "archives":
            out.print(Text(f"  {one_line(trouble.error, 300)}", "red"), soft_wrap=True)
    archives = report.documents.get("archives", {})
    more = archives.get("failed", 0) + archives.get("failed_max_retries", 0)
    more -= sum(trouble.collection == "archives" for trouble in report.troubles)
    if more > 0:
        out.print(Text(f"  … and {counted(more, 'other')}", "red"), soft_wrap=True)
    out.print()


def describe_report(report: IngestionReport) -> list[str]:
    """Return the lines about a source: the counts of messages, chunks and summaries."""
    messages, items = report.messages, report.items
    parts = [f"{number(messages[name])} {name}" for name in ("parsed", "failed") if messages.get(name)]
    every = counted(messages.get("messages", 0), "message") + (f": {', '.join(parts)}" if parts else "")
    if messages.get("duplicates"):
        every += f"; {counted(messages['duplicates'], 'duplicate')} left out"
    if not messages:  # no archive is completely parsed yet
        so_far = sum(report.documents.get("messages", {}).values())
        if not so_far:
            return []
        every = f"{counted(so_far, 'message')} so far"
    added = {name: report.added.get(name, 0) for name in ("messages", "chunks", "threads", "summaries")}
    nothing_new = items and not items.get("new") and not items.get("removed")
    lines = []
    if nothing_new and not any(added.values()):
        lines.append(f"nothing new: {every}")
    else:
        if 0 < added["messages"] < report.documents.get("messages", {}).get("processed", 0):
            every += f"; {number(added['messages'])} of them new"
        lines.append(every)
        made = f"{counted(sum(report.documents.get('chunks', {}).values()), 'chunk')}"
        summarised = report.documents.get("threads", {}).get("processed", 0)
        lines.append(f"{made}, {counted(summarised, 'thread')} summarised")
    other = [
        f"{number(items[name])} {word}"
        for name, word in (("failed", "could not be read"), ("removed", "removed"))
        if items.get(name)
    ]
    if items.get("items", 0) > 1 or other:
        lines.insert(0, ", ".join([counted(items.get("items", 0), "item"), *other]))
    if report.without_text:
        blank = counted(len(report.without_text), "message")
        lines.append(f"{blank} without text, found by subject and attachments alone")
    lines += report.passed_over.lines()
    return lines


def _total(reports: list[IngestionReport], seconds: float) -> str:
    fresh = sum(max(0, report.added.get("messages", 0)) for report in reports)
    rate = f", {number(fresh / seconds)} messages a second" if fresh >= 10 and seconds > 0 else ""
    sources = f"{counted(len(reports), 'source')} in " if len(reports) > 1 else "In "
    return f"{sources}{duration(seconds)}{rate}."


def _print_failed(app: App, out: Console, reports: list[IngestionReport]) -> None:
    failed = sum(report.failed for report in reports)
    if not failed:
        return
    first = next(trouble for report in reports for trouble in report.troubles)
    out.print(Text(f"{counted(failed, 'document')} failed. To see which and why:", "red"))
    out.print(Text("  onward documents --status failed"))
    out.print(Text(f"  {show_command(app, first.collection, first.id)}"))


def _print_skipped_files(app: App, out: Console, reports: list[IngestionReport]) -> None:
    from onward.pipeline.documents import source_id

    found = [report.source for report in reports if report.passed_over.total or report.without_text]
    if found:
        out.print(Text("To list the files that were passed over and the messages without text:"))
    for source in found:
        out.print(Text(f"  {show_command(app, 'archives', source_id(source))}"))


def _print_waiting(out: Console, reports: list[IngestionReport]) -> None:
    for report in reports:
        for waiting in report.waiting:
            until = f" until {clock_time(waiting.until)}" if waiting.until else ""
            if waiting.dependency:
                until = f" for the {waiting.dependency}, which is down"
                until += f" and asked again at {clock_time(waiting.until)}" if waiting.until else ""
            if waiting.incomplete:
                until = " until their messages and chunks are finished"
            verb = "waits" if waiting.count == 1 else "wait"
            noun = counted(waiting.count, waiting.collection.removesuffix("s"))
            error = f": {one_line(waiting.error, 200)}" if waiting.error else ""
            out.print(
                Text(f"{noun} of {source_name(report.source)} {verb}{until}{error}", "yellow"), soft_wrap=True
            )
    if any(report.waiting for report in reports):
        out.print(
            Text("They are tried again by a running `onward worker`, or by the next `onward ingest`."),
            soft_wrap=True,
        )
        out.print(Text("To see them:\n  onward documents --status pending\n  onward status"))
