"""The store: documents and the ledger, in one database and one transaction."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakSet

from onward.ledger import publish
from onward.ledger.breakers import Breakers
from onward.ledger.claim import Deliveries
from onward.ledger.dependency_limits import DependencyLimits
from onward.ledger.dialect import Bus, Database
from onward.ledger.document_actions import DocumentActions, merge_status_counts
from onward.ledger.due_scan import SLACK_SECONDS
from onward.ledger.failure_groups import CountedFailure
from onward.ledger.group_actions import GroupActions
from onward.ledger.incoming import Incoming
from onward.ledger.join_actions import Joins
from onward.ledger.ledger_queries import LedgerQueries
from onward.ledger.operations import OperationRecords
from onward.ledger.outbox import Outbox
from onward.ledger.reader import DocumentQueries
from onward.ledger.requeue import DeadLetters, return_claims
from onward.ledger.retry_job_state import RetryJobState
from onward.ledger.rollups import Rollups
from onward.ledger.serial_keys import release_lost_keys
from onward.ledger.subscriptions import Subscriptions
from onward.ledger.transactions import transactional
from onward.ledger.unique_events import KEEP_UNIQUE_SECONDS, UniqueEvents
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.clock import Clock
from onward.model.events import Envelope, new_id
from onward.model.failures import Failure, remember
from onward.model.ledger import KEEP_UNROUTED_SECONDS, MAX_RAW_BYTES, MAX_UNROUTED, NewDocument, Published
from onward.search.search_queries import SearchQueries

log = logging.getLogger("onward")

KEEP_FOREIGN_EVENTS_SECONDS = 7 * 86_400.0  # How long another program's event is known, so that it is stored once
KEEP_WORKERS_SECONDS = 86_400.0  # How long a worker that has disappeared is still listed
KEEP_LEASES_SECONDS = 3600.0  # How long a lease that has ended is known, for commits that come late
SWEEP_SECONDS = 60.0  # How often a process removes old rows from the small tables
MAX_PRUNED_ROWS = 10_000  # Completed events that are removed at a time
MAX_FORGOTTEN = 5_000  # Unique and foreign events, of each, that are removed at a time
MAX_MERGED_ROWS = 5_000  # Rows of document counts that one sweep reads


class Store(
    Deliveries,
    DocumentQueries,
    DocumentActions,
    DeadLetters,
    LedgerQueries,
    OperationRecords,
    GroupActions,
    Incoming,
    Joins,
    Outbox,
    RetryJobState,
    Rollups,
    Breakers,
    DependencyLimits,
    Subscriptions,
    UniqueEvents,
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
        self._forgets = False
        self._swept_at = self._pruned_to = self._released_at = -math.inf
        self._merged_up_to = ""  # The source up to which document counts were merged

    def close(self) -> None:
        self.db.close()

    def bus(self) -> Bus:
        bus = self.db.bus()
        self._buses.add(bus)
        return bus

    def publish(self, envelopes: Sequence[Envelope]) -> list[Published]:
        """Put events on the ledger, one row per consuming service, and wake the engines of this process.

        Documents that a consumer finishes begin their next round. An event that is waiting already is reported
        as a duplicate and costs nothing, as is an event whose id is known.
        """
        return self.publish_with_documents((), envelopes)[1]

    def publish_with_documents(
        self, documents: Sequence[NewDocument], envelopes: Sequence[Envelope]
    ) -> tuple[int, list[Published]]:
        """Publish events with documents that do not exist yet; return how many documents were added, too."""
        published = self._publish(documents, envelopes)
        self.wake_engines()
        return published

    def wake_engines(self) -> None:
        for bus in list(self._buses):
            bus.wake()

    @transactional
    def _publish(
        self, unit: UnitOfWork, documents: Sequence[NewDocument], envelopes: Sequence[Envelope]
    ) -> tuple[int, list[Published]]:
        added = self._add(unit, documents)
        return added, publish.publish(unit, envelopes)

    @transactional
    def keep_malformed(
        self,
        unit: UnitOfWork,
        raw: bytes,
        failure: Failure,
        *,
        event_type: str = "",
        event_id: str = "",
        properties: str | None = None,
    ) -> None:
        """Store bytes that are no event as a dead letter of each service that they were for.

        The key of such a row is its event id: that is how it is known that the bytes were never read.
        """
        services = [consumer.service for consumer in unit.subscriptions() if consumer.event_type == event_type]
        if len(raw) > MAX_RAW_BYTES:
            kept = f"; only the first {MAX_RAW_BYTES:,} of its {len(raw):,} bytes are kept"
            failure, raw = replace(failure, message=failure.message + kept), raw[:MAX_RAW_BYTES]
        failure = unit.grouped(failure)
        errors = json.dumps(remember(None, failure.as_dict()))
        for service in services or [""]:
            id, row, now = event_id or new_id(), unit.db.reserve("ledger"), unit.now
            columns = (row, service, id, event_type, now, id, now, errors, raw, now, failure.fingerprint)
            unit.db.send("insert_malformed", *columns, properties)
            unit.outcomes.add_failure(CountedFailure(service, None, failure, 1))

    @transactional
    def add_documents(self, unit: UnitOfWork, documents: Sequence[NewDocument]) -> int:
        """Add documents that do not exist yet, outside of any work; return how many were added."""
        return self._add(unit, documents)

    def _add(self, unit: UnitOfWork, documents: Sequence[NewDocument]) -> int:
        unit.read_documents((document.collection, document.id) for document in documents)
        return sum(unit.add(document) for document in documents)

    @transactional
    def replace_document(self, unit: UnitOfWork, document: NewDocument) -> bool:
        """Give a document new content, or add it, outside of any work; return whether that changed it."""
        key = (document.collection, document.id)
        doc = unit.document(key)
        if doc is None:
            return unit.add(document)
        changed = unit.replace(key, document.body, document.keys)
        if changed and doc.row is None:
            doc.last_attempt_time = None  # no round has begun with this content: the retry job need not wait
            unit.change(key)
        return changed

    @transactional
    def record_crash(
        self, unit: UnitOfWork, worker: str, running: Sequence[int], finished: Sequence[int] = ()
    ) -> int:
        """Return the claims of a dead worker to the queue; `requeue.return_claims` counts the deaths."""
        self.unregister_worker(worker)
        claims = unit.db.read("claims_of", worker)
        return return_claims(unit, claims, running=running, finished=finished)

    def reclaim(self, gone: str | None = None) -> int:
        """Requeue claims whose lease has lapsed, or those of a worker that is gone; return how many."""
        return self._reclaim(gone) if gone is not None or self.db.read("lapsed", self.now()) else 0

    @transactional
    def _reclaim(self, unit: UnitOfWork, gone: str | None) -> int:
        if gone is not None:
            self.unregister_worker(gone)
        claims = unit.db.read("lapsed", unit.now) if gone is None else unit.db.read("claims_of", gone)
        return return_claims(unit, claims, lapsed=True)

    def release_lost_keys(self) -> int:
        """Release keys of rows that an older version has settled, or that are gone; return how many.

        About once in `SWEEP_SECONDS`, whoever calls it how often.
        """
        now = self.now()
        if 0 <= now - self._released_at < SWEEP_SECONDS:
            return 0
        self._released_at = now
        return self._release_lost_keys() if self.db.fetch("lost_keys", 1) else 0

    @transactional
    def _release_lost_keys(self, unit: UnitOfWork) -> int:
        return release_lost_keys(unit)

    def prune(self, *, keep_seconds: float, keep_count: int) -> int:
        """Delete completed events that are older than this, or more than that many; return how many."""
        now = self.now()
        if not 0 <= now - self._swept_at < SWEEP_SECONDS:
            self._swept_at, self._pruned_to = now, -math.inf
            self._sweep()
            self._drop_unrouted()
            self.finish_rules()
            self._forgets = True
        if self._forgets:  # at each call, until there is no more
            self._forgets = self._forget_events()
        self.completed.left = keep_count
        return self._prune_ledger(keep_seconds, keep_count)

    @transactional
    def _sweep(self, unit: UnitOfWork) -> None:
        unit.db.send("keep_last_served", None, unit.now - KEEP_WORKERS_SECONDS)
        unit.db.send("forget_workers", unit.now - KEEP_WORKERS_SECONDS)
        unit.db.send("prune_unroutable", unit.now - KEEP_UNROUTED_SECONDS, MAX_UNROUTED)
        unit.db.send("forget_leases", unit.now - KEEP_LEASES_SECONDS)
        return_claims(unit, unit.db.read("unleased", unit.now), lapsed=True)
        page = unit.db.read_unlocked("status_counts_page", self._merged_up_to, MAX_MERGED_ROWS)
        for source, is_scattered in page:
            if is_scattered:
                merge_status_counts(unit.db, source)
        self._merged_up_to = page[-1][0] if page else ""

    @transactional
    def _forget_events(self, unit: UnitOfWork) -> bool:
        """Forget ids and keys of events that are old; return whether there may be more."""
        foreign = unit.db.run("forget_foreign_events", unit.now - KEEP_FOREIGN_EVENTS_SECONDS, MAX_FORGOTTEN)
        unique = unit.db.run("forget_unique_events", unit.now - KEEP_UNIQUE_SECONDS, MAX_FORGOTTEN)
        return MAX_FORGOTTEN in (foreign, unique)

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
        many = unit.db.read_unlocked("completed_before", keep_count)
        # From the first on that are too many, with those of the same transaction.
        until = max(unit.now - keep_seconds, -math.inf if many is None else math.nextafter(many, math.inf))
        gone = unit.db.run("prune_completed", until, self._pruned_to, MAX_PRUNED_ROWS)
        if gone < MAX_PRUNED_ROWS:
            # Rows that were removed are not walked again; all others are, after the next sweep.
            self._pruned_to = until - SLACK_SECONDS
        unit.db.send("merge_status_changes")
        unit.db.send("merge_success_changes")
        return gone + unit.db.run("prune_unrouted", unit.now - KEEP_UNROUTED_SECONDS)
