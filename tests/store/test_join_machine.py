"""Joins, whatever happens to their documents in whatever order: each event is published once, with its counts.

The model follows the documents as they are stored after each step: a member is counted when it is final, or gone,
for the first time. When none is open, the event must have been published, and not before.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from onward import Joined
from onward.backend_urls import open_store
from onward.ledger import join_actions
from onward.model.documents import FINAL
from onward.model.ledger import (
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
from tests.support.joins import GATHERING, gathered, join
from tests.support.store_pages import Clock, Stage, failure, page, settlement

NAMES = "abcde"
EVENTS = ("one", "two")
SOURCES = (None, "s")


@dataclass
class Expected:
    """A join that is open, by the model."""

    allow_failed: bool
    source: str | None
    open: set[str] = field(default_factory=set)
    holders: set[str] = field(default_factory=set)
    counted: dict[str, str] = field(default_factory=dict)

    @property
    def joined(self) -> Joined:
        ended = [how for how in self.counted.values() if how != "holder"]
        failed = sorted(f"pages/{id}" for id, how in self.counted.items() if how == "failed")
        counts = {how: ended.count(how) for how in ("processed", "failed", "removed")}
        return Joined(total=len(ended), **counts, failed_ids=tuple(failed))


class JoinMachine(RuleBasedStateMachine):
    @initialize()
    def open(self) -> None:
        self.clock = Clock()
        store = open_store("sqlite://:memory:", self.clock)
        self.stage = Stage(store, self.clock)
        store.subscribe([GATHERING])
        self.store = store
        self.held: dict[int, Delivery] = {}
        self.expected: dict[str, Expected] = {}
        self.published: list[Joined] = []

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.finish()
            self.store.close()

    # -- what may happen

    @rule(ids=st.sets(st.sampled_from(NAMES), min_size=1), source=st.sampled_from(SOURCES))
    def bring(self, ids: set[str], source: str | None) -> None:
        names = sorted(ids)
        self.store.add_documents([page(id, source=source) for id in names])
        self.stage.publish(*names)
        self.check()

    @rule(
        ids=st.sets(st.sampled_from(NAMES)),
        what=st.sampled_from(EVENTS),
        allow_failed=st.booleans(),
    )
    def wait_for(self, ids: set[str], what: str, allow_failed: bool) -> None:
        self.expect(ids, what, allow_failed=allow_failed)
        self.store.open_join(join("".join(sorted(ids)), what=what, allow_failed=allow_failed))
        self.check()

    @rule(limit=st.integers(1, 3))
    def claim(self, limit: int) -> None:
        for delivery in self.stage.claim(limit):
            self.held[delivery.row] = delivery
        self.check()

    @rule(
        pick=st.integers(0, 10),
        how=st.sampled_from(["done", "done", "retry", "failed", "dead"]),
        ids=st.none() | st.sets(st.sampled_from(NAMES)),
        what=st.sampled_from(EVENTS),
        checkpoint=st.booleans(),
    )
    def settle(self, pick: int, how: str, ids: set[str] | None, what: str, checkpoint: bool) -> None:
        if not self.held:
            return
        row = sorted(self.held)[pick % len(self.held)]
        delivery = self.held[row] if checkpoint else self.held.pop(row)
        named = tuple(one.id for one in delivery.inputs)
        parts: dict[str, SettlementPart] = {
            "done": Processed(named),
            "retry": RetryLater(named, after=5, charge=Charge.TRY, failure=failure()),
            "failed": DeadLettered(named, reason=Reason.NON_RETRYABLE, failure=failure(), final=True),
            "dead": DeadLettered(named, reason=Reason.MAX_ATTEMPTS_EXCEEDED, failure=failure(), final=False),
        }
        joins = [] if ids is None else [join("".join(sorted(ids)), what=what)]
        more = {"closes": False, "cursor": f'"{self.clock.now()}"'} if checkpoint else {}
        (result,) = self.store.settle(
            [settlement(delivery, *([] if checkpoint else [parts[how]]), joins=joins, **more)]
        )
        if result.status is CommitStatus.COMMITTED and ids is not None:
            ready = {one.id for one in delivery.inputs if one.status is InputStatus.READY}
            self.expect(ids, what, source=delivery.source, holders=ready if checkpoint else set())
        self.clock.advance(1)
        self.check()

    @rule(
        id=st.sampled_from(NAMES),
        how=st.sampled_from(["discard", "cancel", "reset", "remove", "replace", "rounds"]),
    )
    def change(self, id: str, how: str) -> None:
        key = ("pages", id)
        match how:
            case "discard":
                self.store.discard(*key)
            case "cancel":
                self.store.cancel(*key, by="ada")
            case "reset":
                self.store.reset(*key)
            case "remove":
                self.store.remove_documents([key])
            case "replace":
                if self.store.state(*key) is not None:
                    self.store.replace_document(page(id, text=f"{self.clock.now()}"))
            case "rounds":
                self.store.mark_out_of_rounds([key])
        self.clock.advance(1)
        self.check()

    @rule(id=st.sampled_from(NAMES))
    def requeue(self, id: str) -> None:
        for dead_letter in self.store.find_dead_letters(document=("pages", id)):
            self.store.requeue(dead_letter.row)
        self.check()

    @rule()
    def forget(self) -> None:
        self.store.forget("s")
        self.expected = {what: one for what, one in self.expected.items() if one.source != "s"}
        self.check()

    @rule()
    def crash(self) -> None:
        self.store.record_crash("anna", [])
        self.held.clear()
        self.check()

    @rule()
    def sweep(self) -> None:
        self.clock.advance(join_actions.REPAIR_AFTER_SECONDS + 1)
        self.store.sweep_joins()
        self.check()

    # -- the model

    def how(self, id: str) -> str:
        state = self.store.state("pages", id)
        if state is None:
            return "removed"
        return "open" if state.status not in FINAL else "processed" if state.status == "processed" else "failed"

    def expect(
        self,
        ids: set[str],
        what: str,
        *,
        allow_failed: bool = True,
        source: str | None = None,
        holders: Collection[str] = (),
    ) -> None:
        one = self.expected.setdefault(what, Expected(allow_failed, source))
        for id in ids:
            if one.counted.get(id) in ("processed", "failed") or id in one.open or id in one.holders:
                continue
            one.counted.pop(id, None)
            one.open.add(id)
        for id in set(holders) - one.open:
            if self.how(id) == "open" and one.counted.get(id) not in ("processed", "failed", "removed"):
                one.holders.add(id)

    def check(self) -> None:
        for what, one in list(self.expected.items()):
            for id in sorted(one.open | one.holders):
                how, is_holder = self.how(id), id in one.holders
                if how == "open" or (how == "failed" and not one.allow_failed and not self.is_discarded(id)):
                    continue
                one.open.discard(id)
                one.holders.discard(id)
                one.counted[id] = "holder" if is_holder and how == "processed" else how
            if not one.open and not one.holders:
                self.published.append(one.joined)
                del self.expected[what]
        found = gathered(self.stage)
        assert sorted(found, key=repr) == sorted(self.published, key=repr)
        self.published.clear()

    def is_discarded(self, id: str) -> bool:
        state = self.store.state("pages", id)
        return state is not None and state.status == "discarded"

    def finish(self) -> None:
        for id in NAMES:
            self.store.discard("pages", id)
        self.check()
        assert self.expected == {}


QUICK = settings(max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))


LONG = settings(QUICK, max_examples=300, stateful_step_count=60)


def _case(chosen: settings) -> type:
    case: type = type(JoinMachine.__name__, (JoinMachine,), {}).TestCase  # type: ignore[attr-defined]
    case.settings = chosen  # type: ignore[attr-defined]
    return case


class TestJoins(_case(QUICK)):  # type: ignore[misc]
    pass


@pytest.mark.prove
class TestJoinsForLong(_case(LONG)):  # type: ignore[misc]
    pass
