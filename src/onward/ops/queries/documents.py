"""Lists of documents, page by page, with their titles; sources by key and name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onward.ops.bad_input import NotFound
from onward.ops.queries.document_filter import statuses_of
from onward.ops.text.format import one_line
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App, DocumentState

Key = tuple[str, str]
_CALLED = ("subject", "title", "name", "path", "text", "source", "url")
"""Fields that may hold a title, the best first."""


def count_documents(app: App, *, collection: str | None, status: str | None, source: str | None) -> int:
    """Count documents; the store keeps these counts, so it is cheap."""
    return sum(_counts(app, collection, status, source).values())


def list_documents(
    app: App,
    *,
    collection: str | None = None,
    status: str | None = None,
    source: str | None = None,
    after: Key = ("", ""),
    limit: int = 50,
) -> list[DocumentState]:
    """Documents by collection and id, those behind `after`; `failed` are also those that failed in all rounds."""
    found: list[DocumentState] = []
    for name in sorted(_counts(app, collection, status, source)):
        if name < after[0] or len(found) >= limit:
            continue
        behind = (name, after[1] if name == after[0] else "")
        left = limit - len(found)
        some: list[DocumentState] = []
        for one in statuses_of(status, (None,)):
            some += app.store.find_states(collection=name, status=one, source=source, after=behind, limit=left)
        found += sorted(some, key=lambda state: state.id)[:left]
    return found


def _counts(app: App, collection: str | None, status: str | None, source: str | None) -> dict[str, int]:
    """Return the number of matching documents of each collection; empty collections are left out."""
    wanted = statuses_of(status, ())
    counts = {
        name: sum(count for one, count in found.items() if not wanted or one in wanted)
        for name, found in app.store.document_counts(source).items()
        if collection is None or name == collection
    }
    return {name: count for name, count in counts.items() if count}


def find_by_id(app: App, prefix: str, *, limit: int) -> list[DocumentState]:
    """Return the documents whose id begins with a prefix."""
    return app.store.states_of(app.store.ids_like(prefix, limit=limit))


def find_titles(app: App, states: Sequence[DocumentState]) -> dict[Key, str]:
    """Return a title for each document."""
    titles: dict[Key, str] = {}
    for name in {state.collection for state in states}:
        ids = [state.id for state in states if state.collection == name]
        for id, _, text in app.store.read_bodies(name, ids):
            titles[name, id] = title_of(json.loads(text))
    return titles


def title_of(body: object) -> str:
    """Return a title for a document from its content."""
    called = (body.get(field) for field in _CALLED) if isinstance(body, dict) else ()
    return redact(next((one for one in called if isinstance(one, str) and one.strip()), ""))


# -- sources; their location may have a password, so a URL has their key


def source_key(source: str) -> str:
    """Return the key of a source in a URL."""
    from onward.pipeline.documents import source_id

    return source_id(source)


def source_named(app: App, given: str) -> str:
    """Return the source with this key, name or end of a name; the file system is not read."""
    sources = app.store.sources()
    similar = [source for source in sources if given in (source_key(source), source, redact(source))]
    similar = similar or [
        source for source in sources if given.strip("/") and source.endswith("/" + given.strip("/"))
    ]
    if len(similar) != 1:
        raise NotFound(f"there is no source {one_line(redact(given), 200)!r}, or several end so")
    return similar[0]
