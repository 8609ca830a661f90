"""What comes from outside of a worker: deaths, lapsed leases, and the operator's hand."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backends.relational.books import Books, Row
from onward.backends.relational.database import Database
from onward.backends.relational.publishing import begin_round
from onward.backends.relational.settling import merge_or_touch
from onward.model.documents import Status
from onward.model.ledger import RowState


def give_back(books: Books, rows: Sequence[int], *, running: Sequence[int] = (), lapsed: bool = False) -> int:
    """Return claimed rows to the queue.

    A death is counted on those that were running. Where nobody saw, as with a lapsed lease, it is
    counted on those whose start was recorded; the others are run with care next time, which records it.
    """
    books.read_rows(rows)
    returned = 0
    for id in rows:
        row = books.rows[id]
        if row is None or row.state != RowState.CLAIMED:
            continue
        returned += 1
        died = bool(row.started) if lapsed else id in running
        row.deaths += died
        row.lapses += lapsed and not died
        row.state = RowState.WAITING
        row.due = min(row.due, books.now)
        row.lease = None
        row.started = 0
        merge_or_touch(books, row)
    books.write()
    return returned


def requeue(books: Books, id: int) -> bool:
    """A dead letter's original event goes back, in a new round of its documents."""
    row = books.row(id)
    if row is None or row.state != RowState.DEAD:
        return False
    docs = [((row.collection or "", one), books.document((row.collection or "", one))) for one, _ in row.ids]
    if any(doc is None or doc.row is not None or doc.dead_letter != id for _, doc in docs):
        return False
    for key, doc in docs:
        assert doc is not None, "checked above"
        doc.status = Status.PENDING
        doc.dead_letter = None
        begin_round(doc, id, books.now)
        row.round = max(row.round, doc.round)
        books.change(key)
    row.ids = [(key[1], doc.round) for key, doc in docs if doc is not None]
    _begin_again(books, row)
    merge_or_touch(books, row)
    books.write()
    return True


def _begin_again(books: Books, row: Row) -> None:
    row.state = RowState.WAITING
    row.due = books.now
    row.tries = row.not_ready = row.deaths = row.lapses = 0
    row.able = 0.0
    row.reason = row.settled_at = None


def reset(books: Books, collection: str, id: str) -> bool:
    """A document begins anew; whatever is under way for it belongs to an older round."""
    doc = books.document((collection, id))
    if doc is None:
        return False
    doc.status = Status.PENDING
    doc.attempt_count = 0
    doc.last_attempt_time = doc.last_error = doc.retry_at = None
    doc.round += 1
    doc.row = None
    books.change((collection, id))
    books.write()
    return True


def discard(books: Books, collection: str, id: str) -> bool:
    """A document is given up for good, by a person."""
    doc = books.document((collection, id))
    if doc is None:
        return False
    if doc.dead_letter is not None:
        books.db.run("delete_rows", [doc.dead_letter])
    doc.status = Status.DISCARDED
    doc.round += 1
    doc.row = doc.dead_letter = None
    books.change((collection, id))
    books.write()
    return True


def forget(db: Database, source: str) -> int:
    """First refuse what is under way, then delete, a bounded transaction at a time."""
    with db.transaction():
        db.run("bump_generation", source)
    removed = 0
    while True:
        with db.transaction():
            rows = db.read("rows_of_source", source)
            docs = db.read("documents_of_source", source)
            if not rows and not docs:
                return removed
            db.run("delete_rows", rows)
            db.run("delete_bodies", docs)
            removed += db.run("delete_documents", docs)
