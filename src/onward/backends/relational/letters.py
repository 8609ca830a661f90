"""Dead letters, as an operator handles them: found, archived, removed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from onward.backends.relational.base import RelationalBase, transactional
from onward.backends.relational.books import Doc, Row, requested
from onward.model.documents import Status
from onward.model.failures import outcomes
from onward.model.ledger import DeadLetter, RowState
from onward.model.recovery import LetterGroup
from onward.ports.recovery import Key

STRAY_QUEUE = "events.failed"
"""The failed queue of what could not be read and named no service."""
_LETTERS = (RowState.DEAD, RowState.ARCHIVED)


class LetterStore(RelationalBase):
    """See `onward.ports.Recovery`."""

    def find_dead_letters(
        self,
        *,
        service: str | None = None,
        fingerprint: str | None = None,
        error_type: str | None = None,
        since: float | None = None,
        document: Key | None = None,
        archived: bool = False,
        after: int = 0,
        limit: int = 100,
    ) -> list[DeadLetter]:
        state = RowState.ARCHIVED if archived else RowState.DEAD
        collection, id = document or (None, None)
        wanted = (since, error_type, collection, id, limit, service, fingerprint)
        if archived:
            statement, used = "find_archived_letters", 8
        elif fingerprint is not None:
            statement, used = "find_letters_of_group", 8
        elif service is not None:
            statement, used = "find_letters_of_service", 7
        else:
            statement, used = "find_letters", 6
        queues = {one.service: one.failed_queue for one in self._books().subscriptions()}
        while rows := self.db.read(statement, *(after, *wanted)[:used]):
            if found := self.db.read("letters", rows, str(state)):
                return sorted((read_letter(values, queues) for values in found), key=lambda one: one.row)
            after = rows[-1]  # all of these were put back just now
        return []

    def letter_groups(self, *, archived: bool = False) -> list[LetterGroup]:
        found = self.db.read("archived_letter_groups" if archived else "letter_groups")
        return [LetterGroup(service, fingerprint or "", *more) for service, fingerprint, *more in found]

    def row_states(self, rows: Sequence[int]) -> dict[int, str]:
        found = dict(self.db.read("row_states", list(rows)))
        return {row: found.get(row, str(RowState.DONE)) for row in rows}

    def is_recovered(self, letter: DeadLetter) -> bool:
        books = self._books()
        row = books.row(letter.row)
        if row is None or row.state == RowState.DONE:
            return True
        if row.state not in _LETTERS:
            return False  # it is being tried again
        named = list(books.named(row))
        return bool(named) and all(_went_on(doc, row, round) for _, doc, round in named)

    @transactional
    def archive_letters(self, rows: Sequence[int]) -> int:
        return self.db.run("move_letters", str(RowState.DEAD), str(RowState.ARCHIVED), list(rows))

    @transactional
    def restore_letters(self, rows: Sequence[int]) -> int:
        return self.db.run("move_letters", str(RowState.ARCHIVED), str(RowState.DEAD), list(rows))

    @transactional
    def purge_letters(self, rows: Sequence[int]) -> int:
        books = self._books()
        books.read_rows(rows)
        found = [row for id in dict.fromkeys(rows) if (row := books.rows[id]) and row.state in _LETTERS]
        books.read_documents(books.keys_of(row.id for row in found))
        for row in found:
            for key, doc, _ in books.named(row):
                if doc is not None and doc.dead_letter == row.id:
                    doc.dead_letter = None
                    books.change(key)
        books.write()
        return self.db.run("delete_rows", [row.id for row in found])


def _went_on(doc: Doc | None, row: Row, round: int) -> bool:
    """Whether a document of a dead letter needs it no more."""
    if doc is None:
        return round > 0  # else it has not come yet
    if doc.untouched:
        return False  # it came without an event of its own
    return doc.status in (Status.PROCESSED, Status.DISCARDED) or doc.dead_letter != row.id


def read_letter(values: list[Any], queues: dict[str, str]) -> DeadLetter:
    """Read a dead letter from the values of its row."""
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
        idempotency_key=requested(key),
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
