"""`onward show`: everything that is known of one document."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click
from rich.cells import set_cell_size
from rich.text import Text

from onward.cli.accounting import due_time
from onward.cli.opening import NotFound, reading, resolve, short_ids
from onward.cli.output import (
    clock_time,
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
    """Show a message, thread, archive, chunk, summary or task by its id, or the beginning of it.

    With --raw its bytes go to standard output; on a terminal, control characters are made visible.

    \b
    Examples:
      onward show a0e78889
      onward show --raw a0e78889 > message.eml
      onward show --json a0e78889
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
        "error": {"type": last.get("error_type", ""), "message": last.get("message", "")} if last else None,
        "times": {
            "created_at": iso(state.created_at),
            "updated_at": iso(state.updated_at),
            "last_attempt_time": iso(state.last_attempt_time),
            "retry_at": iso(state.retry_at),
        },
    }


def _facts(app: App, collection: str, id: str) -> dict[str, Any]:
    state = app.state(collection, id)
    if state is None:
        raise NotFound(f"{collection}/{id} is gone")
    facts = state_facts(state) | {"outcomes": _outcomes(state), "body": _body(app, collection, id)}
    if collection == "threads":
        from onward.pipeline.documents import Summary

        summary = app.get(Summary, id)
        facts["summary"] = summary.model_dump(mode="json") if summary else None
        facts["message_ids"] = [one.id for one in _messages_of(app, id)]
    return facts


def _outcomes(state: DocumentState) -> list[dict[str, Any]]:
    history = state.attempts
    return [history["first"], *history["last"]] if history else []


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
    state = app.state(collection, id)
    if state is None:
        raise NotFound(f"{collection}/{id} is gone")
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
    else:
        for name, value in _body(app, collection, id).items():
            shown = iso(value) if name.endswith("_at") else value
            _field(out, name, str(shown))
    out.print()
    _print_state(app, out, state)


def _field(out: Console, name: str, value: str, style: str = "") -> None:
    if value:
        out.print(Text.assemble((f"{name:12}", "dim"), (one_line(value), style)), soft_wrap=True)


def _print_message(app: App, out: Console, message: Message) -> None:
    _field(out, "subject", message.subject or "(no subject)", "bold")
    _field(out, "from", message.author)
    recipients = [one_line(one) for one in message.recipients]
    more = f" and {len(recipients) - 5} more" if len(recipients) > 5 else ""
    _field(out, "to", ", ".join(recipients[:5]) + more)
    _field(out, "date", moment(message.date))
    _field(out, "message-id", message.message_id)
    _field(out, "source", source_name(message.source))
    for one in message.attachments:
        found = ", found by search" if one.indexed else ""
        _field(out, "attached", f"{one.name or '(no name)'} ({one.content_type}, {size(one.size)}{found})")
    for defect in message.defects:
        _field(out, "odd", defect, "yellow")
    siblings = len(app.store.find("messages", "thread_id", [message.thread_id]))
    thread = short_ids(app, [message.thread_id])[message.thread_id]
    _field(out, "thread", f"{counted(siblings, 'message')}: onward show {thread}")
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
        _field(out, "thread", thread.subject or "(no subject)", "bold")
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

    _field(out, "archive", archive.path or archive.title, "bold")
    _field(out, "source", source_name(archive.source))
    _field(out, "kind", "the request to fetch the source" if archive.kind == "source" else archive.kind)
    _field(out, "size", size(archive.size) if archive.blob else "")
    _field(out, "blob", archive.blob or "")
    _field(out, "url", source_name(archive.url))
    report = app.get(Report, Report.make_id("report", archive.id, archive.submission))
    if report is not None:
        _field(out, "holds", ", ".join(f"{number(count)} {name}" for name, count in report.counts.items()))


def _print_chunk(app: App, out: Console, chunk: Chunk) -> None:
    _field(out, "chunk", f"{chunk.position + 1} of its message, {counted(chunk.tokens, 'token')}", "bold")
    _field(out, "message", f"onward show {chunk.message_id}")
    _field(out, "thread", f"onward show {chunk.thread_id}")
    out.print()
    out.print(Text(harmless(chunk.text).rstrip()), soft_wrap=True)


_STATUS_STYLES = {"processed": "green", "pending": "yellow", "discarded": "dim"}


def _print_state(app: App, out: Console, state: DocumentState) -> None:
    _field(out, "id", f"{state.collection}/{state.id}")
    _field(out, "status", state.status, _STATUS_STYLES.get(state.status, "red"))
    rounds = counted(state.attempt_count, "round") if state.attempt_count else ""
    tries = state.attempts.get("total", 0)
    tried = f"{counted(tries, 'outcome')} kept" if tries > 1 else ""
    _field(out, "history", ", ".join(part for part in (rounds, tried, f"revision {state.revision}") if part))
    _field(out, "created", moment(state.created_at))
    if state.updated_at != state.created_at:
        _field(out, "updated", moment(state.updated_at))
    if state.failed_batch is not None:
        _field(out, "set aside", f"in the failed batch {state.failed_batch}", "yellow")
    if state.status == "pending" and (due := due_time(app, state)) is not None:
        _field(out, "tried again", clock_time(due))
    for one in _outcomes(state):
        error = f"{one.get('error_type', '')}: {one.get('message', '')}".strip(": ")
        if error:
            _field(out, "error", f"{moment(one.get('at'))}  {error}", "red")
