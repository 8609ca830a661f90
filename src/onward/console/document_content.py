"""The content of a document for its page: a mail as a mail, a chunk as text, any other as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from onward.app import App
from onward.console.page_templates import document_path
from onward.ops.queries.document_details import body_of, thread_size
from onward.ops.queries.documents import title_of
from onward.ops.text.format import counted, harmless, number, one_line, size, source_name
from onward.retry import redact

LONGEST = 200_000
"""A text is cut after this many characters; the original bytes have all of it."""
MAX_RECIPIENTS = 5
_OF_A_PATCH = re.compile(r"^(diff --git |@@ -|--- a/)|^ \d+ files? changed, \d", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Fact:
    """A named value; with a path, it is a link."""

    name: str
    value: str = ""
    path: str = ""
    at: float | None = None
    odd: bool = False


@dataclass(slots=True)
class DocumentContent:
    """The content of a document, as its page shows it."""

    title: str
    kind: str
    """message, chunk, …"""
    facts: list[Fact] = field(default_factory=list)
    text: list[tuple[str, str]] = field(default_factory=list)
    """Its text in parts, each with its kind: new, quote or signature."""
    body: str = ""
    """Its content as JSON, for a collection that is not of the pipeline."""
    cut: bool = False
    """The text was cut."""
    reading: str = ""
    """The path where it can be read in its thread."""
    original: bool = False
    """Its original bytes are stored."""

    @property
    def patch(self) -> bool:
        return any(is_patch(piece) for _, piece in self.text)


def is_patch(text: str) -> bool:
    """Return whether a text has a patch, which needs a fixed-width font."""
    return _OF_A_PATCH.search(text) is not None


def document_content(app: App, collection: str, id: str) -> DocumentContent:
    """Return the content of a document; one that the pipeline did not make is shown as JSON."""
    body = body_of(app, collection, id)
    known = _KINDS.get(collection)
    if known is not None and "ingestion" in app.registry.services:
        try:
            return known(app, body)
        except (KeyError, TypeError, ValueError):
            pass  # written by another program or version
    return _any(collection, body)


def _any(collection: str, body: Mapping[str, Any]) -> DocumentContent:
    text = redact(harmless(json.dumps(body, ensure_ascii=False, indent=2)))
    title = one_line(title_of(body), 160)
    return DocumentContent(title, collection, body=text[:LONGEST], cut=len(text) > LONGEST)


def _message(app: App, body: dict[str, Any]) -> DocumentContent:
    from onward.pipeline.documents import Message

    one = Message.from_json(json.dumps(body))
    facts = [Fact("From", one_line(one.author))]
    if one.recipients:
        more = len(one.recipients) - MAX_RECIPIENTS
        named = ", ".join(one_line(each) for each in one.recipients[:MAX_RECIPIENTS])
        facts.append(Fact("To", named + (f" and {number(more)} more" if more > 0 else "")))
    facts += [Fact("Date", at=one.date), Fact("Message-ID", one_line(one.message_id))]
    for each in one.attachments:
        about = f"{each.content_type}, {size(each.size)}" + (", searchable" if each.indexed else "")
        facts.append(Fact("Attached", one_line(f"{each.name or '(no name)'} ({about})")))
    facts += [Fact("Odd", one_line(defect), odd=True) for defect in one.defects]
    siblings = thread_size(app, one.thread_id)
    facts.append(Fact("Thread", counted(siblings, "message"), document_path("threads", one.thread_id)))
    facts.append(Fact("Archive", one_line(one.archive_id), document_path("archives", one.archive_id)))
    spans = one.spans or [("new", 0, len(one.body))]
    text, left = [], LONGEST
    for kind, start, end in spans:
        if left <= 0:
            break
        piece = harmless(one.body[start : min(end, start + left)])
        left -= len(piece)
        text.append((kind, piece))
    text = text if one.body.strip() else []
    return DocumentContent(
        one_line(one.subject) or "(no subject)",
        "message",
        facts,
        text,
        cut=len(one.body) > LONGEST,
        reading=f"/threads/{one.thread_id}#m-{one.id}",
        original=True,
    )


def _chunk(app: App, body: dict[str, Any]) -> DocumentContent:
    message, thread = body["message_id"], body["thread_id"]
    text = harmless(body["text"])
    facts = [
        Fact("Tokens", number(body["tokens"])),
        Fact("Message", one_line(message), document_path("messages", message)),
        Fact("Thread", one_line(thread), document_path("threads", thread)),
        Fact("Characters", f"{number(body['start'])} to {number(body['end'])} of its message"),
    ]
    title = f"Chunk {body['position'] + 1}: {one_line(text, 80)}"
    return DocumentContent(title, "chunk", facts, [("new", text[:LONGEST])], cut=len(text) > LONGEST)


def _thread(app: App, body: dict[str, Any]) -> DocumentContent:
    id = body["id"]
    facts = [Fact("First message", one_line(body["root"]))]
    messages = thread_size(app, id)
    facts.append(Fact("Messages", number(messages), f"/threads/{id}"))
    if app.store.statuses("summaries", [id]):
        facts.append(Fact("Summary", "written", document_path("summaries", id)))
    else:
        facts.append(Fact("Summary", "not yet written"))
    if body.get("missing"):
        facts.append(Fact("Not embedded", counted(body["missing"], "chunk"), odd=True))
    title = one_line(body.get("subject", "")) or "(no subject)"
    return DocumentContent(title, "thread", facts, reading=f"/threads/{id}")


def _summary(app: App, body: dict[str, Any]) -> DocumentContent:
    id = body["thread_id"]
    facts = [
        Fact("Thread", one_line(id), document_path("threads", id)),
        Fact("Messages", number(body["messages"])),
        Fact("Model", one_line(body.get("model", ""))),
    ]
    text = harmless(body["markdown"])
    title = one_line(body["subject"]) or "(no subject)"
    return DocumentContent(title, "summary", facts, [("new", text[:LONGEST])], reading=f"/threads/{id}")


def _archive(app: App, body: dict[str, Any]) -> DocumentContent:
    from onward.pipeline.documents import Archive, Report

    one = Archive.from_json(json.dumps(body))
    request = one.kind == "source"
    facts = [Fact("Kind", "the request to fetch the source" if request else one.kind)]
    if one.blob:
        facts += [Fact("Size", size(one.size)), Fact("Blob", one.blob)]
    facts += [Fact("URL", source_name(one.url))]
    report = app.get(Report, Report.make_id("report", one.id, one.submission))
    if report is not None:
        held = ", ".join(f"{number(count)} {name}" for name, count in report.counts.items() if count)
        facts.append(Fact("Contents", held or "nothing"))
    facts.append(Fact("Task", "progress of its ingestion", f"/tasks/{one.source_id}"))
    title = source_name(one.title)
    return DocumentContent(title, "archive", facts, original=one.blob is not None)


_KINDS: dict[str, Callable[[App, dict[str, Any]], DocumentContent]] = {
    "messages": _message,
    "chunks": _chunk,
    "threads": _thread,
    "summaries": _summary,
    "archives": _archive,
}
