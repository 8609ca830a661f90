"""`onward show`: everything that is known of one document."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click
from rich.cells import set_cell_size
from rich.text import Text

from onward.cli.life import field, life_facts, next_facts, outlook_of, print_life, print_state, time_fact
from onward.cli.opening import NotFound, reading, resolve, short_ids, show_command
from onward.cli.output import (
    console,
    counted,
    harmless,
    iso,
    json_option,
    moment,
    number,
    one_line,
    print_entry,
    print_json,
    size,
    source_name,
)
from onward.recovery.story import Story, kept_outcomes, tell
from onward.retry.redact import redact

if TYPE_CHECKING:
    from rich.console import Console

    from onward import App, DocumentState
    from onward.pipeline.documents import Archive, Chunk, Message, Summary, Thread

BLOCK = 1 << 20
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
            print_json(_facts(app, collection, found))
        else:
            _print(app, collection, found)


def _body(app: App, collection: str, id: str) -> dict[str, Any]:
    import json

    ((_, _, body),) = app.store.read_bodies(collection, [id])
    read: dict[str, Any] = json.loads(body)
    return read


def state_facts(state: DocumentState) -> dict[str, Any]:
    """A document's state for programs; what differs between two runs of the same stands under `times`."""
    last = state.last_error
    return {
        "collection": state.collection,
        "id": state.id,
        "status": state.status,
        "source": redact(state.source) if state.source else None,
        "parent": state.parent,
        "revision": state.revision,
        "rounds": state.attempt_count,
        "set_aside": state.failed_batch is not None,
        "error": _error_facts(last) if last else None,
        "times": {
            "created_at": time_fact(state.created_at),
            "updated_at": time_fact(state.updated_at),
            "last_attempt_time": time_fact(state.last_attempt_time),
            "retry_at": time_fact(state.retry_at),
        },
    }


def _error_facts(error: object) -> dict[str, str]:
    if isinstance(error, dict):
        return {"type": error.get("error_type", ""), "message": error.get("message", "")}
    return {"type": "", "message": redact(str(error))}  # others may write what they like


def _story(app: App, collection: str, id: str) -> Story:
    story = tell(app.store, collection, id)
    if story is None:
        raise NotFound(f"{collection}/{id} is gone")
    return story


def _facts(app: App, collection: str, id: str) -> dict[str, Any]:
    story = _story(app, collection, id)
    facts = state_facts(story.state) | {
        "next": next_facts(outlook_of(app, story.state)),
        "life": life_facts(story),
        "outcomes": kept_outcomes(story.state),
        "body": _body(app, collection, id),
    }
    if collection == "threads":
        from onward.pipeline.documents import Summary

        summary = app.get(Summary, id)
        facts["summary"] = summary.model_dump(mode="json") if summary else None
        facts["message_ids"] = [one.id for one in _messages_of(app, id)]
    return facts


# -- bytes


def _write_raw(app: App, collection: str, id: str) -> None:
    from onward.pipeline.documents import Archive, Message
    from onward.pipeline.services.parsing import find_original

    where: tuple[str, int, int | None] | None = None
    if collection == "messages" and (message := app.get(Message, id)) is not None:
        where = find_original(app, message)
    elif collection == "archives" and (archive := app.get(Archive, id)) is not None and archive.blob is not None:
        where = (archive.blob, 0, None)
    if where is None:
        raise NotFound(f"{collection}/{id} has no bytes of its own; messages and fetched archives have")
    pieces = _read(app, *where)
    visible = sys.stdout.isatty()
    for piece in pieces:
        click.echo(made_visible(piece) if visible else piece, nl=False)


def _read(app: App, digest: str, offset: int, length: int | None) -> Iterator[bytes]:
    with closing(app.blobs.open(digest)) as stream:
        stream.seek(offset)
        left = length
        while left is None or left > 0:
            block = stream.read(BLOCK if left is None else min(left, BLOCK))
            if not block:
                return
            left = None if left is None else left - len(block)
            yield block


def made_visible(data: bytes) -> bytes:
    """Bytes that a terminal can be shown: what would drive it is written as \\x1b."""
    text = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    return "".join(
        one if one in "\n\t" or (one != "\r" and harmless(one)) else f"\\x{ord(one):02x}" for one in text
    ).encode()


# -- for people


def _print(app: App, collection: str, id: str) -> None:
    from onward.pipeline import documents

    out = console()
    story = _story(app, collection, id)
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
        for name, value in _body(app, collection, id).items():
            shown = iso(value) if name.endswith("_at") else value
            field(out, name, str(shown))
    else:
        _print_body(out, _body(app, collection, id))
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


def _messages_of(app: App, thread: str) -> list[Message]:
    from onward.pipeline.documents import Message

    ids = sorted(one.id for one in app.store.find(Message, "thread_id", [thread]))
    messages = app.store.get_many(Message, ids)
    return sorted(messages, key=lambda one: (one.date or 0.0, one.offset, one.id))


def _print_thread(app: App, out: Console, thread: Thread) -> None:
    from onward.pipeline.documents import Summary

    summary = app.get(Summary, thread.id)
    if summary is not None:
        print_summary(out, summary)
    else:
        field(out, "thread", thread.subject or "(no subject)", "bold")
        out.print(Text("There is no summary yet.", "yellow"))
    out.print()
    messages = _messages_of(app, thread.id)
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
