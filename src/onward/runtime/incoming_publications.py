"""Moving what callers have published in transactions of their own from the table `incoming` to the ledger."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from onward.ledger.incoming import PUBLICATION, IncomingRow
from onward.ledger.store_errors import StoreFull, StoreUnavailable
from onward.ledger.unique_events import UniqueEvent
from onward.model.events import Envelope, Event
from onward.model.ledger import NewDocument
from onward.retry import Malformed, redact_error
from onward.runtime.publish_options import PublishOptions, delay_problem, expires_problem, priority_problem
from onward.runtime.publisher import ForeignMessage, keep_malformed, read_foreign_event

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
    expires: float | None = None  # Seconds after `at`
    unique: str = ""  # The key of an event that is published once for a time
    unique_for: float = 0.0  # Seconds after `at`
    only_new: bool = False  # It is dropped if one of its documents is stored already
    documents: list[PublishedDocument] = []
    events: list[PublishedEvent] = []

    @classmethod
    def of(
        cls,
        documents: Sequence[NewDocument],
        envelopes: Sequence[Envelope],
        options: PublishOptions,
        *,
        at: float,
        unique: str = "",
    ) -> Publication:
        return cls(
            at=at,
            source=options.source,
            priority=options.priority,
            delay=options.due_in,
            expires=options.expires_in,
            unique=unique,
            unique_for=options.unique_seconds or 0.0,
            only_new=options.only_new,
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
        expires_in = None if self.expires is None else self.at + self.expires - now
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
                expires_in=expires_in,
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
        found: list[Publication | Envelope] = []
        for row in rows:
            try:
                found.append(self._read(row))
            except Malformed as error:
                self._keep(row, error)
        known = self._find_known(found) | self._find_stored(found)
        documents: list[NewDocument] = []
        envelopes: list[Envelope] = []
        for position, one in enumerate(found):
            if isinstance(one, Envelope):
                envelopes.append(one)
            elif position not in known:
                more, named = one.content(self._store.now())
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

    def _read(self, row: IncomingRow) -> Publication | Envelope:
        """Read a row, or raise `Malformed` with the reason."""
        if row.format == PUBLICATION:
            try:
                publication = Publication.model_validate_json(row.body)
            except ValidationError as error:
                wrong = {".".join(map(str, problem["loc"])) or "body" for problem in error.errors()}
                raise Malformed(f"no publication of Onward; wrong are: {', '.join(sorted(wrong))}") from error
            _check(publication)
            return publication
        _check(row)
        now = self._store.now()
        envelope = read_foreign_event(self._known(), ForeignMessage(row.body), row.at)
        envelope.priority, envelope.due_in = row.priority, max(0.0, row.at + row.delay - now)
        envelope.expires_in = None if row.expires is None else row.at + row.expires - now
        return envelope

    def _find_known(self, found: Sequence[Publication | Envelope]) -> set[int]:
        """Return the positions of unique events that were published before; store the others.

        In the order of their keys, as all that publish do, so that no two transactions wait for each other.
        """
        unique = [
            (one.unique, position, one) for position, one in enumerate(found) if isinstance(one, Publication)
        ]
        return {position for _, position, one in sorted(unique, key=itemgetter(0, 1)) if self._is_known(one)}

    def _find_stored(self, found: Sequence[Publication | Envelope]) -> set[int]:
        """Return the positions of publications that are dropped because a document of theirs is stored."""
        keys = {
            position: {(document.collection, document.id) for document in one.documents}
            for position, one in enumerate(found)
            if isinstance(one, Publication) and one.only_new
        }
        if not keys:
            return set()
        states = self._store.states_of(sorted(set().union(*keys.values())))
        stored = {(state.collection, state.id) for state in states}
        return {position for position, named in keys.items() if named & stored}

    def _is_known(self, publication: Publication) -> bool:
        """Return whether a unique event was published before; if not, store it."""
        if not publication.unique or not publication.events:
            return False
        document_id = publication.documents[0].id if publication.documents else ""
        event, at = UniqueEvent(publication.unique, publication.events[0].event_id, document_id), publication.at
        known = self._store.remember_unique([event], at=at, until=at + publication.unique_for)
        if known:
            log.debug("event %s is not published: %s was", event.event_id, known[event.key].event_id)
        return bool(known)

    def _known(self) -> dict[str, type[Event] | None]:
        """Return the known event types: those of this app, and those that any service of the store takes."""
        if not self._kinds:
            self._kinds = dict.fromkeys(taken.event_type for taken in self._store.subscriptions())
            self._kinds.update(self._events)
        return self._kinds

    def _keep(self, row: IncomingRow, error: BaseException) -> None:
        log.error("row %d of incoming cannot be read: %s", row.id, redact_error(str(error)))
        about = {name: getattr(row, name) for name in ("format", "at", "priority", "delay", "expires")}
        keep_malformed(self._store, ForeignMessage(row.body, properties={"incoming": about}), error)


def _check(given: Publication | IncomingRow) -> None:
    problem = priority_problem(given.priority) or delay_problem(given.delay)
    problem = problem or expires_problem(given.expires, given.delay)
    if not problem and not math.isfinite(given.at):
        problem = f"the time is {given.at!r}, not a number of seconds since the epoch"
    if problem:
        raise Malformed(problem)
