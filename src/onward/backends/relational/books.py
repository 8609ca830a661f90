"""The unit of work: rows and documents read in bulk, changed in memory, written back in bulk."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from onward.backends.relational.database import Database
from onward.backends.relational.findings import Findings, forget_findings
from onward.backends.relational.noting import Noted
from onward.model.breaker import Breaker
from onward.model.documents import FINAL, Status
from onward.model.failures import Failure, read_history, remember
from onward.model.ledger import IndexedText, NewDocument, PlacedVector, RowState, Subscription

Key = tuple[str, str]
NO_WIRE = 0.0
"""Noted of a row where there is no wire to tell."""


def requested(key: str) -> str:
    """The idempotency key of what was asked for; a row split off adds its number, to be unique."""
    return key.partition("/")[0]


@dataclass(slots=True)
class Doc:
    """A document's state, as a transaction sees and changes it."""

    doc: int
    id: str
    status: str = Status.PENDING
    attempt_count: int = 0
    last_attempt_time: float | None = None
    last_error: str | None = None
    attempts: str | None = None
    retry_at: float | None = None
    priority: int = 0
    revision: int = 1
    round: int = 0
    row: int | None = None
    dead_letter: int | None = None
    source: str | None = None
    parent: str | None = None
    size: int = 0
    failed_batch: str | None = None
    fingerprint: str | None = None
    """Of its last error."""
    stored_status: str = ""
    """Its status as it stands in the database, so that the tallies follow it."""

    @property
    def final(self) -> bool:
        return self.status in FINAL and not (self.untouched and self.status == Status.PROCESSED)

    @property
    def untouched(self) -> bool:
        """No event has begun a round of it yet."""
        return self.round == 0 and self.row is None

    def record(self, outcome: dict[str, Any]) -> None:
        self.attempts = json.dumps(remember(read_history(self.attempts), outcome))


@dataclass(slots=True)
class Row:
    """A ledger row, as a transaction sees and changes it; its event stays in the database."""

    id: int
    service: str
    state: str
    key: str
    collection: str | None
    ids: list[tuple[str, int]]
    """Its documents, each with its round; round 0: it could not be read when the event came."""
    round: int
    priority: int
    due: float
    tries: int
    not_ready: int
    able: float
    deaths: int
    lapses: int
    started: int
    token: int
    lease: float | None
    worker: str | None
    batch: int | None
    cursor: str | None
    errors: str | None
    source: str | None
    generation: int
    reason: str | None
    settled_at: float | None
    fingerprint: str | None

    def record(self, failure: dict[str, Any]) -> None:
        history = json.loads(self.errors) if self.errors else None
        self.errors = json.dumps(remember(history, failure))

    def stored(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "state": str(self.state),
            "ids": json.dumps(self.ids),
            "round": self.round,
            "due": self.due,
            "tries": self.tries,
            "not_ready": self.not_ready,
            "able": self.able,
            "deaths": self.deaths,
            "lapses": self.lapses,
            "started": self.started,
            "lease": self.lease,
            "batch": self.batch,
            "cursor": self.cursor,
            "errors": self.errors,
            "reason": self.reason,
            "settled_at": self.settled_at,
            "fingerprint": self.fingerprint,
        }


class Closed(NamedTuple):
    """What is to be known of a row that was settled unread."""

    row: int
    source: str | None
    generation: int


@dataclass(slots=True)
class Books:
    """Everything one transaction reads and changes. Later steps see what earlier ones did."""

    db: Database
    now: float
    unannounced: float | None = NO_WIRE
    """What is noted of a row that a wire has yet to be told of."""
    docs: dict[Key, Doc | None] = field(default_factory=dict)
    rows: dict[int, Row | None] = field(default_factory=dict)
    _glanced: set[Key] = field(default_factory=set)
    """Documents that were read without the intention to change them."""
    _generations: dict[str, int] = field(default_factory=dict)
    _subscriptions: list[Subscription] | None = None
    _finished: frozenset[str] | None = None
    _breakers: dict[str, Breaker] | None = None
    _breakers_locked: bool = False
    _new: dict[Key, NewDocument] = field(default_factory=dict)
    _changed: set[Key] = field(default_factory=set)
    _bodies: dict[Key, str] = field(default_factory=dict)
    _done: list[int] = field(default_factory=list)
    _findings: Findings = field(default_factory=Findings)
    woken: set[str] = field(default_factory=set)
    """Services for which a row was put on the ledger, or came back."""

    # -- documents

    def read_documents(self, keys: Iterable[Key], *, to_change: bool = True) -> None:
        """Read the state of documents that were not read yet; nobody else changes them from now on."""
        wanted: dict[str, list[str]] = {}
        docs, glanced = self.docs, self._glanced
        for key in keys:
            if key not in docs or (to_change and key in glanced):
                docs[key] = None
                glanced.discard(key) if to_change else glanced.add(key)
                wanted.setdefault(key[0], []).append(key[1])
        for collection, ids in wanted.items():
            read = self.db.read if to_change else self.db.glance
            # In an order: two that lock the same documents must not wait for each other.
            for values in read("documents", collection, sorted(ids)):
                doc = self.docs[collection, values[1]] = Doc(*values)
                doc.stored_status = doc.status

    def document(self, key: Key) -> Doc | None:
        if key not in self.docs or key in self._glanced:
            self.read_documents([key])
        return self.docs[key]

    def add(self, document: NewDocument) -> bool:
        """Add a document if it is absent."""
        key = (document.collection, document.id)
        if self.document(key) is not None:
            return False
        doc = self.docs[key] = Doc(
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
        """What nobody is responsible for has nothing left to wait for, until somebody takes it on."""
        if self._finished is None:
            self._finished = frozenset(one.finishes for one in self.subscriptions() if one.finishes)
        return Status.PENDING if collection in self._finished else Status.PROCESSED

    def change(self, key: Key) -> None:
        if key not in self._new:
            self._changed.add(key)

    def replace_body(self, key: Key, body: str, keys: Sequence[tuple[str, Any]] = ()) -> bool:
        """Give a document new content; answer whether that changed it."""
        doc = self.docs[key]
        assert doc is not None, "a replacement is checked before it is made"
        self.write()
        ((_, old),) = self.db.read("bodies", [doc.doc])
        if old == body:
            return False
        self._bodies[key] = body
        doc.revision += 1
        doc.size = len(body)
        self.change(key)
        forget_findings(self.db, [doc.doc])
        self._findings.add_keys(doc.doc, keys)
        return True

    def index(self, text: IndexedText) -> None:
        doc = self.document((text.collection, text.id))
        if doc is not None:
            self._findings.texts[doc.doc] = (doc.doc, text.title, text.text)

    def place(self, vector: PlacedVector) -> None:
        doc = self.document((vector.collection, vector.id))
        if doc is not None:
            self._findings.vectors[doc.doc] = (doc.doc, vector.model, vector.vector)

    def leave_batch(self, doc: Doc, *, recovered: bool = False) -> None:
        """A document is not set aside any more; a batch that is empty is over."""
        if doc.failed_batch is not None:
            self._findings.left_batches.add(doc.failed_batch)
            if recovered:
                self._findings.recovered_batches.add(doc.failed_batch)
            doc.failed_batch = None

    def note(self, service: str, collection: str | None, failure: Failure, documents: int) -> None:
        """Count a failure in its group."""
        self._findings.noted.append(Noted(service, collection, failure, documents))

    def remove(self, keys: Sequence[Key]) -> None:
        """Remove documents with all that descended from them."""
        while keys:
            self.write()  # what was added just now has children too, and must be found below
            self.delete(keys)
            keys = [tuple(child) for child in self.db.read("children", [f"{c}/{i}" for c, i in keys])]

    def delete(self, keys: Sequence[Key]) -> int:
        """Delete these documents, and only these; answer how many there were."""
        self.read_documents(keys)
        found = [doc for key in keys if (doc := self.docs[key]) is not None]
        numbers = [doc.doc for doc in found]
        self.db.send("delete_documents", numbers)
        self.db.send("delete_bodies", numbers)
        forget_findings(self.db, numbers)
        for key in keys:
            if (gone := self.docs[key]) is not None:
                self._findings.tally(gone.source, key[0], gone.stored_status, "")
                self.leave_batch(gone)
        self.docs.update(dict.fromkeys(keys))
        leaving: dict[int, set[str]] = {}
        for doc in found:
            for row in (doc.row, doc.dead_letter):
                if row is not None:
                    leaving.setdefault(row, set()).add(doc.id)
        self.read_rows(leaving)
        for number, ids in leaving.items():
            self.leave(number, ids)
        return len(found)

    # -- rows

    def read_rows(self, ids: Iterable[int]) -> None:
        wanted = [id for id in ids if id not in self.rows]
        if wanted:
            self.rows.update(dict.fromkeys(wanted))
            for values in self.db.read("rows", wanted):
                self.rows[values[0]] = Row(*values)

    def row(self, id: int) -> Row | None:
        if id not in self.rows:
            self.read_rows([id])
        return self.rows[id]

    def save(self, row: Row) -> None:
        """Write a row at once: who looks for a waiting twin asks the database."""
        self.db.send("update_row", row.stored() | {"announced": self.unannounced})

    def free_key(self, number: int) -> None:
        """A waiting row gives its key to another that asks for more."""
        self.db.send("free_key", number)
        if (row := self.rows.get(number)) is not None:
            row.key += f"/{number}"

    def finish(self, row: Row) -> None:
        """Settle a row for good; nothing points to it any more."""
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

    def close_rows(self, held: Mapping[int, int]) -> dict[int, Closed]:
        """Settle rows that name no documents; answers those that were still held under these tokens."""
        tokens: dict[int, list[int]] = {}
        for row, token in held.items():
            tokens.setdefault(token, []).append(row)
        closed: dict[int, Closed] = {}
        for token, rows in tokens.items():  # most are claimed for the first time
            closed.update(
                {found[0]: Closed(*found) for found in self.db.fetch("close_rows", self.now, rows, token)}
            )
        self.read_generations({one.source for one in closed.values()})
        return closed

    def named(self, row: Row) -> Iterator[tuple[Key, Doc | None, int]]:
        """The documents that a row names, as they stand now, each with its round in the row."""
        for id, round in row.ids:
            key = (row.collection or "", id)
            yield key, self.document(key), round

    def keys_of(self, rows: Iterable[int]) -> list[Key]:
        """All documents that these rows name."""
        found = [row for number in rows if (row := self.rows[number]) is not None]
        return [(row.collection or "", id) for row in found for id, _ in row.ids]

    def leave(self, number: int, ids: Collection[str]) -> None:
        """Documents go out of a row; the others have a life of their own."""
        row = self.row(number)
        if row is None or row.state == RowState.DONE:
            return
        row.ids = [pair for pair in row.ids if pair[0] not in ids]
        if row.ids:
            self.save(row)
        else:
            self.finish(row)

    # -- what routes and what gates

    def subscriptions(self) -> list[Subscription]:
        if self._subscriptions is None:
            self._subscriptions = [
                Subscription(service, event_type, finishes, field, tuple(naming), tuple(needs), queue, version)
                for service, event_type, finishes, field, naming, needs, queue, version in self.db.read(
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
        wanted = sorted({one for one in sources if one is not None} - self._generations.keys())
        if wanted:
            self._generations.update(dict.fromkeys(wanted, 0))
            self._generations.update(dict(self.db.read("generations", wanted)))

    def breaker(self, dependency: str) -> Breaker:
        if self._breakers is None:
            found = [Breaker.from_dict(stored) for stored in self.db.read("breakers")]
            self._breakers = {breaker.dependency: breaker for breaker in found}
        return self._breakers.get(dependency) or Breaker(dependency)

    def lock_breakers(self) -> None:
        """Nobody else changes breakers from now on; what was known of them may have changed."""
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
        elif before.open and not breaker.open:
            self.db.send("log_closing", self.now, breaker.dependency)

    # -- writing

    def write(self) -> None:
        """Write what has changed so far."""
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
        self._findings.now = self.now
        self._findings.write(self.db)

    def _write_new(self) -> None:
        documents, bodies = [], []
        for key, new in self._new.items():
            doc = self.docs[key]
            assert doc is not None, "a document that is removed is written first"
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
                self._findings.add_keys(doc.doc, new.keys)
            self._findings.tally(doc.source, key[0], doc.stored_status, doc.status)
            doc.stored_status = doc.status
        self._new.clear()
        self.db.bulk("insert_documents", documents)
        self.db.bulk("insert_bodies", bodies)

    def _write_changed(self) -> None:
        for key in self._changed:
            doc = self.docs[key]
            if doc is not None and doc.status != doc.stored_status:
                self._findings.tally(doc.source, key[0], doc.stored_status, doc.status)
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
