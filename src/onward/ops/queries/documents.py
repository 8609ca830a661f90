"""Lists of documents, page by page, with their titles; which documents a filter means; sources by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from onward.app import App
from onward.model.documents import DocumentKey, DocumentState, Status
from onward.ops.bad_input import BadInput, NotFound
from onward.ops.lookup import PAGE, all_states, check_collection, pages, read_bodies, resolve_source
from onward.ops.queries.failure_groups import fingerprint_of
from onward.ops.text.format import one_line
from onward.pipeline.documents import origin_of, source_id
from onward.retry.redact import redact

FAILED = (Status.FAILED, Status.FAILED_MAX_RETRIES)
GIVEN_UP = (*FAILED, Status.DISCARDED)
BESIDE_REQUEST = (
    "tasks",
    "reports",
)  # collections that describe the ingestions of a source, removed with its request
_WANTED = {
    "--group": "a fingerprint, as `onward failures list` shows it",
    "--source": "a source, as `onward status` shows it",
    "--collection": "the name of a collection, such as messages",
    "--document": "an id, or COLLECTION/ID",
    "--error-type": "a type, such as TimeoutError",
    "--output": "the name of a new file",
}


def count_documents(app: App, *, collection: str | None, status: str | None, source: str | None) -> int:
    """Count documents; the store keeps these counts, so it is cheap."""
    return sum(_counts(app, collection, status, source).values())


def list_documents(
    app: App,
    *,
    collection: str | None = None,
    status: str | None = None,
    source: str | None = None,
    after: DocumentKey = ("", ""),
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


def source_named(app: App, given: str) -> str:
    """Return the source with this id, name or end of a name; the file system is not read."""
    sources, ending = app.store.sources(), "/" + given.strip("/")
    similar = [source for source in sources if given in (source_id(source), source, redact(source))]
    similar = similar or [source for source in sources if ending != "/" and source.endswith(ending)]
    if len(similar) != 1:
        raise NotFound(f"there is no source {one_line(redact(given), 200)!r}, or several end so")
    return similar[0]


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
        return self != DocumentFilter()


def empty_option(option: str) -> str:
    """Return the error for an option with an empty value."""
    return f"{option} is empty: give {_WANTED.get(option, 'a name')}"


def statuses_of(status: str | None, otherwise: Sequence[str | None]) -> Sequence[str | None]:
    """Return the statuses that a filter selects; without a filter, `otherwise`."""
    if status is None:
        return otherwise
    return FAILED if status == Status.FAILED else (status,)


def select_documents(app: App, filters: DocumentFilter, statuses: Sequence[str | None]) -> Iterator[DocumentState]:
    """Yield the documents that match and have one of these statuses (None: any), by status, collection and id."""
    for name, value in asdict(filters).items():
        if isinstance(value, str) and not value.strip():
            raise BadInput(empty_option(f"--{name}"))
    if filters.collection is not None:
        check_collection(app, filters.collection)
    found: dict[str, Any] = {
        "collection": filters.collection,
        "source": resolve_source(app, filters.source) if filters.source is not None else None,
        "fingerprint": fingerprint_of(app, filters.group) if filters.group is not None else None,
        "before": app.store.now() - filters.older_than if filters.older_than is not None else None,
    }
    for status in statuses:
        yield from all_states(app.store, status=status, **found)


def needed_by_others(app: App, states: Sequence[DocumentState]) -> set[DocumentKey]:
    """Return the documents that cannot be removed alone.

    Messages name their archive and thread, but were not made from them. An archive that was given up before it
    brought any message may be removed; the request of a source, if nothing else came from the source.
    """
    store = app.store
    threads = (state.id for state in states if state.collection == "threads")
    needed: set[DocumentKey] = {
        ("threads", id)
        for id in threads
        if store.ids("messages", "thread_id", id) or store.state("summaries", id) is not None
    }
    archives = {("archives", state.id): state.status for state in states if state.collection == "archives"}
    for page in pages(archives, PAGE):
        for key, body in read_bodies(store, page):
            # Without a source it is of somebody's own app, and names its parent if it has one.
            if "source_id" in body and (archives[key] not in GIVEN_UP or _has_content(app, key[1], body)):
                needed.add(key)
    return needed


def _has_content(app: App, id: str, archive: dict[str, Any]) -> bool:
    """Return whether an archive brought messages; the request of a source: whether it brought anything."""
    if id == archive["source_id"]:
        counts = app.store.document_counts(archive["source"])
        return bool(counts.keys() - {"archives", *BESIDE_REQUEST}) or sum(counts["archives"].values()) > 1
    # A mark for an archive that is gone has no origin, but its place has one.
    places = {archive.get("origin", ""), origin_of(archive.get("source", ""), archive.get("path", ""))} - {""}
    return any(app.store.ids("messages", "origin", place) for place in places)
