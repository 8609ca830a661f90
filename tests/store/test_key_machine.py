"""Services that run one at a time for each key, whatever happens in whatever order.

Never two rows of a key are claimed at once, an ordered service takes them in the order of publication, and in the
end every row is settled: none waits for a key that nobody holds.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from onward.backend_urls import open_store
from onward.model.documents import DocumentState
from onward.model.events import Envelope
from onward.model.ledger import (
    PARKED_DUE,
    Charge,
    CommitStatus,
    DeadLettered,
    Delivery,
    InputStatus,
    Processed,
    RetryLater,
    SettlementPart,
)
from onward.retry import Reason
from tests.support.store_pages import LEASE, READING, Clock, Page, PagesFound, failure, page, settlement

KEYS = ("a", "b")
WORKERS = ("anna", "bert", "cleo")
SOURCES = (None, "s")


def key_of(delivery: Delivery) -> str | None:
    return Page.from_json(delivery.inputs[0].body or "").text


class KeyMachine(RuleBasedStateMachine):
    """A store, and a model of which documents wait for which key."""

    ordered = False

    @initialize()
    def open(self) -> None:
        self.clock = Clock()
        self.store = open_store("sqlite://:memory:", self.clock)
        per_key = "ordered" if self.ordered else "one"
        self.store.subscribe([replace(READING, per_key=per_key)])
        self.published = 0
        self.places: dict[str, float] = {}  # The place of each unsettled document in the order of publication
        self.held: dict[int, tuple[str, Delivery]] = {}  # By row: the worker that believes to have it
        self.dead: dict[str, int] = {}
        self.keys: dict[str, str] = {}
        self.changed: set[str] = set()  # Documents with another key than the one that they were published with

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.finish()
            self.store.close()

    # -- what may happen

    @rule(which=st.sampled_from(KEYS), source=st.sampled_from(SOURCES), count=st.integers(1, 3))
    def publish(self, which: str, source: str | None, count: int) -> None:
        ids = [f"{which}{self.published + number}" for number in range(count)]
        self.published += count
        self.store.add_documents([page(id, text=which, source=source) for id in ids])
        events = [PagesFound(page_ids=[id]) for id in ids]
        self.store.publish([one for event in events for one in Envelope.of(event, now=self.clock.now())])
        self.keys |= dict.fromkeys(ids, which)
        for id in ids:
            self.places[id] = self.published + int(id[1:]) / 1e6
        self.clock.advance(1)

    @rule(worker=st.sampled_from(WORKERS), limit=st.integers(1, 4), suspects=st.booleans())
    def claim(self, worker: str, limit: int, suspects: bool) -> None:
        for delivery in self.store.claim(
            worker,
            "reading",
            limit=1 if suspects else limit,
            lease=LEASE,
            suspects=suspects,
            key_of=key_of,
            ordered=self.ordered,
        ):
            self.held[delivery.row] = worker, delivery
            id = delivery.inputs[0].id
            if delivery.inputs[0].status is InputStatus.READY:
                found = self.store.ledger_row(delivery.row)
                assert found is not None
                assert found.serial_key == self.keys[id], f"{id} was claimed with the key that it had before"
            if self.ordered and id in self.places.keys() - self.changed:
                others = (
                    other for other in self.places.keys() - self.changed if self.keys[other] == self.keys[id]
                )
                first = min(others, key=self.places.__getitem__)
                assert id == first, f"{id} was claimed before {first}"

    @rule(pick=st.integers(0, 10), how=st.sampled_from(["done", "done", "retry", "wait", "dead", "release"]))
    def settle(self, pick: int, how: str) -> None:
        if not self.held:
            return
        row = sorted(self.held)[pick % len(self.held)]
        _, delivery = self.held.pop(row)
        id = delivery.inputs[0].id
        parts: dict[str, SettlementPart] = {
            "done": Processed((id,)),
            "retry": RetryLater((id,), after=30, charge=Charge.TRY, failure=failure()),
            "wait": RetryLater((id,), after=300),
            "release": RetryLater((id,)),
            "dead": DeadLettered((id,), reason=Reason.NON_RETRYABLE, failure=failure(), final=False),
        }
        (result,) = self.store.settle([settlement(delivery, parts[how])])
        if result.status is CommitStatus.COMMITTED and how in ("done", "dead"):
            self.places.pop(id, None)
            if how == "dead":
                self.dead[id] = row

    @rule(pick=st.integers(0, 10))
    def requeue(self, pick: int) -> None:
        if self.dead:
            id = sorted(self.dead)[pick % len(self.dead)]
            if self.store.requeue(self.dead.pop(id)):
                self.published += 1
                self.places[id] = self.published
                self.clock.advance(1)

    @rule(worker=st.sampled_from(WORKERS), ran=st.booleans())
    def crash(self, worker: str, ran: bool) -> None:
        rows = [row for row, (holder, _) in self.held.items() if holder == worker]
        self.store.record_crash(worker, rows if ran else [])
        self.held = {row: one for row, one in self.held.items() if row not in rows}

    @rule(seconds=st.sampled_from([1, 40, 400]))
    def wait(self, seconds: float) -> None:
        """Time passes, and what lapses is returned. Workers do not know that, and settle all the same."""
        self.clock.advance(seconds)
        self.store.reclaim()

    @rule()
    def forget(self) -> None:
        gone = {state.id for state in self.states() if state.source == "s"}
        self.store.forget("s")
        self.forgotten(gone)

    @rule(pick=st.integers(0, 10))
    def remove(self, pick: int) -> None:
        if self.places:
            id = sorted(self.places)[pick % len(self.places)]
            self.store.remove_documents([("pages", id)])
            self.forgotten({id})

    @rule(pick=st.integers(0, 10), which=st.sampled_from(KEYS))
    def replace(self, pick: int, which: str) -> None:
        if self.places:
            id = sorted(self.places)[pick % len(self.places)]
            self.store.replace_document(page(id, text=which))
            if self.keys[id] != which:
                self.keys[id] = which
                self.changed.add(id)

    @rule(pick=st.integers(0, 10))
    def settle_by_an_older_version(self, pick: int) -> None:
        """It does not release the key of what it settles."""
        if self.held:
            row = sorted(self.held)[pick % len(self.held)]
            _, delivery = self.held.pop(row)
            found = self.store.ledger_row(row)
            if found is not None and found.state == "claimed":
                with self.store.transaction():
                    self.store.db.send("delete_rows", [row])
                self.places.pop(delivery.inputs[0].id, None)

    @rule()
    def keep_house(self) -> None:
        self.clock.advance(61)
        self.store.release_lost_keys()

    # -- what holds

    @invariant()
    def no_two_are_claimed(self) -> None:
        if hasattr(self, "store"):
            claimed = self.rows("claimed")
            assert len(claimed) == len({row[1] for row in claimed}), "two rows of a key are claimed"

    def finish(self) -> None:
        """Everything that waits is done, one after the other."""
        for worker in WORKERS:
            self.store.record_crash(worker, [])
        self.held.clear()
        for _ in range(200):
            self.keep_house()
            self.clock.advance(400)
            for suspects in (False, True):
                self.claim("anna", 4, suspects)
                while self.held:
                    self.settle(0, "done")
            if not self.rows("waiting") and not self.rows("claimed"):
                break
        assert not self.rows("waiting"), "these wait for ever"
        assert not self.places
        self.keep_house()
        assert self.store.db.fetch("lock_keys", "reading", list(KEYS)) == []

    # -- looking

    def rows(self, state: str) -> list[tuple[int, str, float]]:
        query = "SELECT id, serial_key, due FROM ledger WHERE state = ?"
        found = self.store.db._writer.execute(query, (state,)).fetchall()  # type: ignore[attr-defined]
        parked = [row for row in found if row[2] >= PARKED_DUE]
        assert all(row[1] is not None for row in parked)
        return found  # type: ignore[no-any-return]

    def states(self) -> list[DocumentState]:
        return self.store.states_of([("pages", id) for id in self.places])

    def forgotten(self, gone: set[str]) -> None:
        self.places = {id: place for id, place in self.places.items() if id not in gone}
        self.dead = {id: row for id, row in self.dead.items() if id not in gone}


class OrderedKeyMachine(KeyMachine):
    ordered = True


QUICK = settings(max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))
LONG = settings(QUICK, max_examples=300, stateful_step_count=60)


def _case(machine: type[KeyMachine], chosen: settings) -> type:
    case: type = type(machine.__name__, (machine,), {}).TestCase  # type: ignore[attr-defined]
    case.settings = chosen  # type: ignore[attr-defined]
    return case


class TestOneAtATime(_case(KeyMachine, QUICK)):  # type: ignore[misc]
    pass


class TestInOrder(_case(OrderedKeyMachine, QUICK)):  # type: ignore[misc]
    pass


@pytest.mark.prove
class TestOneAtATimeForLong(_case(KeyMachine, LONG)):  # type: ignore[misc]
    pass


@pytest.mark.prove
class TestInOrderForLong(_case(OrderedKeyMachine, LONG)):  # type: ignore[misc]
    pass
