"""What somebody means by an id or a source over HTTP: exactly that, and no file is ever looked for."""

from __future__ import annotations

from onward.app import App
from onward.facts.finding import NotFound
from onward.facts.listing import source_called
from onward.facts.wording import one_line, printable
from onward.model.documents import DocumentState

_PREFERRED = ("archives", "messages", "threads", "chunks", "summaries")
"""A thread and its summary have the same id."""


def find_document(app: App, given: str) -> DocumentState:
    """The document with this id, or with this COLLECTION/ID."""
    id = printable(given)
    if "\0" not in id:
        found = app.store.states_of([(name, id) for name in sorted(app.store.document_counts(), key=_rank)])
        collection, slash, rest = id.partition("/")
        if not found and slash:
            found = app.store.states_of([(collection, rest)])
        if found:
            return found[0]
    raise NotFound(f"there is no document {one_line(id, 100)!r}; GET /v3/documents lists them")


def _rank(collection: str) -> tuple[int, str]:
    return _PREFERRED.index(collection) if collection in _PREFERRED else len(_PREFERRED), collection


def find_source(app: App, given: str | None) -> str | None:
    """The source of this location or id, or the only one that ends so."""
    return None if given is None else source_called(app, printable(given))
