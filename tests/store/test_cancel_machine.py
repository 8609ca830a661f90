"""Cancelling against everything else that happens to a document: it is never processed, and nothing else is lost.

Hypothesis publishes, claims, settles, crashes, requeues and cancels in any order.
`--hypothesis-profile=nightly` runs more examples.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from onward.ledger.sqlite import SQLiteStore
from onward.model.failures import outcomes
from onward.model.ledger import (
    Charge,
    CommitStatus,
    DeadLettered,
    Delivery,
    Expired,
    InputStatus,
    NewDocument,
    Processed,
    RetryLater,
    SettlementPart,
)
from tests.support.store_pages import Clock, Stage, Word, failure, page

PAGES = ("a", "b", "c")
some_pages = st.lists(st.sampled_from(PAGES), min_size=1, max_size=3, unique=True)
OUTCOMES = ("processed", "processed", "retried", "split", "dead", "failed", "checkpoint")


def receipt(id: str, run: int) -> NewDocument:
    made = Word(id=f"{id} {run}")
    return NewDocument("words", made.id, made.to_json(), parent=f"pages/{id}")


class Cancelling(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.store = SQLiteStore(":memory:", self.clock)
        self.stage = Stage(self.store, self.clock)
        self.store.add_documents([page(id) for id in PAGES])
        self.running: list[Delivery] = []
        self.cancelled: dict[str, int] = {}  # with the number of receipts that it had
        self.runs = 0

    def teardown(self) -> None:
        self._finish()
        self.store.close()

    @rule(ids=some_pages, delay=st.sampled_from((0.0, 30.0)), expires=st.sampled_from((None, None, 45.0)))
    def publish(self, ids: list[str], delay: float, expires: float | None) -> None:
        self.stage.publish(*ids, due_in=delay, expires_in=expires)

    @rule(limit=st.integers(1, 3), worker=st.sampled_from(("anna", "bert")))
    def claim(self, limit: int, worker: str) -> None:
        self.running += self.stage.claim(limit, worker=worker)

    @rule(which=st.integers(0, 5), outcome=st.sampled_from(OUTCOMES))
    def settle(self, which: int, outcome: str) -> None:
        if self.running:
            delivery = self.running[which % len(self.running)]
            if outcome != "checkpoint":
                self.running.remove(delivery)
            self._settle(delivery, outcome)

    @rule(worker=st.sampled_from(("anna", "bert")), is_known=st.booleans())
    def crash(self, worker: str, is_known: bool) -> None:
        """A worker dies; what it was running may still be settled by a copy that does not know it."""
        self.store.record_crash(worker, [one.row for one in self.running] if is_known else [])

    @rule(seconds=st.sampled_from((1.0, 31.0, 61.0)))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.store.reclaim()

    @rule(id=st.sampled_from(PAGES))
    def cancel(self, id: str) -> None:
        status = self.stage.state(id).status
        is_cancelled = self.store.cancel("pages", id, by="anna")
        assert is_cancelled is (status == "pending")
        if is_cancelled:
            self.cancelled[id] = self._receipts(id)

    @rule(ids=some_pages, outcome=st.sampled_from(OUTCOMES), then=st.sampled_from(OUTCOMES))
    def cancel_while_it_runs(self, ids: list[str], outcome: str, then: str) -> None:
        self.stage.publish(*ids)
        self.running += (claimed := self.stage.claim())
        self.cancel(ids[0])
        for delivery in claimed:
            self.running.remove(delivery)
            self._settle(delivery, outcome)
            self._settle(delivery, then)

    @rule()
    def requeue_dead_letters(self) -> None:
        for letter in self.store.dead_letters():
            self.store.requeue(letter.row)

    @invariant()
    def what_was_cancelled_is_discarded_and_nothing_is_made_of_it(self) -> None:
        for id, receipts in self.cancelled.items():
            assert self.stage.state(id).status == "discarded"
            assert self._receipts(id) == receipts
            assert all(("pages", id) not in letter.documents for letter in self.store.dead_letters())

    def _receipts(self, id: str) -> int:
        return sum(self.store.children_counts("pages", id).get("words", {}).values())

    def _settle(self, delivery: Delivery, outcome: str) -> None:
        ready = [one.id for one in delivery.inputs if one.status is InputStatus.READY]
        error, more = failure(), dict[str, Any]()
        parts: list[SettlementPart] = []
        self.runs += 1
        if delivery.expired:
            parts = [Expired(ready)]
        elif outcome == "checkpoint":
            more = {"adds": [receipt(id, self.runs) for id in ready], "closes": False, "cursor": f"{self.runs}"}
        elif outcome == "processed" or not ready:
            more = {"adds": [receipt(id, self.runs) for id in ready]}
            parts = [Processed(ready)]
        elif outcome == "retried":
            parts = [RetryLater(ready, 5.0, charge=Charge.TRY, failure=error)]
        elif outcome == "split":
            parts = [RetryLater(ready[:1], 5.0), RetryLater(ready[1:])] if len(ready) > 1 else [RetryLater(ready)]
        else:
            parts = [DeadLettered(ready, failure=error, final=outcome == "failed")]
        if delivery.expired or not ready:
            more["inputs"] = []
        settled = self.stage.settle(delivery, *parts, **more)
        if ready and any(id in self.cancelled for id in ready) and not delivery.expired:
            assert settled.status is not CommitStatus.COMMITTED

    def _finish(self) -> None:
        """Let everything that is left be done: what was not cancelled must get there."""
        for worker in ("anna", "bert"):
            self.store.release(worker)
        self.requeue_dead_letters()
        left = [id for id in PAGES if id not in self.cancelled and self.stage.state(id).row is None]
        if left := [id for id in left if self.stage.state(id).status == "pending"]:
            self.stage.publish(*left)
        for _ in range(50):
            self.clock.advance(61)
            found = [*self.stage.claim(), *self.stage.claim(suspects=True)]
            for delivery in found:
                self._settle(delivery, "processed")
        self.what_was_cancelled_is_discarded_and_nothing_is_made_of_it()
        for id in PAGES:
            if id not in self.cancelled:
                state = self.stage.state(id)
                if state.status == "discarded":
                    assert outcomes(state.attempts)[-1]["outcome"] == "expired"
                else:
                    assert (state.status, self._receipts(id) > 0) == ("processed", True)
        assert self.stage.rows("waiting") == self.stage.rows("claimed") == 0


TestCancelling = Cancelling.TestCase
TestCancelling.settings = settings(
    max_examples=settings().max_examples // 3, stateful_step_count=30, suppress_health_check=list(HealthCheck)
)
