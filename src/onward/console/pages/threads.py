"""The list of threads, and one thread with its summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request
from markupsafe import Markup
from starlette.responses import Response

from onward.app import App
from onward.console.markdown import render_markdown, without_sources
from onward.console.page_templates import page
from onward.console.pages.document import is_patch
from onward.console.pages.documents import chosen_source, source_choices
from onward.console.request_context import Onward
from onward.ops.bad_input import NotFound
from onward.ops.queries.document_details import messages_of_thread
from onward.ops.queries.threads import MAX_MATCHES, ThreadPosition, first_lines, list_threads
from onward.ops.text.format import counted, harmless, one_line, printable, source_name
from onward.ops.text.format import number as shown_number
from onward.pipeline.documents import source_id

if TYPE_CHECKING:
    from onward.pipeline.documents import Message, Summary, Thread

router = APIRouter()

SHOWN = 50
MAX_QUERY_LENGTH = 1_000
LONGEST = 30_000
"""A message is cut after this many characters; its own page has the rest."""
MAX_ROOT_SEARCH = 500
"""In a thread of more messages than this, the first message is not searched for."""
FOLDED = 4
"""A quotation of more lines than this is collapsed."""


def message_path(thread: str, message: str, *, here: bool = False) -> str:
    """Return the path of a message in its thread; `here`: it is on the same page."""
    anchor = f"#m-{quote(message, safe='')}"
    return anchor if here else f"/threads/{quote(thread, safe='')}?at={quote(message, safe='')}{anchor}"


# -- the list


@dataclass(frozen=True, slots=True)
class ThreadListFilter:
    """The filters of the list."""

    q: str = ""
    source: str = ""

    def path(self, after: str = "") -> str:
        given = {"q": self.q, "source": self.source, "after": after}
        return "/threads?" + urlencode({name: value for name, value in given.items() if value})


@router.get("/threads")
def show(request: Request, app: Onward, q: str = "", source: str = "", after: str = "") -> Response:
    """Show a page of threads, the newest first."""
    from onward.pipeline.search import EmptyQuery

    wanted = ThreadListFilter(one_line(printable(q))[:MAX_QUERY_LENGTH], source.strip())
    chosen, problem = chosen_source(app, wanted.source)
    found = None
    try:
        position = ThreadPosition.from_text(after)
        if not problem:
            found = list_threads(app, source=chosen, words=wanted.q, after=position, limit=SHOWN)
    except EmptyQuery:
        problem = "There is no word in it to look for."
    sources = app.store.sources()
    counts = app.store.document_counts(chosen).get("threads", {})
    threads = found.threads if found else []
    return page(
        request,
        "threads.html",
        wanted=wanted,
        problem=problem,
        rows=[
            (thread, first_lines(harmless(thread.summary.markdown)) if thread.summary else "")
            for thread in threads
        ],
        total=None if wanted.q or problem else sum(counts.values()),
        best_only=MAX_MATCHES if found and found.best_only else 0,
        several=len(sources) > 1,
        sources=source_choices(app),
        chosen=source_id(chosen) if chosen else wanted.source,
        source_names={one: one_line(source_name(one).rstrip("/").rsplit("/", 1)[-1], 60) for one in sources},
        nothing=not sum(app.store.document_counts().get("threads", {}).values()),
        next_path=wanted.path(threads[-1].place.as_text()) if found and found.more else "",
        first_path=wanted.path() if after else "",
    )


# -- one of them


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A part of a message: new text, a quotation or a signature."""

    kind: str
    text: str
    lines: int = 0
    """The lines of a collapsed quotation."""


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message, as the page shows it."""

    message: Message
    anchor: str
    pieces: list[MessagePart]
    cut: bool
    failed: bool
    cited: list[int] = field(default_factory=list)
    """The citations of the summary that refer to it."""

    @property
    def patch(self) -> bool:
        return is_patch(self.message.body)


@router.get("/threads/{id:path}")
def read(
    request: Request, app: Onward, id: str, number: Annotated[int, Query(alias="page")] = 1, at: str = ""
) -> Response:
    """Show a thread; `at` is the id of a message on the wanted page."""
    from onward.pipeline.documents import Message, Summary, Thread

    thread = app.get(Thread, id) if "ingestion" in app.registry.services else None
    if thread is None:
        raise NotFound(f"there is no thread {one_line(id, 80)!r}; /threads lists them")
    summary = app.get(Summary, id)
    counts = app.store.value_counts(Message, "thread_id", [id]).get(id, {})
    count = sum(counts.values())
    start = min(max(0, number - 1), count // SHOWN + 1) * SHOWN
    at = printable(at).replace("\0", "")
    if at and (message := app.get(Message, at)) is not None and message.thread_id == id:
        start = app.store.ids_before(Message, "thread_id", id, at, by="date") // SHOWN * SHOWN
    shown = messages_of_thread(app, id, start=start, limit=SHOWN)
    here = {one.id for one in shown}
    statuses = app.store.statuses("messages", list(here))
    failed = {id for id, status in statuses.items() if status.startswith("failed")}
    cited: dict[str, list[int]] = {}
    for one in summary.citations if summary else ():
        cited.setdefault(one.message_id, []).append(one.number)
    sources = {one.id: one for one in app.store.get_many(Message, list(cited)) if one.thread_id == id}
    links = {
        one.number: message_path(id, one.message_id, here=one.message_id in here)
        for one in (summary.citations if summary else ())
        if one.message_id in sources
    }
    base = f"/threads/{quote(id, safe='')}"
    return page(
        request,
        "thread.html",
        thread=thread,
        title=one_line(summary.subject if summary else thread.subject) or "(no subject)",
        source=source_name(thread.source),
        summary=summary,
        text=render_markdown(without_sources(summary.markdown), links) if summary else Markup(""),
        citations=[
            (one, links.get(one.number), sources.get(one.message_id))
            for one in (summary.citations if summary else ())
        ],
        missing=_missing(app, thread, summary, counts),
        thread_status=str(app.store.statuses("threads", [id]).get(id, "")),
        messages=[_read(one, one.id in failed, cited.get(one.id, [])) for one in shown],
        count=count,
        first=start + 1,
        last=start + len(shown),
        before=f"{base}?page={start // SHOWN}" if start else "",
        after=f"{base}?page={start // SHOWN + 2}" if start + SHOWN < count else "",
    )


def _read(message: Message, failed: bool, cited: list[int]) -> MessageView:
    pieces, left = [], LONGEST
    for kind, start, end in message.spans or [("new", 0, len(message.body))]:
        text = harmless(message.body[start : min(end, start + max(0, left))])
        left -= end - start
        lines = text.strip("\n").count("\n") + 1
        if text.strip():
            folded = kind == "quote" and lines > FOLDED
            pieces.append(MessagePart(kind, text.strip("\n") if folded else text, lines if folded else 0))
    return MessageView(message, f"m-{message.id}", pieces, left < 0, failed, cited)


def _missing(app: App, thread: Thread, summary: Summary | None, counts: Mapping[str, int]) -> list[str]:
    """Return sentences about what is missing."""
    sentences = []
    count = sum(counts.values())
    failed = sum(number for status, number in counts.items() if status.startswith("failed"))
    if summary is None:
        sentences.append("There is no summary yet. It is written when all messages of the thread are processed.")
    else:
        if summary.missing:
            chunks = counted(summary.missing, "chunk")
            sentences.append(f"{chunks} could not be embedded: search finds them by words, not by meaning.")
        if summary.messages < count:
            newer = shown_number(count - summary.messages)
            sentences.append(
                f"The summary is older than the thread: {newer} newer messages, and it will be written again."
            )
    if failed:
        them = "it is" if failed == 1 else "they are"
        sentences.append(f"{counted(failed, 'message')} could not be read or finished; {them} marked below.")
    if thread.root and count <= MAX_ROOT_SEARCH and _lacks_root(app, thread):
        sentences.append("The message that began this thread is not in the archive.")
    return sentences


def _lacks_root(app: App, thread: Thread) -> bool:
    """Return whether mails of a thread refer to a first message that is not stored."""
    refers, start = False, 0
    while messages := messages_of_thread(app, thread.id, start=start, limit=SHOWN):
        start += SHOWN
        for one in messages:
            if one.message_id == thread.root:
                return False
            refers = refers or (one.kind in ("mbox", "eml") and bool(one.references))
    return refers
