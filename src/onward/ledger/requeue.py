"""Dead letters, and other rows that return to the queue: claims of dead workers, uncharged failures.

Deaths are counted here (`return_claims`); the supervisor only reports which rows a dead worker was running.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from operator import itemgetter
from typing import Any

from onward.ledger.failure_groups import CountedFailure
from onward.ledger.publish import begin_round, enter_event, later_deadline
from onward.ledger.records import DocumentRecord, RowRecord
from onward.ledger.transactions import TransactionalStore, transactional
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.breaker import MAX_ROW_OPENINGS, Strike
from onward.model.documents import DocumentKey, Status
from onward.model.events import Envelope, decoded_object
from onward.model.failures import Failure, outcomes
from onward.model.ledger import DeadLetter, PerKey, RowState
from onward.model.ledger_views import DeadLetterGroup
from onward.retry import Reason

STRAY_QUEUE = "events.failed"  # The failed queue of malformed events that belong to no service
DEAD_STATES = (RowState.DEAD, RowState.ARCHIVED)


class DeadLetters(TransactionalStore):
    def dead_letters(self, service: str | None = None, *, limit: int = 100, after: int = 0) -> list[DeadLetter]:
        """Return dead letters, oldest first, of one service (an empty name: of no service) or of all."""
        return self.find_dead_letters(service=service, limit=limit, after=after)

    def find_dead_letters(
        self,
        *,
        service: str | None = None,
        fingerprint: str | None = None,
        error_type: str | None = None,
        since: float | None = None,
        document: DocumentKey | None = None,
        archived: bool = False,
        after: int = 0,
        limit: int = 100,
    ) -> list[DeadLetter]:
        """Return dead letters, or archived ones, that match, oldest first, behind the row `after`."""
        state = RowState.ARCHIVED if archived else RowState.DEAD
        collection, id = document or (None, None)
        wanted = (since, error_type, collection, id, limit, service, fingerprint)
        if archived:
            statement, used = "find_archived_dead_letters", 8
        elif fingerprint is not None:
            statement, used = "find_dead_letters_of_group", 8
        elif service is not None:
            statement, used = "find_dead_letters_of_service", 7
        else:
            statement, used = "find_dead_letters", 6
        subscriptions = UnitOfWork(self.db, self.now()).subscriptions()
        queues = {subscription.service: subscription.failed_queue for subscription in subscriptions}
        while rows := self.db.read(statement, *(after, *wanted)[:used]):
            if records := self.db.read("dead_letters", rows, str(state)):
                return [_read_dead_letter(values, queues) for values in sorted(records, key=itemgetter(0))]
            after = rows[-1]  # all of these were requeued in between
        return []

    def dead_letter_groups(self, *, archived: bool = False) -> list[DeadLetterGroup]:
        groups = self.db.read("archived_dead_letter_groups" if archived else "dead_letter_groups")
        return [DeadLetterGroup(service, fingerprint or "", *more) for service, fingerprint, *more in groups]

    def is_recovered(self, dead_letter: DeadLetter) -> bool:
        """Return whether all documents of a dead letter are processed, removed, or have another live event."""
        unit = UnitOfWork(self.db, self.now())
        row = unit.row(dead_letter.row)
        if row is None or row.state == RowState.DONE:
            return True
        if row.state not in DEAD_STATES:
            return False  # it was requeued
        named = list(unit.named(row))
        return bool(named) and all(_is_done_with(doc, row, round) for _, doc, round in named)

    @transactional
    def requeue(self, unit: UnitOfWork, row: int, *, keeps_deadline: bool = False) -> bool:
        """Requeue a dead letter's event in a new round; return False if it is no dead letter any more.

        It has no deadline then: a person has decided. With `keeps_deadline`, it has that of its documents.
        """
        dead = unit.row(row)
        if dead is None or dead.state != RowState.DEAD:
            return False
        if not any(subscription.service == dead.service for subscription in unit.subscriptions()):
            return False  # it was for no service, or its service was retired
        dead.expires = _deadline_of_documents(unit, dead) if keeps_deadline else None
        if not reopen_dead_letter(unit, dead, new_round=True):
            if not any(doc is not None and doc.dead_letter == row for _, doc, _ in unit.named(dead)):
                unit.finish(dead)  # its documents were added later, and processed by other events
            return False
        dead.due = unit.now
        dead.tries = dead.not_ready = dead.given_back = dead.openings = dead.deaths = dead.lapses = 0
        dead.able = 0.0
        put_in_queue(unit, dead)
        return True

    @transactional
    def enter_unread(
        self, unit: UnitOfWork, row: int, envelope: Envelope
    ) -> list[tuple[int, list[DocumentKey]]] | None:
        """Replace a dead letter that was never read by its event, for its service or, if it has none, for all.

        Return the new rows, each with its documents, or None if the row is no dead letter any more. The event
        is entered even if its id is known: a person has decided that it is tried.
        """
        dead = unit.row(row)
        if dead is None or dead.state != RowState.DEAD:
            return None
        unit.db.send("delete_rows", [row])
        return enter_event(unit, envelope, dead.service)

    @transactional
    def record_unread(self, unit: UnitOfWork, row: int, failure: Failure) -> None:
        """Add the reason why a dead letter's bytes still cannot be read to its errors."""
        dead = unit.row(row)
        if dead is None or dead.state != RowState.DEAD:
            return
        unit.read_errors([row])
        failure = unit.grouped(failure)
        dead.record(failure.as_dict())
        dead.fingerprint = failure.fingerprint
        unit.save(dead)
        unit.outcomes.add_failure(CountedFailure(dead.service, None, failure, 0))

    @transactional
    def archive_dead_letters(self, unit: UnitOfWork, rows: Sequence[int]) -> int:
        """Set dead letters aside for good; they are kept, but counted and shown no more."""
        return unit.db.run("move_dead_letters", str(RowState.DEAD), str(RowState.ARCHIVED), list(rows))

    @transactional
    def restore_dead_letters(self, unit: UnitOfWork, rows: Sequence[int]) -> int:
        """Bring archived dead letters back to their failed queue."""
        return unit.db.run("move_dead_letters", str(RowState.ARCHIVED), str(RowState.DEAD), list(rows))

    @transactional
    def purge_dead_letters(self, unit: UnitOfWork, rows: Sequence[int]) -> int:
        """Remove dead letters, archived or not, for ever; their documents stay as they are."""
        unit.read_rows(rows)
        dead = [row for id in dict.fromkeys(rows) if (row := unit.rows[id]) and row.state in DEAD_STATES]
        unit.read_documents(unit.keys_of(row.id for row in dead))
        for row in dead:
            for key, doc, _ in unit.named(row):
                if doc is not None and doc.dead_letter == row.id:
                    doc.dead_letter = None
                    unit.change(key)
        unit.write()
        return unit.db.run("delete_rows", [row.id for row in dead])


def _deadline_of_documents(unit: UnitOfWork, dead: RowRecord) -> float | None:
    """Return the latest deadline of a dead letter's documents; None: one of them has none."""
    found = [doc.expires for _, doc, _ in unit.named(dead) if doc is not None and doc.dead_letter == dead.id]
    return reduce(later_deadline, found) if found else None


def _is_done_with(doc: DocumentRecord | None, row: RowRecord, round: int) -> bool:
    """Return whether a document does not need the dead letter any more."""
    if doc is None:
        return round > 0  # with round 0, it was never added
    if doc.untouched:
        return False  # it was added without an event of its own
    return doc.status in (Status.PROCESSED, Status.DISCARDED) or doc.dead_letter != row.id


def _read_dead_letter(values: list[Any], queues: dict[str, str]) -> DeadLetter:
    row, service, event_id, kind, version, data, timestamp, key, collection, ids, round = values[:11]
    tries, errors, deaths, reason, hexadecimal, has_raw, settled_at, properties = values[11:]
    failures = outcomes(json.loads(errors)) if errors else []
    last = failures[-1] if failures else {}
    raw = bytes.fromhex(hexadecimal) if has_raw else None
    unread = raw is not None and _is_unread(reason, key, event_id)
    event = {"event_type": kind, "event_id": event_id, "timestamp": timestamp, "version": version, "data": data}
    return DeadLetter(
        row=row,
        failed_queue=queues.get(service) or (f"{service}.failed" if service else STRAY_QUEUE),
        original_event=decoded_object(raw) if unread and raw is not None else event,
        idempotency_key=key if unread else key.partition("/")[0],
        attempt_count=tries,
        last_error=last.get("message", ""),
        error_type=last.get("error_type", ""),
        abandoned_reason=reason,
        service_name=service,
        timestamp=settled_at,
        errors=failures,
        fingerprint=last.get("fingerprint", ""),
        deaths=deaths,
        round=round,
        documents=tuple((collection, id) for id, _ in ids),
        raw=raw,
        properties=json.loads(properties) if properties else None,
        unread=unread,
    )


def _is_unread(reason: str | None, key: str, event_id: str) -> bool:
    """Return whether a dead letter holds a message that was never read as an event; see `keep_malformed`."""
    return reason == Reason.MALFORMED and key == event_id


def requeue_uncharged(unit: UnitOfWork, row: RowRecord) -> None:
    """Return a row to the queue without charging a try."""
    row.due = min(row.due, unit.now)
    put_in_queue(unit, row)


def put_in_queue(unit: UnitOfWork, row: RowRecord) -> RowRecord:
    """Make a row wait, or merge it into a waiting row with the same key; return the row that waits."""
    row.state = RowState.WAITING
    row.started = 0
    unit.woken.add(row.service)
    is_ordered = row.serial_key is not None and unit.per_key(row.service) == PerKey.ORDERED
    if not is_ordered:
        unit.release_key(row)
    if row.due < unit.now:
        unit.returned.add(row.service)
    number = unit.db.read("waiting_row", row.service, row.key)
    waiting = None if number == row.id else unit.row(number)
    if waiting is not None and is_ordered and row.collection is None:
        unit.db.send("free_key", row.id)  # it keeps its place: the same event was published again behind it
        row.key += f"/{row.id}"
        waiting = None
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
    waiting.expires = later_deadline(waiting.expires, row.expires)
    if row.collection is None and not unit.per_key(row.service):
        waiting.due = min(waiting.due, row.due)  # an event that was published later may be due later
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
                    begin_round(doc, row.id, unit.now, row.expires)
                row.round = max(row.round, doc.round)
            unit.change(key)
        if key in returning:
            row.ids.append((key[1], doc.round if doc else 0))
    row.reason = row.settled_at = None
    row.serial_key = None  # its place in the order went to others: it gets the last one
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
