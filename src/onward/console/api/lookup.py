"""Finds documents and sources by the ids and locations in requests; never looks into the file system."""

from __future__ import annotations

from onward.app import App
from onward.model.documents import DocumentState
from onward.ops.bad_input import NotFound
from onward.ops.queries.documents import source_named
from onward.ops.text.format import one_line, printable

_PREFERRED = ("archives", "messages", "threads", "chunks", "summaries")
"""A thread and its summary have the same id."""


def find_document(app: App, given: str) -> DocumentState:
    """Return the document with this id, or with this COLLECTION/ID."""
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
    """Return the source with this location or id, or the only one whose location ends so."""
    return None if given is None else source_named(app, printable(given))
