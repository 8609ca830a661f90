"""The store: documents and the ledger, in one database and one transaction."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from weakref import WeakSet

from onward.ledger import publish, requeue
from onward.ledger.breakers import Breakers
from onward.ledger.claim import Deliveries
from onward.ledger.dead_letters import DeadLetters
from onward.ledger.dialect import Bus, Database
from onward.ledger.document_actions import DocumentActions, merge_status_counts
from onward.ledger.document_queries import DocumentQueries
from onward.ledger.ledger_queries import LedgerQueries
from onward.ledger.retry_queries import RetryQueries
from onward.ledger.subscriptions import Subscriptions
from onward.ledger.transactions import transactional
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.clock import Clock
from onward.model.events import Envelope
from onward.model.failures import Failure
from onward.model.ledger import KEEP_UNROUTED_SECONDS, MAX_UNROUTED, NewDocument, Published
from onward.search.search_queries import SearchQueries

log = logging.getLogger("onward")

KEEP_FOREIGN_EVENTS_SECONDS = 7 * 86_400.0  # How long another program's event is known, so that it is stored once
KEEP_WORKERS_SECONDS = 86_400.0  # How long a worker that has disappeared is still listed
SWEEP_SECONDS = 60.0  # How often a process removes old rows from the small tables
MAX_MERGED_ROWS = 5_000  # Rows of document counts that one sweep reads


class Store(
    Deliveries,
    DocumentQueries,
    DocumentActions,
    RetryQueries,
    DeadLetters,
    LedgerQueries,
    Breakers,
    Subscriptions,
    SearchQueries,
):
    """Documents and ledger. Every method is one transaction, or joins the one it is called in.

    Lease and due times use the store's own clock. All methods may be called from any thread. The class itself
    publishes events, returns lost claims and removes old rows; its bases have the other methods, by subject.
    """

    db: Database

    def __init__(self, db: Database, clock: Clock | None = None) -> None:
        super().__init__(db, clock)
        self._buses: WeakSet[Bus] = WeakSet()
        self._swept_at = -math.inf
        self._merged_up_to = ""  # The source up to which document counts were merged

    def close(self) -> None:
        self.db.close()

    def bus(self) -> Bus:
        """Return what wakes a worker up when rows may be due."""
        bus = self.db.bus()
        self._buses.add(bus)
        return bus

    # -- putting events and documents in

    def publish(self, envelopes: Sequence[Envelope]) -> list[Published]:
        """Put events on the ledger, one row per consuming service, and wake the engines of this process.

        Documents that a consumer finishes begin their next round. An event that is waiting already is reported
        as a duplicate and costs nothing, as is an event whose id is known.
        """
        published = self._publish(envelopes)
        for bus in list(self._buses):
            bus.wake()
        return published

    @transactional
    def _publish(self, unit: UnitOfWork, envelopes: Sequence[Envelope]) -> list[Published]:
        return publish.publish(unit, envelopes)

    @transactional
    def publish_malformed(self, unit: UnitOfWork, raw: bytes, failure: Failure, *, event_type: str = "") -> None:
        """Store bytes that are no event as a dead letter of each service that they were for."""
        publish.keep_malformed(unit, raw, failure, event_type)

    @transactional
    def add_documents(self, unit: UnitOfWork, documents: Sequence[NewDocument]) -> int:
        """Add documents that do not exist yet, outside of any work; return how many were added."""
        unit.read_documents((document.collection, document.id) for document in documents)
        return sum(unit.add(document) for document in documents)

    @transactional
    def replace_document(self, unit: UnitOfWork, document: NewDocument) -> bool:
        """Give a document new content, outside of any work; return whether that changed it.

        Changed content makes it `pending` and removes all descendants of the old content.
        """
        key = (document.collection, document.id)
        doc = unit.document(key)
        if doc is None:
            return unit.add(document)
        changed = unit.replace(key, document.body, document.keys)
        if changed and doc.row is None:
            doc.last_attempt_time = None  # no round has begun with this content: the retry job need not wait
            unit.change(key)
        return changed

    # -- claims that were lost, dead letters

    @transactional
    def record_crash(
        self, unit: UnitOfWork, worker: str, running: Sequence[int], finished: Sequence[int] = ()
    ) -> int:
        """Return the claims of a dead worker to the queue, and count a death on those that were running.

        Claims that were finished and not committed run with care next time; a death is counted if it happens
        again.
        """
        self.unregister_worker(worker)
        claims = unit.db.read("claims_of", worker)
        return requeue.return_claims(unit, claims, running=running, finished=finished)

    def reclaim(self, gone: str | None = None) -> int:
        """Requeue claims whose lease has lapsed, or those of a worker that is gone; return how many."""
        if gone is not None:
            return self._reclaim_from(gone)
        return self._reclaim_lapsed() if self.db.read("lapsed", self.now()) else 0

    @transactional
    def _reclaim_from(self, unit: UnitOfWork, gone: str) -> int:
        self.unregister_worker(gone)
        return requeue.return_claims(unit, unit.db.read("claims_of", gone), lapsed=True)

    @transactional
    def _reclaim_lapsed(self, unit: UnitOfWork) -> int:
        return requeue.return_claims(unit, unit.db.read("lapsed", unit.now), lapsed=True)

    @transactional
    def requeue(self, unit: UnitOfWork, row: int) -> bool:
        """Requeue a dead letter's event in a new round; return False if it is no dead letter any more."""
        return requeue.requeue_dead_letter(unit, row)

    # -- removing old rows

    def prune(self, *, keep_seconds: float, keep_count: int) -> int:
        """Delete completed events that are older than this, or more than that many; return how many."""
        now = self.now()
        if not 0 <= now - self._swept_at < SWEEP_SECONDS:
            self._swept_at = now
            self._sweep()
            self._drop_unrouted()
        return self._prune_ledger(keep_seconds, keep_count)

    @transactional
    def _sweep(self, unit: UnitOfWork) -> None:
        """Remove old rows and counts of zero from the small tables."""
        unit.db.send("forget_foreign_events", unit.now - KEEP_FOREIGN_EVENTS_SECONDS)
        unit.db.send("keep_last_served", None, unit.now - KEEP_WORKERS_SECONDS)
        unit.db.send("forget_workers", unit.now - KEEP_WORKERS_SECONDS)
        page = unit.db.read_unlocked("status_counts_page", self._merged_up_to, MAX_MERGED_ROWS)
        for source, is_scattered in page:
            if is_scattered:
                merge_status_counts(unit.db, source)
        self._merged_up_to = page[-1][0] if page else ""
        unit.db.sweep()

    def _drop_unrouted(self) -> None:
        """Delete the oldest events without a consumer, if there are too many, a few thousand at a time."""
        before = self.db.read("unrouted_before", MAX_UNROUTED - 1)
        if before is None:
            return
        dropped = 0
        while some := self.atomically(lambda: self.db.run("prune_unrouted", before)):
            dropped += some
        if dropped:
            log.warning(
                "%d events that no service takes were dropped: more than %d are not kept. Start a worker with a "
                "service for them, or publish them no more",
                dropped,
                MAX_UNROUTED,
            )

    @transactional
    def _prune_ledger(self, unit: UnitOfWork, keep_seconds: float, keep_count: int) -> int:
        gone = unit.db.run("prune_many", keep_count)
        gone += unit.db.run("prune_old", unit.now - keep_seconds)
        return gone + unit.db.run("prune_unrouted", unit.now - KEEP_UNROUTED_SECONDS)
