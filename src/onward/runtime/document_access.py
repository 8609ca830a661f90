"""What an app offers outside of handlers: publishing, writing and reading documents, also with `await`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from onward.ledger.off_loop import off_loop
from onward.ledger.store_errors import StoreUnavailable
from onward.model.documents import Document, DocumentState
from onward.model.events import Event
from onward.model.ledger import Published
from onward.runtime import caller_transaction, publisher
from onward.runtime.incoming_publications import move_incoming
from onward.runtime.service import Registry

if TYPE_CHECKING:
    from onward.ledger.store import Store

D = TypeVar("D", bound=Document)
T = TypeVar("T")


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
        return self.store.add_documents(publisher.new_documents(documents, source, priority))

    def replace(self, document: Document, *, source: str | None = None) -> bool:
        """Write a document's new content; return whether that changed it, and it is `pending` again.

        Without an event in the same transaction, the retry job puts it back at once.
        """
        (new,) = publisher.new_documents([document], source, 0)
        return self.store.replace_document(new)

    # -- publishing

    def publish(
        self,
        *events: Event,
        documents: Iterable[Document] = (),
        source: str | None = None,
        delay: float = 0.0,
        priority: int = 0,
        connection: object = None,
    ) -> list[Published]:
        """Put events on the ledger, in one transaction with the documents they name, if given.

        Returns what became of each event: the number of services that will get it (`rows`) or have it waiting
        already (`duplicates`). A document that is stored already stays as it is; if it was given with other
        content, `kept` names it with its stored revision, and `app.replace` is what changes it.

        With `connection`, your own connection to the store's database, all of it is part of your transaction: it
        is committed or rolled back with your rows. Then the results have only the event's id, and `awaits_commit`.
        """
        given = (list(events), list(documents), source, delay, priority)
        if connection is None:
            return publisher.publish(self.store, *given)
        return caller_transaction.publish(self._open_beside(), connection, *given)

    async def apublish(
        self,
        *events: Event,
        documents: Iterable[Document] = (),
        source: str | None = None,
        delay: float = 0.0,
        priority: int = 0,
        connection: object = None,
    ) -> list[Published]:
        """Publish as `publish` does, without blocking the event loop; `connection` may be an async one.

        A call that is cancelled while it waits may have published.
        """
        given = (list(events), list(documents), source, delay, priority)
        if connection is not None:
            store = await off_loop(None, self._open_beside)
            return await caller_transaction.apublish(store, connection, *given)
        store = await self._opened_off_loop()
        return await off_loop(store.db, partial(publisher.publish, store, *given))

    def _open_beside(self) -> Store:
        """Return the store. If it must be opened while the caller's transaction has locked it, say so."""
        try:
            return self.store
        except StoreUnavailable as error:
            raise publisher.PublishRefused(
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
        found, store = read(), self.store
        # Not in a transaction of the caller's: what cannot be moved would break it.
        if found is None and not store.db.in_transaction():
            moved = 0
            while some := move_incoming(store, self.registry.events()):
                moved += some
            return read() if moved else None
        return found

    async def _opened_off_loop(self) -> Store:
        """Return the store; it is opened in a thread if this is its first use."""
        return await off_loop(None, lambda: self.store)
