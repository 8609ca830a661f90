"""Queries about the ledger, and what the retry job reads and changes: checks, failed batches, totals, roles."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onward.ledger.failure_groups import read_group
from onward.ledger.reader import nested, read_state
from onward.ledger.records import DocumentRecord
from onward.ledger.transactions import TransactionalStore, transactional
from onward.ledger.unit_of_work import UnitOfWork, observe_total
from onward.model.documents import DocumentKey, DocumentState, Status
from onward.model.failures import Failure, outcomes
from onward.model.ledger import HIGHEST_PRIORITY, FailedBatch, RowState
from onward.model.ledger_views import FailureGroup, LedgerRow, QueueStatus, WorkerClaims

_LIVE = (RowState.WAITING, RowState.CLAIMED)


class LedgerQueries(TransactionalStore):
    # -- rows, queues, failure groups

    def ledger_row(self, id: int) -> LedgerRow | None:
        """Return a ledger row, while it is kept."""
        row = self.db.read("ledger_row", id)
        return LedgerRow(*row) if row else None

    def settled_rows_naming(self, collection: str, id: str, *, limit: int = 20) -> list[LedgerRow]:
        """Return settled events that named a document and are still kept, oldest first."""
        rows = self.db.read("settled_rows_naming", collection, id, limit)
        return [LedgerRow(*row) for row in reversed(rows)]

    def row_states(self, rows: Sequence[int]) -> dict[int, str]:
        """Return the state of these ledger rows; a row that does not exist any more was done."""
        states = dict(self.db.read("row_states", list(rows)))
        return {row: states.get(row, str(RowState.DONE)) for row in rows}

    def counts(self) -> dict[str, dict[str, int]]:
        return nested(self.db.read("row_counts"))

    def cursors(self, service: str) -> dict[str, Any]:
        """Return the last checkpoints of a service's claimed deliveries, by the ids that the call was about."""
        return {ids: cursor for cursors in self.db.read("cursors", service) for ids, cursor in cursors.items()}

    def queues(self, services: Sequence[str]) -> list[QueueStatus]:
        now, queues = self.now(), []
        for service, waiting, claimed, dead in self.db.read_unlocked("queue_counts", list(services)):
            times = [self.db.read_unlocked("next_due", service, level) for level in self._priorities(service)]
            times.append(self.db.read_unlocked("next_suspect", service))
            oldest = min((due for due in times if due is not None and due <= now), default=None)
            queues.append(QueueStatus(service, waiting, claimed, dead, oldest))
        return queues

    def claims_by_worker(self, *, examples: int = 3) -> list[WorkerClaims]:
        """Return what every worker has claimed, by worker, then service, with some documents as examples."""
        found = self.db.read_unlocked("claims_by_worker", examples)
        return [
            WorkerClaims(worker, service, events, documents, until, tuple((kind, id) for kind, id in shown))
            for worker, service, events, documents, until, shown in found
        ]

    def claimed_count(self, services: Sequence[str]) -> int:
        return int(self.db.read("claimed_count", list(services)))

    def is_idle(self, services: Sequence[str], free: Sequence[str], *, until: float) -> bool:
        """Return whether no delivery of `services` is claimed, and none of `free` falls due until then."""
        return not self.db.read("is_busy", list(services), list(free), until)

    def next_due(self, services: Sequence[str], *, suspects: bool = False) -> float | None:
        """Return when the next waiting row of these services falls due; None: nothing is waiting."""
        due: list[float] = []
        for service in services:
            due += [self.db.read("next_due", service, level) for level in self._priorities(service, lock=True)]
            if suspects and (alone := self.db.read("next_suspect", service)) is not None:
                due.append(alone)
        return min(due, default=None)

    def _priorities(self, service: str, *, lock: bool = False) -> Iterator[int]:
        """Yield the priorities of a service's waiting rows, from the highest to the lowest."""
        read = self.db.read if lock else self.db.read_unlocked
        level = read("next_priority", service, HIGHEST_PRIORITY)
        while level is not None:
            yield level
            level = read("next_priority", service, level)

    def overdue_suspects(self, services: Sequence[str]) -> list[str]:
        """Return the services that have due events which must run alone."""
        due = {service: self.db.read("next_suspect", service) for service in services}
        return [service for service, at in due.items() if at is not None and at <= self.now()]

    def failure_groups(
        self, *, service: str | None = None, since: float | None = None, limit: int = 1000
    ) -> list[FailureGroup]:
        groups = self.db.read("failure_groups", service, 0.0 if since is None else since, limit)
        processed = {name: n for name, status, n in self.db.read("document_counts", None) if status == "processed"}
        return [read_group(stored, processed) for stored in groups]

    def failure_group(self, fingerprint: str) -> FailureGroup | None:
        group = self.db.read("failure_group", fingerprint)
        if group is None:
            return None
        collection = group[2]
        return read_group(group, {collection: self.db.read("processed_count", collection)} if collection else {})

    @transactional
    def report_failure(
        self, unit: UnitOfWork, service: str, failure: Failure, *, collection: str | None = None
    ) -> None:
        """Count a failure that belongs to no event in its group: of other code, or reported from elsewhere."""
        unit.failures.append((service, collection, failure, 0))

    @transactional
    def forget_group(self, unit: UnitOfWork, fingerprint: str) -> bool:
        """Delete a failure group; its documents and dead letters stay."""
        return unit.db.run("forget_group", fingerprint) > 0

    def versions(self) -> list[tuple[str, float, float]]:
        """Return each version of the workers with the times when it was first and last seen, oldest first."""
        return [tuple(version) for version in self.db.read("versions")]

    # -- the retry job

    @transactional
    def acquire_role(self, unit: UnitOfWork, role: str, holder: str, seconds: float) -> bool:
        """Take or keep a role for this time; return False if another process has it."""
        return unit.db.run("acquire_role", role, holder, unit.now + seconds, unit.now) > 0

    @transactional
    def release_role(self, unit: UnitOfWork, role: str, holder: str) -> None:
        unit.db.send("release_role", role, holder)

    def due_for_check(self, *, limit: int, collections: Sequence[str] | None = None) -> list[DocumentKey]:
        """Return documents without a live row that are unfinished or scheduled, and due, by priority, then age."""
        among = None if collections is None else list(collections)
        return [(collection, id) for collection, id in self.db.read("due_for_check", self.now(), limit, among)]

    def states_of(self, keys: Sequence[DocumentKey]) -> list[DocumentState]:
        """Return the states of the documents that exist, in that order; in a transaction, lock them."""
        wanted: dict[str, list[str]] = {}
        for collection, id in keys:
            wanted.setdefault(collection, []).append(id)
        found: dict[DocumentKey, DocumentState] = {}
        for collection, ids in wanted.items():
            for values in self.db.read("states_by_id", collection, sorted(ids)):
                found[collection, values[0]] = read_state(collection, values)
        return [found[key] for key in dict.fromkeys(keys) if key in found]

    def defer_checks(self, checks: Sequence[tuple[DocumentKey, float]]) -> None:
        """Set when the retry job checks these unfinished documents next."""
        if checks:
            rows = sorted((*key, at) for key, at in checks)
            self.atomically(lambda: self.db.bulk("defer_checks", rows))

    def next_check(self, collections: Sequence[str] | None = None) -> float | None:
        """Return when the next document (of these collections) is due for a check or a scheduled retry."""
        at: float | None = self.db.read("next_check", None if collections is None else list(collections))
        return at

    @transactional
    def mark_out_of_rounds(self, unit: UnitOfWork, keys: Sequence[DocumentKey]) -> int:
        """Mark documents that have had all their rounds as `failed_max_retries`; return how many."""
        found = _without_row(unit, keys)
        for key, doc in found:
            doc.status = Status.FAILED_MAX_RETRIES
            doc.retry_at = None
            doc.record({"at": unit.now, "outcome": "gave_up_for_good", "round": doc.round})
            unit.leave_batch(doc)
            unit.change(key)
        return len(found)

    @transactional
    def make_pending(self, unit: UnitOfWork, keys: Sequence[DocumentKey]) -> None:
        """Make documents that were given up `pending` again, because an operator wants them tried."""
        for key, doc in _without_row(unit, keys):
            doc.status = Status.PENDING
            unit.change(key)

    def clear_dangling_rows(self, *, after: int, limit: int) -> tuple[int, list[DocumentKey]]:
        """Clear references to ledger rows that do not exist any more, in a slice of all documents.

        Return where the next slice begins (0: at the beginning), and the changed documents.
        """
        last, found = self.db.read("rows_gone", after, limit)
        return last or 0, self._clear_rows([(collection, id) for collection, id in found]) if found else []

    @transactional
    def _clear_rows(self, unit: UnitOfWork, keys: Sequence[DocumentKey]) -> list[DocumentKey]:
        unit.read_documents(keys)
        # Read again, for a work may have been settled in between.
        pointed = {key: doc for key in keys if (doc := unit.docs[key]) is not None and doc.row is not None}
        states = dict(unit.db.read("row_states", [doc.row for doc in pointed.values()]))
        loose = [key for key, doc in pointed.items() if states.get(doc.row) not in _LIVE]
        for key in loose:
            pointed[key].row = None
            unit.change(key)
        return loose

    def waiting_for_backoff(self) -> dict[str, int]:
        """Count the unfinished documents of each collection that wait for their next round."""
        return dict(self.db.read("waiting_for_backoff", self.now()))

    def stuck(self, *, before: float, max_rounds: Mapping[str, int], others: int) -> dict[str, int]:
        """Count the unfinished documents of each collection without a live row that need help.

        Their last attempt was before `before`, or they have had all rounds (`max_rounds`, `others` for the rest).
        """
        return dict(self.db.read("stuck", before, json.dumps(dict(max_rounds)), others))

    def due_batches(self) -> list[str]:
        """Return the ids of due failed batches, the most overdue first."""
        return list(self.db.read("due_batches", self.now()))

    def failed_batches(self, source: str | None = None) -> list[FailedBatch]:
        return [_read_failed_batch(values) for values in self.db.read("failed_batches", source)]

    def failed_batch(self, id: str) -> FailedBatch | None:
        found = self.db.read("failed_batch", id)
        return None if found is None else _read_failed_batch(found)

    def idle_items(self, batch: str, *, limit: int) -> list[DocumentKey]:
        """Return items of a failed batch that were not tried since it fell due, and are not being tried."""
        return [(collection, id) for collection, id in self.db.read("idle_items", batch, limit)]

    @transactional
    def claim_batch(self, unit: UnitOfWork, id: str, *, retry_count: int, until: float) -> bool:
        """Count a retry of a due batch and set the next one; return False if another process was faster."""
        return unit.db.run("claim_batch", until, id, retry_count, unit.now) > 0

    @transactional
    def reschedule_batch(self, unit: UnitOfWork, id: str, at: float) -> bool:
        """Set when a failed batch is retried next, without counting a retry."""
        return unit.db.run("reschedule_batch", at, id) > 0

    def next_batches(self) -> dict[str, float]:
        return dict(self.db.fetch("next_batches"))

    @transactional
    def count(self, unit: UnitOfWork, name: str, label: str, by: float = 1.0) -> None:
        """Add to a total that outlives processes."""
        unit.db.send("count_total", name, label, by)

    @transactional
    def set_gauge(self, unit: UnitOfWork, name: str, label: str, value: float) -> None:
        """Store a last value that outlives processes."""
        unit.db.send("set_gauge", name, label, value)

    @transactional
    def observe_total(self, unit: UnitOfWork, name: str, value: float) -> None:
        """Add a value to a distribution that outlives the processes: its bucket, `sum` and `count`."""
        observe_total(unit.db, name, value)

    def totals(self) -> dict[str, dict[str, float]]:
        return nested(self.db.read("totals"))


def _without_row(unit: UnitOfWork, keys: Sequence[DocumentKey]) -> list[tuple[DocumentKey, DocumentRecord]]:
    """Return the documents that exist and have no live row."""
    unit.read_documents(keys)
    return [(key, doc) for key in keys if (doc := unit.docs[key]) is not None and doc.row is None]


def _read_failed_batch(values: list[Any]) -> FailedBatch:
    id, service, source, errors, count, due, at, items = values
    return FailedBatch(id, service, source, outcomes(errors), count, due, at, tuple((c, i) for c, i in items))
