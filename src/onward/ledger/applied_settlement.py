"""What a settlement changes: its row, its documents, the rows that are split off, and the notices that leave."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from onward.ledger.breakers import (
    OTHERS_SUCCEEDED,
    Attribution,
    attribute_failure,
    record_strikes,
    strikes_of,
    without_charges,
)
from onward.ledger.failure_groups import CountedFailure, made_by
from onward.ledger.publish import begin_round, later_deadline, publish
from onward.ledger.records import DocumentRecord, RowRecord
from onward.ledger.requeue import DEAD_STATES, put_in_queue
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.breaker import Strike
from onward.model.documents import Document, DocumentKey, Status
from onward.model.events import Envelope
from onward.model.failures import SUCCEEDED, Failure, Outcome, outcomes, read_history, remember
from onward.model.joins import NewJoin
from onward.model.ledger import (
    MAX_RAW_BYTES,
    Charge,
    CommitResult,
    CommitStatus,
    DeadLettered,
    Expired,
    InFailedBatch,
    Processed,
    RetryLater,
    RowState,
    Settlement,
    SettlementPart,
)


@dataclass(slots=True)
class AppliedSettlement:
    """One settlement that is being applied to its row and documents."""

    unit: UnitOfWork
    settlement: Settlement
    row: RowRecord
    origin: RowRecord  # The row as it was before a part has changed it
    attribution: Attribution = field(default_factory=Attribution)
    strikes: list[Strike] = field(default_factory=list)  # Failures that were charged or given back
    notices: list[tuple[RowRecord | None, Envelope]] = field(default_factory=list)
    first_failures: int = 0  # Documents with a new fingerprint since the last call of `_count_failure`
    _row_used: bool = False
    _row_fails_anew: bool = True  # The row of the last call of `_row_for` has not failed like this before

    def apply(self) -> CommitResult:
        unit, settlement, row = self.unit, self.settlement, self.row
        result, parts = CommitResult(CommitStatus.COMMITTED), self._grouped(settlement.parts)
        if settlement.dependencies is not None:
            # Before anything is charged: the attribution decides what is charged.
            self.attribution = attribute_failure(unit, row, settlement.dependencies, parts)
            result.opened, result.closed = self.attribution.opened, self.attribution.closed
            if self.attribution.retry_at is not None:
                parts = result.parts = without_charges(parts, self.attribution.retry_at)
        if any(not isinstance(part, Processed) for part in settlement.parts):
            self.origin = replace(row)
        if settlement.removes:
            unit.remove(settlement.removes)
        for replacement in settlement.replaces:
            key = (replacement.collection, replacement.id)
            unit.replace(key, replacement.body, replacement.keys, keep_results=replacement.keeps_results)
        for new in settlement.adds:
            if not unit.add_made(new, row.source):
                continue
            by = made_by(row.service, new.collection)
            if new.failure is None:
                unit.outcomes.add_success(by, settlement.version, 1)
            else:
                counted = CountedFailure(row.service, new.collection, new.failure, 1, settlement.began, by=by)
                unit.outcomes.add_failure(counted)
        for part in parts:
            match part:
                case Processed():
                    self._finish(part)
                case RetryLater():
                    self._wait(part)
                case DeadLettered():
                    self._dead_letter(part)
                case InFailedBatch():
                    self._set_aside(part)
                case Expired():
                    self._expire(part)
        for text in settlement.texts:
            unit.index_text(text)
        for vector in settlement.vectors:
            unit.index_vector((vector.collection, vector.id), vector.model, vector.vector)
        if settlement.emits:
            for envelope in settlement.emits:
                envelope.source = envelope.source or row.source
            result.duplicates = sum(event.duplicates for event in publish(unit, settlement.emits))
        if settlement.joins:
            unit.new_joins += self._joins()
        self._close_or_keep()
        if settlement.dependencies is not None and (name := self.attribution.strikes_on) is not None:
            strikes = self.strikes or strikes_of(row, settlement.dependencies, parts)
            record_strikes(unit, name, strikes, settlement.dependencies.reason)
        given_up = [notice for row, notice in self.notices if row is None or row.state == RowState.DEAD]
        for notice in given_up:
            notice.notice = True
            notice.source = notice.source or self.row.source
        if given_up:
            publish(unit, given_up)
        return result

    def _grouped(self, parts: Sequence[SettlementPart]) -> Sequence[SettlementPart]:
        """Return the parts with each failure in the group that it counts with."""
        if all(isinstance(part, Processed | Expired) or part.failure is None for part in parts):
            return parts
        return [
            part
            if isinstance(part, Processed | Expired) or part.failure is None
            else replace(part, failure=self.unit.grouped(part.failure))
            for part in parts
        ]

    def _joins(self) -> list[NewJoin]:
        """Return its joins. Those of a checkpoint also wait for its documents, whose handler may add members."""
        settlement = self.settlement
        inputs = settlement.inputs if settlement.cursor is not None else ()
        holders = [(settlement.collection or "", id) for id, _ in inputs]
        for join in settlement.joins:
            join.then.source = join.then.source or self.row.source
        return [replace(join, holders=holders) for join in settlement.joins]

    def _close_or_keep(self) -> None:
        settlement, row = self.settlement, self.row
        if settlement.closes:
            if self.origin.ids:
                carried = dict(row.ids) if self._row_used else {}
                # The retry job will find a document that no part of the settlement names.
                for key, doc in self._owned(id for id, _ in self.origin.ids if id not in carried):
                    doc.row = None
                    self.unit.change(key)
            if not self._row_used:
                self.unit.finish(row)
        elif settlement.starts or settlement.cursor is not None:
            row.started = 1 if settlement.starts else row.started
            if settlement.lease and row.worker is not None:
                self.unit.db.send("hold_lease", row.worker, self.unit.now + settlement.lease)
            if settlement.cursor is not None and settlement.cursor != row.cursor:
                row.cursor = settlement.cursor
                row.deaths = row.lapses = 0  # the checkpoint is behind what crashed it
            self.unit.save(row)

    def _owned(self, ids: Iterable[str]) -> list[tuple[DocumentKey, DocumentRecord]]:
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

    def _finish(self, part: Processed) -> None:
        settlement = self.settlement
        about = {"worker": settlement.worker, "version": settlement.version}
        outcome = {"at": self.unit.now, "outcome": Outcome.PROCESSED, **about}
        first: dict[int, str] = {}
        owned = self._owned(part.ids)
        done = len(owned) if settlement.collection is not None else 1
        self.unit.outcomes.add_success(self.row.service, settlement.version, done)
        for key, doc in owned:
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

    def _expire(self, part: Expired) -> None:
        if not self._row_used:
            self.row.reason = str(Outcome.EXPIRED)
            self.unit.save(self.row)
        for key, doc in self._owned(part.ids):
            doc.status = Status.DISCARDED
            doc.row = doc.retry_at = None
            doc.record({"at": self.unit.now, "outcome": Outcome.EXPIRED, "round": doc.round})
            self._close_dead_letter(doc)
            self.unit.leave_batch(doc)
            self.unit.change(key)

    def _row_for(self, part: RetryLater | DeadLettered) -> RowRecord | None:
        """Return the delivery's row for the first part that keeps a row; for other parts, a row split off from it.

        What the part costs is charged to the row. None: no document of the part belongs to the delivery any more.
        """
        rounds = dict(self.origin.ids)
        pairs: list[tuple[str, int]] = []
        for id in part.ids or rounds:
            key = (self.row.collection or "", id)
            doc = self.unit.document(key)
            if doc is not None and doc.untouched and rounds.get(id) == 0 and not doc.final:
                # It was added while the event was being tried without it.
                begin_round(doc, self.row.id, self.unit.now, self.row.expires)
                self.unit.change(key)
            if doc is not None and doc.row == self.row.id and not doc.final:
                pairs.append((id, doc.round))
            elif doc is None and rounds.get(id) == 0:
                pairs.append((id, 0))
        if (part.ids or rounds) and not pairs:
            return None
        row = self.row
        if self.settlement.closes and not self._row_used:
            self._row_used = True
            row.ids = pairs
        else:
            gone = dict(pairs)
            row.ids = [pair for pair in row.ids if pair[0] not in gone]
            if not self.settlement.closes:
                self.unit.save(row)
            row = replace(self.origin, id=0, ids=pairs, lapses=0, started=0)
        row.tries += part.charge is Charge.TRY
        row.not_ready += part.charge is Charge.NOT_READY
        if part.failure is not None:
            known = outcomes(read_history(row.errors))
            self._row_fails_anew = all(one.get("fingerprint") != part.failure.fingerprint for one in known)
            row.record(part.failure.as_dict())
        return row

    def _wait(self, part: RetryLater) -> None:
        row = self._row_for(part)
        if row is None:
            return
        row.state = RowState.WAITING
        row.due = self.unit.now + part.after if part.until is None else part.until
        row.lapses = 0
        row.able += part.able
        row.given_back += part.given_back
        row.deaths = row.deaths if part.deaths is None else part.deaths
        row.batch = part.batch if part.batch is not None else row.batch
        row.settled_at = None
        ids = [id for id, _ in row.ids]
        owned = self._owned(ids)
        if part.own_deadline and owned:
            row.expires = reduce(later_deadline, (doc.expires for _, doc in owned))
        if row.id:
            row = put_in_queue(self.unit, row)
        else:
            self.unit.split(row, self.row.id)
        for key, doc in owned:
            doc.row = row.id
            if part.failure is not None and part.charge is not Charge.NOTHING:
                self._record_failure(doc, part.failure, Outcome.RETRIED, row.tries)
            elif part.failure is not None and part.given_back:
                self.first_failures += _fails_anew(doc, part.failure)
                doc.record_failure(part.failure, Outcome.GIVEN_BACK, **{"try": row.tries})
            self.unit.change(key)
        # Not for the halves of a batch: their failure is not charged to a document yet.
        if part.failure is not None and (part.charge is not Charge.NOTHING or part.given_back):
            self._count_failure(part.failure, ids)
        if part.charge is Charge.TRY or part.given_back:
            self.strikes.append(Strike(row.id, tuple(ids), charged=not part.given_back))

    def _dead_letter(self, part: DeadLettered) -> None:
        row = self._row_for(part)
        if row is None:
            return
        self.unit.release_key(row)
        row.state = RowState.DEAD
        row.reason = str(part.reason)
        row.settled_at = self.unit.now
        if part.failure is not None:
            row.fingerprint = part.failure.fingerprint
        ids = [id for id, _ in row.ids]
        earlier = self._earlier_dead_letter(row)
        if earlier is not None:
            self._update_dead_letter(earlier, row)
            row = earlier
        elif row.id:
            self.unit.save(row)
        else:
            self.unit.split(row, self.row.id)
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
                self._record_failure(doc, part.failure, Outcome.GAVE_UP, row.tries)
            self.unit.change(key)
        if part.failure is not None:
            self._count_failure(part.failure, ids)
        if part.notice is not None:
            self.notices.append((row, part.notice))
        if part.charge is Charge.TRY:
            self.strikes.append(Strike(row.id, tuple(ids)))

    def _earlier_dead_letter(self, row: RowRecord) -> RowRecord | None:
        """Return the dead letter of an earlier round, if the row has one document and that document has one."""
        owned = self._owned(id for id, _ in row.ids)
        earlier = self.unit.row(owned[0][1].dead_letter) if len(row.ids) == len(owned) == 1 else None
        if earlier is None or earlier.service != row.service or len(earlier.ids) != 1:
            return None
        return earlier if earlier.state in DEAD_STATES else None

    def _update_dead_letter(self, dead_letter: RowRecord, row: RowRecord) -> None:
        """Add a later round to the existing dead letter: a document has one per service."""
        self.unit.read_errors([dead_letter.id])
        for failure in outcomes(read_history(row.errors)):
            dead_letter.record(failure)
        dead_letter.state = RowState.DEAD
        for name in ("ids", "round", "reason", "settled_at", "fingerprint", "tries", "not_ready", "deaths"):
            setattr(dead_letter, name, getattr(row, name))
        self.unit.save(dead_letter)
        if row is self.row:
            # Nothing of the row was written: it can be used for another part.
            gone = dict(row.ids)
            for name in RowRecord.__slots__:
                setattr(row, name, getattr(self.origin, name))
            row.ids = [pair for pair in row.ids if pair[0] not in gone]
            self._row_used = False

    def _set_aside(self, part: InFailedBatch) -> None:
        for key, doc in self._owned(part.ids):
            doc.row = None
            self._close_dead_letter(doc)
            self._record_failure(doc, part.failure, Outcome.SET_ASIDE, self.origin.tries + 1)
            doc.failed_batch = self._join_failed_batch(doc.source, part)
            self.unit.change(key)
        self._count_failure(part.failure, part.ids)
        if part.notice is not None:
            self.notices.append((None, part.notice))

    def _join_failed_batch(self, source: str | None, part: InFailedBatch) -> str:
        """Add an error to the failed batch of a source, which is made if there is none; return the batch's id."""
        db, now, service = self.unit.db, self.unit.now, self.row.service
        id = Document.make_id("failed batch", service, source or "")
        db.lock("failed batches", [id])
        error = f"{part.failure.error_type}: {part.failure.message}"[:500]
        errors = remember(db.read("failed_batch_errors", id), {"timestamp": part.failure.at, "error": error})
        db.send("set_aside", id, service, source, json.dumps(errors), now + part.after, now)
        return id

    def _record_failure(self, doc: DocumentRecord, failure: Failure, outcome: Outcome, tries: int) -> None:
        """Record a failure that is charged to a document."""
        # The retry job compares it with that of later failures: has anything else succeeded in between?
        more = {"try": tries, SUCCEEDED: self.unit.outcomes.success_count(self.row.service)}
        if self.attribution.known_as_own or (outcome is not Outcome.RETRIED and self.attribution.others_succeeded):
            more[OTHERS_SUCCEEDED] = True
        self.first_failures += _fails_anew(doc, failure)
        doc.record_failure(failure, outcome, **more)
        doc.last_attempt_time = self.unit.now
        doc.retry_at = None  # the retry that an operator has scheduled was made

    def _count_failure(self, failure: Failure, ids: Sequence[str]) -> None:
        first_failures, self.first_failures = self.first_failures, 0
        documents = first_failures if ids else int(self._row_fails_anew)
        about = (self.row.service, self.row.collection, failure, documents, self.settlement.began)
        self.unit.outcomes.add_failure(CountedFailure(*about))


def _fails_anew(doc: DocumentRecord, failure: Failure) -> bool:
    """Return whether a document has not failed like this before, as far as its history goes back."""
    return all(kept.get("fingerprint") != failure.fingerprint for kept in outcomes(read_history(doc.attempts)))
