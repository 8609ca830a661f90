"""The final count: what is in the store at the end, compared with what should be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onward.model.documents import FINAL, Document, DocumentState, Status
from onward.model.ledger import MAX_DEATHS, DeadLetter
from onward.torture.workload import Label, Parcel, Piece, Receipt, Tally
from onward.torture.workload_plan import ExpectedResult, WorkloadPlan

if TYPE_CHECKING:
    from onward.ledger.store import Store

PAGE_SIZE = 1000


@dataclass
class FinalCount:
    """The results of the published parcels. Documents are named by collection and id."""

    documents: int = 0
    finished: int = 0
    """Parcels with the expected result, and all documents that had to come of them."""
    set_aside: int = 0
    """The finished parcels with a fault, which ended failed or as a dead letter."""
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    blamed: list[str] = field(default_factory=list)
    """Failed, or with a dead letter, although they have no fault."""
    unfinished: list[str] = field(default_factory=list)
    """Still on the ledger, or waiting for their next round."""
    rows: dict[str, int] = field(default_factory=dict)
    """Events on the ledger that are not settled, by service."""
    poison: int = 0
    caught: int = 0
    """Poison documents that were given up as a crash loop, after `MAX_DEATHS` deaths."""

    @property
    def is_clean(self) -> bool:
        return not any(self.errors().values()) and not self.rows and self.caught == self.poison

    def errors(self) -> dict[str, list[str]]:
        """Return the documents with each kind of error."""
        return {kind: getattr(self, kind) for kind in ("lost", "doubled", "blamed", "unfinished")}


def count_documents(store: Store, plan: WorkloadPlan, published: int) -> FinalCount:
    """Count what became of the first `published` parcels of a plan."""
    return _Counter(store, plan, published).count()


class _Counter:
    def __init__(self, store: Store, plan: WorkloadPlan, published: int) -> None:
        self._store = store
        self._plan = plan
        self._published = published
        self._states = {
            kind.collection: {state.id: state for state in _all_states(store, kind)}
            for kind in (Parcel, Piece, Label)
        }
        self._receipts = Counter(Receipt.effect(state.id) for state in _all_states(store, Receipt))
        self._dead_letters = list(_all_dead_letters(store))
        rows = {
            service: states.get("waiting", 0) + states.get("claimed", 0)
            for service, states in sorted(store.counts().items())
        }
        self._found = FinalCount(
            documents=published, rows={service: count for service, count in rows.items() if count}
        )

    def count(self) -> FinalCount:
        found = self._found
        expected_ids: dict[str, set[str]] = {collection: set() for collection in self._states}
        for start in range(0, self._published, PAGE_SIZE):
            numbers = range(start, min(start + PAGE_SIZE, self._published))
            results = [self._plan.expected(number) for number in numbers]
            stored = self._store.get_many(Tally, [result.parcel.id for result in results])
            tallies = {tally.id: tally.count for tally in stored}
            for result in results:
                expected_ids["parcels"].add(result.parcel.id)
                expected_ids["pieces"].update(result.pieces)
                if result.label:
                    expected_ids["labels"].add(result.parcel.id)
                self._count_parcel(result, tallies.get(result.parcel.id, 0))
        # A document or effect that was not expected was made a second time, under another name.
        for collection, ids in expected_ids.items():
            found.doubled += [f"{collection}/{id}" for id in sorted(self._states[collection].keys() - ids)]
        found.doubled += sorted(f"{effect} (not expected)" for effect in self._receipts)
        found.blamed = sorted({*found.blamed, *self._innocent_dead_letters()})
        self._count_poison()
        return found

    def _count_parcel(self, expected: ExpectedResult, tallied: int) -> None:
        found, id = self._found, expected.parcel.id
        before = len(found.lost) + len(found.doubled) + len(found.unfinished)
        waits = self._count_document("parcels", id, expected.status, parent_waits=False)
        pieces = [
            self._count_document("pieces", piece, status, parent_waits=waits)
            for piece, status in expected.pieces.items()
        ]
        waits = waits or any(pieces) or "tallying" in found.rows
        if expected.label:
            waits = self._count_document("labels", id, Status.PROCESSED, parent_waits=waits) or waits
        if tallied > len(expected.weighed):
            found.doubled.append(f"tallies/{id}")
        elif tallied < len(expected.weighed) and not waits:
            found.lost.append(f"tallies/{id}")
        for effect in sorted(expected.effects):
            receipts = self._receipts.pop(effect, 0)
            if receipts > 1:
                found.doubled.append(f"{effect} ({receipts} receipts)")
            elif not receipts and not waits:
                found.lost.append(f"{effect} (no receipt)")
        if len(found.lost) + len(found.doubled) + len(found.unfinished) == before:
            found.finished += 1
            found.set_aside += not expected.label

    def _count_document(self, collection: str, id: str, expected: Status, *, parent_waits: bool) -> bool:
        """Count one document; return whether it still waits for work."""
        found, name, state = self._found, f"{collection}/{id}", self._states[collection].get(id)
        if state is None or state.status not in FINAL:
            waits = parent_waits if state is None else _has_work_left(state)
            (found.unfinished if waits else found.lost).append(name)
            return waits
        if state.status != expected:
            # A document with a fault that was processed has an effect that it must not have.
            (found.blamed if expected is Status.PROCESSED else found.doubled).append(name)
        return False

    def _innocent_dead_letters(self) -> set[str]:
        faulty = {f"parcels/{self._plan.parcel(number).id}" for number in self._plan.faults}
        named = {name for dead_letter in self._dead_letters for name in _documents_of(dead_letter)}
        return named - faulty - self._plan.poison

    def _count_poison(self) -> None:
        published = {self._plan.parcel(number).id for number in self._plan.faults if number < self._published}
        poison = {name for name in self._plan.poison if name.partition("/")[2].partition(".")[0] in published}
        caught = {
            name
            for dead_letter in self._dead_letters
            if dead_letter.abandoned_reason == "crash_loop" and dead_letter.deaths >= MAX_DEATHS
            for name in _documents_of(dead_letter)
        }
        self._found.poison = len(poison)
        self._found.caught = len(poison & caught)


def _has_work_left(state: DocumentState) -> bool:
    """Return whether a row, a retry or a failed batch will continue with a document."""
    return state.row is not None or state.last_error is not None or state.failed_batch is not None


def _documents_of(dead_letter: DeadLetter) -> list[str]:
    if dead_letter.documents:
        return [f"{collection}/{id}" for collection, id in dead_letter.documents]
    data = dead_letter.original_event.get("data", {})
    fields = json.loads(data) if isinstance(data, str) else data
    if pieces := fields.get("pieces"):
        return [f"pieces/{piece}" for piece in pieces]
    return [f"{dead_letter.service_name} row {dead_letter.row}"]


def _all_states(store: Store, kind: type[Document]) -> Iterator[DocumentState]:
    after = ""
    while found := store.states(kind, after=after, limit=PAGE_SIZE):
        yield from found
        after = found[-1].id


def _all_dead_letters(store: Store) -> Iterator[DeadLetter]:
    after = 0
    while found := store.dead_letters(limit=PAGE_SIZE, after=after):
        yield from found
        after = found[-1].row
