"""What an app offers outside of handlers: publishing, writing and reading documents, also with `await`."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from onward.ledger.off_loop import off_loop
from onward.ledger.store_errors import StoreUnavailable
from onward.model.documents import Document, DocumentState
from onward.model.events import Event
from onward.model.ledger import Published, PublishedMany
from onward.retry import OnwardError
from onward.runtime import caller_transaction, joins, publish_items, publisher
from onward.runtime.incoming_publications import move_incoming
from onward.runtime.process_identity import user_name
from onward.runtime.publish_options import PublishOptions, PublishRefused, Seconds
from onward.runtime.registry import Registry

if TYPE_CHECKING:
    from onward.ledger.store import Store
    from onward.runtime.joins import Waitable

D = TypeVar("D", bound=Document)
T = TypeVar("T")


class UnknownDocument(OnwardError, LookupError):
    """There is no document with this id."""


class DocumentAccess:
    """Publishes events, and writes and reads documents of a store."""

    registry: Registry

    @property
    def store(self) -> Store:
        raise NotImplementedError

    def transaction(self) -> AbstractContextManager[None]:
        """Make several calls of this app one transaction; it may end in `StoreConflict`."""
        return self.store.transaction()

    def atomically(self, steps: Callable[[], T]) -> T:
        """Make all that `steps` calls of this app one transaction, repeated if it conflicts with another."""
        return self.store.atomically(steps)

    def add(self, *documents: Document, source: str | None = None, priority: int = 0) -> int:
        """Write documents from outside of any handler, those that are absent; return how many were."""
        options = PublishOptions(source=source, priority=priority)
        return self.store.add_documents(publisher.new_documents(documents, options))

    def replace(self, document: Document, *, source: str | None = None) -> bool:
        """Write a document's new content; return whether that changed it, and it is `pending` again.

        Without an event in the same transaction, the retry job puts it back at once.
        """
        (new,) = publisher.new_documents([document], PublishOptions(source=source))
        return self.store.replace_document(new)

    # -- publishing

    def publish(
        self,
        *events: Event,
        documents: Iterable[Document] = (),
        source: str | None = None,
        delay: Seconds = 0.0,
        priority: int = 0,
        expires: Seconds | None = None,
        unique_for: Seconds | None = None,
        unique: str | None = None,
        connection: object = None,
    ) -> list[Published]:
        """Put events on the ledger, in one transaction with the documents they name, if given.

        Returns what became of each event: the number of services that will get it (`rows`) or have it waiting
        already (`duplicates`). A document that is stored already stays as it is; if it was given with other
        content, `kept` names it with its stored revision, and `app.replace` is what changes it.

        Later than `expires` seconds from now, or a timedelta, no try begins any more. With `unique_for`, in
        seconds or as a timedelta, the same event (its type and data, or the name `unique`) is published once
        within that time: a later one stores nothing, and its result has the id of the first, and `duplicates`.

        With `connection`, your own connection to the store's database, all of it is part of your transaction: it
        is committed or rolled back with your rows. Then the results have only the event's id, and `awaits_commit`.
        """
        options = PublishOptions(source, delay, priority, expires, unique_for, unique)
        given = _checked(events, documents, options)
        return _publish(self.store, *given) if connection is None else self.publish_beside(connection, *given)

    def publish_beside(
        self, connection: object, events: Sequence[Event], documents: Sequence[Document], options: PublishOptions
    ) -> list[Published]:
        """Publish in the transaction of a connection; see `publish`."""
        return caller_transaction.publish(self._open_beside(), connection, events, documents, options)

    async def apublish(
        self,
        *events: Event,
        documents: Iterable[Document] = (),
        source: str | None = None,
        delay: Seconds = 0.0,
        priority: int = 0,
        expires: Seconds | None = None,
        unique_for: Seconds | None = None,
        unique: str | None = None,
        connection: object = None,
    ) -> list[Published]:
        """Publish as `publish` does, without blocking the event loop; `connection` may be an async one.

        A call that is cancelled while it waits may have published.
        """
        options = PublishOptions(source, delay, priority, expires, unique_for, unique)
        given = _checked(events, documents, options)
        if connection is not None:
            return await self.apublish_beside(connection, *given)
        store = await self._opened_off_loop()
        return await off_loop(store.db, partial(_publish, store, *given))

    async def apublish_beside(
        self, connection: object, events: Sequence[Event], documents: Sequence[Document], options: PublishOptions
    ) -> list[Published]:
        """Publish in the transaction of a connection, async or not; see `apublish`."""
        store = await off_loop(None, self._open_beside)
        return await caller_transaction.apublish(store, connection, events, documents, options)

    def publish_many(
        self,
        items: Iterable[publish_items.Item],
        *,
        source: str | None = None,
        delay: Seconds = 0.0,
        priority: int = 0,
        expires: Seconds | None = None,
        unique_for: Seconds | None = None,
    ) -> PublishedMany:
        """Publish many events, or pairs of an event and a document, in few transactions; return the counts.

        Items are read one after the other, from a generator, too, and stored in slices that one transaction may
        hold. After an error, what was stored stays: `PublishManyStopped` says how many items that are.
        """
        options = PublishOptions(source, delay, priority, expires, unique_for)
        return publish_items.publish_many(self.store, items, options)

    async def apublish_many(
        self,
        items: Iterable[publish_items.Item] | AsyncIterable[publish_items.Item],
        *,
        source: str | None = None,
        delay: Seconds = 0.0,
        priority: int = 0,
        expires: Seconds | None = None,
        unique_for: Seconds | None = None,
    ) -> PublishedMany:
        """Publish as `publish_many` does, without blocking the event loop; `items` may be async."""
        options = PublishOptions(source, delay, priority, expires, unique_for)
        return await publish_items.apublish_many(await self._opened_off_loop(), items, options)

    # -- cancelling

    def cancel(self, document: type[Document] | str, id: str, *, by: str = "") -> bool:
        """Cancel a document that is not finished: it becomes `discarded`, and no try of it begins any more.

        A handler that is running for it is not interrupted, but nothing of it is committed. Returns False if the
        document was final already. `by` is stored in its history; by default, the name of the user.
        """
        self._found(lambda: self.store.state(document, id))  # it may wait in `incoming`
        collection = document if isinstance(document, str) else document.collection
        cancelled = self.store.cancel(collection, id, by=by or user_name())
        if cancelled is None:
            raise UnknownDocument(
                f"there is no document {collection}/{id}; list those there are with: "
                f"onward documents --collection {collection}"
            )
        return cancelled

    async def acancel(self, document: type[Document] | str, id: str, *, by: str = "") -> bool:
        """Cancel as `cancel` does, without blocking the event loop."""
        return await off_loop((await self._opened_off_loop()).db, partial(self.cancel, document, id, by=by))

    def _open_beside(self) -> Store:
        """Return the store. If it must be opened while the caller's transaction has locked it, say so."""
        try:
            return self.store
        except StoreUnavailable as error:
            raise PublishRefused(
                f"the store cannot be opened: {error}. If your own transaction has locked it, use `app.store` "
                "once before you begin the transaction"
            ) from error

    def publish_raw(self, raw: bytes) -> Published | None:
        """Store an event from another program: JSON with `event_type` and `data`.

        An event that cannot be read is never dropped: it becomes a dead letter with its bytes, and the result
        is None.
        """
        message = publisher.ForeignMessage(raw)
        return publisher.enter_foreign_events(self.store, self.registry.events(), [message])[0]

    def when_all(
        self,
        documents: Iterable[Waitable],
        *,
        then: Event,
        allow_failed: bool = True,
        source: str | None = None,
    ) -> None:
        """Publish an event when all these documents, or calls of tasks, are final.

        A document that is not stored when this is called counts as removed. A field of the event that is
        annotated with `Joined` then says how they ended. With `allow_failed=False`, a document that was given up
        is waited for until it is processed, discarded or removed. While the event waits, a call with an equal
        event adds its documents. Without documents it is published at once.
        """
        self._move_incoming()
        joins.when_all(self.store, documents, then, allow_failed=allow_failed, source=source)

    async def awhen_all(
        self,
        documents: Iterable[Waitable],
        *,
        then: Event,
        allow_failed: bool = True,
        source: str | None = None,
    ) -> None:
        """Do what `when_all` does, without blocking the event loop."""
        db = (await self._opened_off_loop()).db
        given = partial(self.when_all, documents, then=then, allow_failed=allow_failed, source=source)
        await off_loop(db, given)

    # -- reading

    def get(self, document: type[D], id: str) -> D | None:
        """Read a document."""
        return self._found(lambda: self.store.get(document, id))

    def state(self, document: type[Document] | str, id: str) -> DocumentState | None:
        """Read what the ledger knows of a document."""
        return self._found(lambda: self.store.state(document, id))

    async def aget(self, document: type[D], id: str) -> D | None:
        """Read a document, without blocking the event loop."""
        return await off_loop((await self._opened_off_loop()).db, partial(self.get, document, id))

    async def astate(self, document: type[Document] | str, id: str) -> DocumentState | None:
        """Read what the ledger knows of a document, without blocking the event loop."""
        return await off_loop((await self._opened_off_loop()).db, partial(self.state, document, id))

    def _found(self, read: Callable[[], T | None]) -> T | None:
        """Read something; if it is missing, move what waits in `incoming`, and read again."""
        found = read()
        return read() if found is None and self._move_incoming() else found

    def _move_incoming(self) -> int:
        """Move what waits in `incoming` to the ledger; return how many rows."""
        moved, store = 0, self.store
        # Not in a transaction of the caller's: what cannot be moved would break it.
        if not store.db.in_transaction():
            while some := move_incoming(store, self.registry.events()):
                moved += some
        return moved

    async def _opened_off_loop(self) -> Store:
        """Return the store; it is opened in a thread if this is its first use."""
        return await off_loop(None, lambda: self.store)


def _checked(
    events: Sequence[Event], documents: Iterable[Document], options: PublishOptions
) -> tuple[list[Event], list[Document], PublishOptions]:
    """Return what is to be published as lists, or raise what is wrong with it."""
    given: object = documents
    # By the classes themselves: isinstance() is slow where there is a metaclass.
    if isinstance(given, str | BaseModel) or not isinstance(given, Iterable):
        raise PublishRefused(f"documents= takes a list of documents, not {_shown(given)}")
    stored = list(documents)
    for event in events:
        if Event not in type(event).__mro__:
            raise PublishRefused(
                f"publish takes events, and documents as documents=[…]; {_shown(event)} is no event"
            )
    for document in stored:
        if Document not in type(document).__mro__:
            raise PublishRefused(f"documents= takes a list of documents; {_shown(document)} is none")
    if options.unique_seconds is not None and len(events) != 1:
        raise PublishRefused(
            f"unique_for= takes one event at a call, not {len(events)}; call publish() for each, or publish_many()"
        )
    return list(events), stored, options


def _shown(given: object) -> str:
    return f"{given!r:.100} ({type(given).__name__})"


def _publish(
    store: Store, events: list[Event], documents: list[Document], options: PublishOptions
) -> list[Published]:
    if options.unique_seconds is None:
        return publisher.publish(store, events, documents, options)
    item = publish_items.prepare(events[0], documents, options, now=store.now())

    def put() -> list[Published]:
        added, (stored,) = publish_items.store_items(store, [item], options)
        known = added < len(documents) and not stored.is_duplicate
        kept = publisher.kept_documents(store, item.documents) if known else ()
        return [replace(one, kept=kept) for one in stored.published] if kept else list(stored.published)

    return store.atomically(put)
