"""Returning rows to the queue: claims of dead workers, uncharged failures, dead letters.

Deaths are counted here (`return_claims`); the supervisor only reports which rows a dead worker was running.
"""

from __future__ import annotations

from collections.abc import Sequence

from onward.ledger.publish import begin_round
from onward.ledger.records import DocumentRecord, RowRecord
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.breaker import MAX_ROW_OPENINGS, Strike
from onward.model.documents import Status
from onward.model.ledger import RowState

DEAD_STATES = (RowState.DEAD, RowState.ARCHIVED)


def requeue_uncharged(unit: UnitOfWork, row: RowRecord) -> None:
    """Return a row to the queue without charging a try."""
    row.due = min(row.due, unit.now)
    put_in_queue(unit, row)


def put_in_queue(unit: UnitOfWork, row: RowRecord) -> RowRecord:
    """Make a row wait, or merge it into a waiting row with the same key; return the row that waits."""
    row.state = RowState.WAITING
    row.lease = None
    row.started = 0
    unit.woken.add(row.service)
    number = unit.db.read("waiting_row", row.service, row.key)
    waiting = None if number == row.id else unit.row(number)
    if waiting is None or waiting.state != RowState.WAITING:
        unit.save(row)
        return row
    pairs = dict(waiting.ids)
    for key, doc, round in unit.named(row):
        if doc is None and not round:
            pairs.setdefault(key[1], 0)
        elif doc is not None and doc.row == row.id:
            doc.row = waiting.id
            pairs[doc.id] = doc.round
            unit.change(key)
    waiting.ids = list(pairs.items())
    for name in ("tries", "not_ready", "given_back", "openings", "deaths", "lapses"):
        setattr(waiting, name, max(getattr(waiting, name), getattr(row, name)))
    unit.save(waiting)
    unit.finish(row)
    return waiting


def reopen_dead_letter(unit: UnitOfWork, row: RowRecord, *, new_round: bool) -> bool:
    """Give a dead letter's documents back to its row; return False if none of them needs it any more."""
    named = list(unit.named(row))
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
                    begin_round(doc, row.id, unit.now)
                row.round = max(row.round, doc.round)
            unit.change(key)
        if key in returning:
            row.ids.append((key[1], doc.round if doc else 0))
    row.reason = row.settled_at = None
    return True


def _returns(doc: DocumentRecord | None, row: RowRecord, round: int, new_round: bool) -> bool:
    if doc is None:
        return not round
    own = doc.dead_letter == row.id and (new_round or doc.round == round)
    return doc.row is None and (own or doc.untouched)


def return_try(unit: UnitOfWork, strike: Strike) -> None:
    """Return the try that a dependency's failure has cost; if it made a dead letter, that is queued again.

    A row helps to open breakers at most `MAX_ROW_OPENINGS` times, so that it cannot be retried for ever.
    """
    row = unit.row(strike.row)
    if row is None or not strike.charged or row.state in (RowState.DONE, RowState.ARCHIVED):
        return
    if row.openings >= MAX_ROW_OPENINGS:
        return
    if row.state == RowState.DEAD:
        if any(doc is not None and doc.final for _, doc, _ in unit.named(row)):
            return  # a document failed for another reason
        if not reopen_dead_letter(unit, row, new_round=False):
            return
    row.tries = max(0, row.tries - 1)
    row.given_back += 1
    row.openings += 1
    if row.state == RowState.CLAIMED:
        unit.save(row)
    else:
        row.due = unit.now
        put_in_queue(unit, row)


def return_claims(
    unit: UnitOfWork,
    rows: Sequence[int],
    *,
    running: Sequence[int] = (),
    finished: Sequence[int] = (),
    lapsed: bool = False,
) -> int:
    """Return claimed rows to the queue; return how many there were.

    A death is counted on rows that were running. For a lapsed lease it is unknown which were running: it is
    counted on rows whose start was recorded, and the start of the others is recorded next time. Rows that were
    finished and not committed are committed alone next time; a death is counted only if it happens again.
    """
    unit.read_rows(rows)
    found = [row for id in dict.fromkeys(rows) if (row := unit.rows[id]) is not None]
    claimed = [row for row in found if row.state == RowState.CLAIMED]
    for row in claimed:
        suspected = row.id in finished
        died = bool(row.started) if lapsed else row.id in running or (suspected and row.lapses + row.deaths > 0)
        row.deaths += died
        row.lapses += (lapsed or suspected) and not died
        requeue_uncharged(unit, row)
    return len(claimed)


def requeue_dead_letter(unit: UnitOfWork, id: int) -> bool:
    """Put the original event of a dead letter back in the queue, in a new round of its documents."""
    row = unit.row(id)
    if row is None or row.state != RowState.DEAD:
        return False
    if not any(subscription.service == row.service for subscription in unit.subscriptions()):
        return False  # it was for no service, or its service was retired
    if not reopen_dead_letter(unit, row, new_round=True):
        if not any(doc is not None and doc.dead_letter == id for _, doc, _ in unit.named(row)):
            unit.finish(row)  # its documents were added later, and processed by other events
        return False
    row.due = unit.now
    row.tries = row.not_ready = row.given_back = row.openings = row.deaths = row.lapses = 0
    row.able = 0.0
    put_in_queue(unit, row)
    return True
