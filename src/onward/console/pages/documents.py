"""The list of documents, and the page of each: its content, next step and history, and the possible actions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from onward.app import App
from onward.console.action_forms import clean
from onward.console.page_templates import attachment_path, document_path, fragment, page, similar_path, with_query
from onward.console.pages.saved_filters import saved_filters
from onward.console.request_context import Onward
from onward.console.text_language import message_language
from onward.model.documents import DocumentState, Status
from onward.ops.bad_input import BadInput, NotFound
from onward.ops.queries.attachments import AttachmentFacts, attachment_bytes, attachments_of, download_headers
from onward.ops.queries.document_details import (
    archive_kind,
    body_of,
    history_of,
    next_step_of,
    original_of,
    thread_size,
)
from onward.ops.queries.documents import (
    MAX_FOUND,
    DocumentFilter,
    count_documents,
    list_changed,
    list_documents,
    select_documents,
    source_named,
    statuses_of,
)
from onward.ops.queries.titles import NO_SUBJECT, find_titles, title_of
from onward.ops.text.format import counted, display_name, harmless, number, one_line, printable, size, source_name
from onward.ops.text.history import entry_text, next_step_command, next_step_sentence
from onward.pipeline.documents import source_id
from onward.recovery.history import DocumentHistory
from onward.recovery.next_step import describe_error, rounds_of
from onward.retry import redact

router = APIRouter(include_in_schema=False)

SHOWN = 50
MAX_ID_LENGTH = 512
MAX_SOURCE_CHOICES = 100  # of more sources than this, one is typed and not chosen from a list
SHOWN_CHILDREN = 20
MAX_CHILDREN = 1_000  # of more children than this only their number is shown
LONGEST = 200_000  # a text is cut after this many characters; the original bytes have all of it
MAX_RECIPIENTS = 5
_OF_A_PATCH = re.compile(r"^(diff --git |@@ -|--- a/)|^ \d+ files? changed, \d", re.MULTILINE)


# -- filters that several lists share


def source_choices(app: App) -> list[tuple[str, str]] | None:
    """Return the key and the name of every source; None: there are too many to choose from."""
    sources = app.store.sources()
    if len(sources) > MAX_SOURCE_CHOICES:
        return None
    return [(source_id(source), display_name(source)) for source in sorted(sources)]


def chosen_source(app: App, given: str) -> tuple[str | None, str]:
    """Return the source that was typed or chosen, and what is wrong with it, if anything."""
    try:
        return (source_named(app, given) if given else None), ""
    except NotFound as error:
        return None, f"{str(error)[:1].upper()}{str(error)[1:]}."


def page_number(given: str, most: int = 100_000) -> int:
    """Return the number of a page; 1 for anything that is not a number."""
    number = int(given) if given.isascii() and given.isdecimal() and len(given) < 7 else 1
    return min(max(1, number), most)


ORDERS = {"changed": "newest change first", "oldest": "oldest change first", "id": "by id"}
SELECTION_ACTIONS = (
    ("retry", "Retry…", ""),
    ("schedule", "Schedule…", ""),
    ("unschedule", "Cancel the schedule…", ""),
    ("reset", "Reset…", ""),
    ("discard", "Discard…", "danger"),
)


@dataclass(slots=True)
class DocumentListFilter:
    collection: str = ""
    status: str = ""
    source: str = ""
    q: str = ""
    order: str = ""

    def __post_init__(self) -> None:
        self.source, self.q = clean(self.source).strip(), clean(self.q).strip()
        self.collection, self.status = clean(self.collection), clean(self.status)
        self.order = self.order if self.order in ORDERS and self.order != "changed" else ""

    def path(self, after: str = "") -> str:
        return with_query("/documents", **asdict(self), after=after)


@dataclass(slots=True)
class DocumentList:
    """A page of a list of documents."""

    states: list[DocumentState] = field(default_factory=list)
    following: str = ""
    total: int = 0
    is_capped: bool = False  # more than `total` match


@router.get("/documents")
def show(
    request: Request, app: Onward, wanted: Annotated[DocumentListFilter, Depends()], after: str = ""
) -> Response:
    chosen, problem = chosen_source(app, wanted.source)
    found = DocumentList() if problem else _found(app, wanted, chosen, clean(after))
    if len(found.states) == 1 and _is_named(found.states[0], wanted.q):
        return RedirectResponse(document_path(found.states[0].collection, found.states[0].id), 303)
    titles, rows = find_titles(app, [(one.collection, one.id) for one in found.states]), []
    for one in found.states:
        error = describe_error(one.last_error) if one.status != Status.PROCESSED else ""
        rows.append((one, titles.get((one.collection, one.id), ""), one_line(error, 200)))
    counts = app.store.document_counts()
    return page(
        request,
        "documents.html",
        wanted=wanted,
        problem=problem,
        rows=rows,
        found=found,
        collections=sorted(counts),
        statuses=[str(one) for one in Status],
        orders=ORDERS,
        actions=SELECTION_ACTIONS,
        sources=source_choices(app),
        chosen=source_id(chosen) if chosen else "",
        next_path=wanted.path(found.following) if found.following else "",
        first_path=wanted.path() if after else "",
        nothing=not counts,
        saved=saved_filters(app, "documents", wanted.path()),
    )


def _is_named(state: DocumentState, q: str) -> bool:
    return q in (state.id, f"{state.collection}/{state.id}")


def _found(app: App, wanted: DocumentListFilter, source: str | None, after: str) -> DocumentList:
    collection, status = wanted.collection or None, wanted.status or None
    if wanted.q:
        return _titled(app, wanted, source, after)
    total = count_documents(app, collection=collection, status=status, source=source)
    if wanted.order != "id":
        oldest = wanted.order == "oldest"
        states, following = list_changed(
            app, collection=collection, status=status, source=source, oldest=oldest, after=after, limit=SHOWN
        )
        return DocumentList(states, following, total)
    behind, _, id = after.partition("/")
    found = list_documents(
        app, collection=collection, status=status, source=source, after=(behind, id), limit=SHOWN + 1
    )
    shown = found[:SHOWN]
    following = f"{shown[-1].collection}/{shown[-1].id}" if len(found) > SHOWN else ""
    return DocumentList(shown, following, total)


def _titled(app: App, wanted: DocumentListFilter, source: str | None, after: str) -> DocumentList:
    """Return a page of the documents that were found by title, path or id."""
    title = wanted.q[: MAX_ID_LENGTH + 1]
    filters = DocumentFilter(collection=wanted.collection or None, source=source, title=title)
    try:
        found = list(select_documents(app, filters, statuses_of(wanted.status or None, (None,))))
    except BadInput:
        return DocumentList()  # a collection without documents
    exact = [one for one in found if _is_named(one, wanted.q)]
    if wanted.order != "id":
        found.sort(key=lambda one: one.updated_at or 0.0, reverse=wanted.order != "oldest")
    start = (page_number(after) - 1) * SHOWN
    following = str(page_number(after) + 1) if len(found) > start + SHOWN else ""
    shown = exact if len(exact) == 1 else found[start : start + SHOWN]
    return DocumentList(shown, following, len(found), len(found) >= MAX_FOUND)


# -- the page of a document


@router.get("/documents/{collection}/{id:path}")
def show_one(request: Request, app: Onward, collection: str, id: str) -> Response:
    id = id or request.query_params.get("id", "")  # for one that cannot be part of a path
    part = _part(app, collection, id)
    content = document_content(app, collection, id)
    path = document_path(collection, id).removeprefix("/documents")
    return page(
        request, "document.html", described=content, collection=collection, id=id, part=part, path_end=path
    )


@router.get("/raw/{collection}/{id:path}")
def raw(request: Request, app: Onward, collection: str, id: str) -> Response:
    """Send the fetched bytes of a message or archive; a browser saves them and does not show them."""
    id = id or request.query_params.get("id", "")
    name = re.sub(r"[^A-Za-z0-9_-]", "", id)[:40] or "document"
    ending = "eml" if collection == "messages" else "bin"
    headers = {
        "content-disposition": f'attachment; filename="{name}.{ending}"',
        "content-security-policy": "default-src 'none'; sandbox",
    }
    pieces = original_of(app, collection, id)
    return StreamingResponse(pieces, media_type="application/octet-stream", headers=headers)


@router.get("/attachments/{id}/{number}")
def attachment(app: Onward, id: str, number: int) -> Response:
    """Send the bytes of an attachment; a browser saves them and never shows them."""
    name, data = attachment_bytes(app, printable(id).replace("\0", " "), number)
    return Response(data, media_type="application/octet-stream", headers=download_headers(name))


def part(web: FastAPI, which: str) -> str:
    collection, _, id = which.partition("/")
    return _part(web.state.onward, collection, id)


def _part(app: App, collection: str, id: str) -> str:
    history = history_of(app, collection, id)
    state = history.state
    step = next_step_of(app, state)
    above, _, above_id = (history.state.parent or "").partition("/")
    parent = app.store.states_of([(above, above_id)]) if above else []
    return fragment(
        "document_part.html",
        state=state,
        rounds=rounds_of(state),
        source=(source_id(state.source), display_name(state.source)) if state.source else None,
        next=next_step_sentence(step, for_page=True),
        command=next_step_command(step),
        problems=step.problems,
        entries=[entry_text(entry) for entry in history.entries],
        history=history,
        parent=next(iter(_links(app, parent)), None),
        children=_children(app, history),
        actions=_actions(app, state),
    )


def _links(app: App, states: list[DocumentState]) -> list[tuple[str, str, str]]:
    """Return the path, the title and the status of each document."""
    titles = find_titles(app, [(state.collection, state.id) for state in states])
    links = []
    for state in states:
        title = one_line(titles.get((state.collection, state.id), ""), 80)
        title = title or f"{state.collection}/{one_line(state.id, 40)}"
        links.append((document_path(state.collection, state.id), title, str(state.status)))
    return links


def _children(app: App, history: DocumentHistory) -> list[tuple[str, dict[str, int], list[tuple[str, str, str]]]]:
    """Return the documents that were made from this one: their collection and counts, and links to the first."""
    kin = []
    for name, counts in sorted(history.children.items()):
        shown = []
        if sum(counts.values()) <= MAX_CHILDREN:
            found = app.store.children(name, history.state.collection, [history.state.id])
            shown = _links(app, app.store.states_of([(name, one.id) for one in found[:SHOWN_CHILDREN]]))
        kin.append((name, dict(counts), shown))
    return kin


def _actions(app: App, state: DocumentState) -> list[tuple[str, str, str]]:
    """Return the paths, titles and looks of the actions that are possible with its status; the best first."""
    finished_by = any(subscription.finishes == state.collection for subscription in app.store.subscriptions())
    found = []
    if finished_by and state.status != Status.PROCESSED:
        failed = state.status in (Status.FAILED, Status.FAILED_MAX_RETRIES)
        found += [("retry", "Retry now", "main" if failed else ""), ("schedule", "Schedule", "")]
    if state.retry_at is not None:
        found.append(("unschedule", "Cancel the schedule", ""))
    if finished_by:
        found.append(("reset", "Reset and retry", ""))
    if state.status not in (Status.PROCESSED, Status.DISCARDED):
        found.append(("discard", "Discard", "danger"))
    given = urlencode({"collection": state.collection, "id": state.id})
    return [(f"/confirm/{name}?{given}", title, look) for name, title, look in found]


# -- content


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
    title: str
    facts: list[Fact] = field(default_factory=list)
    text: list[tuple[str, str]] = field(default_factory=list)  # parts with their kind: new, quote, signature
    body: str = ""  # its content as JSON, for a collection that is not of the pipeline
    cut: bool = False  # the text was cut
    reading: str = ""  # the path where it can be read in its thread
    similar: str = ""  # the path of messages that are similar to it
    original: bool = False  # its original bytes are stored
    attachments: list[AttachmentFacts] = field(default_factory=list)
    language: str = ""  # the tag of the language of its text, if it is known

    @property
    def patch(self) -> bool:
        return any(is_patch(piece) for _, piece in self.text)


def is_patch(text: str) -> bool:
    """Return whether a text has a patch, which needs a fixed-width font."""
    return _OF_A_PATCH.search(text) is not None


def document_content(app: App, collection: str, id: str) -> DocumentContent:
    """Return the content of a document; one that the pipeline did not make is shown as JSON."""
    body = body_of(app, collection, id)
    if collection in _KINDS and "ingestion" in app.registry.services:
        try:
            return _KINDS[collection](app, body)
        except (KeyError, TypeError, ValueError):
            pass  # written by another program or version
    text = redact(harmless(json.dumps(body, ensure_ascii=False, indent=2)))
    return DocumentContent(title_of(collection, body), body=text[:LONGEST], cut=len(text) > LONGEST)


def _link(app: App, name: str, collection: str, id: str) -> Fact:
    """Return a fact that leads to another document, by its title."""
    title = find_titles(app, [(collection, id)]).get((collection, id), "")
    return Fact(name, title or one_line(id), document_path(collection, id))


def _message(app: App, body: dict[str, Any]) -> DocumentContent:
    from onward.pipeline.documents import Message

    one = Message.from_json(json.dumps(body))
    facts = [Fact("From", one_line(one.author))]
    if one.recipients:
        more = len(one.recipients) - MAX_RECIPIENTS
        named = ", ".join(one_line(each) for each in one.recipients[:MAX_RECIPIENTS])
        facts.append(Fact("To", named + (f" and {number(more)} more" if more > 0 else "")))
    facts += [Fact("Date", at=one.date), Fact("Message-ID", one_line(one.message_id))]
    if (mail := one.attached_to) is not None:
        facts.append(
            Fact("Attached to", one_line(mail.subject) or NO_SUBJECT, document_path("messages", mail.message_id))
        )
        facts.append(Fact("File", one_line(mail.name), attachment_path(mail.message_id, mail.number)))
    facts += [Fact("Odd", one_line(defect), odd=True) for defect in one.defects]
    siblings = counted(thread_size(app, one.thread_id), "message")
    facts.append(Fact("Thread", siblings, document_path("threads", one.thread_id)))
    facts.append(_link(app, "Archive", "archives", one.archive_id))
    text, left = [], LONGEST
    for kind, start, end in one.spans or [("new", 0, len(one.body))]:
        if left <= 0:
            break
        piece = harmless(one.body[start : min(end, start + left)])
        left -= len(piece)
        text.append((kind, piece))
    return DocumentContent(
        title_of("messages", body),
        facts,
        text if one.body.strip() else [],
        cut=len(one.body) > LONGEST,
        reading=f"/threads/{one.thread_id}#m-{one.attached_to.message_id if one.attached_to else one.id}",
        attachments=attachments_of(app, [one]).get(one.id, []),
        similar=similar_path(one.id) if one.body.strip() else "",
        original=True,
        language=message_language(one),
    )


def _chunk(app: App, body: dict[str, Any]) -> DocumentContent:
    message, thread, text = body["message_id"], body["thread_id"], harmless(body["text"])
    facts = [
        Fact("Tokens", number(body["tokens"])),
        _link(app, "Message", "messages", message),
        _link(app, "Thread", "threads", thread),
        Fact("Characters", f"{number(body['start'])} to {number(body['end'])} of its message"),
    ]
    title = title_of("chunks", body)
    return DocumentContent(
        f"{title[:1].upper()}{title[1:]}", facts, [("new", text[:LONGEST])], cut=len(text) > LONGEST
    )


def _thread(app: App, body: dict[str, Any]) -> DocumentContent:
    id = body["id"]
    written = bool(app.store.statuses("summaries", [id]))
    facts = [
        Fact("First message", one_line(body["root"])),
        Fact("Messages", number(thread_size(app, id)), f"/threads/{id}"),
        Fact("Summary", "written", document_path("summaries", id))
        if written
        else Fact("Summary", "not yet written"),
    ]
    if body.get("missing"):
        facts.append(Fact("Not embedded", counted(body["missing"], "chunk"), odd=True))
    return DocumentContent(one_line(body.get("subject", "")) or "(no subject)", facts, reading=f"/threads/{id}")


def _summary(app: App, body: dict[str, Any]) -> DocumentContent:
    id = body["thread_id"]
    facts = [
        _link(app, "Thread", "threads", id),
        Fact("Messages", number(body["messages"])),
        Fact("Model", one_line(body.get("model", ""))),
    ]
    text = [("new", harmless(body["markdown"])[:LONGEST])]
    return DocumentContent(one_line(body["subject"]) or "(no subject)", facts, text, reading=f"/threads/{id}")


def _archive(app: App, body: dict[str, Any]) -> DocumentContent:
    from onward.pipeline.documents import Archive, Report

    one = Archive.from_json(json.dumps(body))
    facts = [Fact("Kind", archive_kind(one))]
    if one.blob:
        facts += [Fact("Size", size(one.size)), Fact("Blob", one.blob)]
    if (mail := one.attached_to) is not None:
        facts.append(
            Fact("Attached to", one_line(mail.subject) or NO_SUBJECT, document_path("messages", mail.message_id))
        )
    facts.append(Fact("Not read", one_line(one.not_read, 400), odd=True))
    facts.append(Fact("URL", source_name(one.url)))
    report = app.get(Report, Report.make_id("report", one.id, one.submission))
    if report is not None:
        held = ", ".join(f"{number(count)} {name}" for name, count in report.counts.items() if count)
        facts.append(Fact("Contents", held or "nothing"))
    facts.append(Fact("Task", "progress of its ingestion", f"/tasks/{one.source_id}"))
    return DocumentContent(source_name(one.title), facts, original=one.blob is not None)


_KINDS: dict[str, Callable[[App, dict[str, Any]], DocumentContent]] = {
    "messages": _message,
    "chunks": _chunk,
    "threads": _thread,
    "summaries": _summary,
    "archives": _archive,
}
