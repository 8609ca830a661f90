"""The unit of work: rows and documents read in bulk, changed in memory, written back in bulk."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onward.ledger.derived_rows import DerivedRows, delete_derived_rows
from onward.ledger.dialect import Database
from onward.ledger.failure_groups import CountedFailure
from onward.ledger.records import ClosedRow, DocumentRecord, RowRecord
from onward.model.breaker import Breaker, current
from onward.model.documents import DocumentKey, Status
from onward.model.failures import Failure
from onward.model.ledger import IndexedText, IndexedVector, NewDocument, RowState, Subscription

MAX_OPENINGS = 1_000  # Openings of a breaker that are kept, for each dependency


@dataclass(slots=True)
class UnitOfWork:
    """Everything that one transaction reads and changes. Later steps see the changes of earlier ones."""

    db: Database
    now: float
    docs: dict[DocumentKey, DocumentRecord | None] = field(default_factory=dict)
    rows: dict[int, RowRecord | None] = field(default_factory=dict)
    _unlocked: set[DocumentKey] = field(default_factory=set)
    """Documents that were read without locking them, as they are not to be changed."""
    _generations: dict[str, int] = field(default_factory=dict)
    _subscriptions: list[Subscription] | None = None
    _finished: frozenset[str] | None = None
    _breakers: dict[str, Breaker] | None = None
    _breakers_locked: bool = False
    _new: dict[DocumentKey, NewDocument] = field(default_factory=dict)
    _changed: set[DocumentKey] = field(default_factory=set)
    _bodies: dict[DocumentKey, str] = field(default_factory=dict)
    _done: list[int] = field(default_factory=list)
    _derived: DerivedRows = field(default_factory=DerivedRows)
    woken: set[str] = field(default_factory=set)  # Services that got a new or returned row

    # -- documents

    def read_documents(self, keys: Iterable[DocumentKey], *, to_change: bool = True) -> None:
        """Read the state of documents that were not read yet; if they are to be changed, lock them."""
        wanted: dict[str, list[str]] = {}
        docs, unlocked = self.docs, self._unlocked
        for key in keys:
            if key not in docs or (to_change and key in unlocked):
                docs[key] = None
                unlocked.discard(key) if to_change else unlocked.add(key)
                wanted.setdefault(key[0], []).append(key[1])
        for collection, ids in wanted.items():
            read = self.db.read if to_change else self.db.read_unlocked
            # Sorted: two transactions that lock the same documents must not wait for each other.
            for values in read("documents", collection, sorted(ids)):
                doc = self.docs[collection, values[1]] = DocumentRecord(*values)
                doc.stored_status = doc.status

    def document(self, key: DocumentKey) -> DocumentRecord | None:
        if key not in self.docs or key in self._unlocked:
            self.read_documents([key])
        return self.docs[key]

    def add(self, document: NewDocument) -> bool:
        """Add a document if it does not exist; return whether it was added."""
        key = (document.collection, document.id)
        if self.document(key) is not None:
            return False
        doc = self.docs[key] = DocumentRecord(
            self.db.reserve("documents"),
            document.id,
            status=self.first_status(document.collection),
            priority=document.priority,
            source=document.source,
            parent=document.parent,
            size=len(document.body),
        )
        if document.failure is not None:
            doc.status = Status.FAILED
            about = document.failure.as_dict() | {"outcome": "gave_up", "round": 0}
            about.pop("traceback", None)
            doc.last_error = json.dumps(about)
            doc.fingerprint = document.failure.fingerprint
            doc.record(about)
        self._new[key] = document
        return True

    def first_status(self, collection: str) -> Status:
        """Return the status of a new document: pending, if a service finishes its collection."""
        if self._finished is None:
            collections = (subscription.finishes for subscription in self.subscriptions())
            self._finished = frozenset(collection for collection in collections if collection)
        return Status.PENDING if collection in self._finished else Status.PROCESSED

    def change(self, key: DocumentKey) -> None:
        if key not in self._new:
            self._changed.add(key)

    def replace_body(self, key: DocumentKey, body: str, keys: Sequence[tuple[str, Any]] = ()) -> bool:
        """Give a document new content; return whether that changed it."""
        doc = self.docs[key]
        assert doc is not None, "the caller has checked that the document exists"
        self.write()
        ((_, old),) = self.db.read("bodies", [doc.doc])
        if old == body:
            return False
        self._bodies[key] = body
        doc.revision += 1
        doc.size = len(body)
        self.change(key)
        delete_derived_rows(self.db, [doc.doc])
        self._derived.add_keys(doc.doc, keys)
        return True

    def index_text(self, text: IndexedText) -> None:
        doc = self.document((text.collection, text.id))
        if doc is not None:
            self._derived.texts[doc.doc] = (doc.doc, text.title, text.text, text.quoted)

    def index_vector(self, vector: IndexedVector) -> None:
        doc = self.document((vector.collection, vector.id))
        if doc is not None:
            self._derived.vectors[doc.doc] = (doc.doc, vector.model, vector.vector)

    def leave_batch(self, doc: DocumentRecord, *, recovered: bool = False) -> None:
        """Take a document out of its failed batch; a batch that becomes empty is deleted."""
        if doc.failed_batch is not None:
            self._derived.left_batches.add(doc.failed_batch)
            if recovered:
                self._derived.recovered_batches.add(doc.failed_batch)
            doc.failed_batch = None

    def count_failure(self, service: str, collection: str | None, failure: Failure, documents: int) -> None:
        """Count a failure in its group."""
        self._derived.failures.append(CountedFailure(service, collection, failure, documents))

    def remove(self, keys: Sequence[DocumentKey]) -> None:
        """Remove documents with all that descended from them."""
        while keys:
            self.write()  # documents that were just added may be children, and must be found below
            self.delete(keys)
            keys = [tuple(child) for child in self.db.read("children", [f"{c}/{i}" for c, i in keys])]

    def delete(self, keys: Sequence[DocumentKey]) -> int:
        """Delete these documents, without their descendants; return how many there were."""
        self.read_documents(keys)
        found = [doc for key in keys if (doc := self.docs[key]) is not None]
        numbers = [doc.doc for doc in found]
        self.db.send("delete_documents", numbers)
        self.db.send("delete_bodies", numbers)
        delete_derived_rows(self.db, numbers)
        for key in keys:
            if (gone := self.docs[key]) is not None:
                self._derived.count_status(gone.source, key[0], gone.stored_status, "")
                self.leave_batch(gone)
        self.docs.update(dict.fromkeys(keys))
        leaving: dict[int, set[str]] = {}
        for doc in found:
            for row in (doc.row, doc.dead_letter):
                if row is not None:
                    leaving.setdefault(row, set()).add(doc.id)
        self.read_rows(leaving)
        for number, ids in leaving.items():
            self.remove_from_row(number, ids)
        return len(found)

    # -- rows

    def read_rows(self, ids: Iterable[int]) -> None:
        wanted = [id for id in ids if id not in self.rows]
        if wanted:
            self.rows.update(dict.fromkeys(wanted))
            for values in self.db.read("rows", wanted):
                self.rows[values[0]] = RowRecord(*values)

    def row(self, id: int) -> RowRecord | None:
        if id not in self.rows:
            self.read_rows([id])
        return self.rows[id]

    def read_errors(self, ids: Iterable[int]) -> None:
        """Read the failures of rows that are about to fail again, or to be split."""
        unread = {id: row for id in ids if (row := self.row(id)) is not None and row.errors is None}
        if unread:
            for id, errors in self.db.read("row_errors", list(unread)):
                unread[id].errors = errors

    def save(self, row: RowRecord) -> None:
        """Write a row at once, because a waiting duplicate is looked up in the database."""
        self.db.send("update_row", row.stored())

    def free_key(self, number: int) -> None:
        """Take the idempotency key from a waiting row, for another row that asks for more."""
        self.db.send("free_key", number)
        if (row := self.rows.get(number)) is not None:
            row.key += f"/{number}"

    def finish(self, row: RowRecord) -> None:
        """Settle a row as done; its documents no longer refer to it."""
        if row.state == RowState.WAITING:
            self.db.send("done_rows", self.now, [row.id])
        else:
            self._done.append(row.id)
        row.state = RowState.DONE
        row.settled_at = self.now
        if row.ids:
            for key, doc, _ in self.named(row):
                if doc is not None and doc.row == row.id:
                    doc.row = None
                    self.change(key)

    def close_rows(self, held: Mapping[int, int]) -> dict[int, ClosedRow]:
        """Settle rows that name no documents; return those that were still claimed under these tokens."""
        tokens: dict[int, list[int]] = {}
        for row, token in held.items():
            tokens.setdefault(token, []).append(row)
        closed: dict[int, ClosedRow] = {}
        for token, rows in tokens.items():  # most rows have the token of a first claim
            closed.update(
                {found[0]: ClosedRow(*found) for found in self.db.fetch("close_rows", self.now, rows, token)}
            )
        self.read_generations({row.source for row in closed.values()})
        return closed

    def named(self, row: RowRecord) -> Iterator[tuple[DocumentKey, DocumentRecord | None, int]]:
        """Yield the documents that a row names, in their present state, each with its round in the row."""
        for id, round in row.ids:
            key = (row.collection or "", id)
            yield key, self.document(key), round

    def keys_of(self, rows: Iterable[int]) -> list[DocumentKey]:
        """Return the keys of all documents that these rows name."""
        found = [row for number in rows if (row := self.rows[number]) is not None]
        return [(row.collection or "", id) for row in found for id, _ in row.ids]

    def remove_from_row(self, number: int, ids: Collection[str]) -> None:
        """Remove documents from an unsettled row; a row without documents is done."""
        row = self.row(number)
        if row is None or row.state == RowState.DONE:
            return
        row.ids = [pair for pair in row.ids if pair[0] not in ids]
        if row.ids:
            self.save(row)
        else:
            self.finish(row)

    # -- subscriptions, generations, breakers

    def subscriptions(self) -> list[Subscription]:
        if self._subscriptions is None:
            self._subscriptions = [
                Subscription(
                    service, event_type, finishes, field, tuple(naming), tuple(needs), queue, version, tuple(was)
                )
                for service, event_type, finishes, field, naming, needs, queue, version, was in self.db.read(
                    "subscriptions"
                )
            ]
        return self._subscriptions

    def generation(self, source: str | None) -> int:
        if source is None:
            return 0
        if source not in self._generations:
            self.read_generations([source])
        return self._generations[source]

    def read_generations(self, sources: Iterable[str | None]) -> None:
        wanted = sorted({source for source in sources if source is not None} - self._generations.keys())
        if wanted:
            self._generations.update(dict.fromkeys(wanted, 0))
            self._generations.update(dict(self.db.read("generations", wanted)))

    def breaker(self, dependency: str) -> Breaker:
        if self._breakers is None:
            found = [current(Breaker.from_dict(stored), self.now) for stored in self.db.read("breakers")]
            self._breakers = {breaker.dependency: breaker for breaker in found}
        return self._breakers.get(dependency) or Breaker(dependency)

    def lock_breakers(self) -> None:
        """Lock all breakers until the end, and read them again, for they may have changed before."""
        if not self._breakers_locked:
            self._breakers_locked = True
            if self.db.lock("breakers"):
                self._breakers = None

    def save_breaker(self, breaker: Breaker) -> None:
        before = self.breaker(breaker.dependency)
        if breaker == before:
            return
        assert self._breakers is not None, "breaker() has read them"
        self._breakers[breaker.dependency] = breaker
        if breaker.quiet:
            self.db.send("drop_breaker", breaker.dependency)
        else:
            self.db.send("save_breaker", breaker.dependency, json.dumps(breaker.as_dict()))
        if breaker.open and not before.open:
            self.db.send("log_opening", breaker.dependency, self.now, breaker.reason, breaker.remedy)
            self.db.send("prune_openings", breaker.dependency, MAX_OPENINGS)
        elif before.open and not breaker.open:
            self.db.send("log_closing", self.now, breaker.dependency)

    # -- writing

    def write(self) -> None:
        """Write all changes so far."""
        if self._new:
            self._write_new()
        if self._changed:
            self._write_changed()
        if self._bodies:
            bodies = [(doc.doc, body) for key, body in self._bodies.items() if (doc := self.docs[key])]
            self.db.bulk("update_bodies", bodies)
            self._bodies.clear()
        if self._done:
            self.db.send("done_rows", self.now, self._done)
            self._done.clear()
        self._derived.write(self.db, self.now)

    def _write_new(self) -> None:
        documents, bodies = [], []
        for key, new in self._new.items():
            doc = self.docs[key]
            assert doc is not None, "`remove` writes before it deletes"
            documents.append(
                (
                    doc.doc,
                    key[0],
                    doc.id,
                    str(doc.status),
                    doc.attempt_count,
                    doc.last_attempt_time,
                    self.now,
                    self.now,
                    doc.last_error,
                    doc.attempts,
                    doc.priority,
                    doc.round,
                    doc.row,
                    doc.source,
                    doc.parent,
                    doc.size,
                    doc.fingerprint,
                )
            )
            bodies.append((doc.doc, new.body))
            if new.keys:
                self._derived.add_keys(doc.doc, new.keys)
            self._derived.count_status(doc.source, key[0], doc.stored_status, doc.status)
            doc.stored_status = doc.status
        self._new.clear()
        self.db.bulk("insert_documents", documents)
        self.db.bulk("insert_bodies", bodies)

    def _write_changed(self) -> None:
        for key in self._changed:
            doc = self.docs[key]
            if doc is not None and doc.status != doc.stored_status:
                self._derived.count_status(doc.source, key[0], doc.stored_status, doc.status)
                doc.stored_status = doc.status
        changed = [
            (
                doc.doc,
                str(doc.status),
                doc.attempt_count,
                doc.last_attempt_time,
                self.now,
                doc.last_error,
                doc.attempts,
                doc.retry_at,
                doc.priority,
                doc.revision,
                doc.round,
                doc.row,
                doc.dead_letter,
                doc.size,
                doc.failed_batch,
                doc.fingerprint,
            )
            for key in self._changed
            if (doc := self.docs[key]) is not None
        ]
        self._changed.clear()
        self.db.bulk("update_documents", changed)
