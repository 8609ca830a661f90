"""Making works true: fenced first, then checked, then written, all in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from onward.backends.relational.books import Books, Closed, Doc, Key, Row, requested
from onward.backends.relational.publishing import begin_round, publish
from onward.backends.relational.returning import give_back, give_back_try, to_queue
from onward.model import breaker as breakers
from onward.model.breaker import Strike
from onward.model.documents import Document, Status
from onward.model.events import Envelope
from onward.model.failures import Failure, outcomes, read_history, remember
from onward.model.ledger import (
    Aside,
    Charge,
    Dead,
    DependencyReport,
    Done,
    NewDocument,
    RowState,
    Settled,
    Settlement,
    Verdict,
    Wait,
)


def settle(books: Books, settlements: Sequence[Settlement]) -> list[Settled]:
    """Apply settlements in order; each sees what those before it did."""
    plain = _plain(settlements)
    closed = books.close_rows(plain) if plain else {}
    if len(plain) < len(settlements):
        books.read_rows([one.row for one in settlements if one.row not in plain])
        books.read_generations({row.source for row in books.rows.values() if row is not None})
        books.read_documents(books.keys_of(books.rows))
    books.read_documents(_keys(settlements))
    answers = [
        _add_all(books, settlement, closed) if settlement.row in plain else _settle_one(books, settlement)
        for settlement in settlements
    ]
    books.write()
    for answer in answers[:1]:
        answer.woken = frozenset(books.woken)
    return answers


def _plain(settlements: Sequence[Settlement]) -> dict[int, int]:
    """The rows, with their tokens, of what most events lead to that name no documents.

    They need not be read to be settled: there is nothing to weigh.
    """
    if len({one.row for one in settlements}) < len(settlements):
        return {}  # one of them is not the last word on its row
    return {one.row: one.token for one in settlements if one.collection is None and one.only_adds}


def _add_all(books: Books, settlement: Settlement, closed: Mapping[int, Closed]) -> Settled:
    """A settlement whose row is closed already, if it was its to close."""
    found = closed.get(settlement.row)
    if found is None or found.generation != books.generation(found.source):
        return Settled(Verdict.FENCED)
    for new in settlement.adds:
        _add(books, found.source, new)
    return Settled(Verdict.COMMITTED)


def _keys(settlements: Iterable[Settlement]) -> Iterator[Key]:
    for settlement in settlements:
        if settlement.collection is not None:
            for id, _ in settlement.inputs:
                yield settlement.collection, id
            for part in settlement.parts:
                for id in part.ids:
                    yield settlement.collection, id
        for collection, id, _ in settlement.reads:
            yield collection, id
        for new in settlement.adds:
            yield new.collection, new.id
        for replacement in settlement.replaces:
            yield replacement.collection, replacement.id


def _settle_one(books: Books, settlement: Settlement) -> Settled:
    row = books.rows[settlement.row]
    if row is None or row.state != RowState.CLAIMED or row.token != settlement.token:
        return Settled(Verdict.FENCED)
    if row.generation != books.generation(row.source):
        books.finish(row)
        return Settled(Verdict.FENCED)
    if not _holds(books, settlement):
        give_back(books, row)
        return Settled(Verdict.STALE)
    return _Applied(books, settlement, row).apply()


def _add(books: Books, source: str | None, new: NewDocument) -> bool:
    if new.source is None:
        new.source = _source_of(books, source, new.parent)
    return books.add(new)


def _source_of(books: Books, source: str | None, parent: str | None) -> str | None:
    """What a work makes belongs where its parent does, else where its event does."""
    if parent is not None:
        collection, _, id = parent.partition("/")
        doc = books.document((collection, id))
        if doc is not None:
            return doc.source
    return source


def _holds(books: Books, settlement: Settlement) -> bool:
    """Whether everything the work relied on is still as it was read."""
    collection = settlement.collection or ""
    for id, revision in settlement.inputs:
        doc = books.docs[collection, id]
        if doc is None or doc.final or doc.row != settlement.row or doc.revision != revision:
            return False
    for name, id, revision in settlement.reads:
        doc = books.docs[name, id]
        if doc is None or doc.revision != revision:
            return False
    for one in settlement.replaces:
        doc = books.docs[one.collection, one.id]
        if doc is None or doc.revision != one.revision:
            return False
    return True


class _Applied:
    """One settlement, being applied."""

    __slots__ = ("_row_used", "books", "charged", "fresh", "notices", "origin", "row", "settled", "settlement")

    def __init__(self, books: Books, settlement: Settlement, row: Row) -> None:
        self.books = books
        self.settlement = settlement
        self.row = row
        self.settled = Settled(Verdict.COMMITTED)
        self.origin = row if all(isinstance(part, Done) for part in settlement.parts) else replace(row)
        self.charged: list[Strike] = []
        self.notices: list[tuple[Row | None, Envelope]] = []
        self._row_used = False
        self.fresh = 0
        """Documents that failed as they had not failed before, since this was last asked."""

    def apply(self) -> Settled:
        books, settlement, row = self.books, self.settlement, self.row
        if settlement.removes:
            books.remove(list(settlement.removes))
        for replacement in settlement.replaces:
            key = (replacement.collection, replacement.id)
            replace_content(books, key, replacement.body, replacement.keys)
        for new in settlement.adds:
            if _add(books, row.source, new) and new.failure is not None:
                books.note(row.service, new.collection, new.failure, 1)
        for part in settlement.parts:
            match part:
                case Done():
                    self._finish(part)
                case Wait():
                    self._wait(part)
                case Dead():
                    self._bury(part)
                case Aside():
                    self._set_aside(part)
        for text in settlement.texts:
            books.index(text)
        for vector in settlement.vectors:
            books.place(vector)
        if settlement.emits:
            for envelope in settlement.emits:
                envelope.source = envelope.source or row.source
            published = publish(books, settlement.emits)
            self.settled.duplicates = sum(one.duplicates for one in published)
        self._close_or_keep()
        if settlement.dependencies is not None:
            self._report(settlement.dependencies)
        if self.notices:
            self._give_notice()
        return self.settled

    def _give_notice(self) -> None:
        # Where an outage has brought a dead letter back at once, nothing was given up.
        given_up = [notice for row, notice in self.notices if row is None or row.state == RowState.DEAD]
        for notice in given_up:
            notice.notice = True
        if given_up:
            publish(self.books, given_up)

    def _close_or_keep(self) -> None:
        settlement, row = self.settlement, self.row
        if settlement.closes:
            if self.origin.ids:
                carried = dict(row.ids) if self._row_used else {}
                # A document that nobody spoke for is left for the retry job to find.
                for key, doc in self._owned([id for id, _ in self.origin.ids if id not in carried]):
                    doc.row = None
                    self.books.change(key)
            if not self._row_used:
                self.books.finish(row)
        elif settlement.starts or settlement.cursor is not None:
            row.started = 1 if settlement.starts else row.started
            row.lease = max(row.lease or 0.0, self.books.now + settlement.lease)
            if settlement.cursor is not None and settlement.cursor != row.cursor:
                row.cursor = settlement.cursor
                row.deaths = row.lapses = 0  # it gets on: whatever killed it lies behind it
            self.books.save(row)

    def _finish(self, part: Done) -> None:
        if not part.ids:
            return
        outcome = {
            "at": self.books.now,
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
                # The same for all that succeed at once, as most do.
                if doc.round not in first:
                    first[doc.round] = json.dumps(remember(None, outcome | {"round": doc.round}))
                doc.attempts = first[doc.round]
            else:
                doc.record(outcome | {"round": doc.round})
            self._close_dead_letter(doc)
            self.books.leave_batch(doc, recovered=True)
            self.books.change(key)

    def _owned(self, ids: Sequence[str]) -> list[tuple[Key, Doc]]:
        """Documents of the delivery that are still its own."""
        keys = [(self.row.collection or "", id) for id in ids]
        return [
            (key, doc)
            for key in keys
            if (doc := self.books.document(key)) is not None and doc.row == self.row.id and not doc.final
        ]

    def _close_dead_letter(self, doc: Doc) -> None:
        if doc.dead_letter is not None:
            self.books.leave(doc.dead_letter, [doc.id])
            doc.dead_letter = None

    def _row_for(self, part: Wait | Dead) -> Row | None:
        """The row itself for the first part that goes on; rows split off from it for the others.

        None: all that the part is about has moved on.
        """
        rounds = dict(self.origin.ids)
        pairs: list[tuple[str, int]] = []
        for id in part.ids or rounds:
            key = (self.row.collection or "", id)
            doc = self.books.document(key)
            if doc is not None and doc.untouched and rounds.get(id) == 0 and not doc.final:
                # It came while the event was told that it was missing.
                begin_round(doc, self.row.id, self.books.now)
                self.books.change(key)
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
            self.books.save(self.row)
        return replace(self.origin, id=0, ids=pairs, lapses=0, started=0)

    def _split(self, row: Row) -> Row:
        row.id = self.books.db.reserve("ledger")
        row.key = f"{requested(row.key)}/{row.id}"
        self.books.woken.add(row.service)
        stored = row.stored() | {"origin": self.row.id, "key": row.key, "announced": self.books.unannounced}
        self.books.db.send("split_row", {name: stored[name] for name in _SPLIT})
        self.books.rows[row.id] = row
        return row

    def _wait(self, part: Wait) -> None:
        row = self._row_for(part)
        if row is None:
            return
        ids = [id for id, _ in row.ids]
        row.state = RowState.WAITING
        row.due = self.books.now + part.after if part.until is None else part.until
        row.lease = None
        row.lapses = 0
        row.able += part.able
        row.tries += part.charge is Charge.TRY
        row.not_ready += part.charge is Charge.NOT_READY
        row.deaths = row.deaths if part.deaths is None else part.deaths
        row.batch = part.batch if part.batch is not None else row.batch
        row.settled_at = None
        if part.failure is not None:
            row.record(part.failure.as_dict())
        owned = self._owned(ids)
        row = to_queue(self.books, row) if row.id else self._split(row)
        for key, doc in owned:
            doc.row = row.id
            if part.failure is not None and part.charge is not Charge.NOTHING:
                self._record_failure(doc, part, "retried", row)
            self.books.change(key)
        if part.failure is not None and self._counts(part):
            self._note(part.failure, ids)
        if part.charge is Charge.TRY:
            self.charged.append(Strike(row.id, tuple(ids)))

    def _counts(self, part: Wait) -> bool:
        """Whether a failure is one of its own, and not the halving of a batch that has failed."""
        opens = self.settlement.dependencies is not None and self.settlement.dependencies.opens
        return part.charge is not Charge.NOTHING or bool(opens)

    def _note(self, failure: Failure, ids: Sequence[str]) -> None:
        fresh, self.fresh = self.fresh, 0
        self.books.note(self.row.service, self.row.collection, failure, fresh if ids else 1)

    def _bury(self, part: Dead) -> None:
        row = self._row_for(part)
        if row is None:
            return
        ids = [id for id, _ in row.ids]
        row.state = RowState.DEAD
        row.reason = str(part.reason)
        row.lease = None
        row.settled_at = self.books.now
        row.tries += part.charge is Charge.TRY
        row.not_ready += part.charge is Charge.NOT_READY
        if part.failure is not None:
            row.record(part.failure.as_dict())
            row.fingerprint = part.failure.fingerprint
        earlier = self._earlier_letter(row)
        if earlier is not None:
            row = self._update_letter(earlier, row)
        elif row.id:
            self.books.save(row)
        else:
            self._split(row)
        if part.raw is not None:
            self.books.db.send("keep_raw", part.raw, row.id)
        for key, doc in self._owned(ids):
            if doc.dead_letter != row.id:
                self._close_dead_letter(doc)
            doc.dead_letter = row.id
            doc.row = None
            if part.final:
                doc.status = Status.FAILED
                self.books.leave_batch(doc)
            if part.failure is not None:
                self._record_failure(doc, part, "gave_up", row)
            self.books.change(key)
        if part.failure is not None:
            self._note(part.failure, ids)
        if part.notice is not None:
            part.notice.source = part.notice.source or self.row.source
            self.notices.append((row, part.notice))
        if part.charge is Charge.TRY:
            self.charged.append(Strike(row.id, tuple(ids)))

    def _earlier_letter(self, row: Row) -> Row | None:
        """The dead letter that the one document of a row has already, from an earlier round."""
        owned = self._owned([id for id, _ in row.ids])
        if len(row.ids) != 1 or len(owned) != 1 or owned[0][1].dead_letter is None:
            return None
        found = self.books.row(owned[0][1].dead_letter)
        same = found is not None and found.service == row.service and len(found.ids) == 1
        return found if same and found is not None and found.state in (RowState.DEAD, RowState.ARCHIVED) else None

    def _update_letter(self, letter: Row, row: Row) -> Row:
        """There is one dead letter per service and document: a later round adds to it."""
        for failure in outcomes(json.loads(row.errors) if row.errors else None):
            letter.record(failure)
        letter.state = RowState.DEAD
        letter.ids, letter.round = row.ids, row.round
        letter.reason, letter.settled_at, letter.fingerprint = row.reason, row.settled_at, row.fingerprint
        letter.tries, letter.not_ready, letter.deaths = row.tries, row.not_ready, row.deaths
        self.books.save(letter)
        if row is self.row:
            # Nothing of it has been written: it is free for what else becomes of its delivery.
            gone = dict(row.ids)
            for name in Row.__slots__:
                setattr(row, name, getattr(self.origin, name))
            row.ids = [pair for pair in row.ids if pair[0] not in gone]
            self._row_used = False
        return letter

    def _set_aside(self, part: Aside) -> None:
        for key, doc in self._owned(part.ids):
            doc.row = None
            self._close_dead_letter(doc)
            self._record_failure(doc, part, "set_aside", self.row)
            doc.failed_batch = join_batch(self.books, self.row.service, doc.source, part)
            self.books.change(key)
        self._note(part.failure, part.ids)
        if part.notice is not None:
            part.notice.source = part.notice.source or self.row.source
            self.notices.append((None, part.notice))

    def _record_failure(self, doc: Doc, part: Wait | Dead | Aside, outcome: str, row: Row) -> None:
        assert part.failure is not None, "only failures are recorded"
        about: dict[str, Any] = part.failure.as_dict()
        about.pop("traceback", None)
        about |= {"outcome": outcome, "round": doc.round, "try": row.tries}
        if not _failed_so_before(doc, part.failure.fingerprint):
            self.fresh += 1
        doc.record(about)
        doc.last_error = json.dumps(about)
        doc.fingerprint = part.failure.fingerprint
        doc.last_attempt_time = self.books.now
        doc.retry_at = None  # what an operator wanted has been done

    # -- dependencies

    def _report(self, report: DependencyReport) -> None:
        books = self.books
        if report.struck or report.opens or report.paused or not all(map(self._is_quiet, report.succeeded)):
            books.lock_breakers()
        for dependency in report.succeeded:
            before = books.breaker(dependency)
            after = breakers.succeeded(before, self.row.id, books.now)
            books.save_breaker(after)
            if before.open and not after.open:
                self.settled.closed = (*self.settled.closed, dependency)
        if report.paused is not None:
            books.save_breaker(breakers.paused(books.breaker(report.paused), books.now + report.pause))
        if report.opens is not None and not books.breaker(report.opens).open:
            self._open(report.opens, report)
        elif struck := report.opens or report.struck:
            self._strike(struck, report)

    def _is_quiet(self, dependency: str) -> bool:
        return self.books.breaker(dependency).quiet

    def _strike(self, dependency: str, report: DependencyReport) -> None:
        before = self.books.breaker(dependency)
        if before.open:
            # Under way when it opened, or its probe: an outage burns nothing. A probe goes to the back,
            # so that the next one is another document.
            later = (before.next_probe or self.books.now) + 1.0
            for strike in self.charged:
                give_back_try(self.books, strike, due=later if strike.row == before.probe_row else None)
            return
        after = before
        for strike in self.charged or [Strike(self.row.id, tuple(report.ids), charged=False)]:
            after = breakers.struck(after, strike, self.books.now, report.reason)
            if after.open:
                for charged in (*before.strikes, *self.charged):
                    give_back_try(self.books, charged)
                self.settled.opened = (*self.settled.opened, dependency)
                break
        self.books.save_breaker(after)

    def _open(self, dependency: str, report: DependencyReport) -> None:
        open_breaker(self.books, dependency, report.reason, report.remedy)
        for strike in self.charged:
            give_back_try(self.books, strike)
        self.settled.opened = (*self.settled.opened, dependency)


_SPLIT = (
    "id", "state", "key", "ids", "due", "tries", "not_ready", "able", "deaths", "batch", "cursor", "errors",
    "reason", "settled_at", "fingerprint", "origin", "announced",
)  # fmt: skip


def open_breaker(books: Books, dependency: str, reason: str, remedy: str = "", *, by_hand: bool = False) -> None:
    books.lock_breakers()
    before = books.breaker(dependency)
    for strike in before.strikes:
        give_back_try(books, strike)
    books.save_breaker(breakers.opened(before, books.now, reason, remedy, by_hand=by_hand))


def join_batch(books: Books, service: str, source: str | None, part: Aside) -> str:
    """Find or begin the failed batch of a source, and add an error to its history."""
    id = Document.make_id("failed batch", service, source or "")
    books.db.lock("failed batches", [id])
    known = books.db.read("failed_batch_errors", id)
    error = f"{part.failure.error_type}: {part.failure.message}"[:500]
    errors = remember(known, {"timestamp": part.failure.at, "error": error})
    books.db.send("set_aside", id, service, source, json.dumps(errors), books.now + part.after, books.now)
    return id


def _failed_so_before(doc: Doc, fingerprint: str) -> bool:
    return any(one.get("fingerprint") == fingerprint for one in outcomes(read_history(doc.attempts)))


def replace_content(books: Books, key: Key, body: str, keys: Sequence[tuple[str, Any]] = ()) -> bool:
    """New content begins anew: `pending`, and without what descended from the old."""
    doc = books.document(key)
    if doc is None or not books.replace_body(key, body, keys):
        return False
    doc.status = Status.PENDING if doc.round else books.first_status(key[0])
    doc.attempt_count = 0
    doc.last_error = doc.fingerprint = None
    books.change(key)
    for number in (doc.row, doc.dead_letter):
        row = books.row(number) if number is not None else None
        if row is not None and row.cursor is not None:
            row.cursor = None  # it told how far the old content was done
            books.save(row)
    books.write()
    children = books.db.read("children", [f"{key[0]}/{key[1]}"])
    books.remove([tuple(child) for child in children])
    return True


def add_outside(books: Books, documents: Sequence[NewDocument]) -> int:
    books.read_documents((one.collection, one.id) for one in documents)
    added = sum(books.add(document) for document in documents)
    books.write()
    return added
