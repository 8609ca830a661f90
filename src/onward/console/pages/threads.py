"""Threads: what they are about, and reading one with its summary beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request
from markupsafe import Markup
from starlette.responses import Response

from onward.console.asking import Onward
from onward.console.describing import is_patch
from onward.console.markdown import render_markdown, without_sources
from onward.console.rendering import page
from onward.facts.finding import NotFound
from onward.facts.life import messages_of_thread
from onward.facts.listing import source_called, source_key
from onward.facts.searching import first_lines
from onward.facts.threads import MOST_MATCHES, Place, list_threads
from onward.facts.wording import counted, harmless, one_line, source_name
from onward.facts.wording import number as shown_number

if TYPE_CHECKING:
    from onward.pipeline.documents import Message, Summary, Thread

router = APIRouter()

SHOWN = 50
MOST_CHOICES = 100
LONGEST = 30_000
"""So many characters of a message are shown; its own page has the rest."""
FOLDED = 4
"""A quotation of more lines than this is folded."""


def message_path(thread: str, message: str, *, here: bool = False) -> str:
    """Where a message can be read in its thread; `here`: from the page that shows it."""
    anchor = f"#m-{quote(message, safe='')}"
    return anchor if here else f"/threads/{quote(thread, safe='')}?at={quote(message, safe='')}{anchor}"


# -- the list


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which threads somebody wants to see."""

    q: str = ""
    source: str = ""

    def path(self, after: str = "") -> str:
        given = {"q": self.q, "source": self.source, "after": after}
        return "/threads?" + urlencode({name: value for name, value in given.items() if value})


@router.get("/threads")
def show(request: Request, app: Onward, q: str = "", source: str = "", after: str = "") -> Response:
    """A page of threads, the newest first."""
    from onward.pipeline.search import NothingAsked

    wanted = Wanted(one_line(q.encode("utf-8", "replace").decode())[:1000], source.strip())
    problem, chosen, found = "", None, None
    try:
        chosen = source_called(app, wanted.source) if wanted.source else None
        found = list_threads(app, source=chosen, words=wanted.q, after=Place.from_text(after), limit=SHOWN)
    except NotFound as error:
        problem = f"{str(error)[:1].upper()}{str(error)[1:]}."
    except NothingAsked:
        problem = "There is no word in it to look for."
    sources = app.store.sources()
    counts = app.store.document_counts(chosen).get("threads", {})
    threads = found.threads if found else []
    return page(
        request,
        "threads.html",
        wanted=wanted,
        problem=problem,
        rows=[(one, first_lines(harmless(one.summary.markdown)) if one.summary else "") for one in threads],
        total=None if wanted.q or problem else sum(counts.values()),
        best_only=MOST_MATCHES if found and found.best_only else 0,
        several=len(sources) > 1,
        sources=[(source_key(one), source_name(one)) for one in sorted(sources)]
        if len(sources) <= MOST_CHOICES
        else None,
        chosen=source_key(chosen) if chosen else wanted.source,
        source_names={one: one_line(source_name(one).rstrip("/").rsplit("/", 1)[-1], 60) for one in sources},
        nothing=not sum(app.store.document_counts().get("threads", {}).values()),
        next_path=wanted.path(threads[-1].place.as_text()) if found and found.more else "",
        first_path=wanted.path() if after else "",
    )


# -- one of them


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a message: what its author wrote, quoted, or puts under everything."""

    kind: str
    text: str
    lines: int = 0
    """Of a quotation that is folded, how many."""


@dataclass(frozen=True, slots=True)
class Read:
    """A message, ready to be read."""

    message: Message
    anchor: str
    pieces: list[Piece]
    cut: bool
    failed: bool
    cited: list[int] = field(default_factory=list)
    """The numbers of the summary that rest on it."""

    @property
    def patch(self) -> bool:
        return is_patch(self.message.body)


@router.get("/threads/{id:path}")
def read(
    request: Request, app: Onward, id: str, number: Annotated[int, Query(alias="page")] = 1, at: str = ""
) -> Response:
    """One thread, to be read; `at` names the message whose page it is."""
    from onward.pipeline.documents import Summary, Thread

    thread = app.get(Thread, id) if "ingestion" in app.registry.services else None
    if thread is None:
        raise NotFound(f"there is no thread {one_line(id, 80)!r}; /threads lists them")
    summary = app.get(Summary, id)
    messages = messages_of_thread(app, id)
    places = {one.id: place for place, one in enumerate(messages)}
    start = (places[at] if at in places else max(0, number - 1) * SHOWN) // SHOWN * SHOWN
    shown = messages[start : start + SHOWN]
    statuses = app.store.statuses("messages", [one.id for one in messages])
    failed = {id for id, status in statuses.items() if status.startswith("failed")}
    cited: dict[str, list[int]] = {}
    for one in summary.citations if summary else ():
        cited.setdefault(one.message_id, []).append(one.number)
    links = {
        one.number: message_path(id, one.message_id, here=start <= places[one.message_id] < start + SHOWN)
        for one in (summary.citations if summary else ())
        if one.message_id in places
    }
    many = len(messages) > SHOWN
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
            (one, links.get(one.number), messages[places[one.message_id]] if one.message_id in places else None)
            for one in (summary.citations if summary else ())
        ],
        said_missing=_missing(thread, summary, messages, failed),
        standing=str(app.store.statuses("threads", [id]).get(id, "")),
        messages=[_read(one, one.id in failed, cited.get(one.id, [])) for one in shown],
        count=len(messages),
        first=start + 1,
        last=start + len(shown),
        before=f"{base}?page={start // SHOWN}" if start else "",
        after=f"{base}?page={start // SHOWN + 2}" if many and start + SHOWN < len(messages) else "",
    )


def _read(message: Message, failed: bool, cited: list[int]) -> Read:
    pieces, left = [], LONGEST
    for kind, start, end in message.spans or [("new", 0, len(message.body))]:
        text = harmless(message.body[start : min(end, start + max(0, left))])
        left -= end - start
        lines = text.strip("\n").count("\n") + 1
        if text.strip():
            folded = kind == "quote" and lines > FOLDED
            pieces.append(Piece(kind, text.strip("\n") if folded else text, lines if folded else 0))
    return Read(message, f"m-{message.id}", pieces, left < 0, failed, cited)


def _missing(thread: Thread, summary: Summary | None, messages: list[Message], failed: set[str]) -> list[str]:
    """What a reader should know is not here."""
    said = []
    if summary is None:
        said.append("There is no summary yet. It is written when all messages of the thread are finished.")
    else:
        if summary.missing:
            said.append(
                f"The summary was written without {counted(summary.missing, 'chunk')} that could not be embedded."
            )
        if summary.messages < len(messages):
            newer = shown_number(len(messages) - summary.messages)
            said.append(f"The summary is older than the thread: {newer} more came since, and it is written again.")
    if failed:
        them = "it is" if len(failed) == 1 else "they are"
        said.append(f"{counted(len(failed), 'message')} could not be read or finished; {them} marked below.")
    known = {one.message_id for one in messages}
    mail = any(one.kind in ("mbox", "eml") for one in messages)
    if mail and thread.root and thread.root not in known and any(one.references for one in messages):
        said.append("The message that began this thread is not in the archive.")
    return said
