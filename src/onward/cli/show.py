"""`onward show`: one document, its next step and its history."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from rich.cells import set_cell_size
from rich.text import Text

from onward.cli.app_access import open_store_app
from onward.cli.params import json_option
from onward.cli.render.document_history import field, print_history, print_state
from onward.cli.render.output import console, print_entry, print_json
from onward.ops.lookup import resolve, short_ids, show_command
from onward.ops.queries.document_details import (
    body_of,
    document_facts,
    history_of,
    messages_of_thread,
    next_step_of,
    original_of,
    thread_size,
)
from onward.ops.queries.ingestion_report import (
    LISTED,
    SkippedFiles,
    archive_counts,
    kinds_text,
    read_skipped_files,
    report_of,
)
from onward.ops.text.format import (
    counted,
    harmless,
    iso,
    made_visible,
    moment,
    number,
    one_line,
    size,
    source_name,
)

if TYPE_CHECKING:
    from rich.console import Console

    from onward import App
    from onward.pipeline.documents import Archive, Chunk, Message, Summary, Thread

MAX_MESSAGES = 200
"""The most messages of a thread that are listed, the oldest first."""
_DIM = {"quote": "dim", "signature": "dim italic"}


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
    with open_store_app() as app:
        collection, found = resolve(app, id)
        if raw:
            _write_raw(app, collection, found)
        elif as_json:
            print_json(document_facts(app, collection, found))
        else:
            _print(app, collection, found)


def _write_raw(app: App, collection: str, id: str) -> None:
    pieces = original_of(app, collection, id)
    visible = sys.stdout.isatty()
    for piece in pieces:
        click.echo(made_visible(piece) if visible else piece, nl=False)


def _print(app: App, collection: str, id: str) -> None:
    from onward.pipeline import documents

    out = console()
    history = history_of(app, collection, id)
    kinds: dict[str, tuple[type[Any], Callable[[App, Console, Any], None]]] = {
        "messages": (documents.Message, _print_message),
        "threads": (documents.Thread, _print_thread),
        "archives": (documents.Archive, _print_archive),
        "chunks": (documents.Chunk, _print_chunk),
        "summaries": (documents.Summary, lambda app, out, document: print_summary(out, document)),
    }
    if collection in kinds:
        kind, describe = kinds[collection]
        describe(app, out, app.get(kind, id))
    elif collection in ("tasks", "reports"):
        for name, value in body_of(app, collection, id).items():
            if not isinstance(value, dict | list):
                field(out, name, str(iso(value) if name.endswith("_at") else value))
        if (report := report_of(app, collection, id)) is not None:
            field(out, "holds", ", ".join(f"{number(count)} {name}" for name, count in report.counts.items()))
            _print_skipped_files(out, SkippedFiles.of(report))
    else:
        _print_body(out, body_of(app, collection, id))
    out.print()
    print_state(out, history, next_step_of(app, history.state))
    out.print()
    print_history(out, history)


def _print_body(out: Console, body: dict[str, Any]) -> None:
    """Print a document of another app as JSON."""
    import json

    out.print(Text(harmless(json.dumps(body, ensure_ascii=False, indent=2))), soft_wrap=True)


def _print_message(app: App, out: Console, message: Message) -> None:
    field(out, "subject", message.subject or "(no subject)", "bold")
    field(out, "from", message.author)
    recipients = [one_line(attachment) for attachment in message.recipients]
    more = f" and {len(recipients) - 5} more" if len(recipients) > 5 else ""
    field(out, "to", ", ".join(recipients[:5]) + more)
    field(out, "date", moment(message.date))
    field(out, "message-id", message.message_id)
    field(out, "source", source_name(message.source))
    for attachment in message.attachments:
        found = ", found by search" if attachment.indexed else ""
        about = f"{attachment.content_type}, {size(attachment.size)}{found}"
        field(out, "attached", f"{attachment.name or '(no name)'} ({about})")
    for defect in message.defects:
        field(out, "odd", defect, "yellow")
    thread = show_command(app, "threads", message.thread_id)
    field(out, "thread", f"{counted(thread_size(app, message.thread_id), 'message')}: {thread}")
    if message.body.strip():
        out.print()
        out.print(_styled_body(message), soft_wrap=True)
    elif message.blob is None:
        field(out, "text", "none: search finds it by subject and attachments alone", "yellow")


def _styled_body(message: Message) -> Text:
    """Return the text with quotes and the signature dimmed."""
    if not message.spans:
        return Text(harmless(message.body).rstrip())
    text = Text()
    for kind, start, end in message.spans:
        text.append(harmless(message.body[start:end]), _DIM.get(kind, ""))
    text.rstrip()
    return text


def _print_thread(app: App, out: Console, thread: Thread) -> None:
    from onward.pipeline.documents import Summary

    summary = app.get(Summary, thread.id)
    if summary is not None:
        print_summary(out, summary)
    else:
        field(out, "thread", thread.subject or "(no subject)", "bold")
        out.print(Text("There is no summary yet.", "yellow"))
    out.print()
    size_ = thread_size(app, thread.id)
    messages = messages_of_thread(app, thread.id, limit=MAX_MESSAGES)
    ids = short_ids(app, [message.id for message in messages])
    out.print(Text(counted(size_, "message"), "bold"))
    for message in messages:
        about = Text.assemble((ids[message.id], "green"), (f"  {moment(message.date):16}  ", "dim"))
        who = set_cell_size(one_line(message.author.partition(" <")[0]), 24)
        print_entry(out, Text.assemble(about, f"{who}  ", one_line(message.subject)))
    if more := size_ - len(messages):
        where = f"onward search --thread {thread.id[:8]} WORDS…"
        out.print(Text(f"… and {counted(more, 'later message')}; to find one: {where}", "dim"), soft_wrap=True)


def print_summary(out: Console, summary: Summary) -> None:
    """Print a summary, rendered from its Markdown."""
    out.print(Text(one_line(summary.subject) or "(no subject)", "bold"), soft_wrap=True)
    about = [counted(summary.messages, "message"), f"by {summary.model}"]
    if summary.missing:
        about.append(f"{counted(summary.missing, 'chunk')} not embedded")
    out.print(Text(" · ".join(about), "dim"))
    out.print()
    if out.is_terminal:
        from rich.markdown import Markdown  # takes a while to import
        from rich.padding import Padding

        out.print(Padding(Markdown(harmless(summary.markdown), hyperlinks=False), (0, 2)))
    else:
        out.print(Text(harmless(summary.markdown).rstrip()), soft_wrap=True)


def _print_archive(app: App, out: Console, archive: Archive) -> None:
    field(out, "archive", archive.path or archive.title, "bold")
    field(out, "source", source_name(archive.source))
    field(out, "kind", "the request to fetch the source" if archive.kind == "source" else archive.kind)
    field(out, "size", size(archive.size) if archive.blob else "")
    field(out, "blob", archive.blob or "")
    field(out, "url", source_name(archive.url))
    if held := archive_counts(app, archive):
        field(out, "holds", ", ".join(f"{number(count)} {name}" for name, count in held.items()))
    if archive.id == archive.source_id:
        _print_messages_without_text(app, out, archive.source)
        _print_skipped_files(out, read_skipped_files(app, archive.source))


def _print_messages_without_text(app: App, out: Console, source: str) -> None:
    from onward.pipeline.sources import without_text

    if ids := without_text(app, source):
        field(out, "without text", f"{counted(len(ids), 'message')}, found by subject and attachments alone")
    for id in ids[:LISTED]:
        print_entry(out, Text(f"  {show_command(app, 'messages', id)}"))
    if len(ids) > LISTED:
        out.print(Text(f"  … and {counted(len(ids) - LISTED, 'other')}, which are not listed", "dim"))


def _print_skipped_files(out: Console, passed_over: SkippedFiles) -> None:
    for name, kinds in (("passed over", passed_over.kinds), ("ignored", passed_over.ignored)):
        if kinds:
            field(out, name, f"{number(sum(kinds.values()))}: {kinds_text(kinds)}")
    for item in passed_over.items:
        print_entry(out, Text.assemble(f"  {one_line(item.path)}  ", (item.reason, "dim")))
    if passed_over.not_listed:
        out.print(Text(f"  … and {counted(passed_over.not_listed, 'other')}, which are not listed", "dim"))


def _print_chunk(app: App, out: Console, chunk: Chunk) -> None:
    field(out, "chunk", f"{chunk.position + 1} of its message, {counted(chunk.tokens, 'token')}", "bold")
    field(out, "message", show_command(app, "messages", chunk.message_id))
    field(out, "thread", show_command(app, "threads", chunk.thread_id))
    out.print()
    out.print(Text(harmless(chunk.text).rstrip()), soft_wrap=True)
