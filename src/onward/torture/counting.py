"""The count: what is in the store in the end, beside what should be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from onward.model.documents import FINAL, Document, DocumentState, Status
from onward.model.ledger import MAX_DEATHS, DeadLetter
from onward.ports import Store
from onward.torture.plan import Expected, Plan
from onward.torture.workload import Label, Parcel, Piece, Receipt, Tally

PAGE = 1000


@dataclass
class Count:
    """What became of the parcels that went in. Documents are named by collection and id."""

    documents: int = 0
    finished: int = 0
    """Parcels that ended as they should, with all that had to come of them."""
    set_aside: int = 0
    """Those of them that are trouble, and ended as a dead letter or failed."""
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    blamed: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    """Still on the ledger, or waiting for their next round."""
    rows: dict[str, int] = field(default_factory=dict)
    """Events on the ledger that are not settled, by service."""
    poison: int = 0
    caught: int = 0
    """Of the poison documents: given up as a crash loop after as many deaths as it takes."""

    @property
    def is_clean(self) -> bool:
        wrong = self.lost or self.doubled or self.blamed or self.unfinished or self.rows
        return not wrong and self.caught == self.poison


def count(store: Store, plan: Plan, fed: int) -> Count:
    """Count what came of the first so many parcels of a plan."""
    return _Audit(store, plan, fed).count()


class _Audit:
    def __init__(self, store: Store, plan: Plan, fed: int) -> None:
        self._store = store
        self._plan = plan
        self._fed = fed
        self._states = {
            kind.collection: {one.id: one for one in _all_states(store, kind)} for kind in (Parcel, Piece, Label)
        }
        self._receipts = Counter(Receipt.effect(one.id) for one in _all_states(store, Receipt))
        self._letters = list(_all_letters(store))
        live = {
            service: states.get("waiting", 0) + states.get("claimed", 0)
            for service, states in store.counts().items()
        }
        self._rows = {service: rows for service, rows in sorted(live.items()) if rows}
        self._under_way = any(service.endswith("tallying") for service in self._rows)

    def count(self) -> Count:
        found = Count(documents=self._fed, rows=self._rows)
        wanted: dict[str, set[str]] = {kind: set() for kind in self._states}
        for start in range(0, self._fed, PAGE):
            numbers = range(start, min(start + PAGE, self._fed))
            expected = [self._plan.expected(number) for number in numbers]
            tallies = {one.id: one for one in self._store.get_many(Tally, [one.parcel.id for one in expected])}
            for one in expected:
                wanted["parcels"].add(one.parcel.id)
                wanted["pieces"].update(one.pieces)
                if one.label:
                    wanted["labels"].add(one.parcel.id)
                self._count_parcel(found, one, tallies.get(one.parcel.id))
        # What nobody asked for is there twice under another name.
        for kind, ids in wanted.items():
            found.doubled += [f"{kind}/{id}" for id in sorted(self._states[kind].keys() - ids)]
        found.doubled += sorted(f"{effect} (unasked)" for effect in self._receipts)
        found.blamed = sorted({*found.blamed, *self._blamed()})
        self._count_poison(found)
        return found

    def _count_parcel(self, found: Count, expected: Expected, tally: Tally | None) -> None:
        before = len(found.lost) + len(found.doubled) + len(found.unfinished)
        id = expected.parcel.id
        waits = self._count_document(found, "parcels", id, expected.status, to_come=False)
        weighing = [
            self._count_document(found, "pieces", piece, status, to_come=waits)
            for piece, status in expected.pieces.items()
        ]
        waits = waits or any(weighing) or self._under_way
        if expected.label:
            waits = self._count_document(found, "labels", id, Status.PROCESSED, to_come=waits) or waits
        tallied = tally.count if tally is not None else 0
        if tallied > len(expected.weighed):
            found.doubled.append(f"tallies/{id}")
        elif tallied < len(expected.weighed) and not waits:
            found.lost.append(f"tallies/{id}")
        for effect in sorted(expected.effects):
            times = self._receipts.pop(effect, 0)
            if times > 1:
                found.doubled.append(f"{effect} ({times} receipts)")
            elif not times and not waits:
                found.lost.append(f"{effect} (no receipt)")
        if len(found.lost) + len(found.doubled) + len(found.unfinished) == before:
            found.finished += 1
            found.set_aside += not expected.label

    def _count_document(self, found: Count, collection: str, id: str, expected: Status, *, to_come: bool) -> bool:
        """Count one document; answer whether it is on its way. `to_come`: what it is made of still is."""
        name, state = f"{collection}/{id}", self._states[collection].get(id)
        if state is None or state.status not in FINAL:
            waits = to_come if state is None else _is_on_its_way(state)
            (found.unfinished if waits else found.lost).append(name)
            return waits
        if state.status != expected:
            innocent = expected is Status.PROCESSED
            # Poison that is processed has an effect that nobody asked for.
            (found.blamed if innocent else found.doubled).append(name)
        return False

    def _blamed(self) -> set[str]:
        """Innocent documents with a dead letter."""
        guilty = {f"parcels/{self._plan.parcel(number).id}" for number in self._plan.troubles} | self._plan.poison
        named = {one for letter in self._letters for one in _documents_of(letter)}
        return named - guilty

    def _count_poison(self, found: Count) -> None:
        fed = {self._plan.parcel(number).id for number in self._plan.troubles if number < self._fed}
        poison = {one for one in self._plan.poison if one.partition("/")[2].partition(".")[0] in fed}
        caught = {
            name
            for letter in self._letters
            if letter.abandoned_reason == "crash_loop" and letter.deaths >= MAX_DEATHS
            for name in _documents_of(letter)
        }
        found.poison = len(poison)
        found.caught = len(poison & caught)


def _is_on_its_way(state: DocumentState) -> bool:
    """Whether something on the ledger will go on with it: a row, a retry, a failed batch."""
    return state.row is not None or state.last_error is not None or state.failed_batch is not None


def _documents_of(letter: DeadLetter) -> list[str]:
    if letter.documents:
        return [f"{collection}/{id}" for collection, id in letter.documents]
    data = letter.original_event.get("data", {})
    fields = json.loads(data) if isinstance(data, str) else data
    if pieces := fields.get("pieces"):
        return [f"pieces/{piece}" for piece in pieces]
    return [f"{letter.service_name} row {letter.row}"]


def _all_states(store: Store, kind: type[Document]) -> Iterator[DocumentState]:
    after = ""
    while found := store.states(kind, after=after, limit=PAGE):
        yield from found
        after = found[-1].id


def _all_letters(store: Store) -> Iterator[DeadLetter]:
    after = 0
    while found := store.dead_letters(limit=PAGE, after=after):
        yield from found
        after = found[-1].row
