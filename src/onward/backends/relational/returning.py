"""How a row comes back to the queue: uncharged, merged with its twin, or from the dead."""

from __future__ import annotations

from onward.backends.relational.books import Books, Doc, Row
from onward.backends.relational.publishing import begin_round
from onward.model.breaker import Strike
from onward.model.documents import Status
from onward.model.ledger import RowState


def give_back(books: Books, row: Row) -> None:
    """To the queue, uncharged."""
    row.due = min(row.due, books.now)
    to_queue(books, row)


def to_queue(books: Books, row: Row) -> Row:
    """Let a row wait. One that waits for the same already takes it in; answer which one goes on."""
    row.state = RowState.WAITING
    row.lease = None
    row.started = 0
    books.woken.add(row.service)
    number = books.db.read("twin", row.service, row.key)
    twin = None if number is None or number == row.id else books.row(number)
    if twin is None or twin.state != RowState.WAITING:
        books.save(row)
        return row
    _carry_over(books, row, twin)
    twin.tries = max(twin.tries, row.tries)
    twin.not_ready = max(twin.not_ready, row.not_ready)
    twin.deaths = max(twin.deaths, row.deaths)
    twin.lapses = max(twin.lapses, row.lapses)
    books.save(twin)
    books.finish(row)
    return twin


def _carry_over(books: Books, row: Row, twin: Row) -> None:
    pairs = dict(twin.ids)
    for key, doc, round in books.named(row):
        if doc is None and not round:
            pairs.setdefault(key[1], 0)
        elif doc is not None and doc.row == row.id:
            doc.row = twin.id
            pairs[doc.id] = doc.round
            books.change(key)
    twin.ids = list(pairs.items())


def revive(books: Books, row: Row, *, new_round: bool) -> bool:
    """A dead letter's documents become its own again; False: all of them have moved on without it."""
    named = list(books.named(row))
    returning = {key for key, doc, round in named if _returns(doc, row, round, new_round)}
    if named and not returning:
        return False
    row.ids = []
    for key, doc, _ in named:
        if doc is not None:
            if doc.dead_letter == row.id:
                doc.dead_letter = None
            if key in returning:
                doc.status = Status.PENDING
                doc.row = row.id
                if new_round or not doc.round:
                    begin_round(doc, row.id, books.now)
                row.round = max(row.round, doc.round)
            books.change(key)
        if key in returning:
            row.ids.append((key[1], doc.round if doc else 0))
    row.reason = row.settled_at = None
    return True


def _returns(doc: Doc | None, row: Row, round: int, new_round: bool) -> bool:
    if doc is None:
        return not round
    own = doc.dead_letter == row.id and (new_round or doc.round == round)
    return doc.row is None and (own or doc.untouched)


def give_back_try(books: Books, strike: Strike, due: float | None = None) -> None:
    """A failure was the dependency's: the try it cost is returned, a dead letter it made lives again."""
    row = books.row(strike.row)
    if row is None or not strike.charged or row.state in (RowState.DONE, RowState.ARCHIVED):
        return
    if row.state == RowState.DEAD:
        if any(doc is not None and doc.final for _, doc, _ in books.named(row)):
            return  # it failed for a reason of its own
        if not revive(books, row, new_round=False):
            return
    row.tries = max(0, row.tries - 1)
    if row.state == RowState.CLAIMED:
        books.save(row)
        return
    row.due = books.now if due is None else due
    to_queue(books, row)
