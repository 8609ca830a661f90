"""The list of threads, and one thread with its summary."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from onward.app import App
from onward.console.markdown import render_markdown, without_sources
from onward.console.page_templates import document_path, page, with_query
from onward.console.pages.documents import chosen_source, is_patch, source_choices
from onward.console.request_context import Onward
from onward.ops.bad_input import NotFound
from onward.ops.queries.attachments import attachments_of
from onward.ops.queries.document_details import messages_of_thread
from onward.ops.queries.threads import MAX_MATCHES, ThreadPosition, first_lines, list_threads
from onward.ops.text.format import (
    counted,
    display_name,
    files_not_listed,
    harmless,
    one_line,
    printable,
    short_name,
)
from onward.ops.text.format import number as shown_number
from onward.pipeline.documents import source_id
from onward.pipeline.query_language import QueryError

if TYPE_CHECKING:
    from onward.pipeline.documents import Message, Summary, Thread

router = APIRouter(include_in_schema=False)

SHOWN = 50
MAX_QUERY_LENGTH = 1_000
LONGEST = 30_000  # a message is cut after this many characters; its own page has the rest
LAST_PASSAGE = 200_000  # a passage up to here is shown, even if its message would be cut before it
MAX_ROOT_SEARCH = 500  # in a thread of more messages than this, the first message is not searched for
FOLDED = 4  # a quotation of more lines than this is collapsed


def message_path(message: Message, *, here: bool = False) -> str:
    """Return the path of a message in its thread, of an attachment that of its mail; `here`: on the same page."""
    id = quote(message.attached_to.message_id if message.attached_to else message.id, safe="")
    return f"#m-{id}" if here else f"/threads/{quote(message.thread_id, safe='')}?at={id}#m-{id}"


def _citation_path(message: Message, here: Collection[str]) -> str:
    if message.attached_to is not None:
        return document_path("messages", message.id)  # its text is not in the thread
    return message_path(message, here=message.id in here)


def passage_path(message: Message, start: int, end: int) -> str:
    """Return the path of a passage of a message in its thread, where it is marked; or of its document."""
    if message.attached_to is not None:
        return document_path("messages", message.id)
    given = f"at={quote(message.id, safe='')}&passage={start}-{end}"
    return f"/threads/{quote(message.thread_id, safe='')}?{given}#cited"


@router.get("/threads")
def show(
    request: Request, app: Onward, q: str = "", source: str = "", files: str = "", after: str = ""
) -> Response:
    """Show a page of threads, the newest first; those of files and web pages only with `files`."""
    wanted = {"q": one_line(printable(q))[:MAX_QUERY_LENGTH], "source": source.strip(), "files": files and "1"}
    chosen, problem = chosen_source(app, wanted["source"])
    found = None
    try:
        position = ThreadPosition.from_text(after)
        if not problem:
            found = list_threads(
                app, source=chosen, words=wanted["q"], files=bool(files), after=position, limit=SHOWN
            )
    except QueryError as error:
        problem = str(error)
    sources = app.store.sources()
    counts = app.store.document_counts(chosen).get("threads", {})
    threads = found.threads if found else []
    following = threads[-1].place.as_text() if found and found.more else ""
    summaries = [one.summary.markdown if one.summary else "" for one in threads]
    return page(
        request,
        "threads.html",
        wanted=wanted,
        problem=problem,
        rows=[(one, first_lines(harmless(text))) for one, text in zip(threads, summaries, strict=True)],
        total=None if wanted["q"] or not found else sum(counts.values()) - found.files,
        not_listed=files_not_listed(found.files) if found and found.files else "",
        files_path=with_query("/threads", **wanted | {"files": "1"}),
        best_only=MAX_MATCHES if found and found.best_only else 0,
        several=len(sources) > 1,
        sources=source_choices(app),
        chosen=source_id(chosen) if chosen else wanted["source"],
        source_names={one: one_line(short_name(one), 60) for one in sources},
        nothing=not sum(app.store.document_counts().get("threads", {}).values()),
        next_path=with_query("/threads", **wanted, after=following) if following else "",
        first_path=with_query("/threads", **wanted) if after else "",
    )


@router.get("/threads/{id:path}")
def read(
    request: Request,
    app: Onward,
    id: str,
    number: Annotated[int, Query(alias="page")] = 1,
    at: str = "",
    passage: str = "",
) -> Response:
    """Show a thread; `at` is the id of a message on the wanted page, `passage` a part of it to be marked."""
    from onward.pipeline.documents import Message, Summary, Thread

    thread = app.get(Thread, id) if "ingestion" in app.registry.services else None
    if thread is None:
        raise NotFound(f"there is no thread {one_line(id, 80)!r}; /threads lists them")
    summary = app.get(Summary, id)
    citations = summary.citations if summary else ()
    counts = app.store.value_counts(Message, "thread_id", [id]).get(id, {})
    count = sum(counts.values())
    start = min(max(0, number - 1), count // SHOWN + 1) * SHOWN
    at = printable(at).replace("\0", "")
    if at and (message := app.get(Message, at)) is not None and message.thread_id == id:
        start = app.store.ids_before(Message, "thread_id", id, at, by="date") // SHOWN * SHOWN
    shown = messages_of_thread(app, id, start=start, limit=SHOWN)
    here = {one.id for one in shown}
    statuses = app.store.statuses("messages", list(here))
    attachments = attachments_of(app, shown)
    cited: dict[str, list[int]] = {}
    marked = _read_span(passage)
    for one in citations:
        cited.setdefault(one.message_id, []).append(one.number)
    sources = {one.id: one for one in app.store.get_many(Message, list(cited)) if one.thread_id == id}
    links = {
        one.number: _citation_path(sources[one.message_id], here) for one in citations if one.message_id in sources
    }
    base = f"/threads/{quote(id, safe='')}"
    return page(
        request,
        "thread.html",
        thread=thread,
        title=one_line(summary.subject if summary else thread.subject) or "(no subject)",
        source=display_name(thread.source),
        summary=summary,
        text=render_markdown(without_sources(summary.markdown), links) if summary else "",
        citations=[(one, links.get(one.number), sources.get(one.message_id)) for one in citations],
        missing=_missing(app, thread, summary, counts),
        thread_status=str(app.store.statuses("threads", [id]).get(id, "")),
        messages=[
            _view(
                one,
                statuses.get(one.id, "").startswith("failed"),
                cited.get(one.id, []),
                marked if one.id == at else (0, 0),
            )
            | {"attachments": attachments.get(one.id, [])}
            for one in shown
        ],
        count=count,
        first=start + 1,
        last=start + len(shown),
        before=f"{base}?page={start // SHOWN}" if start else "",
        after=f"{base}?page={start // SHOWN + 2}" if start + SHOWN < count else "",
    )


def _read_span(given: str) -> tuple[int, int]:
    """Return start and end of a passage; an empty one if they are no numbers."""
    found = re.fullmatch(r"(\d{1,9})-(\d{1,9})", given, re.ASCII)
    start, end = (int(found[1]), int(found[2])) if found else (0, 0)
    return (start, end) if start < end <= LAST_PASSAGE else (0, 0)


def _view(message: Message, failed: bool, cited: list[int], passage: tuple[int, int]) -> dict[str, Any]:
    pieces, left = [], max(LONGEST, passage[1])
    first = True  # the first marked part has the id that links lead to
    for kind, start, end in message.spans or [("new", 0, len(message.body))]:
        parts = []
        last = min(end, start + max(0, left))
        left -= end - start
        for at, to, is_marked in _parts(start, last, *passage):
            if text := harmless(message.body[at:to]):
                parts.append((text, "cited" if is_marked and first else "", is_marked))
                first = first and not is_marked
        whole = "".join(text for text, _, _ in parts)
        lines = whole.strip("\n").count("\n") + 1
        if whole.strip():
            folded = kind == "quote" and lines > FOLDED
            opened = any(is_marked for _, _, is_marked in parts)
            pieces.append({"kind": kind, "parts": parts, "folded": lines if folded else 0, "open": opened})
    return {
        "message": message,
        "pieces": pieces,
        "cut": left < 0,
        "failed": failed,
        "cited": cited,
        "patch": is_patch(message.body),
    }


def _parts(start: int, end: int, first: int, last: int) -> Iterator[tuple[int, int, bool]]:
    """Yield the parts of a span before, inside and behind a passage, each with whether it is inside."""
    first, last = (min(max(place, start), end) for place in (first, last))
    yield from ((start, first, False), (first, last, True), (last, end, False))


def _missing(app: App, thread: Thread, summary: Summary | None, counts: Mapping[str, int]) -> list[str]:
    sentences = []
    count = sum(counts.values())
    failed = sum(number for status, number in counts.items() if status.startswith("failed"))
    if summary is None:
        sentences.append("There is no summary yet. It is written when all messages of the thread are processed.")
    if summary is not None and summary.missing:
        chunks = counted(summary.missing, "chunk")
        sentences.append(f"{chunks} could not be embedded: search finds them by words, not by meaning.")
    if summary is not None and summary.messages < count:
        newer = f"{shown_number(count - summary.messages)} newer messages"
        sentences.append(f"The summary is older than the thread: {newer}, and it will be written again.")
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
