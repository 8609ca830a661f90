"""The search for messages by words and by meaning, with facets, as one types; and messages similar to another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, RedirectResponse, Response

from onward.app import App
from onward.console.page_templates import form_token, fragment, page, with_query
from onward.console.pages.documents import chosen_source, source_choices
from onward.console.pages.threads import message_path
from onward.console.request_context import Onward, OwnForm
from onward.console.time_zone import viewer_zone
from onward.model.search_query import MARK_END, MARK_START
from onward.ops.bad_input import BadInput, NotFound
from onward.ops.text.format import harmless, iso, one_line, printable, short_name, source_name
from onward.ops.text.search import author_names, why_found
from onward.pipeline.dates import ALLOWED, ClockChange, read_past
from onward.pipeline.documents import Message, source_id
from onward.pipeline.query_language import KINDS, QueryError, describe
from onward.pipeline.saved_searches import MAX_NAME, read_searches, remove_search, save_search
from onward.retry import redact
from onward.search.languages import LANGUAGES, language_name
from onward.search.words import is_question

if TYPE_CHECKING:
    from onward.pipeline.search import Hit, Results
    from onward.pipeline.search import Query as Question

router = APIRouter(include_in_schema=False)

MAX_QUERY_LENGTH = 1_000
HITS = 20
SIMILAR = 8
EXCERPT = 320
MAX_PAGES = 500
MAX_EXPORT = 1_000
MAX_SAVED = 100  # saved searches that are listed
MIN_QUESTION_WORDS = 3
COMPLETIONS = 6
MIN_COMPLETED = 3  # letters of a word that is completed
LABELS = {
    "source": "Source",
    "author": "Author",
    "year": "Year",
    "kind": "Kind",
    "language": "Language",
    "since": "From",
    "until": "Until before",
}


@dataclass(slots=True)
class SearchForm:
    q: str = ""
    source: str = ""
    author: str = ""
    since: str = ""
    until: str = ""
    kind: str = ""
    language: str = ""
    year: str = ""
    sort: str = ""

    def __post_init__(self) -> None:
        for name, value in self.given().items():
            setattr(self, name, one_line(printable(value))[:MAX_QUERY_LENGTH])
        self.sort = "date" if self.sort == "date" else ""

    def given(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in self.__slots__}

    @property
    def limits(self) -> dict[str, str]:
        return {name: value for name, value in self.given().items() if value and name not in ("q", "sort")}

    def path(self, *without: str, page: int = 1, **changed: str) -> str:
        """Return the path of this search, with fewer filters, other values or another page."""
        given = self.given() | dict.fromkeys(without, "") | changed
        return with_query("/search", **given, page=page if page > 1 else "")


class FacetValue(NamedTuple):
    id: str  # of its link, so that the focus stays on it when it is chosen
    label: str
    title: str  # all of it, where the label is shorter
    messages: int
    path: str  # to the search with this value, or without it if it is chosen
    chosen: bool


class Facet(NamedTuple):
    label: str
    values: list[FacetValue]


@router.get("/search")
def show(
    request: Request,
    app: Onward,
    asked: Annotated[SearchForm, Depends()],
    number: Annotated[int, Query(alias="page")] = 1,
    part: str = "",
) -> Response:
    """Show a search; with `part`, only its results, for a page that is already there."""
    values = _found(app, asked, min(max(number, 1), MAX_PAGES), typing=bool(part))
    if part:
        token = form_token(request)
        return HTMLResponse(fragment("search_results.html", asked=asked, typing=True, form_token=token, **values))
    return page(request, "search.html", asked=asked, typing=False, sources=source_choices(app), **values)


def _found(app: App, asked: SearchForm, number: int, *, typing: bool) -> dict[str, Any]:
    problem, query, found = "", None, None
    completions: Sequence[str] = ()
    try:
        if asked.q or asked.limits:
            query = _query(app, asked)
            found, completions = _search(app, query, (number - 1) * HITS, typing=typing)
    except (BadInput, QueryError) as error:
        problem = str(error)
    last = found.offset + len(found.hits) if found else 0
    # By relevance, what matches less well follows; by date, it would come in between.
    listed = (found.total if asked.sort else found.every) if found else 0
    return {
        "problem": problem,
        "found": found,
        "understood": describe(found.parsed) if found and found.parsed and found.parsed.parts else "",
        "completions": [(asked.path(q=one), one_line(one.rpartition(" ")[2], 60)) for one in completions],
        "by_words": bool(found and found.parsed and found.parsed.wanted),
        "hits": shown_hits(found.hits, several=len(app.store.sources()) > 1) if found else [],
        "note": one_line(redact(found.note), 300) if found else "",
        "ask_path": with_query("/ask", q=asked.q, source=asked.source) if _asks(asked.q) else "",
        "nothing": not app.store.document_counts().get("messages"),
        "chosen_source": source_id(query.source) if query and query.source else asked.source,
        "limits": _limits(asked, query),
        "facets": _facets(asked, query, found) if query and found else [],
        "first": found.offset + 1 if found else 0,
        "last": last,
        "before": asked.path(page=number - 1) if found and number > 1 else "",
        "listed": listed,
        "after": asked.path(page=number + 1) if last < listed and number < MAX_PAGES else "",
        "exports": _exports(query, listed) if query and listed else {},
        "max_export": MAX_EXPORT,
        "saved": [] if found or problem else read_searches(app)[:MAX_SAVED],
        "savable": _as_text(asked, query) if query and found else "",
        "max_name": MAX_NAME,
    }


def _asks(text: str) -> bool:
    """Return whether a query may be a question, which a passage could answer."""
    return len(text.split()) >= MIN_QUESTION_WORDS and is_question(text, LANGUAGES)


class Searched(NamedTuple):
    found: Results
    completions: Sequence[str] = ()  # the query with its last word completed


def _search(app: App, query: Question, offset: int, *, typing: bool) -> Searched:
    """Search; while somebody types, a last word that no message has is taken as the beginning of a word."""
    from onward.pipeline.search import search, suggest

    find = partial(search, app, limit=HITS, offset=offset, facets=True, explain=True)
    found = find(query)
    if not typing or not found.parsed or not found.parsed.parts:
        return Searched(found)
    last = found.parsed.parts[-1]
    if last.text not in found.unknown or last.phrase or not query.text.endswith(last.text):
        return Searched(found)
    begun = find(replace(query, text=f"{query.text}*"))
    if not begun.total:
        return Searched(found)
    enough = len(last.text) >= MIN_COMPLETED  # many words begin with fewer letters, and to read them takes long
    return Searched(begun, suggest(app, query.text, limit=COMPLETIONS) if enough else ())


def _query(app: App, asked: SearchForm) -> Question:
    from onward.pipeline.search import Query as Question

    source, problem = chosen_source(app, asked.source)
    if problem:
        raise BadInput(problem)
    dates = []
    for label, text in (("From", asked.since), ("Until", asked.until)):
        try:
            dates.append(read_past(text.lower(), zone=viewer_zone().info) if text else None)
        except ClockChange as error:
            raise BadInput(f"{label}: {error}.") from None
        except (ValueError, OverflowError):
            raise BadInput(f"{label}: {text!r} is no date. Give {ALLOWED}.") from None
    if asked.kind and asked.kind not in KINDS:
        raise BadInput(f"Kind: there is no {asked.kind!r}. Give one of {', '.join(sorted(KINDS))}.")
    if asked.year and not (asked.year.isascii() and asked.year.isdecimal() and 0 < int(asked.year[:5]) < 9_999):
        raise BadInput(f"Year: {asked.year!r} is no year such as 2026.")
    return Question(
        asked.q,
        source=source,
        author=asked.author or None,
        since=dates[0],
        until=dates[1],
        kind=asked.kind or None,
        language=asked.language or None,
        year=int(asked.year) if asked.year else None,
        sort="date" if asked.sort else "relevance",
        zone=viewer_zone().info,
    )


def _limits(asked: SearchForm, query: Question | None) -> list[tuple[str, str, str]]:
    """Return the name, the shown value and the path without it of each filter."""
    shown = dict(asked.limits)
    if query and query.source:
        shown["source"] = short_name(query.source)
    if asked.language:
        shown["language"] = language_name(asked.language)
    return [(name, shown[name], asked.path(name)) for name in LABELS if name in shown]


def _facets(asked: SearchForm, query: Question, found: Results) -> list[Facet]:
    facets = []
    for name, values in found.facets.items():
        # A value that all messages have narrows nothing.
        if len(values) > 1 or (values and (values[0][1] < found.total or asked.limits.get(name))):
            # The store counts years in UTC.
            utc = " (UTC)" if name == "year" and viewer_zone().name != "UTC" else ""
            facets.append(Facet(LABELS[name] + utc, _values(asked, query, name, values)))
    return facets


def _values(asked: SearchForm, query: Question, name: str, values: Sequence[tuple[str, int]]) -> list[FacetValue]:
    texts = [text for text, _ in values]
    match name:
        case "source":
            keys, labels = [source_id(text) for text in texts], [short_name(text) for text in texts]
            chosen = source_id(query.source) if query.source else ""
            texts = [source_name(text) for text in texts]
        case "author":
            keys, labels, chosen = texts, author_names(texts), asked.author
        case "language":
            keys, labels, chosen = texts, [language_name(text) for text in texts], asked.language
        case _:
            keys, labels, chosen = texts, texts, getattr(asked, name)
    return [
        FacetValue(
            id=f"{name}-{quote(key, safe='')}",
            label=one_line(label, 80),
            title=one_line(text, 300),
            messages=count,
            path=asked.path(name) if key == chosen else replace(asked, **{name: key}).path(),
            chosen=key == chosen,
        )
        for key, label, text, (_, count) in zip(keys, labels, texts, values, strict=True)
    ]


def _exports(query: Question, count: int) -> dict[str, str]:
    """Return the paths of the API that have the same results, by format."""
    given = {
        "q": query.text,
        "source": source_id(query.source) if query.source else None,
        "author": query.author,
        "since": iso(query.since),
        "until": iso(query.until),
        "kind": query.kind,
        "language": query.language,
        "year": query.year,
        "sort": query.sort,
        "limit": min(count, MAX_EXPORT),
    }
    return {name.upper(): with_query("/v3/search", **given, format=name) for name in ("json", "csv")}


def shown_hits(hits: Sequence[Hit], *, several: bool) -> list[dict[str, Any]]:
    """Return hits as the template shows them; `several`: there are several sources, so each is named."""
    return [
        {
            "hit": hit,
            "title": marked(hit.title) if hit.title.strip() else "(no subject)",
            "excerpt": marked(hit.excerpt, EXCERPT),
            "thread": message_path(hit.message),
            "source": one_line(short_name(hit.message.source), 40) if several else "",
            "path": one_line(hit.path, 200),
            "why": why_found(hit),
        }
        for hit in hits
    ]


def marked(text: str, most: int = 0) -> Markup:
    """Return text with its matches as <mark> elements; marks that came with a mail are harmless."""
    shown: list[str] = []
    left, inside = most or len(text), False
    for piece in text.replace(MARK_START, "\0" + MARK_START).replace(MARK_END, "\0" + MARK_END).split("\0"):
        inside = (inside or piece[:1] == MARK_START) and piece[:1] != MARK_END
        cut = harmless(piece)[:left]
        left -= len(cut)
        shown.append(f"<mark>{escape(cut)}</mark>" if inside and cut else escape(cut))
        if left <= 0 and most:
            shown.append("…")
            break
    return Markup("".join(shown))


# -- saved searches


def _as_text(asked: SearchForm, query: Question) -> str:
    """Return a search with its filters as operators, to be saved."""
    given = {
        "source": short_name(query.source).removesuffix(" (uploaded)") if query.source else "",
        "from": asked.author,
        "after": asked.since,
        "before": asked.until,
        "kind": asked.kind,
        "lang": asked.language,
    }
    operators = [f"{name}:{_quoted(value)}" for name, value in given.items() if value]
    if query.year is not None:
        operators += [f"after:{query.year:04}", f"before:{query.year + 1:04}"]
    return " ".join(filter(None, (asked.q, *operators)))


def _quoted(value: str) -> str:
    return f'"{value.replace(chr(34), " ")}"' if re.search(r"[^\w.@-]", value) else value


@router.post("/searches")
def save(app: Onward, form: OwnForm) -> Response:
    """Save a search under a name, and show it."""
    name, text = (one_line(printable(str(form.get(field, "")))) for field in ("name", "q"))
    search = save_search(app, name.lstrip("@"), text[:MAX_QUERY_LENGTH])
    return RedirectResponse(with_query("/search", q=f"@{search.name}"), 303)


@router.post("/searches/remove")
def remove(app: Onward, form: OwnForm) -> Response:
    remove_search(app, one_line(printable(str(form.get("name", "")))))
    return RedirectResponse("/search", 303)


# -- similar messages


@router.get("/similar/{id:path}")
def show_similar(request: Request, app: Onward, id: str, part: str = "") -> Response:
    """Show messages about the same as a message; with `part`, only a list of those of other threads."""
    from onward.pipeline.search import similar

    message = app.get(Message, printable(id).replace("\0", ""))
    if message is None:
        raise NotFound(f"there is no message {one_line(id, 80)!r}; /search finds messages")
    several = len(app.store.sources()) > 1
    if part:  # on the page of its thread, which has the others
        found = similar(app, message.id, limit=3 * SIMILAR).hits
        others = [hit for hit in found if hit.message.thread_id != message.thread_id][:SIMILAR]
        shown = shown_hits(others, several=several)
        return HTMLResponse(fragment("similar_part.html", hits=shown, elsewhere=True))
    hits = shown_hits(similar(app, message.id, limit=SIMILAR).hits, several=several)
    path = message_path(message)
    title = one_line(message.subject, 160) or "(no subject)"
    return page(request, "similar.html", hits=hits, elsewhere=False, message=message, title=title, reading=path)
