"""Lists of documents, page by page, with their titles; sources by key and name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from onward.app import App
from onward.model.documents import DocumentState, Status
from onward.ops.bad_input import BadInput, NotFound
from onward.ops.lookup import check_collection, fingerprint_of, resolve_source
from onward.ops.text.format import one_line
from onward.retry.redact import redact

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


PAGE = 500
GIVEN_UP = (Status.FAILED, Status.FAILED_MAX_RETRIES, Status.DISCARDED)
_WANTED = {
    "--group": "a fingerprint, as `onward failures list` shows it",
    "--source": "a source, as `onward status` shows it",
    "--collection": "the name of a collection, such as messages",
    "--document": "an id, or COLLECTION/ID",
    "--error-type": "a type, such as TimeoutError",
    "--output": "the name of a new file",
}


def empty_option(option: str) -> str:
    """Return the error for an option with an empty value."""
    return f"{option} is empty: give {_WANTED.get(option, 'a name')}"


@dataclass(frozen=True, slots=True)
class DocumentFilter:
    """Filters for documents; a document must match all of them."""

    status: str | None = None
    collection: str | None = None
    source: str | None = None
    group: str | None = None
    older_than: float | None = None

    @property
    def given(self) -> bool:
        return any(one is not None for one in self.as_dict().values())

    def as_dict(self) -> dict[str, Any]:
        """For the action log."""
        return {
            "status": self.status,
            "collection": self.collection,
            "source": self.source if self.source is None else redact(self.source),
            "group": self.group,
            "older_than": self.older_than,
        }


def statuses_of(status: str | None, otherwise: Sequence[str | None]) -> Sequence[str | None]:
    """Return the statuses that a filter selects; without a filter, `otherwise`."""
    if status is None:
        return otherwise
    return (Status.FAILED, Status.FAILED_MAX_RETRIES) if status == Status.FAILED else (status,)


def select_documents(app: App, filters: DocumentFilter, statuses: Sequence[str | None]) -> Iterator[DocumentState]:
    """Yield the documents that match and have one of these statuses (None: any), by status, collection and id."""
    for name in ("collection", "source", "group"):
        if getattr(filters, name) is not None and not getattr(filters, name).strip():
            raise BadInput(empty_option(f"--{name}"))
    if filters.collection is not None:
        check_collection(app, filters.collection)
    source = resolve_source(app, filters.source) if filters.source is not None else None
    fingerprint = fingerprint_of(app, filters.group) if filters.group is not None else None
    before = app.store.now() - filters.older_than if filters.older_than is not None else None
    for status in statuses:
        after = ("", "")
        while page := app.store.find_states(
            collection=filters.collection,
            status=status,
            source=source,
            fingerprint=fingerprint,
            before=before,
            after=after,
            limit=PAGE,
        ):
            after = (page[-1].collection, page[-1].id)
            yield from page


def needed_by_others(app: App, states: Sequence[DocumentState]) -> set[tuple[str, str]]:
    """Return the documents that cannot be removed alone.

    Messages name their archive and thread, but were not made from them. An archive that was given up before it
    brought any message may be removed; the archive of a whole source is never removed alone.
    """
    needed: set[tuple[str, str]] = set()
    for one in states:
        messages = app.store.ids("messages", "thread_id", one.id) if one.collection == "threads" else []
        if messages or (one.collection == "threads" and app.store.state("summaries", one.id) is not None):
            needed.add((one.collection, one.id))
    archives = {state.id: state.status for state in states if state.collection == "archives"}
    ids = list(archives)
    for start in range(0, len(ids), PAGE):
        for id, _, text in app.store.read_bodies("archives", ids[start : start + PAGE]):
            body = json.loads(text)
            # Without a source it is of somebody's own app, and names its parent if it has one.
            if "source_id" in body and (archives[id] not in GIVEN_UP or _has_messages(app, id, body)):
                needed.add(("archives", id))
    return needed


def _has_messages(app: App, id: str, archive: dict[str, Any]) -> bool:
    from onward.pipeline.documents import origin_of

    # A mark for an archive that is gone has no origin, but its place has one.
    places = {archive.get("origin", ""), origin_of(archive.get("source", ""), archive.get("path", ""))} - {""}
    return id == archive["source_id"] or any(app.store.ids("messages", "origin", place) for place in places)
