"""Moving what callers have published in transactions of their own from the table `incoming` to the ledger."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from onward.ledger.incoming import PUBLICATION, IncomingRow
from onward.ledger.store_errors import StoreFull, StoreUnavailable
from onward.model.events import Envelope, Event
from onward.model.ledger import NewDocument
from onward.retry import Malformed, redact_error
from onward.runtime.publisher import (
    ForeignMessage,
    delay_problem,
    keep_malformed,
    priority_problem,
    read_foreign_event,
)

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")

Content = tuple[list[NewDocument], list[Envelope]]


class PublishedDocument(BaseModel):
    collection: str
    id: str
    body: str
    keys: list[tuple[str, str | bool | int | float]] = []


class PublishedEvent(BaseModel):
    event_type: str
    event_id: str
    data: str
    version: int
    trace: str | None = None
    notice: bool = False
    routing_key: str = ""


class Publication(BaseModel):
    """One call of `app.publish` in a caller's transaction, as it is stored in `incoming`."""

    at: float  # When it was published, by the clock of the store
    source: str | None = None
    priority: int = 0
    delay: float = 0.0
    documents: list[PublishedDocument] = []
    events: list[PublishedEvent] = []

    @classmethod
    def of(
        cls,
        documents: Sequence[NewDocument],
        envelopes: Sequence[Envelope],
        *,
        at: float,
        source: str | None,
        priority: int,
        delay: float,
    ) -> Publication:
        return cls(
            at=at,
            source=source,
            priority=priority,
            delay=delay,
            documents=[
                PublishedDocument(collection=one.collection, id=one.id, body=one.body, keys=list(one.keys))
                for one in documents
            ],
            events=[
                PublishedEvent(
                    event_type=one.event_type,
                    event_id=one.event_id,
                    data=one.data,
                    version=one.version,
                    trace=one.trace,
                    notice=one.notice,
                    routing_key=one.routing_key,
                )
                for one in envelopes
            ],
        )

    def content(self, now: float) -> Content:
        """Return new documents and envelopes; what remains of the delay counts from now on."""
        due_in = max(0.0, self.at + self.delay - now)
        documents = [
            NewDocument(
                one.collection, one.id, one.body, source=self.source, priority=self.priority, keys=one.keys
            )
            for one in self.documents
        ]
        envelopes = [
            Envelope(
                one.event_type,
                one.data,
                one.event_id,
                self.at,
                one.version,
                one.trace,
                self.source,
                self.priority,
                due_in,
                one.notice,
                routing_key=one.routing_key,
            )
            for one in self.events
        ]
        return documents, envelopes


def move_incoming(store: Store, events: Iterable[type[Event]]) -> int:
    """Move some of what waits in `incoming` to the ledger; return how many rows, 0 if nothing waits.

    `events` are the event types of the app. What cannot be read or stored becomes a dead letter, and holds up
    nothing else.
    """
    if not store.has_incoming():
        return 0
    mover = _Mover(store, events)
    try:
        return store.atomically(mover.move)
    except (StoreUnavailable, StoreFull):
        raise
    except Exception as error:
        log.debug("%d rows of incoming cannot be stored together (%s); each is moved alone", len(mover.ids), error)
    return sum(map(mover.move_alone, mover.ids))


class _Mover:
    def __init__(self, store: Store, events: Iterable[type[Event]]) -> None:
        self._store = store
        self._events = {kind.event_type: kind for kind in events}
        self._kinds: dict[str, type[Event] | None] = {}
        self.ids: list[int] = []  # The rows of the last transaction, committed or not

    def move(self, id: int | None = None) -> int:
        """Take rows and publish what they hold."""
        rows = self._store.take_incoming(id)
        self.ids = [row.id for row in rows]
        documents: list[NewDocument] = []
        envelopes: list[Envelope] = []
        for row in rows:
            try:
                more, named = self._content(row)
            except Malformed as error:
                self._keep(row, error)
            else:
                documents += more
                envelopes += named
        if documents or envelopes:
            self._store.publish_with_documents(documents, envelopes)
        return len(rows)

    def move_alone(self, id: int) -> int:
        """Move one row; if it cannot be stored, keep it as a dead letter."""
        try:
            return self._store.atomically(lambda: self.move(id))
        except (StoreUnavailable, StoreFull):
            raise
        except Exception as error:
            problem = error

        def keep() -> int:
            rows = self._store.take_incoming(id)
            for row in rows:
                self._keep(row, problem)
            return len(rows)

        return self._store.atomically(keep)

    def _content(self, row: IncomingRow) -> Content:
        """Read a row, or raise `Malformed` with the reason."""
        now = self._store.now()
        if row.format == PUBLICATION:
            try:
                publication = Publication.model_validate_json(row.body)
            except ValidationError as error:
                wrong = {".".join(map(str, problem["loc"])) or "body" for problem in error.errors()}
                raise Malformed(f"no publication of Onward; wrong are: {', '.join(sorted(wrong))}") from error
            _check(publication)
            return publication.content(now)
        _check(row)
        envelope = read_foreign_event(self._known(), ForeignMessage(row.body), row.at)
        envelope.priority, envelope.due_in = row.priority, max(0.0, row.at + row.delay - now)
        return [], [envelope]

    def _known(self) -> dict[str, type[Event] | None]:
        """Return the known event types: those of this app, and those that any service of the store takes."""
        if not self._kinds:
            self._kinds = dict.fromkeys(taken.event_type for taken in self._store.subscriptions())
            self._kinds.update(self._events)
        return self._kinds

    def _keep(self, row: IncomingRow, error: BaseException) -> None:
        log.error("row %d of incoming cannot be read: %s", row.id, redact_error(str(error)))
        about = {name: getattr(row, name) for name in ("format", "at", "priority", "delay")}
        keep_malformed(self._store, ForeignMessage(row.body, properties={"incoming": about}), error)


def _check(given: Publication | IncomingRow) -> None:
    problem = priority_problem(given.priority) or delay_problem(given.delay)
    if not problem and not math.isfinite(given.at):
        problem = f"the time is {given.at!r}, not a number of seconds since the epoch"
    if problem:
        raise Malformed(problem)
