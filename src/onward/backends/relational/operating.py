"""What comes from outside of a worker: deaths, lapsed leases, and the operator's hand."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backends.relational.books import Books, Doc
from onward.backends.relational.returning import give_back, revive, to_queue
from onward.model.documents import Status
from onward.model.ledger import RowState


def take_back(books: Books, rows: Sequence[int], *, running: Sequence[int] = (), lapsed: bool = False) -> int:
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
        give_back(books, row)
    books.write()
    return returned


def requeue(books: Books, id: int) -> bool:
    """A dead letter's original event goes back, in a new round of its documents."""
    row = books.row(id)
    if row is None or row.state != RowState.DEAD or not row.service:
        return False
    if not revive(books, row, new_round=True):
        if not any(doc is not None and doc.dead_letter == id for _, doc, _ in books.named(row)):
            books.finish(row)  # what it was about came after it was given up, and went on without it
            books.write()
        return False
    row.due = books.now
    row.tries = row.not_ready = row.deaths = row.lapses = 0
    row.able = 0.0
    to_queue(books, row)
    books.write()
    return True


def reset(books: Books, collection: str, id: str) -> bool:
    """A document begins anew; whatever is under way for it belongs to an older round."""
    doc = books.document((collection, id))
    if doc is None:
        return False
    doc.status = Status.PENDING
    doc.attempt_count = 0
    doc.last_attempt_time = doc.last_error = doc.fingerprint = doc.retry_at = None
    books.leave_batch(doc)
    _begin_anew(books, doc)
    books.change((collection, id))
    books.write()
    return True


def _begin_anew(books: Books, doc: Doc) -> None:
    """Whatever is under way belongs to an older round; what only waits need not be delivered."""
    row = books.row(doc.row) if doc.row is not None else None
    doc.round += 1
    doc.row = None
    if row is not None and row.state == RowState.WAITING:
        books.leave(row.id, [doc.id])


def discard(books: Books, collection: str, id: str) -> bool:
    """A document is given up for good, by a person."""
    doc = books.document((collection, id))
    if doc is None:
        return False
    if doc.dead_letter is not None:
        books.leave(doc.dead_letter, [id])
    doc.status = Status.DISCARDED
    doc.dead_letter = doc.retry_at = None
    books.leave_batch(doc)
    _begin_anew(books, doc)
    books.change((collection, id))
    books.write()
    return True


def forget_some(books: Books, source: str) -> int | None:
    """Delete some of a source's documents and events; None: there are none left.

    What is under way for it is refused before, by its generation: nothing comes back.
    """
    db = books.db
    docs = db.read("documents_of_source", source)
    rows = db.read("rows_of_source", source)
    if not rows and not docs:
        db.send("forget_completed", source)
        db.send("forget_tallies", source)
        return None
    removed = books.delete([tuple(key) for key in docs])
    books.read_rows(rows)
    books.read_documents(books.keys_of(rows))
    kept = [id for id in rows if _left_to_others(books, id, source)]
    books.write()
    db.send("delete_rows", [id for id in rows if id not in kept])
    return removed


def _left_to_others(books: Books, id: int, source: str) -> bool:
    """Whether a row carries documents of another source, as one that waited for them all may."""
    row = books.rows[id]
    if row is None or row.state == RowState.DONE:
        return False
    others = [
        (doc.id, round)
        for _, doc, round in books.named(row)
        if doc is not None and doc.source != source and id in (doc.row, doc.dead_letter)
    ]
    if others:
        books.db.send("adopt", others, row.round, None, 0, id)
    return bool(others)
