"""The store: documents and the ledger, in one database and one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from onward.model.breaker import Breaker
from onward.model.documents import Document, DocumentState
from onward.model.events import Envelope
from onward.model.failures import Failure
from onward.model.ledger import (
    DeadLetter,
    Delivery,
    FailedBatch,
    Found,
    NewDocument,
    Published,
    Settled,
    Settlement,
    Subscription,
)
from onward.model.search import Filter, Matches, VectorHit
from onward.ports.announcing import Announcing
from onward.ports.bus import Bus
from onward.ports.recovery import Recovery
from onward.retry import OnwardError

D = TypeVar("D", bound=Document)
T = TypeVar("T")


class StoreError(OnwardError):
    """The store refused; trying again will not help, the message says what will."""


class StoreUnavailable(StoreError):
    """The store cannot be reached just now; trying again may help."""


class StoreConflict(StoreUnavailable):
    """Two transactions got in each other's way, and nothing of this one was written; at once it may succeed."""


class StoreFull(StoreError):
    """The store cannot be written: the disk is full, or the file or its folder is read-only."""


class Reader(Protocol):
    """Reads documents; what a handler sees of the store."""

    def get(self, document: type[D], id: str) -> D | None:
        """The document with this id, or None."""
        ...

    def get_many(self, document: type[D], ids: Sequence[str]) -> list[D]:
        """The documents with these ids, in that order, without those that do not exist."""
        ...

    def read_bodies(self, collection: str, ids: Sequence[str]) -> list[tuple[str, int, str]]:
        """Id, revision and JSON text of these documents, in no order, those that exist."""
        ...

    def state(self, document: type[Document] | str, id: str) -> DocumentState | None:
        """What the ledger knows of a document: status, rounds, history."""
        ...

    def statuses(self, document: type[Document] | str, ids: Sequence[str]) -> dict[str, str]:
        """The status of each of these documents that exists."""
        ...

    def find(self, document: type[Document] | str, key: str, values: Sequence[str | float]) -> list[Found]:
        """The documents that have one of these values under a key of their class."""
        ...

    def ids(self, document: type[Document] | str, key: str, value: str | float) -> list[str]:
        """The ids alone of the documents that have this value under a key: of many documents, little."""
        ...

    def related(
        self, document: type[Document] | str, key: str, values: Sequence[str | float], other: str
    ) -> list[tuple[str | float, str | float]]:
        """Which values of another key go with these values of a key, in the documents of a kind."""
        ...

    def unfinished(
        self,
        document: type[Document],
        key: str,
        values: Sequence[str | float],
        *,
        children: type[Document],
    ) -> set[str | float]:
        """The values of a key under which a document or one of its children is still to be finished.

        What is set aside into a failed batch is not waited for.
        """
        ...

    def children(
        self,
        document: type[Document] | str,
        of: type[Document] | str,
        ids: Sequence[str],
        *,
        unlike: str | None = None,
    ) -> list[Found]:
        """The documents of a kind that were made from these, each with its parent's id.

        With `unlike`, only those that have another status.
        """
        ...


class Store(Reader, Recovery, Announcing, Protocol):
    """Documents and ledger. Every method is one transaction, or joins the one it is called in.

    Lease and due times use the store's own clock. All methods may be called from any thread.
    """

    remote: bool
    """Whether calls wait for another machine; then they are kept off the event loop."""

    def transaction(self) -> AbstractContextManager[None]:
        """Make several calls one transaction: all of it, or nothing. It may end in `StoreConflict`."""
        ...

    def atomically(self, steps: Callable[[], T]) -> T:
        """Make all that `steps` calls one transaction, done again from the start when another got in its way."""
        ...

    def now(self) -> float:
        """The store's clock, in seconds since the epoch."""
        ...

    def close(self) -> None: ...

    def bus(self) -> Bus:
        """The store's own way to tell workers of due rows."""
        ...

    # -- putting events on the ledger

    def subscribe(self, subscriptions: Sequence[Subscription]) -> None:
        """Store who consumes what; waiting events that had no consumer are routed now.

        Of two services that finish the same documents on the same event, one was renamed: the new one takes
        over what the other had, as soon as no worker of that is alive.
        """
        ...

    def subscriptions(self) -> list[Subscription]: ...

    def publish(self, envelopes: Sequence[Envelope]) -> list[Published]:
        """Put events on the ledger, one row per consuming service.

        Documents that a consumer finishes begin their next round. An event that is waiting already
        is reported as a duplicate and costs nothing; an event id that is known is one, too.
        """
        ...

    def publish_malformed(self, raw: bytes, failure: Failure, *, event_type: str = "") -> None:
        """Keep what could not be read as a dead letter with its bytes, one per service it was for."""
        ...

    def add_documents(self, documents: Sequence[NewDocument]) -> int:
        """Write documents from outside of any work, those that are absent; answer how many were."""
        ...

    def replace_document(self, document: NewDocument) -> bool:
        """Give a document new content from outside of any work; answer whether that changed it.

        Changed content makes it `pending` and removes all that descended from the old content.
        """
        ...

    # -- claiming and settling

    def claim(
        self,
        worker: str,
        service: str,
        *,
        limit: int,
        lease: float,
        needs: Sequence[str] = (),
        healthy_probes: Sequence[str] = (),
        suspects: bool = False,
        among: Sequence[int] | None = None,
    ) -> list[Delivery]:
        """Claim due rows of a service, by priority, then due time, and read their documents.

        Nothing is claimed past what the breakers of `needs` allow; those in `healthy_probes` are
        probed by a health call, never by a document. `suspects` claims only events that are to run
        alone, one at a time; without it those are left out. `among` claims only what is due of these rows.
        """
        ...

    def claimed(self, worker: str) -> list[Delivery]:
        """The deliveries that a worker holds now, as they were handed to it."""
        ...

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Make these works true, in order; each is fenced by its delivery's token."""
        ...

    def renew(self, worker: str, lease: float) -> int:
        """Extend the leases of a worker's claims, and show that it is alive; answer how many."""
        ...

    def release(self, worker: str, rows: Sequence[int] | None = None) -> int:
        """Give back a worker's claims (all of them by default) uncharged; answer how many."""
        ...

    def bury(self, worker: str, running: Sequence[int]) -> int:
        """A worker died: give back its claims, and count a death on those that were running."""
        ...

    def reap(self, gone: str | None = None) -> int:
        """Take back the claims whose lease has lapsed, or those of a worker that is gone; answer how many."""
        ...

    def prune(self, *, keep_seconds: float, keep_count: int) -> int:
        """Drop completed events that are older than this, or more than that many."""
        ...

    def next_due(self, services: Sequence[str], *, suspects: bool = False) -> float | None:
        """When the next waiting row of these services falls due; None: nothing waits."""
        ...

    def next_change(self) -> float | None:
        """When a lease lapses or a breaker may let something through; None: nothing is pending."""
        ...

    def under_way(self, services: Sequence[str]) -> int:
        """How many deliveries of these services are claimed."""
        ...

    def is_quiet(self, services: Sequence[str], free: Sequence[str], *, until: float) -> bool:
        """Whether no delivery of these services is claimed, and none of the free ones falls due until then."""
        ...

    def overdue_suspects(self, services: Sequence[str]) -> list[str]:
        """The services that have events due which must run alone."""
        ...

    # -- workers

    def enlist(self, worker: str, about: Mapping[str, Any]) -> None:
        """Make a worker known: its host, process, version, and event versions by service."""
        ...

    def retire(self, worker: str) -> None: ...

    def workers(self, alive_within: float = 90.0) -> list[dict[str, Any]]: ...

    # -- dependencies

    def breakers(self) -> list[Breaker]: ...

    def openings(self, dependency: str | None = None) -> list[dict[str, Any]]:
        """Every opening of a breaker: since when, until when, why."""
        ...

    def open_breaker(self, dependency: str, reason: str, *, remedy: str = "", by_hand: bool = False) -> None:
        """Open a breaker and give back the tries that its strikes cost."""
        ...

    def close_breaker(self, dependency: str, *, probed: bool = False) -> bool:
        """Close an open breaker, or leave it to a person who has taken it in hand, if a probe says so."""
        ...

    def take_probe(self, dependency: str) -> bool:
        """Claim the due probe of an open breaker, for a health call; False: not due, or taken."""
        ...

    # -- the operator

    def dead_letters(self, service: str | None = None, *, limit: int = 100, after: int = 0) -> list[DeadLetter]:
        """Dead letters, oldest first, of one service (an empty name: of none) or of all."""
        ...

    def requeue(self, row: int) -> bool:
        """Put a dead letter's original event back in a new round; False: it is no dead letter any more."""
        ...

    def reset(self, collection: str, id: str) -> bool:
        """Make a document `pending` with no rounds counted; deliveries under way are superseded."""
        ...

    def discard(self, collection: str, id: str) -> bool:
        """Give a document up for good; deliveries under way are superseded."""
        ...

    def forget(self, source: str) -> int:
        """Remove a source and all that came from it; works under way for it are refused."""
        ...

    def counts(self) -> dict[str, dict[str, int]]:
        """How many rows each service has, by state."""
        ...

    def document_counts(self, source: str | None = None) -> dict[str, dict[str, int]]:
        """How many documents each collection has, by status; of one source, or of all."""
        ...

    def states(
        self,
        document: type[Document] | str,
        *,
        status: str | None = None,
        source: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> list[DocumentState]:
        """What the ledger knows of many documents, ordered by id; `after` goes on behind an id."""
        ...

    def ids_like(self, prefix: str, *, limit: int = 100) -> list[tuple[str, str]]:
        """Collection and id of the documents whose id begins so, ordered by collection, then id."""
        ...

    def cursors(self, service: str) -> dict[str, Any]:
        """The last checkpoints of a service's deliveries under way, each by what the call was about: its ids."""
        ...

    # -- searching

    def key_values(self, key: str) -> list[str | float]:
        """All values that documents have under a key."""
        ...

    def match(
        self,
        wanted: Sequence[str],
        unwanted: Sequence[str],
        document: type[Document] | str,
        *,
        titles: bool = True,
        source: str | None = None,
        filters: Sequence[Filter] = (),
        limit: int | None = None,
        besides: Sequence[str] = (),
    ) -> Matches:
        """All documents of a kind with any of these words and phrases and none of those, best first.

        A filter is a key, a relation (`=`, `>=`, `<`, `like`) and a value. With a limit only so many, and those of
        `besides` that are found, too. A word that more than half of all texts have finds, but does not rank unless
        there is no other; then it ranks the newest thousand. What is not ranked comes last, the newest first.
        """
        ...

    def excerpts(
        self,
        wanted: Sequence[str],
        unwanted: Sequence[str],
        document: type[Document] | str,
        ids: Sequence[str],
    ) -> dict[str, tuple[str, str]]:
        """Title and an excerpt of these documents, with marks around the words that match."""
        ...

    def nearest(
        self,
        vector: bytes,
        document: type[Document] | str,
        *,
        model: str,
        parents: type[Document] | str,
        source: str | None = None,
        filters: Sequence[Filter] = (),
        each_parent: bool = False,
        limit: int | None = None,
        among: Sequence[str] | None = None,
    ) -> list[VectorHit]:
        """All documents of a model's vector space, nearest first; filters ask for their parents' keys.

        With `each_parent`, of each parent's documents only the nearest; with a limit only so many of all; with
        `among`, only those of these parents.
        """
        ...

    def not_placed(
        self, document: type[Document] | str, model: str, *, after: str = "", limit: int = 500
    ) -> list[str]:
        """Documents that have no place in this model's vector space, by id."""
        ...

    def sources(self) -> list[str]:
        """The sources that documents belong to."""
        ...

    def failed_batches(self, source: str | None = None) -> list[FailedBatch]:
        """What was set aside, with the errors."""
        ...
