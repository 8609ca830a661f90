"""Claiming: what is due, by priority, then by due time, under a lease."""

from __future__ import annotations

from onward.model.ledger import MAX_COMMIT_BYTES, MAX_COMMIT_DOCUMENTS, Processed, RetryLater
from tests.support.store_pages import LEASE, NOON, Stage, ids, page


def test_a_delivery_brings_its_documents_as_they_are(stage: Stage) -> None:
    stage.store.add_documents([page("a", "hello")])
    stage.publish("a")
    (given,) = stage.take().inputs
    assert (given.id, given.status, given.revision, given.round) == ("a", "ready", 1, 1)
    assert given.body is not None
    assert "hello" in given.body


def test_nothing_that_is_not_due_is_claimed(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), RetryLater(["a"], after=10.0))
    assert stage.claim() == []
    stage.clock.advance(9.5)
    assert stage.claim() == []
    stage.clock.advance(0.5)
    assert ids(stage.claim()) == [["a"]]


def test_a_wait_may_name_its_time(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), RetryLater(["a"], until=NOON + 3600))
    assert stage.store.next_due(["reading"]) == NOON + 3600


def test_higher_priority_comes_first_then_what_was_due_first_then_what_came_first(stage: Stage) -> None:
    for id, priority, due_in in (("late", 0, 2.0), ("first", 0, 1.0), ("second", 0, 1.0), ("urgent", 9, 3.0)):
        stage.store.publish([stage.found(id, priority=priority, due_in=due_in)])
    stage.clock.advance(3.0)
    assert ids(stage.claim(limit=3)) == [["urgent"], ["first"], ["second"]]
    assert ids(stage.claim()) == [["late"]]


def test_a_document_lends_its_priority_to_its_event(stage: Stage) -> None:
    stage.bring("usual")
    stage.bring("urgent", priority=5)
    assert ids(stage.claim(limit=1)) == [["urgent"]]


def test_what_waits_at_a_high_priority_does_not_block_what_is_due_at_a_low_one(stage: Stage) -> None:
    stage.store.publish([stage.found("waits", priority=9, due_in=60.0), stage.found("due")])
    assert ids(stage.claim()) == [["due"]]


def test_what_is_claimed_is_nobody_elses(stage: Stage) -> None:
    stage.bring("a")
    assert len(stage.claim(worker="anna")) == 1
    assert stage.claim(worker="bert") == []
    stage.clock.advance(LEASE * 10)
    assert stage.claim(worker="bert") == [], "not before somebody has taken the lapsed lease back"


def test_each_hand_over_has_a_new_token(stage: Stage) -> None:
    stage.bring("a")
    first = stage.take()
    stage.store.release("anna")
    second = stage.take()
    assert (second.row, second.token) == (first.row, first.token + 1)


def test_claims_are_of_one_service(stage: Stage) -> None:
    stage.bring("a")
    assert stage.claim(service="listening") == []
    assert stage.claim(service="unheard of") == []


def test_no_claim_brings_more_documents_than_a_commit_may_hold(stage: Stage) -> None:
    for start in range(3):
        stage.publish(*[f"{start}-{n}" for n in range(500)])
    assert len(stage.claim()) == MAX_COMMIT_DOCUMENTS // 500


def test_bodies_past_what_a_commit_may_hold_are_left_to_be_read_later(stage: Stage) -> None:
    large = "x" * (MAX_COMMIT_BYTES // 2)
    stage.store.add_documents([page(id, large) for id in "abc"])
    stage.publish("a", "b", "c")
    read = [one.id for one in stage.take().inputs if one.body is not None]
    assert read == ["a", "b"]
    assert [id for id, _, _ in stage.store.read_bodies("pages", ["c"])] == ["c"]


def test_a_supervisor_sees_what_a_worker_holds(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    assert stage.store.claimed("anna") == [delivery]
    assert stage.store.claimed("bert") == []
    stage.settle(delivery, Processed(["a"]))
    assert stage.store.claimed("anna") == []


def test_the_highest_priority_that_is_due(stage: Stage) -> None:
    assert stage.store.due_priority("reading") is None
    for id, priority, due_in in (("waits", 9, 60.0), ("due", 3, 0.0), ("usual", 0, 0.0)):
        stage.store.publish([stage.found(id, priority=priority, due_in=due_in)])
    assert stage.store.due_priority("reading") == 3
    assert ids(stage.claim(limit=1)) == [["due"]]
    assert stage.store.due_priority("reading") == 0
    stage.clock.advance(60.0)
    assert stage.store.due_priority("reading") == 9
