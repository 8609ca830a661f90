"""What a document's story is told from: its row, settled events that named it, its children; and who has what."""

from __future__ import annotations

from onward.model.events import Envelope
from onward.model.ledger import SUSPECT_DEATHS, Charge, DeadLettered, Processed, RetryLater
from onward.model.ledger_views import WorkerClaims
from tests.support.store_pages import LEASE, NOON, Stage, failure, word


def test_a_row_tells_where_it_stands(stage: Stage) -> None:
    stage.bring("a", "b")
    delivery = stage.take()
    row = stage.store.ledger_row(delivery.row)
    assert row is not None
    assert (row.service, row.event_type, row.state, row.worker) == ("reading", "PagesFound", "claimed", "anna")
    assert (row.lease, row.published_at, row.documents) == (NOON + LEASE, NOON, 2)
    stage.settle(delivery, RetryLater(["a", "b"], after=5.0, charge=Charge.TRY, failure=failure()))
    row = stage.store.ledger_row(delivery.row)
    assert row is not None
    assert (row.state, row.due, row.tries, row.lease) == ("waiting", NOON + 5, 1, None)


def test_a_row_that_is_not_kept_is_none(stage: Stage) -> None:
    assert stage.store.ledger_row(4711) is None


def test_settled_events_are_found_by_the_documents_they_named(stage: Stage) -> None:
    for number, ids in enumerate((["a", "b"], ["a"], ["ab"], ["b"])):
        stage.bring(*ids)
        stage.publish(*ids, found_by=str(number))
        for delivery in stage.claim():
            stage.settle(delivery, Processed([one.id for one in delivery.inputs]))
        stage.clock.advance(1)
    settled = [row.settled_at for row in stage.store.settled_rows_naming("pages", "a")]
    assert settled == sorted(settled, key=lambda at: at or 0.0)
    assert {at - NOON for at in settled if at is not None} == {0.0, 1.0}
    assert stage.store.settled_rows_naming("words", "a") == []
    (latest,) = stage.store.settled_rows_naming("pages", "a", limit=1)
    assert latest.settled_at == NOON + 1


def test_an_event_that_waits_is_not_settled(stage: Stage) -> None:
    stage.bring("a")
    assert stage.store.settled_rows_naming("pages", "a") == []


def test_an_event_names_ids_that_need_quotes(stage: Stage) -> None:
    strange = 'a "quoted"\nä\\id'
    stage.bring(strange)
    stage.settle(stage.take(), Processed([strange]))
    assert len(stage.store.settled_rows_naming("pages", strange)) == 1


def test_children_are_counted_by_collection_and_status(stage: Stage) -> None:
    stage.bring("a")
    words = [word(f"w{number}", parent="pages/a") for number in range(3)]
    stage.settle(stage.take(), Processed(["a"]), adds=[*words, word("other", parent="pages/b")])
    stage.store.discard("words", "w1")
    assert stage.store.children_counts("pages", "a") == {"words": {"processed": 2, "discarded": 1}}
    assert stage.store.children_counts("pages", "nobody") == {}


def test_what_workers_hold_is_told_by_worker_and_service_with_a_few_documents(stage: Stage) -> None:
    for id in ("a", "b", "c", "d"):
        stage.bring(id)
    stage.bring("e", "f")
    stage.store.publish([stage.noticed("a bell")])
    stage.claim(3, worker="bert")
    stage.clock.advance(10)
    stage.claim(worker="anna")
    stage.claim(worker="anna", service="listening")
    bell, pages, others = stage.store.claims_by_worker(examples=2)
    assert bell == WorkerClaims("anna", "listening", 1, 0, NOON + 10 + LEASE, ())
    assert (others.worker, others.service, others.events, others.until) == ("bert", "reading", 3, NOON + LEASE)
    assert len(others.examples) == 2
    # Who gets which event is nobody's promise; together they have all of them.
    assert (pages.worker, pages.events, pages.documents + others.documents) == ("anna", 2, 6)
    assert {*pages.examples, *others.examples} < {("pages", id) for id in "abcdef"}


def test_what_was_settled_or_given_back_is_held_by_nobody(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), Processed(["a"]))
    stage.bring("b")
    stage.claim()
    stage.store.release("anna")
    assert stage.store.claims_by_worker() == []


def test_queues_tell_what_waits_is_under_way_and_was_given_up(stage: Stage) -> None:
    stage.bring("a")
    stage.bring("b")
    stage.bring("c")
    stage.settle(stage.take(limit=1), DeadLettered(["a"], failure=failure()))
    stage.take(limit=1)
    stage.clock.advance(7)
    (reading,) = stage.store.queues(["reading"])
    assert (reading.waiting, reading.claimed, reading.dead) == (1, 1, 1)
    assert reading.oldest_due == NOON


def test_a_queue_in_which_nothing_is_due_has_no_oldest_event(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), RetryLater(["a"], after=60.0, charge=Charge.TRY, failure=failure()))
    reading, nothing = sorted(stage.store.queues(["reading", "nobody"]), key=lambda one: -one.waiting)
    assert (reading.waiting, reading.oldest_due) == (1, None)
    assert (nothing.service, nothing.waiting, nothing.oldest_due) == ("nobody", 0, None)
    stage.clock.advance(70)
    (reading,) = stage.store.queues(["reading"])
    assert reading.oldest_due == NOON + 60


def test_a_distribution_among_the_totals_is_kept_in_buckets(stage: Stage) -> None:
    for seconds in (0.2, 0.2, 7.0, 100_000.0):
        stage.store.observe_total("retry_job_duration_seconds", seconds)
    kept = stage.store.totals()["retry_job_duration_seconds"]
    assert kept == {"le:0.25": 2, "le:10": 1, "le:inf": 1, "sum": 100_007.4, "count": 4}


def test_rows_are_counted_by_service_and_state(stage: Stage) -> None:
    for id in ("dead", "archived"):
        stage.bring(id)
        stage.settle(stage.take(), DeadLettered([id], failure=failure()))
    (archived,) = [one.row for one in stage.store.dead_letters() if ("pages", "archived") in one.documents]
    stage.store.archive_dead_letters([archived])
    stage.bring("done")
    stage.settle(stage.take(), Processed(["done"]))
    stage.bring("deadly")
    for _ in range(SUSPECT_DEATHS):
        stage.store.record_crash("anna", [stage.take().row])
    stage.bring("claimed")
    stage.take()
    stage.bring("waiting")
    stage.store.publish([Envelope("Unheard", "{}", "event", stage.store.now())])
    assert stage.store.counts() == {
        "reading": {"waiting": 2, "claimed": 1, "done": 1, "dead": 1, "archived": 1},
        "": {"unrouted": 1},
    }
