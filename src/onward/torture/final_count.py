"""The final count: what is in the store at the end, compared with what should be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onward.model.documents import FINAL, Document, DocumentState, Status
from onward.model.ledger import MAX_DEATHS, DeadLetter
from onward.recovery.requeue_dead_letters import DeadLetterFilter, matching_dead_letters
from onward.torture.workload import ExpectedResult, Label, Parcel, Piece, Receipt, Tally, WorkloadPlan

if TYPE_CHECKING:
    from onward.ledger.store import Store

PAGE_SIZE = 1000


@dataclass
class FinalCount:
    """The results of the published parcels. Documents are named by collection and id."""

    documents: int = 0
    finished: int = 0  # parcels with the expected result, and all documents that had to come of them
    set_aside: int = 0  # the finished parcels with a fault, which ended failed or as a dead letter
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    blamed: list[str] = field(default_factory=list)  # failed, or with a dead letter, although they have no fault
    unfinished: list[str] = field(default_factory=list)  # still on the ledger, or waiting for their next round
    rows_left: dict[str, int] = field(default_factory=dict)  # unsettled events, by service
    poison: int = 0
    poison_caught: int = 0  # poison documents that were given up as a crash loop, after `MAX_DEATHS` deaths

    @property
    def is_clean(self) -> bool:
        return not any(self.errors().values()) and not self.rows_left and self.poison_caught == self.poison

    def errors(self) -> dict[str, list[str]]:
        return {kind: getattr(self, kind) for kind in ("lost", "doubled", "blamed", "unfinished")}


def count_documents(store: Store, plan: WorkloadPlan, published: int) -> FinalCount:
    """Count what became of the first `published` parcels of a plan."""
    rows = {name: states.get("waiting", 0) + states.get("claimed", 0) for name, states in store.counts().items()}
    found = FinalCount(published, rows_left={name: count for name, count in sorted(rows.items()) if count})
    counter = _ParcelCounter(store, found)
    expected: dict[str, set[str]] = {collection: set() for collection in counter.states}
    for start in range(0, published, PAGE_SIZE):
        results = [plan.expected(number) for number in range(start, min(start + PAGE_SIZE, published))]
        stored = store.get_many(Tally, [result.parcel.id for result in results])
        tallies = {tally.id: tally.count for tally in stored}
        for result in results:
            id = result.parcel.id
            expected["parcels"].add(id)
            expected["pieces"].update(result.pieces)
            expected["labels"].update([id] if result.label else [])
            counter.count(result, tallies.get(id, 0))
    # A document or effect that was not expected was made a second time, under another name.
    for collection, ids in expected.items():
        found.doubled += [f"{collection}/{id}" for id in sorted(counter.states[collection].keys() - ids)]
    found.doubled += sorted(f"{effect} (not expected)" for effect in counter.receipts)
    _count_dead_letters(store, plan, found)
    return found


class _ParcelCounter:
    """Counts one parcel after the other. It removes the receipts that are expected, so that others are left."""

    def __init__(self, store: Store, found: FinalCount) -> None:
        self.states = {
            kind.collection: {state.id: state for state in _all_states(store, kind)}
            for kind in (Parcel, Piece, Label)
        }
        self.receipts = Counter(state.id.rpartition(" ")[0] for state in _all_states(store, Receipt))
        self._found = found

    def count(self, expected: ExpectedResult, tallied: int) -> None:
        found, id = self._found, expected.parcel.id
        before = len(found.lost) + len(found.doubled) + len(found.unfinished)
        waits = self._count_document("parcels", id, expected.status, parent_waits=False)
        pieces = [
            self._count_document("pieces", piece, status, parent_waits=waits)
            for piece, status in expected.pieces.items()
        ]
        waits = waits or any(pieces) or "tallying" in found.rows_left
        if expected.label:
            waits = self._count_document("labels", id, Status.PROCESSED, parent_waits=waits) or waits
        if tallied > len(expected.weighed):
            found.doubled.append(f"tallies/{id}")
        elif tallied < len(expected.weighed) and not waits:
            found.lost.append(f"tallies/{id}")
        for effect in sorted(expected.effects):
            receipts = self.receipts.pop(effect, 0)
            if receipts > 1:
                found.doubled.append(f"{effect} ({receipts} receipts)")
            elif not receipts and not waits:
                found.lost.append(f"{effect} (no receipt)")
        if len(found.lost) + len(found.doubled) + len(found.unfinished) == before:
            found.finished += 1
            found.set_aside += not expected.label

    def _count_document(self, collection: str, id: str, expected: Status, *, parent_waits: bool) -> bool:
        """Count one document; return whether it still waits for work."""
        found, name, state = self._found, f"{collection}/{id}", self.states[collection].get(id)
        if state is None or state.status not in FINAL:
            # A row, a retry or a failed batch will continue with it.
            has_work = state is not None and (state.row, state.last_error, state.failed_batch) != (
                None,
                None,
                None,
            )
            waits = parent_waits if state is None else has_work
            (found.unfinished if waits else found.lost).append(name)
            return waits
        if state.status != expected:
            # A document with a fault that was processed has an effect that it must not have.
            (found.blamed if expected is Status.PROCESSED else found.doubled).append(name)
        return False


def _count_dead_letters(store: Store, plan: WorkloadPlan, found: FinalCount) -> None:
    """Count the dead letters of documents without a fault, and those of documents that kill their process."""
    named: set[str] = set()
    crashed: set[str] = set()
    for dead_letter in matching_dead_letters(store, DeadLetterFilter()):
        names = _documents_of(dead_letter)
        named.update(names)
        if dead_letter.abandoned_reason == "crash_loop" and dead_letter.deaths >= MAX_DEATHS:
            crashed.update(names)
    faulty = [plan.parcel(number) for number in plan.faults if number < found.documents]
    poison = {parcel.poison for parcel in faulty if parcel.poison}
    found.blamed = sorted({*found.blamed, *(named - poison - {f"parcels/{parcel.id}" for parcel in faulty})})
    found.poison, found.poison_caught = len(poison), len(poison & crashed)


def _documents_of(dead_letter: DeadLetter) -> list[str]:
    if dead_letter.documents:
        return [f"{collection}/{id}" for collection, id in dead_letter.documents]
    data = (dead_letter.original_event or {}).get("data", {})
    fields = json.loads(data) if isinstance(data, str) else data
    if pieces := fields.get("pieces"):
        return [f"pieces/{piece}" for piece in pieces]
    return [f"{dead_letter.service_name} row {dead_letter.row}"]


def _all_states(store: Store, kind: type[Document]) -> Iterator[DocumentState]:
    after = ""
    while found := store.states(kind, after=after, limit=PAGE_SIZE):
        yield from found
        after = found[-1].id
