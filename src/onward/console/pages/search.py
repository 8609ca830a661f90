"""Search: find messages by words and by meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from markupsafe import Markup, escape
from starlette.responses import Response

from onward.app import App
from onward.console.page_templates import page
from onward.console.pages.documents import chosen_source, source_choices
from onward.console.pages.threads import message_path
from onward.console.request_context import Onward
from onward.model.search_query import MARK_END, MARK_START
from onward.ops.dates import ALLOWED, read_past
from onward.ops.text.format import harmless, one_line, printable, source_name
from onward.pipeline.documents import source_id
from onward.retry import redact

if TYPE_CHECKING:
    from onward.pipeline.search import Hit, Results
    from onward.pipeline.search import Query as Question

router = APIRouter()

SHOWN = 20
EXCERPT = 320
MAX_QUERY_LENGTH = 1_000
MAX_PAGES = 500


@dataclass(frozen=True, slots=True)
class SearchForm:
    """The search form as it was filled in."""

    q: str = ""
    source: str = ""
    author: str = ""
    since: str = ""
    until: str = ""

    @property
    def limits(self) -> dict[str, str]:
        """Return the given filters, by name."""
        given = {"source": self.source, "author": self.author, "since": self.since, "until": self.until}
        return {name: value for name, value in given.items() if value}

    def path(self, *without: str, page: int = 1) -> str:
        """Return the path of this search, with fewer filters or another page."""
        given = {"q": self.q} | {name: value for name, value in self.limits.items() if name not in without}
        return "/search?" + urlencode(given | ({"page": str(page)} if page > 1 else {}))


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message that was found, as the page shows it."""

    hit: Hit
    title: Markup
    excerpt: Markup
    thread: str
    source: str


class InvalidFilter(Exception):
    """A filter has a value that cannot be used; the message says which."""


@router.get("/search")
def show(
    request: Request,
    app: Onward,
    q: str = "",
    source: str = "",
    author: str = "",
    since: str = "",
    until: str = "",
    number: Annotated[int, Query(alias="page")] = 1,
) -> Response:
    """Show the search form and its results."""
    asked = SearchForm(*(_typed(one) for one in (q, source, author, since, until)))
    number = min(max(number, 1), MAX_PAGES)
    sources = app.store.sources()
    problem, query, found = "", None, None
    try:
        if asked.q:
            query = _query(app, asked)
            found = _search(app, query, number)
    except InvalidFilter as error:
        problem = str(error)
    several = len(sources) > 1
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


def _typed(text: str) -> str:
    """Return typed text on one line, without bytes that are no text."""
    return one_line(printable(text))[:MAX_QUERY_LENGTH]


def _query(app: App, asked: SearchForm) -> Question:
    from onward.pipeline.search import Query as Question

    source, problem = chosen_source(app, asked.source)
    if problem:
        raise InvalidFilter(problem)
    since, until = _date("From", asked.since), _date("Until", asked.until)
    return Question(asked.q, source=source, author=asked.author or None, since=since, until=until)


def _date(label: str, text: str) -> float | None:
    try:
        return read_past(text.lower()) if text else None
    except (ValueError, OverflowError):
        raise InvalidFilter(f"{label}: {text!r} is no date. Give {ALLOWED}.") from None


def _search(app: App, query: Question, number: int) -> Results:
    from onward.pipeline.search import EmptyQuery, search

    try:
        return search(app, query, limit=SHOWN, offset=(number - 1) * SHOWN)
    except EmptyQuery:
        raise InvalidFilter(
            "There is no word in it to look for. Words with a minus only leave out what others find."
        ) from None


def _understood(query: Question, asked: SearchForm) -> list[tuple[str, list[str]]]:
    """Return what is searched for, in labelled terms."""
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


def _shown(hit: Hit, *, several: bool) -> SearchHit:
    message = hit.message
    source = source_name(message.source).rstrip("/").rsplit("/", 1)[-1]
    return SearchHit(
        hit,
        marked(hit.title) if hit.title.strip() else Markup("(no subject)"),
        marked(hit.excerpt, EXCERPT),
        message_path(message.thread_id, message.id),
        one_line(source, 60) if several else "",
    )


def marked(text: str, most: int = 0) -> Markup:
    """Return text with its matches as <mark> elements; marks that came with a mail are harmless."""
    shown, left, inside = Markup(""), most or len(text), False
    for piece in text.replace(MARK_START, "\0" + MARK_START).replace(MARK_END, "\0" + MARK_END).split("\0"):
        inside = (inside or piece[:1] == MARK_START) and piece[:1] != MARK_END
        plain = " ".join(harmless(piece).split(" "))
        cut = plain[:left]
        left -= len(cut)
        shown += Markup("<mark>{}</mark>").format(cut) if inside and cut else escape(cut)
        if left <= 0 and most:
            return shown + "…"
    return shown
