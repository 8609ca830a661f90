"""Actions of operators on documents: schedule, reset, discard, remove, forget a source; and the log of actions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from onward.ledger.derived_rows import merge_status_counts
from onward.ledger.records import DocumentRecord, RowRecord, original_key
from onward.ledger.transactions import TransactionalStore, transactional
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.documents import DocumentKey, Status
from onward.model.ledger import MAX_COMMIT_DOCUMENTS, RowState
from onward.model.ledger_views import LoggedAction, ScheduleResult

MAX_ACTIONS = 100_000  # Actions of people that are kept, the latest


class DocumentActions(TransactionalStore):
    """Changes documents for operators."""

    @transactional
    def reset(self, collection: str, id: str) -> bool:
        """Make a document `pending` with no rounds counted; a delivery that is running for it is superseded."""
        return _reset(self._unit_of_work(), collection, id)

    @transactional
    def discard(self, collection: str, id: str) -> bool:
        """Give a document up for good; a delivery that is running for it is superseded."""
        unit = self._unit_of_work()
        doc = unit.document((collection, id))
        if doc is None:
            return False
        if doc.dead_letter is not None:
            unit.remove_from_row(doc.dead_letter, [id])
        doc.status = Status.DISCARDED
        doc.dead_letter = doc.retry_at = None
        unit.leave_batch(doc)
        _supersede(unit, doc)
        unit.change((collection, id))
        unit.write()
        return True

    def schedule(
        self, keys: Sequence[DocumentKey], at: float, *, reset: bool = False, priority: int | None = None
    ) -> dict[DocumentKey, ScheduleResult]:
        """Schedule documents to be tried again at a time; with `reset`, from the first round on."""
        results: dict[DocumentKey, ScheduleResult] = {}
        for some in _slices(keys):
            results |= self._schedule_some(some, at, reset=reset, priority=priority)
        return results

    @transactional
    def _schedule_some(
        self, keys: Sequence[DocumentKey], at: float, *, reset: bool, priority: int | None
    ) -> dict[DocumentKey, ScheduleResult]:
        return _schedule(self._unit_of_work(), keys, at, reset=reset, priority=priority)

    def unschedule(self, keys: Sequence[DocumentKey]) -> dict[DocumentKey, ScheduleResult]:
        """Cancel what `schedule` has set, where the retry has not begun."""
        results: dict[DocumentKey, ScheduleResult] = {}
        for some in _slices(keys):
            results |= self._unschedule_some(some)
        return results

    @transactional
    def _unschedule_some(self, keys: Sequence[DocumentKey]) -> dict[DocumentKey, ScheduleResult]:
        unit = self._unit_of_work()
        unit.read_documents(keys)
        results = {key: _unschedule(unit, key) for key in keys}
        unit.write()
        return results

    def remove_documents(self, keys: Sequence[DocumentKey]) -> int:
        """Remove documents with all their descendants; return how many were removed."""
        # Descendants first, so that none is left without its parent if this stops halfway.
        levels = [list(dict.fromkeys(keys))]
        while below := [key for some in _slices(levels[-1]) for key in self._children(some)]:
            levels.append(below)
        removed = 0
        for level in reversed(levels):
            removed += sum(self._remove(some) for some in _slices(level))
        return removed

    @transactional
    def _remove(self, keys: list[DocumentKey]) -> int:
        """Remove documents, with children that were added since they were listed."""
        unit = self._unit_of_work()
        removed = 0
        while keys:
            removed += unit.delete(keys)
            unit.write()
            keys = self._children(keys)
        return removed

    def _children(self, keys: Sequence[DocumentKey]) -> list[DocumentKey]:
        return [(name, id) for name, id in self.db.read("children", [f"{name}/{id}" for name, id in keys])]

    def forget(self, source: str) -> int:
        """Remove a source and all its documents and events; works that are running for it are refused."""
        self.atomically(lambda: self.db.send("bump_generation", source), alone=True)
        removed = 0
        while (some := self._forget_some(source)) is not None:
            removed += some
        return removed

    @transactional
    def _forget_some(self, source: str) -> int | None:
        return _forget_some(self._unit_of_work(), source)

    @transactional
    def log_action(self, who: str, via: str, action: str, about: Mapping[str, Any], touched: int) -> None:
        """Store what a person has changed."""
        self.db.send("log_action", self.now(), who, via, action, json.dumps(dict(about)), touched)
        self.db.send("prune_actions", MAX_ACTIONS)

    def actions(self, *, limit: int = 100, before: int | None = None) -> list[LoggedAction]:
        """Return what people have changed, the latest first."""
        return [LoggedAction(*values) for values in self.db.read("actions", before, limit)]


def _slices(keys: Sequence[DocumentKey]) -> Iterator[list[DocumentKey]]:
    """Yield the keys without duplicates, at most `MAX_COMMIT_DOCUMENTS` for each transaction."""
    unique = list(dict.fromkeys(keys))
    for start in range(0, len(unique), MAX_COMMIT_DOCUMENTS):
        yield unique[start : start + MAX_COMMIT_DOCUMENTS]


def _reset(unit: UnitOfWork, collection: str, id: str) -> bool:
    doc = unit.document((collection, id))
    if doc is None:
        return False
    doc.status = Status.PENDING
    doc.attempt_count = 0
    doc.last_attempt_time = doc.last_error = doc.fingerprint = doc.retry_at = None
    unit.leave_batch(doc)
    _supersede(unit, doc)
    unit.change((collection, id))
    unit.write()
    return True


def _supersede(unit: UnitOfWork, doc: DocumentRecord) -> None:
    """Begin a new round without an event: a running delivery is superseded, a waiting one is not delivered."""
    row = unit.row(doc.row) if doc.row is not None else None
    doc.round += 1
    doc.row = None
    if row is not None and row.state == RowState.WAITING:
        unit.remove_from_row(row.id, [doc.id])


# -- schedule


def _schedule(
    unit: UnitOfWork, keys: Sequence[DocumentKey], at: float, *, reset: bool, priority: int | None
) -> dict[DocumentKey, ScheduleResult]:
    unit.read_documents(keys)
    unit.read_rows(doc.row for key in keys if (doc := unit.docs[key]) is not None and doc.row is not None)
    results = {key: _schedule_one(unit, key, at, reset=reset, priority=priority) for key in keys}
    waiting: dict[int, set[str]] = {}
    for key, result in results.items():
        doc = unit.docs[key]
        if result is ScheduleResult.RESCHEDULED and doc is not None and doc.row is not None:
            waiting.setdefault(doc.row, set()).add(doc.id)
    for number, ids in waiting.items():
        row = _split_off(unit, number, ids)
        row.due = at
        unit.db.send("reschedule_row", at, priority, row.id)
        unit.woken.add(row.service)
    unit.write()
    return results


def _schedule_one(
    unit: UnitOfWork, key: DocumentKey, at: float, *, reset: bool, priority: int | None
) -> ScheduleResult:
    doc = unit.document(key)
    if doc is None:
        return ScheduleResult.MISSING
    if doc.status == Status.PROCESSED and not reset:
        return ScheduleResult.PROCESSED
    row = unit.row(doc.row) if doc.row is not None else None
    state = row.state if row is not None else None
    if not any(subscription.finishes == key[0] for subscription in unit.subscriptions()):
        return ScheduleResult.NO_SERVICE
    later = at > unit.now
    if state == RowState.CLAIMED and (later or not reset):
        return ScheduleResult.UNDER_WAY
    if priority is not None:
        doc.priority = priority
    if reset and later:
        doc.attempt_count = 0  # its status stays unchanged until then, so that the schedule can be cancelled
    unit.change(key)
    if state == RowState.WAITING and (later or not reset):
        doc.retry_at = at  # so that it can be cancelled
        return ScheduleResult.RESCHEDULED
    if reset and not later:
        _reset(unit, *key)
    doc.row = None  # a row that is gone or settled delivers it no more
    doc.retry_at = at
    unit.change(key)
    return ScheduleResult.SCHEDULED


def _split_off(unit: UnitOfWork, number: int, ids: set[str]) -> RowRecord:
    """Return a waiting row of these documents alone: other documents of the row keep their due time."""
    row = unit.row(number)
    assert row is not None, "the caller has found it waiting"
    pairs = [pair for pair in row.ids if pair[0] in ids]
    if len(pairs) == len(row.ids):
        return row
    unit.read_errors([number])
    id = unit.db.reserve("ledger")
    split = replace(row, id=id, ids=pairs, key=f"{original_key(row.key)}/{id}")
    unit.db.send("split_row", split.stored() | {"key": split.key, "origin": number})
    unit.save(split)
    unit.rows[id] = split
    row.ids = [pair for pair in row.ids if pair[0] not in ids]
    unit.save(row)
    for key, doc, _ in unit.named(split):
        if doc is not None:
            doc.row = id
            unit.change(key)
    return split


def _unschedule(unit: UnitOfWork, key: DocumentKey) -> ScheduleResult:
    doc = unit.document(key)
    if doc is None:
        return ScheduleResult.MISSING
    if doc.retry_at is None:
        return ScheduleResult.NOT_SCHEDULED
    row = unit.row(doc.row) if doc.row is not None else None
    if row is not None and row.state == RowState.CLAIMED:
        return ScheduleResult.UNDER_WAY
    doc.retry_at = None
    unit.change(key)
    if row is not None and row.state == RowState.WAITING:
        _split_off(unit, row.id, {doc.id}).due = unit.now
        unit.db.send("reschedule_row", unit.now, None, doc.row)
        unit.woken.add(row.service)
    return ScheduleResult.CANCELLED


# -- forget


def _forget_some(unit: UnitOfWork, source: str) -> int | None:
    """Delete some documents and events of a source; return how many documents, or None if nothing is left.

    Works that are running for it are refused by the source's generation, so that nothing comes back.
    """
    db = unit.db
    docs = db.read("documents_of_source", source)
    rows = db.read("rows_of_source", source)
    if not rows and not docs:
        db.send("forget_completed", source)
        merge_status_counts(db, source)
        return None
    keys = [(collection, id) for collection, id in docs]
    unit.read_documents(keys)
    unit.read_rows(rows)
    groups = {name for key in keys if (doc := unit.docs[key]) is not None for name in doc.fingerprints()}
    groups |= {row.fingerprint for id in rows if (row := unit.rows[id]) is not None and row.fingerprint}
    removed = unit.delete(keys)
    unit.read_documents(unit.keys_of(rows))
    kept = [id for id in rows if _keep_other_sources(unit, id, source)]
    unit.write()
    db.send("delete_rows", [id for id in rows if id not in kept])
    # A failure group may quote the forgotten documents.
    db.send("forget_unused_groups", sorted(groups))
    return removed


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
