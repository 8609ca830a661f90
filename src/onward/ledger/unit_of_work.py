"""The unit of work: rows and documents read in bulk, changed in memory, written back in bulk."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from onward.ledger.breaker_records import BreakerRecords
from onward.ledger.dialect import Database
from onward.ledger.failure_groups import apply_rules, read_rules
from onward.ledger.outcome_counts import OutcomeCounts
from onward.ledger.records import DocumentRecord, RowRecord
from onward.model.breaker import USUAL_RULES, BreakerRules
from onward.model.documents import DocumentKey, Status
from onward.model.failures import Failure, Outcome
from onward.model.group_rules import GroupRules
from onward.model.joins import NewJoin
from onward.model.ledger import (
    NOTHING_LEAVES,
    IndexedText,
    NewDocument,
    OutgoingEvents,
    RowState,
    Subscription,
)
from onward.model.metric_catalogue import bucket_label
from onward.search.postings import storable_text

# What a document is found by. Waiting rows first: what is being packed is then waited for, and found as packed.
_DELETE_DERIVED = (
    "delete_keys",
    "delete_waiting_texts",
    "mark_removed_texts",
    "delete_text_numbers",
    "delete_texts",
    "delete_waiting_vectors",
    "mark_removed_vectors",
    "delete_vectors",
)
_first_columns = attrgetter(*DocumentRecord.__slots__[:11])  # In the order of `insert_documents`
_changing_columns = attrgetter(*DocumentRecord.__slots__[:16])  # In the order of `update_documents`


@dataclass(slots=True)
class CompletedQuota:
    """How many settled events this process still keeps before it prunes them again; None: all.

    A process that settles more events than are kept would write rows only to delete them a second later.
    """

    left: int | None = None

    def take(self, rows: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """Return the rows that are kept, and those that are deleted at once."""
        if self.left is None:
            return rows, ()
        count = min(self.left, len(rows))
        self.left -= count
        return rows[:count], rows[count:]


@dataclass(slots=True)
class UnitOfWork:
    """Everything that one transaction reads and changes. Later steps see the changes of earlier ones."""

    db: Database
    now: float
    outgoing: OutgoingEvents = NOTHING_LEAVES
    breaker_rules: BreakerRules = USUAL_RULES
    completed: CompletedQuota = field(default_factory=CompletedQuota)
    docs: dict[DocumentKey, DocumentRecord | None] = field(default_factory=dict)
    rows: dict[int, RowRecord | None] = field(default_factory=dict)
    woken: set[str] = field(default_factory=set)  # Services that got a new or returned row
    returned: set[str] = field(default_factory=set)  # Services that got a row back which was due before
    released_keys: dict[str, dict[str, set[int]]] = field(default_factory=dict)  # By service and key: their rows
    clock_given: bool = False  # The time is not that of the database, but of a test or simulation
    _published_at: float | None = None
    _unlocked: set[DocumentKey] = field(default_factory=set)  # Documents that were read, but not to be changed
    _generations: dict[str, int] = field(default_factory=dict)
    _subscriptions: list[Subscription] | None = None
    _finished: frozenset[str] | None = None
    _group_rules: GroupRules | None = None
    outcomes: OutcomeCounts = field(init=False)
    breakers: BreakerRecords = field(init=False)
    # What `write` writes.
    _new: dict[DocumentKey, NewDocument] = field(default_factory=dict)
    _changed: set[DocumentKey] = field(default_factory=set)
    _bodies: dict[DocumentKey, str] = field(default_factory=dict)
    _done: list[int] = field(default_factory=list)
    _keys: list[tuple[int, str, Any]] = field(default_factory=list)
    _texts: dict[int, IndexedText] = field(default_factory=dict)
    _vectors: dict[tuple[int, str], bytes] = field(default_factory=dict)
    _status_counts: dict[tuple[str, str, str], int] = field(default_factory=lambda: defaultdict(int))
    _left_batches: dict[str, bool] = field(default_factory=dict)  # True: a document left because it succeeded
    # What `joins.complete_joins` reads.
    ended_members: set[DocumentKey] = field(
        default_factory=set
    )  # Members of joins that are final, or were deleted
    new_joins: list[NewJoin] = field(default_factory=list)
    released_joins: set[int] = field(default_factory=set)  # They may be complete, and are not held any more

    def __post_init__(self) -> None:
        self.outcomes = OutcomeCounts(self.db)
        self.breakers = BreakerRecords(self.db, self.now)

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
            # Sorted: two transactions that lock the same documents must not wait for each other.
            ids.sort()
            for values in (
                self.db.read("documents", collection, ids)
                if to_change
                else self.db.read_unlocked("documents_without_history", collection, ids)
            ):
                doc = DocumentRecord(*values)
                docs[collection, doc.id] = doc
                doc.stored_status = doc.status

    def document(self, key: DocumentKey) -> DocumentRecord | None:
        if key not in self.docs or key in self._unlocked:
            self.read_documents([key])
        return self.docs[key]

    def add_made(self, document: NewDocument, source: str | None) -> bool:
        """Add a document that a work has made; it gets the source of its parent, else `source`, of its event."""
        if document.source is None:
            document.source = source
            if document.parent is not None:
                collection, _, id = document.parent.partition("/")
                if (parent := self.document((collection, id))) is not None:
                    document.source = parent.source
        return self.add(document)

    def add(self, document: NewDocument) -> bool:
        key = (document.collection, document.id)
        if self.document(key) is not None:
            return False
        doc = self.docs[key] = DocumentRecord(
            self.db.reserve("documents"),
            self.first_status(document.collection),
            priority=document.priority,
            size=len(document.body),
            id=document.id,
            source=document.source,
            parent=document.parent,
        )
        if document.failure is not None:
            document.failure = self.grouped(document.failure)
            doc.status = Status.FAILED
            doc.record_failure(document.failure, Outcome.GAVE_UP)
        self._new[key] = document
        return True

    def first_status(self, collection: str) -> Status:
        """Return the status of a new document: pending, if a service finishes its collection."""
        if self._finished is None:
            finished = (subscription.finishes for subscription in self.subscriptions())
            self._finished = frozenset(name for name in finished if name)
        return Status.PENDING if collection in self._finished else Status.PROCESSED

    def change(self, key: DocumentKey) -> None:
        if key not in self._new:
            self._changed.add(key)

    def replace(
        self, key: DocumentKey, body: str, keys: Sequence[tuple[str, Any]] = (), *, keep_results: bool = False
    ) -> bool:
        """Give a document new content; return whether that changed it.

        It becomes `pending`, and the descendants of the old content are removed, unless it keeps its results.
        """
        doc = self.document(key)
        if doc is None:
            return False
        self.write()
        ((_, old),) = self.db.read("bodies", [doc.doc])
        if old == body:
            return False
        self._bodies[key] = body
        if keep_results:
            self.db.send("delete_keys", [doc.doc])
        else:
            self._delete_derived([doc.doc])
        self._keys += [(doc.doc, *pair) for pair in keys]
        doc.revision += 1
        doc.size = len(body)
        if keep_results:
            self.change(key)
            return True
        doc.status = Status.PENDING if doc.round else self.first_status(key[0])
        doc.attempt_count = 0
        doc.last_error = doc.fingerprint = doc.expires = None
        self.change(key)
        for number in (doc.row, doc.dead_letter):
            row = self.row(number) if number is not None else None
            if row is None:
                continue
            alone = len(row.ids) == 1  # others of the row keep their deadline
            if row.cursor is not None or (alone and row.expires is not None):
                row.cursor = None  # it was a position in the old content
                row.expires = None if alone else row.expires
                self.save(row)
        self.write()
        self.remove(children(self.db, [key]))
        return True

    def index_text(self, text: IndexedText) -> None:
        if (doc := self.document((text.collection, text.id))) is not None:
            self._texts[doc.doc] = text

    def index_vector(self, key: DocumentKey, model: str, vector: bytes) -> None:
        if (doc := self.document(key)) is not None:
            self._vectors[doc.doc, model] = vector

    def leave_batch(self, doc: DocumentRecord, *, recovered: bool = False) -> None:
        """Take a document out of its failed batch; a batch that becomes empty is deleted."""
        if doc.failed_batch is not None:
            self._left_batches[doc.failed_batch] = recovered or self._left_batches.get(doc.failed_batch, False)
            doc.failed_batch = None

    def count_status(self, source: str | None, collection: str, before: str, after: str) -> None:
        """Count a document's change of status; an empty status: the document did not, or does no longer, exist."""
        if before:
            self._status_counts[source or "", collection, str(before)] -= 1
        if after:
            self._status_counts[source or "", collection, str(after)] += 1

    def remove(self, keys: Sequence[DocumentKey]) -> int:
        """Remove documents with all that descended from them; return how many there were."""
        removed = 0
        while keys:
            self.write()  # documents that were just added may be children, and must be found below
            removed += self.delete(keys)
            keys = children(self.db, keys)
        return removed

    def delete(self, keys: Sequence[DocumentKey]) -> int:
        """Delete these documents, without their descendants; return how many there were."""
        self.read_documents(keys)
        found = [(key, doc) for key in keys if (doc := self.docs[key]) is not None]
        numbers = [doc.doc for _, doc in found]
        self.db.send("delete_documents", numbers)
        self.db.send("delete_bodies", numbers)
        self._delete_derived(numbers)
        self.docs.update(dict.fromkeys(keys))
        leaving: dict[int, set[str]] = {}
        if failed := Counter(name for _, doc in found if doc.attempts for name in doc.fingerprints()):
            self.db.send("uncount_documents", json.dumps(failed))
        for key, doc in found:
            self.count_status(doc.source, key[0], doc.stored_status, "")
            self.leave_batch(doc)
            if doc.joined:
                self.ended_members.add(key)
            for row in (doc.row, doc.dead_letter):
                if row is not None:
                    leaving.setdefault(row, set()).add(doc.id)
        self.read_rows(leaving)
        for row, ids in leaving.items():
            self.remove_from_row(row, ids)
        return len(found)

    def _delete_derived(self, docs: list[int]) -> None:
        for statement in _DELETE_DERIVED:
            self.db.send(statement, docs)

    # -- rows

    def read_rows(self, ids: Iterable[int]) -> None:
        wanted = [id for id in ids if id not in self.rows]
        if wanted:
            self.rows.update(dict.fromkeys(wanted))
            for values in self.db.read("rows", wanted):
                self.rows[values[0]] = RowRecord(*values)

    def row(self, id: int | None) -> RowRecord | None:
        if id is None:
            return None
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

    def split(self, row: RowRecord, origin: int) -> None:
        """Insert a row that takes over some documents of another one; its key is that of the event, and its id."""
        row.id = self.db.reserve("ledger")
        row.key = f"{row.key.partition('/')[0]}/{row.id}"
        self.rows[row.id] = row
        self.woken.add(row.service)
        self.db.send("split_row", row.stored() | {"origin": origin})

    def finish(self, row: RowRecord) -> None:
        """Settle a row as done; its documents no longer refer to it."""
        if row.state == RowState.WAITING:
            self.db.send("done_rows", self.now, [row.id])
        else:
            self._done.append(row.id)
        self.release_key(row)
        row.state = RowState.DONE
        row.settled_at = self.now
        for key, doc, _ in self.named(row):
            if doc is not None and doc.row == row.id:
                doc.row = None
                self.change(key)

    def release_key(self, row: RowRecord) -> None:
        """Let another row have the key of this one, which is settled or does not hold it while it waits."""
        if row.serial_key is not None and not row.is_parked:
            self.released_keys.setdefault(row.service, {}).setdefault(row.serial_key, set()).add(row.id)

    def named(self, row: RowRecord) -> Iterator[tuple[DocumentKey, DocumentRecord | None, int]]:
        """Yield the documents that a row names, in their present state, each with its round in the row."""
        for id, round in row.ids:
            key = (row.collection or "", id)
            yield key, self.document(key), round

    def keys_of(self, rows: Iterable[int]) -> list[DocumentKey]:
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

    # -- subscriptions, generations, groups

    def per_key(self, service: str) -> str:
        """Return whether a service runs one row at a time for each key (`PerKey`); empty: it does not."""
        return next((one.per_key for one in self.subscriptions() if one.service == service), "")

    def published_at(self) -> float:
        """Return the time of publication by the clock that orders the events of all processes."""
        if self._published_at is None:
            # Not `now`: on a server, each process only estimates its time.
            self._published_at = self.now if self.clock_given else self.db.exact_time()
        return self._published_at

    def subscriptions(self) -> list[Subscription]:
        if self._subscriptions is None:
            self._subscriptions = []
            for stored in self.db.read("subscriptions"):
                values: list[Any] = [tuple(value) if isinstance(value, list) else value for value in stored]
                self._subscriptions.append(Subscription(*values))
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

    def group_rules(self) -> GroupRules:
        if self._group_rules is None:
            self._group_rules = GroupRules(read_rules(self.db))
        return self._group_rules

    def grouped(self, failure: Failure) -> Failure:
        """Return a failure as a member of the group that the rules of this moment put it into."""
        return apply_rules(self.group_rules(), failure)

    # -- writing

    def write(self) -> None:
        db = self.db
        if self._new:
            self._write_new()
        if self._changed:
            self._write_changed()
        if self._done:
            kept, dropped = self.completed.take(self._done)
            if kept:
                db.send("done_rows", self.now, kept)
            if dropped:
                db.send("delete_rows", dropped)
        for statement, rows in (
            ("update_bodies", [(doc.doc, body) for key, body in self._bodies.items() if (doc := self.docs[key])]),
            ("insert_keys", self._keys),
            ("add_status_counts", [(*entry, change) for entry, change in self._status_counts.items() if change]),
        ):
            if rows:
                db.bulk(statement, rows)
        if self._texts:
            self._write_texts()
        if self._vectors:
            self._write_vectors()
        if self._left_batches:
            db.lock("failed batches", sorted(self._left_batches))
            for id, retries, created_at in db.fetch("drop_empty_batches", sorted(self._left_batches)):
                if self._left_batches[id]:
                    observe_total(db, "failed_batch_retries", retries)
                    observe_total(db, "failed_batch_recovery_seconds", max(0.0, self.now - created_at))
        self.outcomes.write(self.now)
        for written in (self._done, self._bodies, self._keys, self._texts, self._vectors, self._status_counts):
            written.clear()
        self._left_batches.clear()

    def _write_new(self) -> None:
        documents, bodies = [], []
        for key, new in self._new.items():
            doc = self.docs[key]
            assert doc is not None, "`remove` writes before it deletes"
            self.count_status(doc.source, key[0], doc.stored_status, doc.status)
            doc.status = doc.stored_status = str(doc.status)
            last = (key[0], self.now, self.now, doc.expires)
            documents.append((*_first_columns(doc), doc.source, doc.id, doc.parent, *last))
            bodies.append((doc.doc, new.body))
            if new.keys:
                self._keys += [(doc.doc, *pair) for pair in new.keys]
        self._new.clear()
        self.db.bulk("insert_documents", documents)
        self.db.bulk("insert_bodies", bodies)

    def _write_texts(self) -> None:
        """Write texts; their terms wait to be packed. What was packed for these documents before is removed."""
        db, texts, docs = self.db, self._texts.items(), list(self._texts)
        waiting = [
            (doc, one.collection, one.terms, one.weights, one.length, one.date, one.facets) for doc, one in texts
        ]
        db.bulk("insert_waiting_texts", waiting)  # first: what is being packed is waited for
        db.send("mark_removed_texts", docs)
        db.send("delete_text_numbers", docs)
        parents = [f"{one.collection}/{one.id}" for _, one in texts]
        db.send("recode_vectors_of_parents", parents)
        db.send("mark_vectors_of_parents", parents)
        parts = [(doc, *map(storable_text, (text.title, text.text, text.quoted))) for doc, text in texts]
        db.bulk("insert_texts", parts)

    def _write_vectors(self) -> None:
        """Write vectors, which wait to be packed; packed codes of those that they replace are removed."""
        db = self.db
        by_model: defaultdict[str, list[int]] = defaultdict(list)
        for doc, model in self._vectors:
            by_model[model].append(doc)
        db.bulk("insert_waiting_vectors", list(self._vectors))  # first: what is being packed is waited for
        for model, docs in by_model.items():
            db.send("mark_replaced_vectors", model, docs)
        db.bulk("insert_vectors", [(*key, vector) for key, vector in self._vectors.items()])

    def _write_changed(self) -> None:
        changed = []
        for key in self._changed:
            if (doc := self.docs[key]) is not None:
                if doc.status != doc.stored_status:
                    self.count_status(doc.source, key[0], doc.stored_status, doc.status)
                    if doc.joined:
                        self.ended_members.add(key)
                doc.status = doc.stored_status = str(doc.status)
                changed.append((*_changing_columns(doc), self.now))
        self._changed.clear()
        self.db.bulk("update_documents", changed)


def children(db: Database, keys: Sequence[DocumentKey]) -> list[DocumentKey]:
    return [(collection, id) for collection, id in db.read("children", [f"{name}/{id}" for name, id in keys])]


def observe_total(db: Database, name: str, value: float) -> None:
    for label, by in ((bucket_label(name, value), 1.0), ("sum", value), ("count", 1.0)):
        db.send("count_total", name, label, by)
