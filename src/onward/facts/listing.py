"""Lists of documents, page by page, and what a person calls each of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onward.facts.choosing import statuses_of
from onward.facts.finding import NotFound
from onward.facts.wording import one_line
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App, DocumentState

Key = tuple[str, str]
_CALLED = ("subject", "title", "name", "path", "text", "source", "url")
"""What a document is called by, the best first."""


def count_documents(app: App, *, collection: str | None, status: str | None, source: str | None) -> int:
    """How many there are; this is counted anyway, and costs nothing."""
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
    """How many of each collection; one without any is not looked through."""
    wanted = statuses_of(status, ())
    counts = {
        name: sum(count for one, count in found.items() if not wanted or one in wanted)
        for name, found in app.store.document_counts(source).items()
        if collection is None or name == collection
    }
    return {name: count for name, count in counts.items() if count}


def find_by_id(app: App, prefix: str, *, limit: int) -> list[DocumentState]:
    """Documents whose id begins so."""
    return app.store.states_of(app.store.ids_like(prefix, limit=limit))


def find_titles(app: App, states: Sequence[DocumentState]) -> dict[Key, str]:
    """What a person would call each document."""
    titles: dict[Key, str] = {}
    for name in {one.collection for one in states}:
        ids = [one.id for one in states if one.collection == name]
        for id, _, text in app.store.read_bodies(name, ids):
            titles[name, id] = title_of(json.loads(text))
    return titles


def title_of(body: object) -> str:
    """What a person would call a document, by what it holds."""
    called = (body.get(field) for field in _CALLED) if isinstance(body, dict) else ()
    return redact(next((one for one in called if isinstance(one, str) and one.strip()), ""))


# -- sources, which may carry a password and so stand in no address


def source_key(source: str) -> str:
    """What names a source in an address."""
    from onward.pipeline.documents import source_id

    return source_id(source)


def source_called(app: App, given: str) -> str:
    """The source that its key, its name or the end of it means; nothing is looked up in a file system."""
    sources = app.store.sources()
    similar = [one for one in sources if given in (source_key(one), one, redact(one))]
    similar = similar or [one for one in sources if given.strip("/") and one.endswith("/" + given.strip("/"))]
    if len(similar) != 1:
        raise NotFound(f"there is no source {one_line(redact(given), 200)!r}, or several end so")
    return similar[0]
