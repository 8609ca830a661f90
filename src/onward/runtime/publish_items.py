"""Publishing many events, each with its documents, in transactions of a bounded size; and unique events."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from onward.ledger.off_loop import off_loop
from onward.ledger.unique_events import UniqueEvent
from onward.model.documents import Document
from onward.model.events import Envelope, Event, idempotency_key
from onward.model.ledger import MAX_COMMIT_BYTES, MAX_COMMIT_DOCUMENTS, NewDocument, Published, PublishedMany
from onward.retry import OnwardError, redact_error
from onward.runtime.publish_options import PublishOptions, PublishRefused
from onward.runtime.publisher import new_documents, new_envelopes

if TYPE_CHECKING:
    from onward.ledger.store import Store

T = TypeVar("T")
Item = Event | tuple[Event, Document]


class PublishManyStopped(OnwardError):
    """Publishing many items ended before the last: `stored` of them, the first ones, are stored and stay."""

    def __init__(self, message: str, published: PublishedMany) -> None:
        super().__init__(message)
        self.published = published

    @property
    def stored(self) -> int:
        return self.published.items


class Slicer(Generic[T]):
    """Divides items into slices that one transaction may hold."""

    def __init__(self, size_of: Callable[[T], int]) -> None:
        self._size_of = size_of
        self._items: list[T] = []
        self._size = 0

    def add(self, item: T) -> list[T]:
        """Add an item; return the slice before it, if that is full."""
        size, full = self._size_of(item), list[T]()
        if self._items and (len(self._items) == MAX_COMMIT_DOCUMENTS or self._size + size > MAX_COMMIT_BYTES):
            full = self.rest()
        self._items.append(item)
        self._size += size
        return full

    def rest(self) -> list[T]:
        """Return the last slice."""
        rest, self._items, self._size = self._items, [], 0
        return rest

    def slices(self, items: Iterable[T]) -> Iterator[list[T]]:
        for item in items:
            if full := self.add(item):
                yield full
        if rest := self.rest():
            yield rest


@dataclass(frozen=True, slots=True)
class PreparedItem:
    """An event and its documents, ready to be stored."""

    envelopes: Sequence[Envelope]  # Several, if the event names more documents than one may
    documents: Sequence[NewDocument]
    key: str = ""  # What makes it unique; empty: it need not be

    @property
    def size(self) -> int:
        return sum(len(one.body) for one in self.documents) + sum(len(one.data) for one in self.envelopes)

    @property
    def unique_event(self) -> UniqueEvent:
        document_id = self.documents[0].id if self.documents else ""
        return UniqueEvent(self.key, self.envelopes[0].event_id, document_id)


def unique_key(event: Event, envelopes: Sequence[Envelope], name: str | None) -> str:
    """Return what makes an event unique: its type and its data, or a name."""
    if name is not None:
        return Document.make_id("name", event.event_type, name)
    data = [idempotency_key(envelope.event_type, envelope.data) for envelope in envelopes]
    return Document.make_id("data", event.event_type, *data)


def prepare(
    event: Event, documents: Sequence[Document], options: PublishOptions, *, now: float, unique: str | None = None
) -> PreparedItem:
    """Serialise an event with its documents, or raise what is wrong with them."""
    envelopes, new = new_envelopes([event], options, now=now), new_documents(documents, options)
    for one in new:
        if len(one.body) > MAX_COMMIT_BYTES:
            raise PublishRefused(
                f"document {one.collection}/{one.id} takes {len(one.body):,} characters, more than "
                f"{MAX_COMMIT_BYTES:,}; keep what is so large in a file, or divide it into several documents"
            )
    name = options.unique if unique is None else unique
    key = unique_key(event, envelopes, name) if options.unique_seconds is not None else ""
    return PreparedItem(envelopes, new, key)


@dataclass(frozen=True, slots=True)
class StoredItem:
    """The result of publishing an item: the id of its event and first document, or those of an earlier one."""

    published: Sequence[Published]
    document_id: str
    is_duplicate: bool = False


def store_items(
    store: Store, items: Sequence[PreparedItem], options: PublishOptions
) -> tuple[int, list[StoredItem]]:
    """Store items in one transaction; return how many documents were added, and what became of each item."""
    return store.atomically(partial(_store_items, store, items, options))


def _store_items(
    store: Store, items: Sequence[PreparedItem], options: PublishOptions
) -> tuple[int, list[StoredItem]]:
    earlier: dict[int, UniqueEvent] = {}
    if options.unique_seconds is not None:
        earlier = _earlier(store, items, options.unique_seconds)
    new = [item for position, item in enumerate(items) if position not in earlier]
    # New objects for each try: the store changes them, and a transaction may be repeated.
    documents = [replace(one) for item in new for one in item.documents]
    envelopes = [one for item in new for one in item.envelopes]
    added, published = store.publish_with_documents(documents, envelopes) if new else (0, [])
    results = iter(published)
    stored: list[StoredItem] = []
    for position, item in enumerate(items):
        if (first := earlier.get(position)) is not None:
            duplicate = Published(first.event_id, duplicates=1)
            stored.append(StoredItem([duplicate], first.document_id, is_duplicate=True))
        else:
            document_id = item.documents[0].id if item.documents else ""
            stored.append(StoredItem([next(results) for _ in item.envelopes], document_id))
    return added, stored


def _earlier(store: Store, items: Sequence[PreparedItem], seconds: float) -> dict[int, UniqueEvent]:
    """Store the keys of the items; return, for each item that was published before, the event of that time."""
    first: dict[str, PreparedItem] = {}
    for item in items:
        first.setdefault(item.key, item)
    now = store.now()
    known = store.remember_unique([item.unique_event for item in first.values()], at=now, until=now + seconds)
    found = {key: known.get(key, item.unique_event) for key, item in first.items()}
    return {
        position: found[item.key]
        for position, item in enumerate(items)
        if item.key in known or first[item.key] is not item
    }


# -- many


class ManyItems:
    """Publishes items slice by slice, and counts what was stored."""

    def __init__(self, store: Store, options: PublishOptions) -> None:
        if options.unique is not None:
            raise PublishRefused("unique= names one event; with many, give unique_for= alone: each is compared")
        self._store, self._options = store, options
        self._slicer = Slicer[PreparedItem](lambda item: item.size)
        self.published = PublishedMany()

    def add(self, item: object) -> Callable[[], None] | None:
        """Take an item; return what stores the slice before it, if that is full."""
        full = self._slicer.add(self._prepared(item))
        return partial(self._put, full) if full else None

    def end(self) -> None:
        if rest := self._slicer.rest():
            self._put(rest)

    def _put(self, items: Sequence[PreparedItem]) -> None:
        added, stored = store_items(self._store, items, self._options)
        duplicates = sum(any(one.duplicates for one in item.published) for item in stored)
        before = self.published
        self.published = PublishedMany(
            before.items + len(items), before.documents + added, before.duplicates + duplicates
        )

    def _prepared(self, item: object) -> PreparedItem:
        match item:
            case Event() as event:
                documents: tuple[Document, ...] = ()
            case (Event() as event, Document() as document):
                documents = (document,)
            case _:
                raise PublishRefused(
                    f"{item!r:.100} ({type(item).__name__}) is no event; give events, or pairs of an event and a "
                    "document"
                )
        return prepare(event, documents, self._options, now=self._store.now())

    def stopped(self, error: Exception) -> PublishManyStopped:
        stored, problem = self.published.items, redact_error(f"{type(error).__name__}: {error}")
        return PublishManyStopped(
            f"publishing stopped: {problem}. The first {stored:,} items are stored and "
            f"stay; publish the others, from number {stored + 1:,} on, again",
            self.published,
        )


def publish_many(store: Store, items: Iterable[Item], options: PublishOptions) -> PublishedMany:
    """Publish items; see `onward.App.publish_many`."""
    many = ManyItems(store, options)
    try:
        for item in items:
            if (put := many.add(item)) is not None:
                put()
        many.end()
    except Exception as error:
        if store.db.in_transaction():
            raise  # the caller's transaction is rolled back, or repeated: nothing is stored
        raise many.stopped(error) from error
    return many.published


async def apublish_many(
    store: Store, items: Iterable[Item] | AsyncIterable[Item], options: PublishOptions
) -> PublishedMany:
    """Publish items without blocking the event loop; see `onward.App.apublish_many`."""
    many = ManyItems(store, options)
    try:
        async for item in _each(items):
            if (put := many.add(item)) is not None:
                await off_loop(store.db, put)
        await off_loop(store.db, many.end)
    except Exception as error:
        if store.db.in_transaction():
            raise
        raise many.stopped(error) from error
    return many.published


async def _each(items: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
