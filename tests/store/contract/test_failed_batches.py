"""What failed while others went on is set aside, in one failed batch for each source, until it recovers."""

from __future__ import annotations

from onward.model.ledger import DeadLettered, DependencyReport, InFailedBatch, Processed
from tests.support.store_pages import NOON, Stage, failure, page


def _set_aside(stage: Stage, *ids: str, message: str = "it broke", after: float = 60.0) -> None:
    stage.settle(stage.take(), InFailedBatch(list(ids), failure(message), after=after))


def test_a_document_that_is_set_aside_is_pending_and_no_dead_letter(stage: Stage) -> None:
    stage.bring("a", source="s")
    _set_aside(stage, "a", message="the model said no")
    state = stage.state("a")
    assert (state.status, state.row, state.dead_letter) == ("pending", None, None)
    assert state.last_error is not None
    assert (state.last_error["message"], state.last_error["outcome"]) == ("the model said no", "set_aside")
    assert stage.store.dead_letters() == []
    assert stage.rows("waiting") == 0
    (batch,) = stage.store.failed_batches()
    assert state.failed_batch == batch.id
    assert (batch.source, batch.service, batch.items) == ("s", "reading", (("pages", "a"),))
    assert (batch.created_at, batch.retry_after, batch.retry_count) == (NOON, NOON + 60.0, 0)
    assert "the model said no" in batch.errors[-1]["error"]


def test_in_an_outage_nothing_is_set_aside_it_waits_for_the_dependency(stage: Stage) -> None:
    stage.store.open_breaker("model", "down")
    stage.bring("a", "b", source="s")
    result = stage.settle(
        stage.take(),
        InFailedBatch(["a"], failure("refused")),
        Processed(["b"]),
        dependencies=DependencyReport(struck="model", reason="down"),
    )
    assert stage.store.failed_batches() == []
    assert [(type(part).__name__, part.ids) for part in result.parts or ()] == [
        ("Processed", ["b"]),
        ("RetryLater", ["a"]),
    ]
    assert (stage.state("a").failed_batch, stage.state("a").attempt_count, stage.rows("waiting")) == (None, 1, 1)


def test_those_of_one_source_share_a_batch_and_its_time(stage: Stage) -> None:
    stage.bring("a", source="s")
    _set_aside(stage, "a", message="first")
    stage.clock.advance(30)
    stage.bring("b", source="s")
    _set_aside(stage, "b", message="second")
    (batch,) = stage.store.failed_batches("s")
    assert sorted(batch.items) == [("pages", "a"), ("pages", "b")]
    assert batch.retry_after == NOON + 60.0, "the batch began with the first"
    assert [one["error"] for one in batch.errors] == ["ValueError: first", "ValueError: second"]


def test_each_source_has_its_own(stage: Stage) -> None:
    stage.bring("a", source="s")
    _set_aside(stage, "a")
    stage.bring("b", source="t")
    _set_aside(stage, "b")
    stage.bring("c")
    _set_aside(stage, "c")
    assert {one.source for one in stage.store.failed_batches()} == {"s", "t", None}
    assert [one.items for one in stage.store.failed_batches("t")] == [(("pages", "b"),)]


def test_the_others_of_the_event_are_finished(stage: Stage) -> None:
    stage.bring("a", "b")
    stage.settle(stage.take(), InFailedBatch(["a"], failure()), Processed(["b"]))
    assert (stage.state("a").status, stage.state("b").status) == ("pending", "processed")
    assert stage.rows("waiting") == stage.rows("dead") == 0


def test_a_batch_is_over_when_its_last_item_recovers(stage: Stage) -> None:
    stage.bring("a", "b", source="s")
    _set_aside(stage, "a", "b")
    stage.publish("a", "b")
    stage.settle(stage.take(), Processed(["a"]), InFailedBatch(["b"], failure("again")))
    (batch,) = stage.store.failed_batches()
    assert batch.items == (("pages", "b"),)
    assert stage.state("a").failed_batch is None
    stage.publish("b")
    assert stage.state("b").failed_batch == batch.id, "it is not out of the batch before it recovers"
    stage.settle(stage.take(), Processed(["b"]))
    assert stage.store.failed_batches() == []


def test_what_fails_for_good_leaves_its_batch(stage: Stage) -> None:
    stage.bring("a", source="s")
    _set_aside(stage, "a")
    stage.publish("a")
    stage.settle(stage.take(), DeadLettered(["a"], failure=failure(), final=True))
    assert (stage.state("a").status, stage.state("a").failed_batch) == ("failed", None)
    assert stage.store.failed_batches() == []


def test_an_operator_takes_documents_out(stage: Stage) -> None:
    stage.bring("a", "b", source="s")
    _set_aside(stage, "a", "b")
    stage.store.reset("pages", "a")
    assert stage.state("a").failed_batch is None
    stage.store.discard("pages", "b")
    assert stage.store.failed_batches() == []


def test_what_is_removed_or_forgotten_leaves_no_empty_batch(stage: Stage) -> None:
    stage.bring("a", source="s")
    _set_aside(stage, "a")
    stage.bring("b", source="s")
    stage.settle(stage.take(), Processed(["b"]), removes=[("pages", "a")])
    assert stage.store.failed_batches() == []
    stage.bring("c", source="s")
    _set_aside(stage, "c")
    stage.store.forget("s")
    assert stage.store.failed_batches() == []


def test_new_content_stays_in_the_batch_so_that_somebody_tries_it(stage: Stage) -> None:
    stage.bring("a", source="s")
    _set_aside(stage, "a")
    stage.store.replace_document(page("a", "new"))
    (batch,) = stage.store.failed_batches()
    assert stage.state("a").failed_batch == batch.id
    stage.publish("a")
    stage.settle(stage.take(), Processed(["a"]))
    assert stage.store.failed_batches() == []


def test_a_dead_letter_it_had_is_closed(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), DeadLettered(["a"], failure=failure()))
    stage.publish("a")
    _set_aside(stage, "a")
    assert stage.store.dead_letters() == []


def test_how_long_a_batch_took_to_recover_is_kept(stage: Stage) -> None:
    stage.bring("a", source="s")
    _set_aside(stage, "a")
    stage.clock.advance(100)
    stage.publish("a")
    stage.settle(stage.take(), Processed(["a"]))
    totals = stage.store.totals()
    assert totals["failed_batch_recovery_seconds"] == {"le:300": 1, "sum": 100, "count": 1}
    assert totals["failed_batch_retries"] == {"le:1": 1, "sum": 0, "count": 1}


def test_a_batch_that_is_emptied_without_a_success_has_not_recovered(stage: Stage) -> None:
    stage.bring("a", source="s")
    _set_aside(stage, "a")
    stage.store.forget("s")
    assert stage.store.failed_batches() == []
    assert "failed_batch_recovery_seconds" not in stage.store.totals()
