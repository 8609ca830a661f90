"""What the retry job reads and changes: its role, documents that are due for a check, failed batches, totals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from onward.ledger.reader import nested, read_state
from onward.ledger.records import DocumentRecord
from onward.ledger.transactions import TransactionalStore, transactional
from onward.ledger.unit_of_work import UnitOfWork, observe_total
from onward.model.documents import DocumentKey, DocumentState, Status
from onward.model.failures import Outcome, outcomes
from onward.model.ledger import FailedBatch, RowState
from onward.retry import Reason

_LIVE = (RowState.WAITING, RowState.CLAIMED)


class RetryJobState(TransactionalStore):
    """The part of the store that the retry job uses."""

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
            doc.record({"at": unit.now, "outcome": Outcome.GAVE_UP_FOR_GOOD, "round": doc.round})
            unit.leave_batch(doc)
            unit.change(key)
        return len(found)

    @transactional
    def mark_expired(self, unit: UnitOfWork, keys: Sequence[DocumentKey]) -> int:
        """Give up documents whose deadline passes before their next round; return how many.

        They become `failed`, and their dead letter says why; those that have never failed become `discarded`.
        """
        found = _without_row(unit, keys)
        for key, doc in found:
            doc.status = Status.DISCARDED if doc.last_error is None else Status.FAILED
            doc.retry_at = None
            doc.record({"at": unit.now, "outcome": Outcome.EXPIRED, "round": doc.round})
            unit.leave_batch(doc)
            unit.change(key)
            dead_letter = unit.row(doc.dead_letter)
            if dead_letter is not None and dead_letter.state == RowState.DEAD:
                dead_letter.reason = str(Reason.TTL_EXCEEDED)
                unit.save(dead_letter)
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

    def waiting_for_backoff(self, waits: Mapping[tuple[str, int], float]) -> dict[str, int]:
        """Count the documents of each collection whose last round failed, and whose backoff has not elapsed.

        `waits` has the seconds of the backoff, by collection and number of rounds.
        """
        backoffs = {f"{collection}/{rounds}": seconds for (collection, rounds), seconds in waits.items()}
        return dict(self.db.read("waiting_for_backoff", self.now(), json.dumps(backoffs)))

    def stuck(
        self,
        *,
        before: float,
        max_rounds: Mapping[str, int],
        others: int,
        own_before: Mapping[str, float] | None = None,
    ) -> dict[str, int]:
        """Count the unfinished documents of each collection without a live row that need help.

        Their last attempt was before `before` (`own_before` for some collections), or they have had all rounds
        (`max_rounds`, `others` for the rest).
        """
        limits = json.dumps(dict(max_rounds))
        return dict(self.db.read("stuck", before, limits, others, json.dumps(dict(own_before or {}))))

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
