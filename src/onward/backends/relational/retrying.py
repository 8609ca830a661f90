"""What is due again: unfinished documents, failed batches; totals, and who does the job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from onward.backends.relational.base import RelationalBase, transactional
from onward.backends.relational.findings import observe_total
from onward.model.documents import DocumentState, Status
from onward.model.failures import outcomes, read_history
from onward.model.ledger import FailedBatch, RowState
from onward.ports.recovery import Key

_LIVE = (RowState.WAITING, RowState.CLAIMED)


class RetryStore(RelationalBase):
    """See `onward.ports.Recovery`."""

    # -- one of many

    @transactional
    def lead(self, role: str, holder: str, seconds: float) -> bool:
        return self.db.run("lead", role, holder, self.now() + seconds, self.now()) > 0

    @transactional
    def resign(self, role: str, holder: str) -> None:
        self.db.send("resign", role, holder)

    # -- the retry job

    def to_look_at(self, *, limit: int, collections: Sequence[str] | None = None) -> list[Key]:
        among = None if collections is None else list(collections)
        return [(collection, id) for collection, id in self.db.read("to_look_at", self.now(), limit, among)]

    def states_of(self, keys: Sequence[Key]) -> list[DocumentState]:
        wanted: dict[str, list[str]] = {}
        for collection, id in keys:
            wanted.setdefault(collection, []).append(id)
        found: dict[Key, DocumentState] = {}
        for collection, ids in wanted.items():
            for values in self.db.read("states_by_id", collection, sorted(ids)):
                found[collection, values[0]] = read_state(collection, values)
        return [found[key] for key in dict.fromkeys(keys) if key in found]

    def look_later(self, looks: Sequence[tuple[Key, float]]) -> None:
        if looks:
            rows = sorted((*key, at) for key, at in looks)
            self.atomically(lambda: self.db.bulk("look_later", rows))

    def next_look(self, collections: Sequence[str] | None = None) -> float | None:
        at: float | None = self.db.read("next_look", None if collections is None else list(collections))
        return at

    @transactional
    def give_up(self, keys: Sequence[Key]) -> int:
        books = self._books()
        books.read_documents(keys)
        given_up = 0
        for key in keys:
            doc = books.docs[key]
            if doc is None or doc.row is not None:
                continue
            given_up += 1
            doc.status = Status.FAILED_MAX_RETRIES
            doc.retry_at = None
            doc.record({"at": books.now, "outcome": "gave_up_for_good", "round": doc.round})
            books.leave_batch(doc)
            books.change(key)
        books.write()
        return given_up

    @transactional
    def revive(self, keys: Sequence[Key]) -> None:
        books = self._books()
        books.read_documents(keys)
        for key in keys:
            doc = books.docs[key]
            if doc is not None and doc.row is None:
                doc.status = Status.PENDING
                books.change(key)
        books.write()

    def loosen(self, *, after: int, limit: int) -> tuple[int, list[Key]]:
        last, found = self.db.read("rows_gone", after, limit)
        return last or 0, self._loosen([(collection, id) for collection, id in found]) if found else []

    @transactional
    def _loosen(self, keys: Sequence[Key]) -> list[Key]:
        books = self._books()
        books.read_documents(keys)
        # Once more, for a work may have been settled in between.
        pointed = {key: doc for key in keys if (doc := books.docs[key]) is not None and doc.row is not None}
        states = dict(self.db.read("row_states", [doc.row for doc in pointed.values()]))
        loose = [key for key, doc in pointed.items() if states.get(doc.row) not in _LIVE]
        for key in loose:
            pointed[key].row = None
            books.change(key)
        books.write()
        return loose

    def looked_at_later(self) -> dict[str, int]:
        return dict(self.db.read("looked_at_later", self.now()))

    def stuck(self, *, before: float, max_rounds: Mapping[str, int], others: int) -> dict[str, int]:
        return dict(self.db.read("stuck", before, json.dumps(dict(max_rounds)), others))

    # -- failed batches

    def due_batches(self) -> list[str]:
        return list(self.db.read("due_batches", self.now()))

    def failed_batch(self, id: str) -> FailedBatch | None:
        found = self.db.read("failed_batch", id)
        return None if found is None else read_batch(found)

    def idle_items(self, batch: str, *, limit: int) -> list[Key]:
        return [(collection, id) for collection, id in self.db.read("idle_items", batch, limit)]

    @transactional
    def claim_batch(self, id: str, *, retry_count: int, until: float) -> bool:
        return self.db.run("claim_batch", until, id, retry_count, self.now()) > 0

    @transactional
    def hurry_batch(self, id: str, at: float) -> bool:
        return self.db.run("hurry_batch", at, id) > 0

    def next_batches(self) -> dict[str, float]:
        return dict(self.db.fetch("next_batches"))

    # -- totals

    @transactional
    def count(self, name: str, label: str, by: float = 1.0) -> None:
        self.db.send("count_total", name, label, by)

    @transactional
    def set_gauge(self, name: str, label: str, value: float) -> None:
        self.db.send("set_gauge", name, label, value)

    @transactional
    def observe_total(self, name: str, value: float) -> None:
        observe_total(self.db, name, value)

    def totals(self) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {}
        for name, label, value in self.db.read("totals"):
            found.setdefault(name, {})[label] = value
        return found


def read_batch(values: list[Any]) -> FailedBatch:
    """Read a failed batch from the values of its row, with its items."""
    id, service, source, errors, count, due, at, items = values
    return FailedBatch(id, service, source, outcomes(errors), count, due, at, tuple((c, i) for c, i in items))


def read_state(collection: str, values: Sequence[Any]) -> DocumentState:
    """Read what the ledger knows of a document, even where others wrote what is no JSON."""
    fields = [*values[:6], _error(values[6]), read_history(values[7]) or {}, *values[8:]]
    return DocumentState(collection, *fields)


def _error(text: Any) -> dict[str, Any] | None:
    if text is None or text == "":
        return None
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        found = text
    return found if isinstance(found, dict) else {"message": str(found)}
