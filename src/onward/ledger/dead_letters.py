"""Finding, archiving, restoring and purging dead letters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from onward.ledger.records import DocumentRecord, RowRecord
from onward.ledger.requeue import DEAD_STATES
from onward.ledger.transactions import TransactionalStore, transactional
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.documents import DocumentKey, Status
from onward.model.failures import outcomes
from onward.model.ledger import DeadLetter, RowState
from onward.model.ledger_views import DeadLetterGroup

STRAY_QUEUE = "events.failed"  # The failed queue of malformed events that belong to no service


class DeadLetters(TransactionalStore):
    """Reads and changes dead letters."""

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
        """Count the dead letters by service and fingerprint."""
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


def _is_done_with(doc: DocumentRecord | None, row: RowRecord, round: int) -> bool:
    """Return whether a document does not need the dead letter any more."""
    if doc is None:
        return round > 0  # with round 0, it was never added
    if doc.untouched:
        return False  # it was added without an event of its own
    return doc.status in (Status.PROCESSED, Status.DISCARDED) or doc.dead_letter != row.id


def _read_dead_letter(values: list[Any], queues: dict[str, str]) -> DeadLetter:
    """Read a dead letter from the columns of its row."""
    row, service, event_id, event_type, version, data, timestamp, key, collection, ids, round = values[:11]
    tries, errors, deaths, reason, raw, has_raw, settled_at = values[11:]
    failures = outcomes(json.loads(errors)) if errors else []
    last = failures[-1] if failures else {}
    return DeadLetter(
        row=row,
        failed_queue=queues.get(service) or (f"{service}.failed" if service else STRAY_QUEUE),
        original_event={
            "event_type": event_type,
            "event_id": event_id,
            "timestamp": timestamp,
            "version": version,
            "data": data,
        },
        idempotency_key=key.partition("/")[0],
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
        raw=bytes.fromhex(raw) if has_raw else None,
    )
