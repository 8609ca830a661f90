"""The list of threads, one thread with its summary, and the search for messages by words and by meaning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from markupsafe import Markup, escape
from starlette.responses import Response

from onward.app import App
from onward.console.markdown import render_markdown, without_sources
from onward.console.page_templates import page, with_query
from onward.console.pages.documents import chosen_source, is_patch, source_choices
from onward.console.request_context import Onward
from onward.model.search_query import MARK_END, MARK_START
from onward.ops.bad_input import BadInput, NotFound
from onward.ops.dates import ALLOWED, read_past
from onward.ops.queries.document_details import messages_of_thread
from onward.ops.queries.threads import MAX_MATCHES, ThreadPosition, first_lines, list_threads
from onward.ops.text.format import counted, harmless, one_line, printable, source_name
from onward.ops.text.format import number as shown_number
from onward.pipeline.documents import source_id
from onward.retry import redact

if TYPE_CHECKING:
    from onward.pipeline.documents import Message, Summary, Thread
    from onward.pipeline.search import Hit
    from onward.pipeline.search import Query as Question

router = APIRouter()

SHOWN = 50
MAX_QUERY_LENGTH = 1_000
LONGEST = 30_000  # a message is cut after this many characters; its own page has the rest
MAX_ROOT_SEARCH = 500  # in a thread of more messages than this, the first message is not searched for
FOLDED = 4  # a quotation of more lines than this is collapsed
HITS = 20
EXCERPT = 320
MAX_PAGES = 500


def message_path(thread: str, message: str, *, here: bool = False) -> str:
    """Return the path of a message in its thread; `here`: it is on the same page."""
    anchor = f"#m-{quote(message, safe='')}"
    return anchor if here else f"/threads/{quote(thread, safe='')}?at={quote(message, safe='')}{anchor}"


@router.get("/threads")
def show(request: Request, app: Onward, q: str = "", source: str = "", after: str = "") -> Response:
    """Show a page of threads, the newest first."""
    from onward.pipeline.search import EmptyQuery

    wanted = {"q": one_line(printable(q))[:MAX_QUERY_LENGTH], "source": source.strip()}
    chosen, problem = chosen_source(app, wanted["source"])
    found = None
    try:
        position = ThreadPosition.from_text(after)
        if not problem:
            found = list_threads(app, source=chosen, words=wanted["q"], after=position, limit=SHOWN)
    except EmptyQuery:
        problem = "There is no word in it to look for."
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
        total=None if wanted["q"] or problem else sum(counts.values()),
        best_only=MAX_MATCHES if found and found.best_only else 0,
        several=len(sources) > 1,
        sources=source_choices(app),
        chosen=source_id(chosen) if chosen else wanted["source"],
        source_names={one: one_line(source_name(one).rstrip("/").rsplit("/", 1)[-1], 60) for one in sources},
        nothing=not sum(app.store.document_counts().get("threads", {}).values()),
        next_path=with_query("/threads", **wanted, after=following) if following else "",
        first_path=with_query("/threads", **wanted) if after else "",
    )


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
    cited: dict[str, list[int]] = {}
    for one in citations:
        cited.setdefault(one.message_id, []).append(one.number)
    sources = {one.id: one for one in app.store.get_many(Message, list(cited)) if one.thread_id == id}
    links = {
        one.number: message_path(id, one.message_id, here=one.message_id in here)
        for one in citations
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
        text=render_markdown(without_sources(summary.markdown), links) if summary else "",
        citations=[(one, links.get(one.number), sources.get(one.message_id)) for one in citations],
        missing=_missing(app, thread, summary, counts),
        thread_status=str(app.store.statuses("threads", [id]).get(id, "")),
        messages=[
            _view(one, statuses.get(one.id, "").startswith("failed"), cited.get(one.id, [])) for one in shown
        ],
        count=count,
        first=start + 1,
        last=start + len(shown),
        before=f"{base}?page={start // SHOWN}" if start else "",
        after=f"{base}?page={start // SHOWN + 2}" if start + SHOWN < count else "",
    )


def _view(message: Message, failed: bool, cited: list[int]) -> dict[str, Any]:
    pieces, left = [], LONGEST  # each with its kind; a collapsed quotation has the number of its lines
    for kind, start, end in message.spans or [("new", 0, len(message.body))]:
        text = harmless(message.body[start : min(end, start + max(0, left))])
        left -= end - start
        lines = text.strip("\n").count("\n") + 1
        if text.strip():
            folded = kind == "quote" and lines > FOLDED
            pieces.append((kind, text.strip("\n") if folded else text, lines if folded else 0))
    patch = is_patch(message.body)
    return {
        "message": message,
        "pieces": pieces,
        "cut": left < 0,
        "failed": failed,
        "cited": cited,
        "patch": patch,
    }


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


# -- search


@dataclass(slots=True)
class SearchForm:
    q: str = ""
    source: str = ""
    author: str = ""
    since: str = ""
    until: str = ""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            setattr(self, name, one_line(printable(value))[:MAX_QUERY_LENGTH])

    @property
    def limits(self) -> dict[str, str]:
        return {name: value for name, value in asdict(self).items() if value and name != "q"}

    def path(self, *without: str, page: int = 1) -> str:
        """Return the path of this search, with fewer filters or another page."""
        given = {"q": self.q} | {name: value for name, value in self.limits.items() if name not in without}
        return with_query("/search", **given, page=page if page > 1 else "")


@router.get("/search")
def show_search(
    request: Request,
    app: Onward,
    asked: Annotated[SearchForm, Depends()],
    number: Annotated[int, Query(alias="page")] = 1,
) -> Response:
    from onward.pipeline.search import EmptyQuery, search

    number = min(max(number, 1), MAX_PAGES)
    several = len(app.store.sources()) > 1
    problem, query, found = "", None, None
    try:
        if asked.q:
            query = _query(app, asked)
            found = search(app, query, limit=HITS, offset=(number - 1) * HITS)
    except BadInput as error:
        problem = str(error)
    except EmptyQuery:
        problem = "There is no word in it to look for. Words with a minus only leave out what others find."
    last = found.offset + len(found.hits) if found else 0
    return page(
        request,
        "search.html",
        asked=asked,
        problem=problem,
        found=found,
        understood=_understood(query, asked) if query and found else [],
        hits=[_shown(hit, several=several) for hit in found.hits] if found else [],
        note=one_line(redact(found.note), 300) if found else "",
        nothing=not app.store.document_counts().get("messages"),
        sources=source_choices(app),
        chosen=source_id(query.source) if query and query.source else asked.source,
        first=found.offset + 1 if found else 0,
        last=last,
        before=asked.path(page=number - 1) if found and number > 1 else "",
        after=asked.path(page=number + 1) if found and last < found.total and number < MAX_PAGES else "",
    )


def _query(app: App, asked: SearchForm) -> Question:
    from onward.pipeline.search import Query as Question

    source, problem = chosen_source(app, asked.source)
    if problem:
        raise BadInput(problem)
    dates = []
    for label, text in (("From", asked.since), ("Until", asked.until)):
        try:
            dates.append(read_past(text.lower()) if text else None)
        except (ValueError, OverflowError):
            raise BadInput(f"{label}: {text!r} is no date. Give {ALLOWED}.") from None
    return Question(asked.q, source=source, author=asked.author or None, since=dates[0], until=dates[1])


def _understood(query: Question, asked: SearchForm) -> list[tuple[str, list[str]]]:
    wanted, unwanted = query.terms()
    words, phrases = [one for one in wanted if " " not in one], [one for one in wanted if " " in one]
    parts = [
        ("the word" if len(words) == 1 else "any of these words", words),
        ("the words together", phrases),
        ("without", unwanted),
        ("in", [source_name(query.source)] if query.source else []),
        ("by", [query.author] if query.author else []),
        ("from", [asked.since] if asked.since else []),
        ("until before", [asked.until] if asked.until else []),
    ]
    return [(label, terms) for label, terms in parts if terms]


def _shown(hit: Hit, *, several: bool) -> dict[str, Any]:
    message = hit.message
    source = source_name(message.source).rstrip("/").rsplit("/", 1)[-1]
    return {
        "hit": hit,
        "title": marked(hit.title) if hit.title.strip() else "(no subject)",
        "excerpt": marked(hit.excerpt, EXCERPT),
        "thread": message_path(message.thread_id, message.id),
        "source": one_line(source, 60) if several else "",
    }


def marked(text: str, most: int = 0) -> Markup:
    """Return text with its matches as <mark> elements; marks that came with a mail are harmless."""
    shown, left, inside = Markup(""), most or len(text), False
    for piece in text.replace(MARK_START, "\0" + MARK_START).replace(MARK_END, "\0" + MARK_END).split("\0"):
        inside = (inside or piece[:1] == MARK_START) and piece[:1] != MARK_END
        cut = harmless(piece)[:left]
        left -= len(cut)
        shown += Markup("<mark>{}</mark>").format(cut) if inside and cut else escape(cut)
        if left <= 0 and most:
            return shown + "…"
    return shown
