"""Documents, as an operator steers them: found, scheduled, removed; and what people did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from onward.backends.relational import operating
from onward.backends.relational.base import RelationalBase, transactional
from onward.backends.relational.books import Books, Row, requested
from onward.backends.relational.retrying import read_state
from onward.model.documents import FINAL, DocumentState, Status
from onward.model.ledger import MAX_COMMIT_DOCUMENTS, RowState
from onward.model.recovery import Action, Scheduled
from onward.ports.recovery import Key

_GIVEN_UP = FINAL - {Status.PROCESSED}


class SteeringStore(RelationalBase):
    """See `onward.ports.Recovery`."""

    def find_states(
        self,
        *,
        collection: str | None = None,
        status: str | None = None,
        source: str | None = None,
        fingerprint: str | None = None,
        before: float | None = None,
        after: Key = ("", ""),
        limit: int = 100,
    ) -> list[DocumentState]:
        if fingerprint is not None:
            return _states(
                self.db.read("group_states", fingerprint, *after, collection, status, source, before, limit)
            )
        statement = _statement(status)
        names = sorted({name for name, _, _ in self.db.read("document_counts", source)})
        found: list[DocumentState] = []
        for name in names if collection is None else [collection]:
            if name < after[0] or len(found) >= limit:
                continue
            behind = after[1] if name == after[0] else ""
            left = limit - len(found)
            found += _states(self.db.read(statement, name, behind, status, source, before, left))
        return found

    def schedule(
        self, keys: Sequence[Key], at: float, *, reset: bool = False, priority: int | None = None
    ) -> dict[Key, Scheduled]:
        outcomes: dict[Key, Scheduled] = {}
        for some in _slices(keys):
            outcomes |= self._schedule_some(some, at, reset=reset, priority=priority)
        return outcomes

    @transactional
    def _schedule_some(
        self, keys: Sequence[Key], at: float, *, reset: bool, priority: int | None
    ) -> dict[Key, Scheduled]:
        return _schedule(self._books(), keys, at, reset=reset, priority=priority)

    def unschedule(self, keys: Sequence[Key]) -> dict[Key, Scheduled]:
        outcomes: dict[Key, Scheduled] = {}
        for some in _slices(keys):
            outcomes |= self._unschedule_some(some)
        return outcomes

    @transactional
    def _unschedule_some(self, keys: Sequence[Key]) -> dict[Key, Scheduled]:
        books = self._books()
        books.read_documents(keys)
        outcomes = {key: _unschedule(books, key) for key in keys}
        books.write()
        return outcomes

    def remove_documents(self, keys: Sequence[Key]) -> int:
        # What descended from them goes first, so that nothing is left without its parent if this stops halfway.
        levels = [list(dict.fromkeys(keys))]
        while below := [key for some in _slices(levels[-1]) for key in self._children(some)]:
            levels.append(below)
        removed = 0
        for level in reversed(levels):
            removed += sum(self._remove(some) for some in _slices(level))
        return removed

    @transactional
    def _remove(self, keys: list[Key]) -> int:
        """Remove documents, with what was made from them meanwhile."""
        books = self._books()
        removed = 0
        while keys:
            removed += books.delete(keys)
            books.write()
            keys = self._children(keys)
        return removed

    def _children(self, keys: Sequence[Key]) -> list[Key]:
        return [(name, id) for name, id in self.db.read("children", [f"{name}/{id}" for name, id in keys])]

    @transactional
    def log_action(self, who: str, via: str, action: str, about: Mapping[str, Any], touched: int) -> None:
        self.db.send("log_action", self.now(), who, via, action, json.dumps(dict(about)), touched)

    def actions(self, *, limit: int = 100, before: int | None = None) -> list[Action]:
        return [Action(*values) for values in self.db.read("actions", before, limit)]


def _statement(status: str | None) -> str:
    """What finds documents of a status quickest: only what is processed, or anything, is most of all there are."""
    if status is None or status == Status.PROCESSED:
        return "found_states"
    return "given_up_states" if status in _GIVEN_UP else "unfinished_states"


def _slices(keys: Sequence[Key]) -> Iterator[list[Key]]:
    """No transaction gets more than it may."""
    unique = list(dict.fromkeys(keys))
    for start in range(0, len(unique), MAX_COMMIT_DOCUMENTS):
        yield unique[start : start + MAX_COMMIT_DOCUMENTS]


def _states(found: list[list[Any]]) -> list[DocumentState]:
    return [read_state(collection, values) for collection, *values in found]


def _schedule(
    books: Books, keys: Sequence[Key], at: float, *, reset: bool, priority: int | None
) -> dict[Key, Scheduled]:
    books.read_documents(keys)
    books.read_rows(doc.row for key in keys if (doc := books.docs[key]) is not None and doc.row is not None)
    outcomes = {key: _schedule_one(books, key, at, reset=reset, priority=priority) for key in keys}
    hurried: dict[int, set[str]] = {}
    for key, outcome in outcomes.items():
        doc = books.docs[key]
        if outcome is Scheduled.HURRIED and doc is not None and doc.row is not None:
            hurried.setdefault(doc.row, set()).add(doc.id)
    for number, ids in hurried.items():
        row = _apart(books, number, ids)
        row.due = at
        books.db.send("hurry_row", at, priority, books.unannounced, row.id)
        books.woken.add(row.service)
    books.write()
    return outcomes


def _schedule_one(books: Books, key: Key, at: float, *, reset: bool, priority: int | None) -> Scheduled:
    doc = books.document(key)
    if doc is None:
        return Scheduled.MISSING
    if doc.status == Status.PROCESSED and not reset:
        return Scheduled.PROCESSED
    row = books.row(doc.row) if doc.row is not None else None
    state = row.state if row is not None else None
    if not any(one.finishes == key[0] for one in books.subscriptions()):
        return Scheduled.NOBODYS
    later = at > books.now
    if state == RowState.CLAIMED and (later or not reset):
        return Scheduled.UNDER_WAY
    if priority is not None:
        doc.priority = priority
    if reset and later:
        doc.attempt_count = 0  # its status stays as it is until then, so that the time can be taken back
    books.change(key)
    if state == RowState.WAITING and (later or not reset):
        doc.retry_at = at  # so that it can be taken back
        return Scheduled.HURRIED
    if reset and not later:
        operating.reset(books, *key)
    doc.row = None  # one that is gone or settled brings it no more
    doc.retry_at = at
    books.change(key)
    return Scheduled.SCHEDULED


def _apart(books: Books, number: int, ids: set[str]) -> Row:
    """The waiting row of these documents alone: the others that it names keep their time."""
    row = books.row(number)
    assert row is not None, "it was found to be waiting"
    pairs = [pair for pair in row.ids if pair[0] in ids]
    if len(pairs) == len(row.ids):
        return row
    id = books.db.reserve("ledger")
    apart = replace(row, id=id, ids=pairs, key=f"{requested(row.key)}/{id}")
    told = {"key": apart.key, "origin": number, "announced": books.unannounced}
    books.db.send("split_row", apart.stored() | told)
    books.save(apart)
    books.rows[id] = apart
    row.ids = [pair for pair in row.ids if pair[0] not in ids]
    books.save(row)
    for key, doc, _ in books.named(apart):
        if doc is not None:
            doc.row = id
            books.change(key)
    return apart


def _unschedule(books: Books, key: Key) -> Scheduled:
    doc = books.document(key)
    if doc is None:
        return Scheduled.MISSING
    if doc.retry_at is None:
        return Scheduled.NOT_SCHEDULED
    row = books.row(doc.row) if doc.row is not None else None
    if row is not None and row.state == RowState.CLAIMED:
        return Scheduled.UNDER_WAY
    doc.retry_at = None
    books.change(key)
    if row is not None and row.state == RowState.WAITING:
        _apart(books, row.id, {doc.id}).due = books.now
        books.db.send("hurry_row", books.now, None, books.unannounced, doc.row)
        books.woken.add(row.service)
    return Scheduled.CANCELLED
