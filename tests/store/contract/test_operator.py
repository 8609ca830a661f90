"""What a person decides: reset, discard, and who is at work."""

from __future__ import annotations

from onward.model.ledger import DeadLettered, Processed, RetryLater
from tests.support.store_pages import Stage, failure


def test_a_reset_makes_a_document_pending_with_nothing_counted(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), DeadLettered(["a"], failure=failure(), final=True))
    assert stage.store.reset("pages", "a")
    state = stage.state("a")
    assert (state.status, state.attempt_count, state.last_attempt_time) == ("pending", 0, None)
    assert (state.last_error, state.retry_at, state.row) == (None, None, None)
    assert state.attempts["total"] == 1, "what happened is not forgotten"


def test_after_a_reset_its_old_event_is_not_waited_for(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), RetryLater(["a"], after=60.0))
    stage.store.reset("pages", "a")
    assert stage.rows("waiting") == 0
    assert stage.publish("a").rows == 1
    assert stage.take().inputs[0].status == "ready"


def test_a_reset_of_one_document_leaves_its_event_to_the_others(stage: Stage) -> None:
    stage.bring("a", "b")
    stage.store.reset("pages", "a")
    delivery = stage.take()
    assert [one.id for one in delivery.inputs] == ["b"]
    stage.settle(delivery, Processed(["b"]))
    assert stage.state("b").status == "processed"


def test_a_discarded_document_is_final_and_its_dead_letter_closed(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), DeadLettered(["a"], failure=failure()))
    assert stage.store.discard("pages", "a")
    assert (stage.state("a").status, stage.store.dead_letters()) == ("discarded", [])


def test_discarding_one_document_leaves_the_dead_letter_to_the_others(stage: Stage) -> None:
    stage.bring("a", "b")
    stage.settle(stage.take(), DeadLettered(["a", "b"], failure=failure()))
    stage.store.discard("pages", "a")
    (letter,) = stage.store.dead_letters()
    assert letter.documents == (("pages", "b"),)
    assert stage.store.requeue(letter.row)
    assert stage.state("a").status == "discarded"


def test_a_discarded_document_may_be_reset(stage: Stage) -> None:
    stage.bring("a")
    stage.store.discard("pages", "a")
    assert stage.store.reset("pages", "a")
    assert stage.state("a").status == "pending"


def test_deciding_about_what_does_not_exist_does_nothing(stage: Stage) -> None:
    assert not stage.store.reset("pages", "nobody")
    assert not stage.store.discard("pages", "nobody")


def test_workers_are_known_while_they_are_heard_of(stage: Stage) -> None:
    stage.store.register_worker("anna", {"host": "here", "pid": 1})
    stage.store.register_worker("bert", {"host": "there", "pid": 2})
    stage.clock.advance(60)
    stage.store.renew("anna", 60)
    stage.clock.advance(60)
    assert stage.store.workers() == [
        {"worker": "anna", "last_seen": stage.store.now() - 60, "host": "here", "pid": 1}
    ]
    stage.store.unregister_worker("anna")
    assert stage.store.workers() == []


def test_a_buried_worker_is_not_alive(stage: Stage) -> None:
    stage.store.register_worker("anna", {})
    stage.store.record_crash("anna", [])
    assert stage.store.workers() == []
