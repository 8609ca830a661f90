"""Completed events are kept for a while, or so many; what is not completed stays."""

from __future__ import annotations

from onward.model.ledger import DeadLettered, Processed
from tests.support.store_pages import Stage, failure


def complete(stage: Stage, count: int) -> None:
    stage.store.publish([stage.noticed(str(n)) for n in range(count)])
    for delivery in stage.claim(limit=count, service="listening"):
        stage.settle(delivery, Processed())


def test_completed_events_are_dropped_when_they_are_too_old(stage: Stage) -> None:
    complete(stage, 3)
    stage.clock.advance(3600)
    assert stage.store.prune(keep_seconds=3600, keep_count=1000) == 0
    stage.clock.advance(1)
    complete(stage, 1)
    assert stage.store.prune(keep_seconds=3600, keep_count=1000) == 3
    assert stage.rows("done", "listening") == 1


def test_completed_events_are_dropped_when_they_are_too_many_the_oldest_first(stage: Stage) -> None:
    complete(stage, 4)
    stage.clock.advance(10)
    complete(stage, 2)
    assert stage.store.prune(keep_seconds=3600, keep_count=2) == 4
    stage.clock.advance(3595)
    assert stage.store.prune(keep_seconds=3600, keep_count=2) == 0, "the younger ones were kept"


def test_nothing_is_dropped_that_is_not_completed(stage: Stage) -> None:
    stage.bring("dead")
    stage.settle(stage.take(), DeadLettered(["dead"], failure=failure()))
    stage.bring("claimed")
    stage.take()
    stage.bring("waiting")
    stage.clock.advance(10_000_000)
    assert stage.store.prune(keep_seconds=0, keep_count=0) == 0
    assert stage.store.counts() == {"reading": {"dead": 1, "claimed": 1, "waiting": 1}}


def test_documents_stay_when_their_events_go(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), Processed(["a"]))
    stage.clock.advance(1)
    stage.store.prune(keep_seconds=0, keep_count=0)
    state = stage.state("a")
    assert (state.status, state.row) == ("processed", None)
    assert state.attempts["first"]["outcome"] == "processed"
