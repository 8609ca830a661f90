"""The store: documents and the ledger, in one database and one transaction."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from weakref import WeakSet

from onward.ledger import claim, publish, requeue, settle
from onward.ledger.breakers import Breakers
from onward.ledger.dead_letters import DeadLetters
from onward.ledger.derived_rows import merge_next_status_counts
from onward.ledger.dialect import Database
from onward.ledger.document_actions import DocumentActions
from onward.ledger.document_content import add_documents, replace_content
from onward.ledger.document_queries import DocumentQueries
from onward.ledger.ledger_queries import LedgerQueries
from onward.ledger.retry_queries import RetryQueries
from onward.ledger.subscriptions import Subscriptions
from onward.ledger.transactions import transactional
from onward.ledger.wakeup import Bus
from onward.model.clock import Clock
from onward.model.events import Envelope
from onward.model.failures import Failure
from onward.model.ledger import (
    BACKGROUND_EVERY,
    KEEP_UNROUTED_SECONDS,
    MAX_UNROUTED,
    CommitResult,
    Delivery,
    NewDocument,
    Published,
    Settlement,
)
from onward.search.search_queries import SearchQueries

log = logging.getLogger("onward")

KEEP_FOREIGN_EVENTS_SECONDS = 7 * 86_400.0
"""How long the id of another program's event is remembered, so that it is not stored twice."""
SWEEP_SECONDS = 60.0  # How often a process removes old rows from the small tables
MAX_MERGED_ROWS = 5_000  # Rows of document counts that one sweep reads


class Store(
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
    puts events on the ledger, claims and settles them; its bases have the other methods, by subject.
    """

    db: Database

    def __init__(self, db: Database, clock: Clock | None = None) -> None:
        super().__init__(db, clock)
        self._buses: WeakSet[Bus] = WeakSet()
        self._claims_since_background: dict[str, int] = {}
        """Rows of each service that were claimed since the last one from the background."""
        self._swept_at = -math.inf
        self._merged_up_to = ""  # The source up to which document counts were merged

    def close(self) -> None:
        self.db.close()

    def bus(self) -> Bus:
        """Return what wakes a worker up when rows may be due."""
        bus = self.db.bus()
        self._buses.add(bus)
        return bus

    # -- putting events on the ledger

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
    def _publish(self, envelopes: Sequence[Envelope]) -> list[Published]:
        unit = self._unit_of_work()
        published = publish.publish(unit, envelopes)
        unit.write()
        return published

    @transactional
    def publish_malformed(self, raw: bytes, failure: Failure, *, event_type: str = "") -> None:
        """Store bytes that are no event as a dead letter of each service that they were for."""
        publish.keep_malformed(self._unit_of_work(), raw, failure, event_type)

    @transactional
    def add_documents(self, documents: Sequence[NewDocument]) -> int:
        """Add documents that do not exist yet, outside of any work; return how many were added."""
        return add_documents(self._unit_of_work(), documents)

    @transactional
    def replace_document(self, document: NewDocument) -> bool:
        """Give a document new content, outside of any work; return whether that changed it.

        Changed content makes it `pending` and removes all descendants of the old content.
        """
        unit, key = self._unit_of_work(), (document.collection, document.id)
        doc = unit.document(key)
        if doc is None:
            add_documents(unit, [document])
            return True
        changed = replace_content(unit, key, document.body, document.keys)
        if changed and doc.row is None:
            doc.last_attempt_time = None  # no round has begun with this content: the retry job need not wait
            unit.change(key)
        unit.write()
        return changed

    # -- claiming and settling

    @transactional
    def claim(
        self,
        worker: str,
        service: str,
        *,
        limit: int,
        lease: float,
        needs: Sequence[str] = (),
        with_health_call: Sequence[str] = (),
        suspects: bool = False,
    ) -> list[Delivery]:
        """Claim due rows of a service, by priority, then due time, and read their documents.

        No more is claimed than the breakers of `needs` allow. While the breaker of a dependency in
        `with_health_call` is open, a document probes it only after a health call. `suspects` claims only events
        that must run alone, one at a time; without it those are left out.
        """
        claims_since_background = self._claims_since_background.get(service, 0)
        found = claim.claim(
            self._unit_of_work(),
            worker,
            service,
            limit=limit,
            lease=lease,
            needs=needs,
            with_health_call=with_health_call,
            suspects=suspects,
            claims_since_background=claims_since_background,
        )
        self._claims_since_background[service] = (claims_since_background + len(found)) % BACKGROUND_EVERY
        return found

    @transactional
    def claimed(self, worker: str) -> list[Delivery]:
        """Return the deliveries that a worker holds now, as it received them."""
        return claim.claimed(self._unit_of_work(), worker)

    @transactional
    def settle(self, settlements: Sequence[Settlement]) -> list[CommitResult]:
        """Commit these works, in order; each is fenced by its delivery's token."""
        return settle.settle(self._unit_of_work(), settlements)

    @transactional
    def renew(self, worker: str, lease: float) -> int:
        """Extend the leases of a worker's claims, and record that it is alive; return how many."""
        self.db.send("seen", self.now(), worker)
        return self.db.run("renew", self.now() + lease, worker)

    @transactional
    def release(self, worker: str, rows: Sequence[int] | None = None) -> int:
        """Return a worker's claims (all of them by default) to the queue, uncharged; return how many."""
        claims: list[int] = self.db.read("claims_of", worker)
        mine = claims if rows is None else [row for row in rows if row in claims]
        return requeue.return_claims(self._unit_of_work(), mine)

    @transactional
    def record_crash(self, worker: str, running: Sequence[int], finished: Sequence[int] = ()) -> int:
        """Return the claims of a dead worker to the queue, and count a death on those that were running.

        Claims that were finished and not committed run with care next time; a death is counted if it happens
        again.
        """
        self._remove_worker(worker)
        claims = self.db.read("claims_of", worker)
        return requeue.return_claims(self._unit_of_work(), claims, running=running, finished=finished)

    def reclaim(self, gone: str | None = None) -> int:
        """Requeue claims whose lease has lapsed, or those of a worker that is gone; return how many."""
        if gone is not None:
            return self._reclaim_from(gone)
        return self._reclaim_lapsed() if self.db.read("lapsed", self.now()) else 0

    @transactional
    def _reclaim_from(self, gone: str) -> int:
        self._remove_worker(gone)
        return requeue.return_claims(self._unit_of_work(), self.db.read("claims_of", gone), lapsed=True)

    @transactional
    def _reclaim_lapsed(self) -> int:
        return requeue.return_claims(self._unit_of_work(), self.db.read("lapsed", self.now()), lapsed=True)

    @transactional
    def requeue(self, row: int) -> bool:
        """Requeue a dead letter's event in a new round; return False if it is no dead letter any more."""
        return requeue.requeue_dead_letter(self._unit_of_work(), row)

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
    def _sweep(self) -> None:
        """Remove old rows and counts of zero from the small tables."""
        self.db.send("forget_foreign_events", self.now() - KEEP_FOREIGN_EVENTS_SECONDS)
        self._remove_old_workers()
        self._merged_up_to = merge_next_status_counts(self.db, self._merged_up_to, MAX_MERGED_ROWS)
        self.db.sweep()

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
    def _prune_ledger(self, keep_seconds: float, keep_count: int) -> int:
        gone = self.db.run("prune_many", keep_count)
        gone += self.db.run("prune_old", self.now() - keep_seconds)
        gone += self.db.run("prune_unrouted", self.now() - KEEP_UNROUTED_SECONDS)
        return gone
