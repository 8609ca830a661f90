"""Joins in the store: opening them outside of a work, listing them, counting members that were missed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from onward.ledger.dialect import Database
from onward.ledger.transactions import TransactionalStore, transactional
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.clock import Clock
from onward.model.documents import DocumentKey
from onward.model.joins import NewJoin, OpenJoin
from onward.model.ledger import MAX_COMMIT_DOCUMENTS

log = logging.getLogger("onward")

HOLD_SECONDS = 3600.0  # How long a caller may take to add all members of a join
REPAIR_AFTER_SECONDS = 60.0  # Members of younger joins are not looked at: those who end them count them
MAX_CHECKED_MEMBERS = 5_000  # That one sweep looks at
MAX_SWEPT_SLICES = 50  # Transactions of one sweep that delete members
_START = (0, "", "")


class Joins(TransactionalStore):
    """The part of the store that waits for documents."""

    def __init__(self, db: Database, clock: Clock | None = None) -> None:
        super().__init__(db, clock)
        self._checked_up_to: tuple[int, str, str] = _START  # The member that the last sweep looked at last

    def open_join(self, join: NewJoin) -> None:
        """Wait for documents, and publish an event when all are final; in several transactions if there are many.

        Until the last one nothing is published. If the caller ends before, the join is deleted after a while,
        unless it was open before this call.
        """
        most = MAX_COMMIT_DOCUMENTS
        slices = [join.members[start : start + most] for start in range(0, len(join.members), most)] or [()]
        for some in slices[:-1]:
            self._open_join(replace(join, members=some, hold_seconds=HOLD_SECONDS))
        # One that fits into one transaction holds nothing: another call may just be adding many to an equal event.
        self._open_join(replace(join, members=slices[-1], releases=len(slices) > 1))

    @transactional
    def _open_join(self, unit: UnitOfWork, join: NewJoin) -> None:
        unit.new_joins.append(join)

    # -- looking

    def open_joins(self, *, limit: int = 100, after: int = 0, examples: int = 5) -> list[OpenJoin]:
        """Return open joins, the oldest first, each with some of the documents that it waits for."""
        found = [_read(values) for values in self.db.read("open_joins", after, limit)]
        return [replace(one, open_documents=self._open_members(one.id, examples)) for one in found]

    def joins_of_document(self, collection: str, id: str) -> list[OpenJoin]:
        """Return the joins that wait for a document."""
        return [_read(values) for values in self.db.read("joins_of_document", collection, id)]

    def join_count(self) -> int:
        """Return how many joins are open."""
        return int(self.db.read("join_count"))

    def _open_members(self, id: int, limit: int) -> tuple[DocumentKey, ...]:
        return tuple((collection, name) for collection, name in self.db.read("open_members", id, limit))

    # -- keeping house

    def sweep_joins(self) -> int:
        """Count members that have ended and were not counted; return how many. Delete what closed joins left.

        Workers of a version without joins do not count members. At most `MAX_CHECKED_MEMBERS` members are
        looked at; the next call goes on with those behind them.
        """
        if self.db.read_unlocked("left_joins", self.now()):
            for _ in range(MAX_SWEPT_SLICES):
                if not self._delete_left_joins():
                    break
        before = self.now() - REPAIR_AFTER_SECONDS
        page = self.db.read_unlocked("member_page", *self._checked_up_to, before, MAX_CHECKED_MEMBERS)
        is_last = len(page) < MAX_CHECKED_MEMBERS
        self._checked_up_to = _START if is_last else (page[-1][0], page[-1][1], page[-1][2])
        ended = sorted({(collection, id) for _, collection, id, has_ended in page if has_ended})
        for start in range(0, len(ended), MAX_COMMIT_DOCUMENTS):
            self._count_members(ended[start : start + MAX_COMMIT_DOCUMENTS])
        return len(ended)

    @transactional
    def _count_members(self, unit: UnitOfWork, keys: Sequence[DocumentKey]) -> None:
        unit.read_documents(keys)
        unit.ended_members.update(keys)

    @transactional
    def _delete_left_joins(self, unit: UnitOfWork) -> bool:
        """Delete joins that are closed, or were left by their caller; return whether there is more to delete.

        A join that had all of its members before the caller extended it is kept, with what the caller has added.
        """
        for id, closed, kept, event_type in unit.db.read("left_joins", unit.now):
            if not closed and kept:
                log.warning(
                    "%s does not wait for all documents: who called app.when_all ended before they were added; "
                    "call it again",
                    event_type,
                )
                unit.db.send("hold_join", id, None, 1)
                unit.released_joins.add(id)
                continue
            if not closed:
                log.warning(
                    "%s will not be published: who called app.when_all ended before all documents were added; "
                    "call it again",
                    event_type,
                )
                unit.db.send("close_join", id)
            if unit.db.run("delete_members", id, MAX_COMMIT_DOCUMENTS) < MAX_COMMIT_DOCUMENTS:
                unit.db.send("delete_join", id)
            else:
                return True
        return False


def _read(values: list[Any]) -> OpenJoin:
    id, event_type, event_id, remaining, processed, failed, removed, allow_failed, created_at, source = values
    counts = (remaining, processed, failed, removed)
    return OpenJoin(id, event_type, event_id, *counts, bool(allow_failed), created_at, source)
