"""Saved searches: queries with a name, which `@name` stands for at the beginning of a query; filters of lists."""

from __future__ import annotations

import re

from onward import App, Document
from onward.pipeline.documents import SavedSearch
from onward.pipeline.query_language import QueryError, parse

MAX_NAME = 64
NAMES = f"letters, digits, hyphens, dots and underscores, at most {MAX_NAME}"
_NAME = re.compile(r"\w(?:[\w.-]*\w)?")
_MARK = re.compile(r"\s*[@＠](\S+)\s*")
_PAGE = 500


class BadSearchName(QueryError):
    """A name for a search cannot be used, or no search has it."""


def save_search(app: App, name: str, text: str) -> SavedSearch:
    """Save a query under a name, also in place of another one; raise QueryError if one of them cannot be used."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise BadSearchName(f"a search cannot be saved as {name[:MAX_NAME]!r}; a name has {NAMES}")
    text = expand(app, text)
    parse(text)
    search = SavedSearch(id=_id(name), name=name, text=text)
    app.replace(search)
    return search


def save_filter(app: App, page: str, name: str, address: str, *, instead_of: str = "") -> SavedSearch:
    """Save the filters of a list under a name; with `instead_of`, rename them.

    Raise BadSearchName if the name cannot be used, or others have it already.
    """
    name = " ".join(name.split())
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise BadSearchName(
            f"a filter cannot be saved as {name[:MAX_NAME]!r}; a name has 1 to {MAX_NAME} characters"
        )
    id, former = _id(name, page), _id(instead_of, page) if instead_of else ""
    if former:
        address = find_search(app, instead_of, page).text
    if id != former and app.get(SavedSearch, id) is not None:
        raise BadSearchName(f"there is a filter called {name!r} already; choose another name, or remove it first")
    search = SavedSearch(id=id, name=name, text=address, page=page)
    app.replace(search)
    if former and id != former:
        app.store.remove_documents([(SavedSearch.collection, former)])
    return search


def read_searches(app: App, page: str = "search") -> list[SavedSearch]:
    """Return the saved searches, or the saved filters of a list, by their names."""
    found: list[SavedSearch] = []
    after = ""
    while states := app.store.states(SavedSearch, after=after, limit=_PAGE):
        after = states[-1].id
        found += app.store.get_many(SavedSearch, [state.id for state in states])
    return sorted((one for one in found if one.page == page), key=lambda search: search.name.casefold())


def find_search(app: App, name: str, page: str = "search") -> SavedSearch:
    """Return the saved search or filter of this name; raise BadSearchName if there is none.

    A search is found with or without its @.
    """
    mark, what = ("@", "search") if page == "search" else ("", "filter")
    name = name.lstrip("@＠") if mark else name
    search = app.get(SavedSearch, _id(name, page))
    if search is None:
        names = ", ".join(f"{mark}{one.name}" for one in read_searches(app, page)[:20])
        known = f"there are: {names}" if names else "none is saved yet"
        raise BadSearchName(f"there is no saved {what} {name[:MAX_NAME]!r}; {known}")
    return search


def remove_search(app: App, name: str, page: str = "search") -> SavedSearch:
    """Remove a saved search or filter and return it."""
    search = find_search(app, name, page)
    app.store.remove_documents([(SavedSearch.collection, search.id)])
    return search


def expand(app: App, text: str) -> str:
    """Return a query with the text of a saved search in place of its name; other queries as they are."""
    found = _MARK.match(text)
    if found is None:
        return text
    try:
        return f"{find_search(app, found[1]).text} {text[found.end() :]}".strip()
    except BadSearchName as error:
        raise BadSearchName(f"{error}. To search for the word itself, quote it") from None


def _id(name: str, page: str = "search") -> str:
    return Document.make_id("search", *([] if page == "search" else [page]), name.casefold())
