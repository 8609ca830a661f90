"""Lists of documents, page by page, with their titles; which documents a filter means; sources by name."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeVar

from onward.app import App
from onward.model.documents import DocumentKey, DocumentState, Status
from onward.ops.bad_input import BadInput, NotFound
from onward.ops.lookup import (
    PAGE,
    all_states,
    check_collection,
    is_pipeline_store,
    pages,
    read_bodies,
    resolve_source,
)
from onward.ops.queries.failure_groups import fingerprint_of
from onward.ops.text.format import one_line, printable
from onward.pipeline.documents import origin_of, place_titles, source_id
from onward.retry.redact import redact

T = TypeVar("T")

MAX_FOUND = 10_000  # documents that are found by their title
FAILED = (Status.FAILED, Status.FAILED_MAX_RETRIES)
GIVEN_UP = (*FAILED, Status.DISCARDED)
BESIDE_REQUEST = (
    "tasks",
    "reports",
    "sources",
    "versions",
)  # collections that describe the ingestions of a source, removed with its request
UNLISTED = (*BESIDE_REQUEST, "logins", "searches")  # collections that describe no content: no overview has them
_WANTED = {
    "--group": "a fingerprint, as `onward failures list` shows it",
    "--source": "a source, as `onward status` shows it",
    "--collection": "the name of a collection, such as messages",
    "--document": "an id, or COLLECTION/ID",
    "--error-type": "a type, such as TimeoutError",
    "--output": "the name of a new file",
    "--title": "words of a subject or path",
}


def content_documents(counts: Mapping[str, T]) -> dict[str, T]:
    """Return counts by collection without those that only describe the ingestions of a source."""
    return {name: count for name, count in counts.items() if name not in BESIDE_REQUEST}


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


class DocumentPage(NamedTuple):
    states: list[DocumentState]
    following: str  # where the next page begins; empty: this is the last one


def list_changed(
    app: App,
    *,
    collection: str | None = None,
    status: str | None = None,
    source: str | None = None,
    oldest: bool = False,
    after: str = "",
    limit: int = 50,
) -> DocumentPage:
    """Documents by the time of their last change, the newest first or the oldest, from a place on."""
    wanted = statuses_of(status, tuple(Status))
    counts = _counts(app, collection, status, source)
    statuses = {name: [str(one) for one in wanted] for name in counts}
    place = _read_place(after)
    found = app.store.changed_documents(statuses, source=source, oldest=oldest, after=place, limit=limit + 1)
    shown = found[:limit]
    states = {(one.collection, one.id): one for one in app.store.states_of([key for _, key in shown])}
    (at, doc), _ = shown[-1] if shown else ((0.0, 0), None)
    following = f"{at!r}:{doc}" if len(found) > limit else ""
    return DocumentPage([states[key] for _, key in shown if key in states], following)


def _read_place(text: str) -> tuple[float, int] | None:
    """Return the place of a document in a list by time; None: the beginning, also for a place that is none."""
    at, _, doc = text.partition(":")
    try:
        place = float(at), int(doc[:19])
    except ValueError:
        return None
    return place if math.isfinite(place[0]) and 0 <= place[1] < 2**62 else None


def find_by_title(app: App, text: str, collection: str | None = None) -> list[DocumentKey]:
    """Return at most `MAX_FOUND` documents by words of their subject or path, or the beginning of their id.

    Messages are found by the search index, which has their subjects and paths already; threads, summaries and
    chunks by their messages; archives, and documents of other apps that have a `title` among their keys, by
    the beginning of that. So finding costs no index of its own beyond a few keys for each archive.
    """
    store, text = app.store, printable(text.replace("\0", "")).strip()
    if not text:
        return []
    name, slash, rest = text.partition("/")
    keys = dict.fromkeys(store.ids_like(text, limit=MAX_FOUND))
    if slash and name in store.document_counts():
        keys |= dict.fromkeys(key for key in store.ids_like(rest, limit=MAX_FOUND) if rest and key[0] == name)
    for title in dict.fromkeys((text, *place_titles(text)[:1])):
        keys |= dict.fromkeys(store.titled(title, limit=MAX_FOUND))
    if is_pipeline_store(store):
        from onward.pipeline.search import messages_titled  # takes a while to import

        messages = messages_titled(app, text, limit=MAX_FOUND)
        keys |= dict.fromkeys(_around(app, messages, collection))
    return [key for key in keys if collection in (None, key[0])][:MAX_FOUND]


def _around(app: App, messages: Sequence[str], collection: str | None) -> Iterator[DocumentKey]:
    """Yield messages and their threads, or only their documents of a collection."""
    for ids in pages(messages, PAGE):
        if collection in (None, "messages"):
            yield from (("messages", id) for id in ids)
        if collection in (None, "threads", "summaries"):
            threads = dict.fromkeys(app.store.keys_of("messages", "thread_id", ids).values())
            yield from ((collection or "threads", str(id)) for id in threads)
        if collection == "chunks":
            yield from (("chunks", child.id) for child in app.store.children("chunks", "messages", ids))


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
    title: str | None = None  # words of a subject or path, or the beginning of an id

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


def select_documents(
    app: App, filters: DocumentFilter, statuses: Sequence[str | None], *, begun: float | None = None
) -> Iterator[DocumentState]:
    """Yield the documents that match and have one of these statuses (None: any), by status, collection and id.

    With `begun`, those that have changed since then are left out: an action has done them, or they went on.
    """
    for state in _matching(app, filters, statuses, begun):
        if begun is None or (state.updated_at or 0.0) <= begun:
            yield state


def _matching(
    app: App, filters: DocumentFilter, statuses: Sequence[str | None], begun: float | None
) -> Iterator[DocumentState]:
    for name, value in asdict(filters).items():
        if isinstance(value, str) and not value.strip():
            raise BadInput(empty_option(f"--{name}"))
    if filters.collection is not None:
        check_collection(app, filters.collection)
    now = app.store.now() if begun is None else begun
    source = resolve_source(app, filters.source) if filters.source is not None else None
    fingerprint = fingerprint_of(app, filters.group) if filters.group is not None else None
    before = now - filters.older_than if filters.older_than is not None else None
    if filters.title is not None:
        for page in pages(find_by_title(app, filters.title, filters.collection), PAGE):
            for state in app.store.states_of(page):
                error = state.last_error or {}
                if (
                    (None in statuses or state.status in statuses)
                    and source in (None, state.source)
                    and fingerprint in (None, error.get("fingerprint"))
                    and (before is None or (state.updated_at or 0.0) < before)
                ):
                    yield state
        return
    found: dict[str, Any] = {"collection": filters.collection, "source": source}
    for status in statuses:
        yield from all_states(app.store, status=status, fingerprint=fingerprint, before=before, **found)


def count_selected(app: App, filters: DocumentFilter, statuses: Sequence[str | None]) -> Counter[str]:
    """Count the documents that `select_documents` yields, by collection; they are read only if it must be."""
    if filters.title is not None or filters.group is not None or filters.older_than is not None:
        return Counter(state.collection for state in select_documents(app, filters, statuses))
    if filters.collection is not None:
        check_collection(app, filters.collection)
    source = resolve_source(app, filters.source) if filters.source is not None else None
    counts = Counter[str]()
    for name, found in app.store.document_counts(source).items():
        if filters.collection in (None, name):
            counts[name] += sum(n for one, n in found.items() if None in statuses or one in statuses)
    return +counts


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
