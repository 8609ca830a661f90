"""What a document's story is told from: its ledger row, the settled events that named it, its children."""

from __future__ import annotations

from onward.model.ledger import Charge, Done, Wait
from tests.store.stage import LEASE, NOON, Stage, failure, word


def test_a_row_tells_where_it_stands(stage: Stage) -> None:
    stage.bring("a", "b")
    delivery = stage.take()
    row = stage.store.row(delivery.row)
    assert row is not None
    assert (row.service, row.event_type, row.state, row.worker) == ("reading", "PagesFound", "claimed", "anna")
    assert (row.lease, row.published_at, row.documents) == (NOON + LEASE, NOON, 2)
    stage.settle(delivery, Wait(["a", "b"], after=5.0, charge=Charge.TRY, failure=failure()))
    row = stage.store.row(delivery.row)
    assert row is not None
    assert (row.state, row.due, row.tries, row.lease) == ("waiting", NOON + 5, 1, None)


def test_a_row_that_is_not_kept_is_none(stage: Stage) -> None:
    assert stage.store.row(4711) is None


def test_settled_events_are_found_by_the_documents_they_named(stage: Stage) -> None:
    for number, ids in enumerate((["a", "b"], ["a"], ["ab"], ["b"])):
        stage.bring(*ids)
        stage.publish(*ids, found_by=str(number))
        for delivery in stage.claim():
            stage.settle(delivery, Done([one.id for one in delivery.inputs]))
        stage.clock.advance(1)
    settled = [row.settled_at for row in stage.store.rows_naming("pages", "a")]
    assert settled == sorted(settled, key=lambda at: at or 0.0)
    assert {at - NOON for at in settled if at is not None} == {0.0, 1.0}
    assert stage.store.rows_naming("words", "a") == []
    (latest,) = stage.store.rows_naming("pages", "a", limit=1)
    assert latest.settled_at == NOON + 1


def test_an_event_that_waits_is_not_settled(stage: Stage) -> None:
    stage.bring("a")
    assert stage.store.rows_naming("pages", "a") == []


def test_an_event_names_ids_that_need_quotes(stage: Stage) -> None:
    strange = 'a "quoted"\nä\\id'
    stage.bring(strange)
    stage.settle(stage.take(), Done([strange]))
    assert len(stage.store.rows_naming("pages", strange)) == 1


def test_children_are_counted_by_collection_and_status(stage: Stage) -> None:
    stage.bring("a")
    words = [word(f"w{number}", parent="pages/a") for number in range(3)]
    stage.settle(stage.take(), Done(["a"]), adds=[*words, word("other", parent="pages/b")])
    stage.store.discard("words", "w1")
    assert stage.store.children_counts("pages", "a") == {"words": {"processed": 2, "discarded": 1}}
    assert stage.store.children_counts("pages", "nobody") == {}
