"""`onward show`: everything that is known of one document."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from rich.cells import set_cell_size
from rich.text import Text

from onward.cli.life import field, print_life, print_state
from onward.cli.opening import reading
from onward.cli.output import console, json_option, print_entry, print_json
from onward.facts.finding import resolve, short_ids, show_command
from onward.facts.letters import made_visible
from onward.facts.life import body_of, document_facts, messages_of_thread, original_of, outlook_of, story_of
from onward.facts.wording import counted, harmless, iso, moment, number, one_line, size, source_name

if TYPE_CHECKING:
    from rich.console import Console

    from onward import App
    from onward.pipeline.documents import Archive, Chunk, Message, Summary, Thread

_DIM = {"quote": "dim", "signature": "dim italic"}


@click.command()
@click.argument("id")
@click.option("--raw", is_flag=True, help="Write the bytes of a message or archive, as they were fetched.")
@json_option
def show(id: str, raw: bool, as_json: bool) -> None:
    """Show a message, thread, archive, chunk, summary or any other document by its id, or the beginning of it.

    It tells what happens to the document next and why, and its life so far, the newest last. COLLECTION/ID
    tells documents with the same id apart.
    With --raw its bytes go to standard output; on a terminal, control characters are made visible.

    \b
    Examples:
      onward show a0e78889
      onward show --raw a0e78889 > message.eml
      onward show --json threads/a0e78889
    """
    with reading() as app:
        collection, found = resolve(app, id)
        if raw:
            _write_raw(app, collection, found)
        elif as_json:
            print_json(document_facts(app, collection, found))
        else:
            _print(app, collection, found)


# -- bytes


def _write_raw(app: App, collection: str, id: str) -> None:
    pieces = original_of(app, collection, id)
    visible = sys.stdout.isatty()
    for piece in pieces:
        click.echo(made_visible(piece) if visible else piece, nl=False)


# -- for people


def _print(app: App, collection: str, id: str) -> None:
    from onward.pipeline import documents

    out = console()
    story = story_of(app, collection, id)
    kinds: dict[str, tuple[type[Any], Callable[[App, Console, Any], None]]] = {
        "messages": (documents.Message, _print_message),
        "threads": (documents.Thread, _print_thread),
        "archives": (documents.Archive, _print_archive),
        "chunks": (documents.Chunk, _print_chunk),
        "summaries": (documents.Summary, lambda app, out, one: print_summary(out, one)),
    }
    if collection in kinds:
        kind, describe = kinds[collection]
        describe(app, out, app.get(kind, id))
    elif collection in ("tasks", "reports"):
        for name, value in body_of(app, collection, id).items():
            shown = iso(value) if name.endswith("_at") else value
            field(out, name, str(shown))
    else:
        _print_body(out, body_of(app, collection, id))
    out.print()
    print_state(out, story, outlook_of(app, story.state))
    out.print()
    print_life(out, story)


def _print_body(out: Console, body: dict[str, Any]) -> None:
    """A document of somebody else's app, whose fields mean nothing here."""
    import json

    out.print(Text(harmless(json.dumps(body, ensure_ascii=False, indent=2))), soft_wrap=True)


def _print_message(app: App, out: Console, message: Message) -> None:
    field(out, "subject", message.subject or "(no subject)", "bold")
    field(out, "from", message.author)
    recipients = [one_line(one) for one in message.recipients]
    more = f" and {len(recipients) - 5} more" if len(recipients) > 5 else ""
    field(out, "to", ", ".join(recipients[:5]) + more)
    field(out, "date", moment(message.date))
    field(out, "message-id", message.message_id)
    field(out, "source", source_name(message.source))
    for one in message.attachments:
        found = ", found by search" if one.indexed else ""
        field(out, "attached", f"{one.name or '(no name)'} ({one.content_type}, {size(one.size)}{found})")
    for defect in message.defects:
        field(out, "odd", defect, "yellow")
    siblings = len(app.store.find("messages", "thread_id", [message.thread_id]))
    thread = show_command(app, "threads", message.thread_id)
    field(out, "thread", f"{counted(siblings, 'message')}: {thread}")
    if message.body:
        out.print()
        out.print(_styled_body(message), soft_wrap=True)


def _styled_body(message: Message) -> Text:
    """The text, with what its author only quoted, and the signature, in the background."""
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
    messages = messages_of_thread(app, thread.id)
    ids = short_ids(app, [one.id for one in messages])
    out.print(Text(counted(len(messages), "message"), "bold"))
    for one in messages:
        about = Text.assemble((ids[one.id], "green"), (f"  {moment(one.date):16}  ", "dim"))
        who = set_cell_size(one_line(one.author.partition(" <")[0]), 24)
        print_entry(out, Text.assemble(about, f"{who}  ", one_line(one.subject)))


def print_summary(out: Console, summary: Summary) -> None:
    """Print a summary, rendered from its Markdown."""
    out.print(Text(one_line(summary.subject) or "(no subject)", "bold"), soft_wrap=True)
    about = [counted(summary.messages, "message"), f"by {summary.model}"]
    if summary.missing:
        about.append(f"{counted(summary.missing, 'chunk')} missing")
    out.print(Text(" · ".join(about), "dim"))
    out.print()
    if out.is_terminal:
        from rich.markdown import Markdown  # takes a while to import
        from rich.padding import Padding

        out.print(Padding(Markdown(harmless(summary.markdown), hyperlinks=False), (0, 2)))
    else:
        out.print(Text(harmless(summary.markdown).rstrip()), soft_wrap=True)


def _print_archive(app: App, out: Console, archive: Archive) -> None:
    from onward.pipeline.documents import Report

    field(out, "archive", archive.path or archive.title, "bold")
    field(out, "source", source_name(archive.source))
    field(out, "kind", "the request to fetch the source" if archive.kind == "source" else archive.kind)
    field(out, "size", size(archive.size) if archive.blob else "")
    field(out, "blob", archive.blob or "")
    field(out, "url", source_name(archive.url))
    report = app.get(Report, Report.make_id("report", archive.id, archive.submission))
    if report is not None:
        field(out, "holds", ", ".join(f"{number(count)} {name}" for name, count in report.counts.items()))


def _print_chunk(app: App, out: Console, chunk: Chunk) -> None:
    field(out, "chunk", f"{chunk.position + 1} of its message, {counted(chunk.tokens, 'token')}", "bold")
    field(out, "message", show_command(app, "messages", chunk.message_id))
    field(out, "thread", show_command(app, "threads", chunk.thread_id))
    out.print()
    out.print(Text(harmless(chunk.text).rstrip()), soft_wrap=True)
