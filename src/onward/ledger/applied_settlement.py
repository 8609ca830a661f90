"""Applying one settlement to the delivery's row and its documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from onward.ledger.document_content import add_made_document, replace_content
from onward.ledger.failure_attribution import (
    OTHERS_SUCCEEDED,
    Attribution,
    attribute_failure,
    record_strikes,
    strikes_of,
    without_charges,
)
from onward.ledger.publish import begin_round, publish
from onward.ledger.records import DocumentRecord, RowRecord, original_key
from onward.ledger.requeue import put_in_queue
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.breaker import Strike
from onward.model.documents import Document, DocumentKey, Status
from onward.model.events import Envelope
from onward.model.failures import GIVEN_BACK, Failure, outcomes, read_history, remember
from onward.model.ledger import (
    MAX_RAW_BYTES,
    Charge,
    CommitResult,
    CommitStatus,
    DeadLettered,
    InFailedBatch,
    Processed,
    RetryLater,
    RowState,
    Settlement,
    SettlementPart,
)


class AppliedSettlement:
    """One settlement that is being applied to its row and documents."""

    __slots__ = (
        "_row_used",
        "attribution",
        "first_failures",
        "notices",
        "origin",
        "parts",
        "result",
        "row",
        "settlement",
        "strikes",
        "unit",
    )  # fmt: skip

    def __init__(self, unit: UnitOfWork, settlement: Settlement, row: RowRecord) -> None:
        self.unit = unit
        self.settlement = settlement
        self.row = row
        self.result = CommitResult(CommitStatus.COMMITTED)
        self.parts: Sequence[SettlementPart] = settlement.parts
        self.attribution = Attribution()
        if settlement.dependencies is not None:
            # Before anything is charged: the attribution decides what is charged.
            self.attribution = attribute_failure(unit, row, settlement.dependencies, settlement.parts)
            self.result.opened, self.result.closed = self.attribution.opened, self.attribution.closed
            if self.attribution.retry_at is not None:
                self.parts = self.result.parts = without_charges(settlement.parts, self.attribution.retry_at)
        self.origin = row if settlement.all_done else replace(row)
        self.strikes: list[Strike] = []  # The failures that were charged or given back, with their rows
        self.notices: list[tuple[RowRecord | None, Envelope]] = []
        self._row_used = False
        self.first_failures = 0
        """Documents that failed with a new fingerprint since the last call of `_count_failure`."""

    def apply(self) -> CommitResult:
        unit, settlement, row = self.unit, self.settlement, self.row
        if settlement.removes:
            unit.remove(list(settlement.removes))
        for replacement in settlement.replaces:
            key = (replacement.collection, replacement.id)
            replace_content(unit, key, replacement.body, replacement.keys)
        for new in settlement.adds:
            if add_made_document(unit, row.source, new) and new.failure is not None:
                unit.count_failure(row.service, new.collection, new.failure, 1)
        for part in self.parts:
            match part:
                case Processed():
                    self._finish(part)
                case RetryLater():
                    self._wait(part)
                case DeadLettered():
                    self._dead_letter(part)
                case InFailedBatch():
                    self._set_aside(part)
        for text in settlement.texts:
            unit.index_text(text)
        for vector in settlement.vectors:
            unit.index_vector(vector)
        if settlement.emits:
            for envelope in settlement.emits:
                envelope.source = envelope.source or row.source
            published = publish(unit, settlement.emits)
            self.result.duplicates = sum(event.duplicates for event in published)
        self._close_or_keep()
        if settlement.dependencies is not None and (name := self.attribution.strikes_on) is not None:
            strikes = self.strikes or strikes_of(row, settlement.dependencies, self.parts)
            record_strikes(unit, name, strikes, settlement.dependencies.reason)
        if self.notices:
            self._publish_notices()
        return self.result

    def _publish_notices(self) -> None:
        given_up = [notice for row, notice in self.notices if row is None or row.state == RowState.DEAD]
        for notice in given_up:
            notice.notice = True
        if given_up:
            publish(self.unit, given_up)

    def _close_or_keep(self) -> None:
        settlement, row = self.settlement, self.row
        if settlement.closes:
            if self.origin.ids:
                carried = dict(row.ids) if self._row_used else {}
                # The retry job will find a document that no part of the settlement names.
                for key, doc in self._owned([id for id, _ in self.origin.ids if id not in carried]):
                    doc.row = None
                    self.unit.change(key)
            if not self._row_used:
                self.unit.finish(row)
        elif settlement.starts or settlement.cursor is not None:
            row.started = 1 if settlement.starts else row.started
            row.lease = max(row.lease or 0.0, self.unit.now + settlement.lease)
            if settlement.cursor is not None and settlement.cursor != row.cursor:
                row.cursor = settlement.cursor
                row.deaths = row.lapses = 0  # the checkpoint is behind what crashed it
            self.unit.save(row)

    def _finish(self, part: Processed) -> None:
        if not part.ids:
            return
        outcome = {
            "at": self.unit.now,
            "outcome": "processed",
            "worker": self.settlement.worker,
            "version": self.settlement.version,
        }
        first: dict[int, str] = {}
        for key, doc in self._owned(part.ids):
            doc.status = Status.PROCESSED
            doc.row = doc.retry_at = None
            doc.last_error = doc.fingerprint = None
            if doc.attempts is None:
                # Most documents have no history: those of a round share one text.
                if doc.round not in first:
                    first[doc.round] = json.dumps(remember(None, outcome | {"round": doc.round}))
                doc.attempts = first[doc.round]
            else:
                doc.record(outcome | {"round": doc.round})
            self._close_dead_letter(doc)
            self.unit.leave_batch(doc, recovered=True)
            self.unit.change(key)

    def _owned(self, ids: Sequence[str]) -> list[tuple[DocumentKey, DocumentRecord]]:
        """Return the documents that still belong to this delivery."""
        keys = [(self.row.collection or "", id) for id in ids]
        return [
            (key, doc)
            for key in keys
            if (doc := self.unit.document(key)) is not None and doc.row == self.row.id and not doc.final
        ]

    def _close_dead_letter(self, doc: DocumentRecord) -> None:
        if doc.dead_letter is not None:
            self.unit.remove_from_row(doc.dead_letter, [doc.id])
            doc.dead_letter = None

    def _row_for(self, part: RetryLater | DeadLettered) -> RowRecord | None:
        """Return the delivery's row for the first part that keeps a row; for other parts, a row split off from it.

        None: no document of the part belongs to the delivery any more.
        """
        rounds = dict(self.origin.ids)
        pairs: list[tuple[str, int]] = []
        for id in part.ids or rounds:
            key = (self.row.collection or "", id)
            doc = self.unit.document(key)
            if doc is not None and doc.untouched and rounds.get(id) == 0 and not doc.final:
                # It was added while the event was being tried without it.
                begin_round(doc, self.row.id, self.unit.now)
                self.unit.change(key)
            if doc is not None and doc.row == self.row.id and not doc.final:
                pairs.append((id, doc.round))
            elif doc is None and rounds.get(id) == 0:
                pairs.append((id, 0))
        if (part.ids or rounds) and not pairs:
            return None
        if self.settlement.closes and not self._row_used:
            self._row_used = True
            self.row.ids = pairs
            return self.row
        gone = dict(pairs)
        self.row.ids = [pair for pair in self.row.ids if pair[0] not in gone]
        if not self.settlement.closes:
            self.unit.save(self.row)
        return replace(self.origin, id=0, ids=pairs, lapses=0, started=0)

    def _split(self, row: RowRecord) -> RowRecord:
        row.id = self.unit.db.reserve("ledger")
        row.key = f"{original_key(row.key)}/{row.id}"
        self.unit.woken.add(row.service)
        stored = row.stored() | {"origin": self.row.id, "key": row.key}
        self.unit.db.send("split_row", {name: stored[name] for name in _SPLIT})
        self.unit.rows[row.id] = row
        return row

    def _wait(self, part: RetryLater) -> None:
        row = self._row_for(part)
        if row is None:
            return
        ids = [id for id, _ in row.ids]
        row.state = RowState.WAITING
        row.due = self.unit.now + part.after if part.until is None else part.until
        row.lease = None
        row.lapses = 0
        row.able += part.able
        row.tries += part.charge is Charge.TRY
        row.not_ready += part.charge is Charge.NOT_READY
        row.given_back += part.given_back
        row.deaths = row.deaths if part.deaths is None else part.deaths
        row.batch = part.batch if part.batch is not None else row.batch
        row.settled_at = None
        if part.failure is not None:
            row.record(part.failure.as_dict())
        owned = self._owned(ids)
        row = put_in_queue(self.unit, row) if row.id else self._split(row)
        for key, doc in owned:
            doc.row = row.id
            if part.failure is not None and part.charge is not Charge.NOTHING:
                self._record_failure(doc, part, "retried", row)
            elif part.failure is not None and part.given_back:
                doc.record(self._outcome(doc, part.failure, GIVEN_BACK, row))
            self.unit.change(key)
        # Not for the halves of a batch: their failure is not charged to a document yet.
        if part.failure is not None and (part.charge is not Charge.NOTHING or part.given_back):
            self._count_failure(part.failure, ids)
        if part.charge is Charge.TRY or part.given_back:
            self.strikes.append(Strike(row.id, tuple(ids), charged=not part.given_back))

    def _count_failure(self, failure: Failure, ids: Sequence[str]) -> None:
        first_failures, self.first_failures = self.first_failures, 0
        self.unit.count_failure(self.row.service, self.row.collection, failure, first_failures if ids else 1)

    def _dead_letter(self, part: DeadLettered) -> None:
        row = self._row_for(part)
        if row is None:
            return
        ids = [id for id, _ in row.ids]
        row.state = RowState.DEAD
        row.reason = str(part.reason)
        row.lease = None
        row.settled_at = self.unit.now
        row.tries += part.charge is Charge.TRY
        row.not_ready += part.charge is Charge.NOT_READY
        if part.failure is not None:
            row.record(part.failure.as_dict())
            row.fingerprint = part.failure.fingerprint
        earlier = self._earlier_dead_letter(row)
        if earlier is not None:
            row = self._update_dead_letter(earlier, row)
        elif row.id:
            self.unit.save(row)
        else:
            self._split(row)
        if part.raw is not None:
            self.unit.db.send("keep_raw", part.raw[:MAX_RAW_BYTES], row.id)
        for key, doc in self._owned(ids):
            if doc.dead_letter != row.id:
                self._close_dead_letter(doc)
            doc.dead_letter = row.id
            doc.row = None
            if part.final:
                doc.status = Status.FAILED
                self.unit.leave_batch(doc)
            if part.failure is not None:
                self._record_failure(doc, part, "gave_up", row)
            self.unit.change(key)
        if part.failure is not None:
            self._count_failure(part.failure, ids)
        if part.notice is not None:
            part.notice.source = part.notice.source or self.row.source
            self.notices.append((row, part.notice))
        if part.charge is Charge.TRY:
            self.strikes.append(Strike(row.id, tuple(ids)))

    def _earlier_dead_letter(self, row: RowRecord) -> RowRecord | None:
        """Return the dead letter of an earlier round, if the row has one document and that document has one."""
        owned = self._owned([id for id, _ in row.ids])
        if len(row.ids) != 1 or len(owned) != 1 or owned[0][1].dead_letter is None:
            return None
        earlier = self.unit.row(owned[0][1].dead_letter)
        same = earlier is not None and earlier.service == row.service and len(earlier.ids) == 1
        return (
            earlier
            if same and earlier is not None and earlier.state in (RowState.DEAD, RowState.ARCHIVED)
            else None
        )

    def _update_dead_letter(self, dead_letter: RowRecord, row: RowRecord) -> RowRecord:
        """Add a later round to the existing dead letter: a document has one per service."""
        self.unit.read_errors([dead_letter.id])
        for failure in outcomes(read_history(row.errors)):
            dead_letter.record(failure)
        dead_letter.state = RowState.DEAD
        dead_letter.ids, dead_letter.round = row.ids, row.round
        dead_letter.reason, dead_letter.settled_at, dead_letter.fingerprint = (
            row.reason,
            row.settled_at,
            row.fingerprint,
        )
        dead_letter.tries, dead_letter.not_ready, dead_letter.deaths = row.tries, row.not_ready, row.deaths
        self.unit.save(dead_letter)
        if row is self.row:
            # Nothing of the row was written: it can be used for another part.
            gone = dict(row.ids)
            for name in RowRecord.__slots__:
                setattr(row, name, getattr(self.origin, name))
            row.ids = [pair for pair in row.ids if pair[0] not in gone]
            self._row_used = False
        return dead_letter

    def _set_aside(self, part: InFailedBatch) -> None:
        for key, doc in self._owned(part.ids):
            doc.row = None
            self._close_dead_letter(doc)
            self._record_failure(doc, part, "set_aside", self.row)
            doc.failed_batch = _join_failed_batch(self.unit, self.row.service, doc.source, part)
            self.unit.change(key)
        self._count_failure(part.failure, part.ids)
        if part.notice is not None:
            part.notice.source = part.notice.source or self.row.source
            self.notices.append((None, part.notice))

    def _outcome(self, doc: DocumentRecord, failure: Failure, outcome: str, row: RowRecord) -> dict[str, Any]:
        """Return what a document keeps of a failed try."""
        about: dict[str, Any] = failure.as_dict()
        about.pop("traceback", None)
        return about | {"outcome": outcome, "round": doc.round, "try": row.tries}

    def _record_failure(
        self, doc: DocumentRecord, part: RetryLater | DeadLettered | InFailedBatch, outcome: str, row: RowRecord
    ) -> None:
        assert part.failure is not None, "only failures are recorded"
        about = self._outcome(doc, part.failure, outcome, row)
        given_up = not isinstance(part, RetryLater)
        if self.attribution.known_as_own or (given_up and self.attribution.others_succeeded):
            about[OTHERS_SUCCEEDED] = True
        if not _has_failed_like_this(doc, part.failure.fingerprint):
            self.first_failures += 1
        doc.record(about)
        doc.last_error = json.dumps(about)
        doc.fingerprint = part.failure.fingerprint
        doc.last_attempt_time = self.unit.now
        doc.retry_at = None  # the retry that an operator has scheduled was made


_SPLIT = (
    "id", "state", "key", "ids", "due", "tries", "not_ready", "given_back", "openings", "able", "deaths", "batch",
    "cursor", "errors", "failed_at", "failed_trace", "reason", "settled_at", "fingerprint", "origin",
)  # fmt: skip


def _join_failed_batch(unit: UnitOfWork, service: str, source: str | None, part: InFailedBatch) -> str:
    """Add an error to the failed batch of a source, which is made if there is none; return the batch's id."""
    id = Document.make_id("failed batch", service, source or "")
    unit.db.lock("failed batches", [id])
    earlier_errors = unit.db.read("failed_batch_errors", id)
    error = f"{part.failure.error_type}: {part.failure.message}"[:500]
    errors = remember(earlier_errors, {"timestamp": part.failure.at, "error": error})
    unit.db.send("set_aside", id, service, source, json.dumps(errors), unit.now + part.after, unit.now)
    return id


def _has_failed_like_this(doc: DocumentRecord, fingerprint: str) -> bool:
    kept = outcomes(read_history(doc.attempts))
    return any(
        outcome.get("fingerprint") == fingerprint and outcome.get("outcome") != GIVEN_BACK for outcome in kept
    )
