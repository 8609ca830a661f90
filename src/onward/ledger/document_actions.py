"""Actions of operators on documents: schedule, reset, discard, remove, forget a source; and the log of actions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from onward.ledger.dialect import Database
from onward.ledger.records import DocumentRecord
from onward.ledger.transactions import TransactionalStore, transactional
from onward.ledger.unit_of_work import UnitOfWork, children
from onward.model.documents import DocumentKey, Status
from onward.model.failures import Outcome
from onward.model.ledger import MAX_COMMIT_DOCUMENTS, PerKey, RowState
from onward.model.ledger_views import LoggedAction, ScheduleResult

Keys = Sequence[DocumentKey]
Results = dict[DocumentKey, ScheduleResult]
MAX_ACTIONS = 100_000  # Actions of people that are kept, the latest


class DocumentActions(TransactionalStore):
    @transactional
    def reset(self, unit: UnitOfWork, collection: str, id: str) -> bool:
        """Make a document `pending` with no rounds counted; a delivery that is running for it is superseded."""
        doc = unit.document((collection, id))
        if doc is not None:
            _reset(unit, (collection, id), doc)
        return doc is not None

    @transactional
    def discard(self, unit: UnitOfWork, collection: str, id: str, *, by: str = "") -> bool:
        """Give a document up for good; a delivery that is running for it is superseded."""
        doc = unit.document((collection, id))
        if doc is not None:
            _discard(unit, (collection, id), doc, by)
        return doc is not None

    @transactional
    def cancel(self, unit: UnitOfWork, collection: str, id: str, *, by: str) -> bool | None:
        """Discard a document that is not final; return whether it was, or None if there is no such document."""
        doc = unit.document((collection, id))
        if doc is None:
            return None
        if doc.final or doc.status == Status.PROCESSED:
            return False
        _discard(unit, (collection, id), doc, by)
        return True

    def schedule(self, keys: Keys, at: float, *, reset: bool = False, priority: int | None = None) -> Results:
        """Schedule documents to be tried again at a time; with `reset`, from the first round on."""
        results: Results = {}
        for some in _slices(keys):
            results |= self._schedule_all(some, at, reset, priority)
        return results

    @transactional
    def _schedule_all(self, unit: UnitOfWork, keys: Keys, at: float, reset: bool, priority: int | None) -> Results:
        unit.read_documents(keys)
        unit.read_rows(doc.row for key in keys if (doc := unit.docs[key]) is not None and doc.row is not None)
        results = {key: _schedule(unit, key, at, reset, priority) for key in keys}
        waiting: dict[int, set[str]] = {}
        for key, result in results.items():
            doc = unit.docs[key]
            if result is ScheduleResult.RESCHEDULED and doc is not None and doc.row is not None:
                waiting.setdefault(doc.row, set()).add(doc.id)
        for number, ids in waiting.items():
            _reschedule(unit, number, ids, at, priority)
        return results

    def unschedule(self, keys: Keys) -> Results:
        """Cancel what `schedule` has set, where the retry has not begun."""
        results: Results = {}
        for some in _slices(keys):
            results |= self._unschedule_all(some)
        return results

    @transactional
    def _unschedule_all(self, unit: UnitOfWork, keys: Keys) -> Results:
        unit.read_documents(keys)
        return {key: _unschedule(unit, key) for key in keys}

    def remove_documents(self, keys: Keys) -> int:
        """Remove documents with all their descendants; return how many were removed."""
        # Descendants first, so that none is left without its parent if this stops halfway.
        levels = [list(dict.fromkeys(keys))]
        while below := [key for some in _slices(levels[-1]) for key in children(self.db, some)]:
            levels.append(below)
        return sum(self._remove(some) for level in reversed(levels) for some in _slices(level))

    @transactional
    def _remove(self, unit: UnitOfWork, keys: Keys) -> int:
        return unit.remove(keys)  # with children that were added since they were listed

    def forget(self, source: str) -> int:
        """Remove a source and all its documents and events; works that are running for it are refused."""
        # They have an older generation, so that nothing comes back.
        self.atomically(lambda: self.db.send("bump_generation", source), alone=True)
        removed = 0
        while (some := self._forget_some(source)) is not None:
            removed += some
        return removed

    @transactional
    def _forget_some(self, unit: UnitOfWork, source: str) -> int | None:
        """Delete some documents and events of a source; return how many documents, or None if nothing is left."""
        keys = [(collection, id) for collection, id in unit.db.read("documents_of_source", source)]
        rows = unit.db.read("rows_of_source", source)
        if not rows and not keys:
            unit.db.send("forget_completed", source)
            merge_status_counts(unit.db, source)
            return None
        unit.read_documents(keys)
        unit.read_rows(rows)
        groups = {name for key in keys if (doc := unit.docs[key]) is not None for name in doc.fingerprints()}
        groups |= {row.fingerprint for id in rows if (row := unit.rows[id]) is not None and row.fingerprint}
        removed = unit.delete(keys)
        unit.read_documents(unit.keys_of(rows))
        deleted = [id for id in rows if not _keep_other_sources(unit, id, source)]
        unit.write()
        for row in (unit.rows[id] for id in deleted):
            if row is not None:
                unit.release_key(row)
        unit.db.send("delete_rows", deleted)
        # A failure group may quote the forgotten documents.
        unit.db.send("forget_unused_groups", sorted(groups))
        return removed

    @transactional
    def log_action(
        self, unit: UnitOfWork, who: str, via: str, action: str, about: Mapping[str, Any], touched: int
    ) -> None:
        unit.db.send("log_action", unit.now, who, via, action, json.dumps(dict(about)), touched)
        unit.db.send("prune_actions", MAX_ACTIONS)

    def actions(self, *, limit: int = 100, before: int | None = None) -> list[LoggedAction]:
        """Return what people have changed, the latest first."""
        return [LoggedAction(*values) for values in self.db.read("actions", before, limit)]


def _slices(keys: Keys) -> Iterator[list[DocumentKey]]:
    """Yield the keys without duplicates, at most `MAX_COMMIT_DOCUMENTS` for each transaction."""
    unique = list(dict.fromkeys(keys))
    for start in range(0, len(unique), MAX_COMMIT_DOCUMENTS):
        yield unique[start : start + MAX_COMMIT_DOCUMENTS]


def _reset(unit: UnitOfWork, key: DocumentKey, doc: DocumentRecord) -> None:
    doc.status = Status.PENDING
    doc.attempt_count = 0
    doc.last_attempt_time = doc.last_error = doc.fingerprint = doc.expires = None
    _supersede(unit, key, doc)


def _discard(unit: UnitOfWork, key: DocumentKey, doc: DocumentRecord, by: str) -> None:
    if doc.dead_letter is not None:
        unit.remove_from_row(doc.dead_letter, [doc.id])
    outcome = {"at": unit.now, "outcome": Outcome.CANCELLED, "round": doc.round}
    doc.record(outcome | ({"by": by} if by else {}))
    doc.status = Status.DISCARDED
    doc.dead_letter = None
    _supersede(unit, key, doc)


def _supersede(unit: UnitOfWork, key: DocumentKey, doc: DocumentRecord) -> None:
    """Begin a new round without an event: a running delivery is superseded, a waiting one is not delivered."""
    row = unit.row(doc.row)
    doc.round += 1
    doc.row = doc.retry_at = None
    unit.leave_batch(doc)
    if row is not None and row.state == RowState.WAITING:
        unit.remove_from_row(row.id, [doc.id])
    unit.change(key)


def _schedule(unit: UnitOfWork, key: DocumentKey, at: float, reset: bool, priority: int | None) -> ScheduleResult:
    doc = unit.document(key)
    if doc is None:
        return ScheduleResult.MISSING
    if doc.status == Status.PROCESSED and not reset:
        return ScheduleResult.PROCESSED
    if not any(subscription.finishes == key[0] for subscription in unit.subscriptions()):
        return ScheduleResult.NO_SERVICE
    row = unit.row(doc.row)
    state = row.state if row is not None else None
    later = at > unit.now
    if state == RowState.CLAIMED and (later or not reset):
        return ScheduleResult.UNDER_WAY
    if priority is not None:
        doc.priority = priority
    doc.expires = None  # a person decides
    if reset and later:
        doc.attempt_count = 0  # its status stays unchanged until then, so that the schedule can be cancelled
    unit.change(key)
    if state == RowState.WAITING and (later or not reset):
        doc.retry_at = at  # so that it can be cancelled
        return ScheduleResult.RESCHEDULED
    if reset and not later:
        _reset(unit, key, doc)
    doc.row = None  # a row that is gone or settled delivers it no more
    doc.retry_at = at
    unit.change(key)
    return ScheduleResult.SCHEDULED


def _unschedule(unit: UnitOfWork, key: DocumentKey) -> ScheduleResult:
    doc = unit.document(key)
    if doc is None:
        return ScheduleResult.MISSING
    if doc.retry_at is None:
        return ScheduleResult.NOT_SCHEDULED
    row = unit.row(doc.row)
    if row is not None and row.state == RowState.CLAIMED:
        return ScheduleResult.UNDER_WAY
    doc.retry_at = None
    unit.change(key)
    if row is not None and row.state == RowState.WAITING:
        _reschedule(unit, row.id, {doc.id}, unit.now, None)
    return ScheduleResult.CANCELLED


def _reschedule(unit: UnitOfWork, number: int, ids: set[str], at: float, priority: int | None) -> None:
    """Change when a waiting row falls due, for these documents alone: others of the row keep their due time."""
    row = unit.row(number)
    assert row is not None, "the caller has found it waiting"
    if any(id not in ids for id, _ in row.ids):
        unit.read_errors([number])
        split = replace(row, ids=[pair for pair in row.ids if pair[0] in ids])
        unit.split(split, number)
        row.ids = [pair for pair in row.ids if pair[0] not in ids]
        for changed in (split, row):
            unit.save(changed)
        for key, doc, _ in unit.named(split):
            if doc is not None:
                doc.row = split.id
                unit.change(key)
        row = split
    per_key = unit.per_key(row.service)
    if per_key != PerKey.ORDERED:
        unit.release_key(row)  # others with its key need not wait for that time
    row.due = at
    if row.expires is not None:
        row.expires = None
        unit.db.send("set_deadline", None, row.id)
    unit.db.send("reschedule_row", at, None if per_key == PerKey.ORDERED else priority, row.id)
    unit.woken.add(row.service)


def _keep_other_sources(unit: UnitOfWork, id: int, source: str) -> bool:
    """Reduce a row to its documents of other sources; return whether there are any."""
    row = unit.rows[id]
    if row is None or row.state == RowState.DONE:
        return False
    others = [
        (doc.id, round)
        for _, doc, round in unit.named(row)
        if doc is not None and doc.source != source and id in (doc.row, doc.dead_letter)
    ]
    if others:
        unit.db.send("adopt", others, row.round, None, 0, id)
    return bool(others)


def merge_status_counts(db: Database, source: str) -> None:
    """Merge the counts of a source into one row for each collection and status; a count of zero has no row."""
    sums: dict[tuple[str, str], int] = {}
    for collection, status, count in db.fetch("take_status_counts", source):
        sums[collection, status] = sums.get((collection, status), 0) + count
    if rows := [(source, collection, status, count) for (collection, status), count in sums.items() if count]:
        db.bulk("add_status_counts", rows)
