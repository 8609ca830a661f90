"""Deadlines in the store: what a claim says of a row that is late, and what its settlement makes of documents."""

from __future__ import annotations

import pytest

from onward.model.documents import Status
from onward.model.ledger import Charge, CommitStatus, DeadLettered, Expired, Processed, RetryLater
from tests.support.store_pages import Stage, failure, page


def bring(stage: Stage, *ids: str, expires_in: float | None = 60.0) -> None:
    stage.store.add_documents([page(id) for id in ids])
    stage.publish(*ids, expires_in=expires_in)


def test_a_claim_says_which_rows_are_late_by_the_clock_of_the_store(stage: Stage) -> None:
    bring(stage, "a")
    bring(stage, "b", expires_in=60.001)
    bring(stage, "c", expires_in=None)
    stage.clock.advance(60)
    found = {one.inputs[0].id: one for one in stage.claim()}
    assert {id: one.expired for id, one in found.items()} == {"a": True, "b": False, "c": False}
    assert found["a"].expires == stage.store.now()
    assert (found["a"].inputs[0].body, found["a"].inputs[0].failed) == (None, False), "its body is not read"


def test_documents_that_expired_are_discarded_and_others_of_the_row_are_not(stage: Stage) -> None:
    bring(stage, "a", "b")
    stage.clock.advance(60)
    delivery = stage.take()
    result = stage.settle(delivery, Expired(["a"]), DeadLettered(["b"], failure=failure(), final=True))
    assert result.status is CommitStatus.COMMITTED
    assert (stage.state("a").status, stage.state("b").status) == (Status.DISCARDED, Status.FAILED)
    assert (stage.state("a").row, stage.state("a").last_error) == (None, None)
    (letter,) = stage.store.dead_letters()
    assert letter.documents == (("pages", "b"),)


def test_a_document_that_was_cancelled_meanwhile_is_not_expired(stage: Stage) -> None:
    bring(stage, "a")
    stage.clock.advance(60)
    delivery = stage.take()
    stage.store.cancel("pages", "a", by="anna")
    stage.settle(delivery, Expired(["a"]), inputs=[])
    assert [one["outcome"] for one in [stage.state("a").attempts["first"]]] == ["cancelled"]


def test_a_late_delivery_says_which_documents_have_failed_before(stage: Stage) -> None:
    bring(stage, "a", "b")
    stage.settle(
        stage.take(), RetryLater(["a"], after=5.0, charge=Charge.TRY, failure=failure()), RetryLater(["b"])
    )
    stage.clock.advance(60)
    found = {one.id: one.failed for delivery in stage.claim() for one in delivery.inputs}
    assert found == {"a": True, "b": False}


def test_a_part_that_is_split_off_keeps_the_deadline(stage: Stage) -> None:
    bring(stage, "a", "b")
    stage.settle(stage.take(), RetryLater(["a"], after=5.0), RetryLater(["b"], after=6.0))
    stage.clock.advance(60)
    assert [one.expired for one in stage.claim()] == [True, True]


def test_a_document_that_comes_after_its_event_gets_the_deadline(stage: Stage) -> None:
    stage.publish("a", expires_in=60.0)
    stage.store.add_documents([page("a")])
    assert stage.state("a").expires is None
    stage.take()
    assert stage.state("a").expires == stage.store.now() + 60


@pytest.mark.parametrize(
    ("own", "twin", "later"), ((60, 90, 90), (90, 60, 90), (60, None, None), (None, 60, None))
)
def test_a_row_that_merges_with_its_waiting_twin_gets_the_later_deadline(
    stage: Stage, own: float | None, twin: float | None, later: float | None
) -> None:
    stage.store.publish([stage.noticed(expires_in=own)])
    delivery = stage.take(service="listening")
    stage.store.publish([stage.noticed(expires_in=twin)])
    stage.settle(delivery, RetryLater())
    merged = stage.take(service="listening")
    assert merged.expires == (None if later is None else stage.store.now() + later)


@pytest.mark.parametrize("keeps", (True, False))
def test_a_requeued_dead_letter_has_the_deadline_of_its_documents_or_none(stage: Stage, keeps: bool) -> None:
    bring(stage, "a")
    stage.settle(stage.take(), DeadLettered(["a"], failure=failure()))
    (letter,) = stage.store.dead_letters()
    stage.store.requeue(letter.row, keeps_deadline=keeps)
    delivery = stage.take()
    deadline = stage.store.now() + 60 if keeps else None
    assert (delivery.expires, stage.state("a").expires) == (deadline, deadline)
    stage.settle(delivery, Processed(["a"]))
    assert stage.state("a").status == Status.PROCESSED


def test_giving_up_a_document_for_its_deadline_marks_its_dead_letter(stage: Stage) -> None:
    bring(stage, "a")
    stage.settle(stage.take(), DeadLettered(["a"], failure=failure()))
    bring(stage, "silent")
    assert stage.store.mark_expired([("pages", "a"), ("pages", "silent"), ("pages", "nobody")]) == 1
    assert stage.state("a").status == Status.FAILED
    assert stage.state("silent").status == Status.PENDING, "it has an event"
    assert [one.abandoned_reason for one in stage.store.dead_letters()] == ["ttl_exceeded"]


def test_a_new_event_without_a_deadline_takes_that_of_its_documents_away(stage: Stage) -> None:
    bring(stage, "a")
    stage.settle(stage.take(), DeadLettered(["a"], failure=failure()))
    assert stage.state("a").expires is not None
    stage.publish("a")
    assert stage.state("a").expires is None, "a new event says anew until when it is wanted"
