"""`onward show`: one document, its next step and its history."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from rich.cells import set_cell_size
from rich.text import Text

from onward.cli.app_access import open_reading_app
from onward.cli.output import NAME_WIDTH, STATUS_STYLES, Output
from onward.cli.params import json_option, print_json
from onward.ops.lookup import resolve, short_ids, show_command
from onward.ops.queries import document_details as details
from onward.ops.queries import ingestion_report as ingestion
from onward.ops.queries.attachments import SEARCHABLE, attachments_of
from onward.ops.text.format import (
    counted,
    counted_in,
    harmless,
    iso,
    made_visible,
    media_type,
    moment,
    number,
    one_line,
    sentence_text,
    size,
    source_name,
)
from onward.ops.text.history import entry_text, next_step_command, next_step_sentence
from onward.recovery.next_step import rounds_of

if TYPE_CHECKING:
    from onward import App
    from onward.pipeline.documents import Archive, Chunk, Message, Summary, Thread
    from onward.recovery.history import DocumentHistory
    from onward.recovery.next_step import NextStep

MAX_MESSAGES = 200  # of a thread that are listed, the oldest first
_TIME_WIDTH = 21
_DIM = {"quote": "dim", "signature": "dim italic"}
_TONES = {"good": "green", "warn": "yellow", "bad": "red"}


@click.command()
@click.argument("id")
@click.option("--raw", is_flag=True, help="Write the original bytes of a message or archive.")
@json_option
def show(id: str, raw: bool, as_json: bool) -> None:
    """Show a document by its id, or the beginning of its id.

    It shows what happens to the document next and why, and its history, the newest entry last. Give
    COLLECTION/ID if documents of several collections have the same id. With --raw the original bytes go to
    standard output; on a terminal, control characters are escaped.

    \b
    Examples:
      onward show a0e78889
      onward show --raw a0e78889 > message.eml
      onward show --json threads/a0e78889
    """
    with open_reading_app() as app:
        collection, found = resolve(app, id)
        if raw:
            visible = sys.stdout.isatty()
            for piece in details.original_of(app, collection, found):
                click.echo(made_visible(piece) if visible else piece, nl=False)
        elif as_json:
            print_json(details.document_facts(app, collection, found))
        else:
            _print(app, collection, found)


def _print(app: App, collection: str, id: str) -> None:
    from onward.pipeline import documents

    out = Output()
    history = details.history_of(app, collection, id)
    kinds: dict[str, tuple[type[Any], Callable[[App, Output, Any], None]]] = {
        "messages": (documents.Message, _print_message),
        "threads": (documents.Thread, _print_thread),
        "archives": (documents.Archive, _print_archive),
        "chunks": (documents.Chunk, _print_chunk),
        "summaries": (documents.Summary, lambda _, out, document: print_summary(out, document)),
    }
    if collection in kinds:
        kind, print_document = kinds[collection]
        print_document(app, out, app.get(kind, id))
    elif collection in ("tasks", "reports"):
        for name, value in details.body_of(app, collection, id).items():
            if value is not None and not isinstance(value, dict | list):
                out.field(name, str(iso(value) if name.endswith("_at") else value))
        if (report := ingestion.report_of(app, collection, id)) is not None:
            out.field("holds", _counts(report.counts))
            _print_skipped_files(out, ingestion.SkippedFiles.of(report))
    else:  # of another app
        out.write(harmless(json.dumps(details.body_of(app, collection, id), ensure_ascii=False, indent=2)))
    out.print()
    _print_state(out, history, details.next_step_of(app, history.state))
    out.field("awaited by", ", ".join(details.awaiting_events(app, collection, id)))
    out.print()
    out.write("History", style="bold")
    for entry in history.entries:
        shown = entry_text(entry)
        style = _TONES.get(shown.tone, "" if entry.what == "created" else "dim")
        about = Text.assemble((shown.text, style), (f"  {shown.detail}" if shown.detail else "", "dim"))
        out.hanging(_time(shown.at), about)
        if shown.error:
            out.hanging(_time(None), Text(shown.error))


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(counted_in(count, name) for name, count in counts.items())


def _print_state(out: Output, history: DocumentHistory, step: NextStep) -> None:
    """Print the status of a document and what happens to it next."""
    state = history.state
    out.field("id", f"{state.collection}/{state.id}")
    out.field("status", str(state.status), STATUS_STYLES.get(state.status, "red"))
    # The command is printed unchanged, because people copy it.
    command = next_step_command(step)
    sentence = one_line(sentence_text(next_step_sentence(step), step.now))
    out.hanging(Text(f"{'next':{NAME_WIDTH}}", "dim"), Text(f"{sentence}: {command}" if command else sentence))
    for problem in step.problems:
        out.field("odd", problem, "yellow")
    rounds, total = rounds_of(state), state.attempts.get("total", 0) if state.attempts else 0
    parts = (
        counted(rounds, "round") if rounds else "",
        counted(total, "outcome") if total > 1 else "",
        f"{number(total - history.not_kept)} of them kept" if history.not_kept else "",
        f"revision {state.revision}",
    )
    out.field("history", ", ".join(filter(None, parts)))
    out.field("priority", str(state.priority or ""))
    out.field("made from", history.state.parent or "")
    for collection, counts in sorted(history.children.items()):
        out.field("made", f"{collection}: {_counts(dict(sorted(counts.items())))}")
    if (letter := history.dead_letter) is not None:
        about = f"{letter.abandoned_reason} in {letter.failed_queue}: onward failed inspect {letter.row}"
        out.field("dead letter", about, "red")


def _time(at: float | None) -> Text:
    shown = ""
    if isinstance(at, int | float):
        with suppress(OverflowError, OSError, ValueError):
            shown = datetime.fromtimestamp(at, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return Text(f"{shown:{_TIME_WIDTH}}", "dim")


def _print_message(app: App, out: Output, message: Message) -> None:
    out.field("subject", message.subject or "(no subject)", "bold")
    out.field("from", message.author)
    recipients = [one_line(recipient) for recipient in message.recipients]
    more = f" and {len(recipients) - 5} more" if len(recipients) > 5 else ""
    out.field("to", ", ".join(recipients[:5]) + more)
    out.field("date", moment(message.date))
    out.field("message-id", message.message_id)
    out.field("source", source_name(message.source))
    for one in attachments_of(app, [message]).get(message.id, []):
        state = "found by search" if one.state == SEARCHABLE else one.state.replace("_", " ")
        state += f": {one_line(one.reason)}" if one.reason else ""
        out.field(
            "attached", f"{one.name or '(no name)'} ({media_type(one.content_type)}, {size(one.size)}, {state})"
        )
        if one.document_id not in (None, message.id):
            out.field("", show_command(app, "messages", str(one.document_id)))
    if message.attached_to is not None:
        mail = message.attached_to
        out.field("attached to", one_line(mail.subject) or "(no subject)")
        out.field("", show_command(app, "messages", mail.message_id))
    for defect in message.defects:
        out.field("odd", defect, "yellow")
    thread = show_command(app, "threads", message.thread_id)
    out.field("thread", f"{counted(details.thread_size(app, message.thread_id), 'message')}: {thread}")
    if message.body.strip():
        text = Text()
        for kind, start, end in message.spans or [("", 0, len(message.body))]:
            text.append(harmless(message.body[start:end]), _DIM.get(kind, ""))
        text.rstrip()
        out.print()
        out.write(text)
    elif message.blob is None:
        out.field("text", "none: search finds it by subject and attachments alone", "yellow")


def _print_thread(app: App, out: Output, thread: Thread) -> None:
    from onward.pipeline.documents import Summary

    summary = app.get(Summary, thread.id)
    if summary is not None:
        print_summary(out, summary)
    else:
        out.field("thread", thread.subject or "(no subject)", "bold")
        out.write("There is no summary yet.", style="yellow")
    out.print()
    total = details.thread_size(app, thread.id)
    messages = details.messages_of_thread(app, thread.id, limit=MAX_MESSAGES)
    ids = short_ids(app, [message.id for message in messages])
    out.write(counted(total, "message"), style="bold")
    for message in messages:
        who = set_cell_size(one_line(message.author.partition(" <")[0]), 24)
        date = (f"  {moment(message.date):16}  ", "dim")
        out.entry((ids[message.id], "green"), date, f"{who}  {one_line(message.subject)}")
    if more := total - len(messages):
        where = f"onward search --thread {thread.id[:8]} WORDS…"
        out.write(f"… and {counted(more, 'later message')}; to find one: {where}", style="dim")


def print_summary(out: Output, summary: Summary) -> None:
    """Print a summary, rendered from its Markdown."""
    out.write(one_line(summary.subject) or "(no subject)", style="bold")
    missing = f" · {counted(summary.missing, 'chunk')} not embedded" if summary.missing else ""
    out.wrapped(f"{counted(summary.messages, 'message')} · by {summary.model}{missing}", "dim")
    out.print()
    if out.is_terminal:
        from rich.markdown import Markdown  # takes a while to import
        from rich.padding import Padding

        out.print(Padding(Markdown(harmless(summary.markdown), hyperlinks=False), (0, 2)))
    else:
        out.write(harmless(summary.markdown).rstrip())


def _print_archive(app: App, out: Output, archive: Archive) -> None:
    from onward.pipeline.sources import without_text

    out.field("archive", archive.path or archive.title, "bold")
    out.field("source", source_name(archive.source))
    out.field("kind", details.archive_kind(archive))
    out.field("size", size(archive.size) if archive.blob else "")
    out.field("blob", archive.blob or "")
    out.field("url", source_name(archive.url))
    out.field("not read", archive.not_read, "yellow")
    if archive.attached_to is not None:
        out.field("attached to", show_command(app, "messages", archive.attached_to.message_id))
    out.field("holds", _counts(ingestion.archive_counts(app, archive)))
    if archive.id != archive.source_id:
        return
    if ids := without_text(app, archive.source):
        out.field("without text", f"{counted(len(ids), 'message')}, found by subject and attachments alone")
    for id in ids[: ingestion.LISTED]:
        out.entry(f"  {show_command(app, 'messages', id)}")
    _print_not_listed(out, len(ids) - ingestion.LISTED)
    damaged = ingestion.read_damaged(app, archive.source)
    if damaged.ids:
        out.field("damaged", str(damaged))
    for id in damaged.ids[: ingestion.LISTED]:
        out.entry(f"  {show_command(app, 'messages', id)}")
    _print_not_listed(out, len(damaged.ids) - ingestion.LISTED)
    _print_skipped_files(out, ingestion.read_skipped_files(app, archive.source))


def _print_not_listed(out: Output, count: int) -> None:
    if count > 0:
        out.write(f"  … and {counted(count, 'other')}, which are not listed", style="dim")


def _print_skipped_files(out: Output, skipped: ingestion.SkippedFiles) -> None:
    for name, kinds in (("passed over", skipped.kinds), ("ignored", skipped.ignored)):
        if kinds:
            out.field(name, f"{number(sum(kinds.values()))}: {ingestion.kinds_text(kinds)}")
    for item in skipped.items:
        out.entry(f"  {one_line(item.path)}  ", (item.reason, "dim"))
    _print_not_listed(out, skipped.not_listed)


def _print_chunk(app: App, out: Output, chunk: Chunk) -> None:
    out.field("chunk", f"{chunk.position + 1} of its message, {counted(chunk.tokens, 'token')}", "bold")
    out.field("message", show_command(app, "messages", chunk.message_id))
    out.field("thread", show_command(app, "threads", chunk.thread_id))
    out.print()
    out.write(harmless(chunk.text).rstrip())
