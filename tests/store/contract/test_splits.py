"""Documents of one event do not share a fate: each goes its own way, in the same round."""

from __future__ import annotations

import pytest

from onward.model.ledger import Charge, CommitStatus, DeadLettered, Processed, RetryLater, SettlementPart
from tests.support.store_pages import Stage, failure, ids, standings


def test_what_failed_is_split_off_into_an_event_of_its_own(stage: Stage) -> None:
    stage.bring("good", "slow", "bad", "worse")
    stage.settle(
        stage.take(),
        Processed(["good"]),
        RetryLater(["slow"], after=5.0),
        RetryLater(["bad"], after=10.0, charge=Charge.TRY, failure=failure()),
        DeadLettered(["worse"], failure=failure(), final=True),
    )
    assert stage.state("good").status == "processed"
    assert stage.state("worse").status == "failed"
    stage.clock.advance(10.0)
    deliveries = stage.claim()
    assert ids(deliveries) == [["slow"], ["bad"]]
    assert [one.tries for one in deliveries] == [0, 1], "only what failed is charged"
    assert {one.round for one in deliveries} == {1}
    assert len({one.event_id for one in deliveries}) == 1, "it is still the same event"


def test_a_document_that_waits_points_to_the_row_that_carries_it(stage: Stage) -> None:
    stage.bring("a", "b")
    stage.settle(stage.take(), RetryLater(["a"]), RetryLater(["b"]))
    first, second = stage.claim()
    assert (stage.state("a").row, stage.state("b").row) == (first.row, second.row)


def test_works_of_one_delivery_can_be_settled_one_by_one(stage: Stage) -> None:
    stage.bring("a", "b", "c")
    delivery = stage.take()
    first = stage.settle(delivery, Processed(["a"]), inputs=[("a", 1)], closes=False)
    assert first.status is CommitStatus.COMMITTED
    stage.settle(delivery, RetryLater(["b"], charge=Charge.TRY), inputs=[], closes=False)
    assert stage.rows("claimed") == 1
    stage.settle(delivery, Processed(["c"]), inputs=[("c", 1)])
    assert (stage.rows("claimed"), stage.rows("waiting"), stage.rows("done")) == (0, 1, 1)
    assert [stage.state(id).status for id in "abc"] == ["processed", "pending", "processed"]


def test_a_redelivery_brings_only_what_is_still_to_be_done(stage: Stage) -> None:
    stage.bring("a", "b", "c")
    delivery = stage.take()
    stage.settle(delivery, Processed(["a"]), inputs=[("a", 1)], closes=False)
    stage.settle(delivery, RetryLater(["b"], after=60.0), inputs=[], closes=False)
    stage.store.record_crash("anna", [])
    assert standings(stage.take()) == {"a": "final", "c": "ready"}


def test_a_failing_batch_is_halved_until_the_culprit_is_alone(stage: Stage) -> None:
    stage.bring("a", "b", "c", "d")
    stage.settle(stage.take(), RetryLater(["a", "b"], batch=2), RetryLater(["c", "d"], batch=2))
    first, second = stage.claim()
    assert [first.batch, second.batch] == [2, 2]
    stage.settle(second, Processed(["c", "d"]))
    stage.settle(first, RetryLater(["a"], batch=1), RetryLater(["b"], batch=1))
    assert ids(stage.claim()) == [["a"], ["b"]]


def test_a_part_that_names_no_documents_is_about_all_of_them(stage: Stage) -> None:
    stage.bring("a", "b")
    stage.settle(stage.take(), RetryLater(charge=Charge.TRY))
    delivery = stage.take()
    assert standings(delivery) == {"a": "ready", "b": "ready"}
    stage.settle(delivery, DeadLettered(failure=failure()))
    assert stage.state("a").dead_letter == stage.state("b").dead_letter is not None


@pytest.mark.parametrize("part", (Processed(["a"]), RetryLater(["a"]), DeadLettered(["a"], failure=failure())))
def test_a_document_that_nobody_spoke_for_is_not_left_pointing_to_a_row(
    stage: Stage, part: SettlementPart
) -> None:
    stage.bring("a", "b")
    stage.settle(stage.take(), part)
    assert (stage.state("b").status, stage.state("b").row) == ("pending", None)


def test_what_one_part_is_charged_is_not_charged_to_the_next(stage: Stage) -> None:
    stage.bring("bad", "dead", "good")
    stage.settle(
        stage.take(),
        RetryLater(["bad"], charge=Charge.TRY, failure=failure(), batch=1, deaths=1),
        DeadLettered(["dead"], charge=Charge.TRY, failure=failure()),
        RetryLater(["good"]),
    )
    good = next(one for one in stage.claim() if standings(one) == {"good": "ready"})
    assert (good.tries, good.deaths, good.batch, good.failed_at) == (0, 0, None, None)
    assert len(stage.store.dead_letters()[0].errors) == 1


def test_a_part_about_what_moved_on_meanwhile_leaves_nothing_behind(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    stage.store.reset("pages", "a")
    stage.settle(delivery, RetryLater(["a"], charge=Charge.TRY, failure=failure()), inputs=[])
    assert stage.rows("waiting") == 0
    assert stage.state("a").last_error is None


def test_speaking_for_a_document_twice_changes_nothing(stage: Stage) -> None:
    stage.publish("late", "later")
    delivery = stage.take()
    stage.settle(delivery, RetryLater(["late"], after=1.0), closes=False)
    stage.settle(delivery, DeadLettered(["late"], failure=failure()), closes=False)
    assert stage.store.dead_letters() == []
    assert (stage.rows("waiting"), stage.rows("claimed")) == (1, 1)


def test_every_try_of_a_document_has_the_same_idempotency_key(stage: Stage) -> None:
    stage.bring("a", "b", "c")
    first = stage.take()
    stage.settle(first, RetryLater(["a"]), RetryLater(["b"]), DeadLettered(["c"], failure=failure()))
    assert {one.key for one in stage.claim()} == {first.key}
    assert stage.store.dead_letters()[0].idempotency_key == first.key
