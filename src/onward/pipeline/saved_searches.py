"""Saved searches: queries with a name, which `@name` stands for at the beginning of a query."""

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


def read_searches(app: App) -> list[SavedSearch]:
    """Return the saved searches by their names."""
    found: list[SavedSearch] = []
    after = ""
    while states := app.store.states(SavedSearch, after=after, limit=_PAGE):
        after = states[-1].id
        found += app.store.get_many(SavedSearch, [state.id for state in states])
    return sorted(found, key=lambda search: search.name.casefold())


def find_search(app: App, name: str) -> SavedSearch:
    """Return the saved search with this name, with or without its @; raise BadSearchName if there is none."""
    name = name.lstrip("@＠")
    search = app.get(SavedSearch, _id(name))
    if search is None:
        names = ", ".join(f"@{one.name}" for one in read_searches(app)[:20])
        known = f"there are: {names}" if names else "none is saved yet"
        raise BadSearchName(f"there is no saved search {name[:MAX_NAME]!r}; {known}")
    return search


def remove_search(app: App, name: str) -> SavedSearch:
    """Remove a saved search and return it."""
    search = find_search(app, name)
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


def _id(name: str) -> str:
    return Document.make_id("search", name.casefold())
