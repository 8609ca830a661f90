"""Rounds have one owner: putting an event on the ledger begins one, nothing else does."""

from __future__ import annotations

from onward.model.ledger import Charge, DeadLettered, Processed, RetryLater
from tests.support.store_pages import LISTENING, NOON, Stage, failure, page


def counted(stage: Stage, id: str) -> tuple[int, int]:
    state = stage.state(id)
    return state.round, state.attempt_count


def test_a_document_that_no_event_names_has_begun_no_round(stage: Stage) -> None:
    stage.store.add_documents([page("a")])
    assert counted(stage, "a") == (0, 0)
    assert stage.state("a").last_attempt_time is None


def test_an_event_for_the_service_that_finishes_it_begins_a_round(stage: Stage) -> None:
    stage.clock.advance(5)
    stage.bring("a")
    assert counted(stage, "a") == (1, 1)
    assert stage.state("a").last_attempt_time == NOON + 5


def test_claims_tries_redeliveries_and_splits_cost_no_round(stage: Stage) -> None:
    stage.bring("a", "b")
    stage.settle(
        stage.take(),
        RetryLater(["a"], charge=Charge.TRY, failure=failure()),
        RetryLater(["b"], charge=Charge.TRY, failure=failure()),
    )
    for delivery in stage.claim():
        stage.settle(delivery, RetryLater([delivery.inputs[0].id], charge=Charge.NOT_READY))
    stage.claim()
    stage.store.release("anna")
    assert counted(stage, "a") == counted(stage, "b") == (1, 1)


def test_a_delivery_of_an_older_round_is_superseded(stage: Stage) -> None:
    stage.bring("a")
    stage.publish("a", found_by="somebody else")
    older, newer = stage.claim()
    assert [older.inputs[0].status, newer.inputs[0].status] == ["superseded", "ready"]
    assert (newer.round, counted(stage, "a")) == (2, (2, 2))


def test_a_document_that_is_final_begins_no_round(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), Processed(["a"]))
    stage.publish("a")
    delivery = stage.take()
    assert delivery.inputs[0].status == "final"
    assert counted(stage, "a") == (1, 1)


def test_a_service_that_finishes_nothing_begins_no_round(stage: Stage) -> None:
    stage.store.add_documents([page("a")])
    stage.store.subscribe([LISTENING])
    stage.store.publish([stage.noticed("a")])
    assert counted(stage, "a") == (0, 0)


def test_a_round_emitted_by_a_work_is_counted_in_its_transaction(stage: Stage) -> None:
    stage.store.publish([stage.noticed()])
    stage.settle(stage.take(service="listening"), Processed(), adds=[page("a")], emits=[stage.found("a")])
    assert counted(stage, "a") == (1, 1)


def test_a_document_that_exists_already_is_skipped_and_still_announced(stage: Stage) -> None:
    stage.store.add_documents([page("a", "the first")])
    stage.store.publish([stage.noticed()])
    stage.settle(
        stage.take(service="listening"), Processed(), adds=[page("a", "another")], emits=[stage.found("a")]
    )
    assert stage.text("a") == "the first"
    assert counted(stage, "a") == (1, 1)


def test_a_requeue_begins_a_round_and_a_reset_counts_from_zero(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), DeadLettered(["a"], failure=failure()))
    (letter,) = stage.store.dead_letters()
    stage.store.requeue(letter.row)
    assert counted(stage, "a") == (2, 2)
    stage.store.reset("pages", "a")
    assert counted(stage, "a") == (3, 0), "the count begins again, the round only grows"
    stage.publish("a")
    assert counted(stage, "a") == (4, 1)
