"""Settling is fenced: what is no longer a worker's is not for it to settle."""

from __future__ import annotations

from onward.model.ledger import CommitStatus, DeadLettered, Processed, RetryLater
from tests.support.store_pages import LEASE, Stage, failure, settlement, word


def test_a_work_is_committed_once(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    assert stage.settle(delivery, Processed(["a"]), adds=[word("w")]).status is CommitStatus.COMMITTED
    assert stage.settle(delivery, Processed(["a"]), adds=[word("x")]).status is CommitStatus.FENCED
    assert stage.store.document_counts() == {"pages": {"processed": 1}, "words": {"processed": 1}}


def test_a_zombie_writes_nothing(stage: Stage) -> None:
    stage.bring("a")
    zombie = stage.take(worker="zombie")
    stage.clock.advance(LEASE + 1)
    stage.store.reclaim()
    living = stage.take(worker="living")
    late = stage.settle(zombie, Processed(["a"]), adds=[word("w")], emits=[stage.noticed()])
    assert late.status is CommitStatus.FENCED
    assert stage.store.state("words", "w") is None
    assert stage.rows("waiting", "listening") == 0
    assert stage.state("a").status == "pending"
    assert stage.settle(living, Processed(["a"])).status is CommitStatus.COMMITTED


def test_a_zombie_writes_nothing_for_an_event_without_documents_either(stage: Stage) -> None:
    stage.store.publish([stage.noticed("a"), stage.noticed("b")])
    zombies = stage.store.claim("zombie", "listening", limit=2, lease=LEASE)
    stage.store.release("zombie", [zombies[0].row])
    (living,) = stage.store.claim("living", "listening", limit=1, lease=LEASE)
    late = stage.store.settle([settlement(one, Processed(), adds=[word(f"late {one.row}")]) for one in zombies])
    assert [one.status for one in late] == [CommitStatus.FENCED, CommitStatus.COMMITTED]
    assert stage.store.document_counts() == {"words": {"processed": 1}}
    assert (stage.rows("claimed", "listening"), stage.rows("done", "listening")) == (1, 1)
    assert stage.settle(living, Processed(), adds=[word("w")]).status is CommitStatus.COMMITTED
    assert stage.settle(living, Processed(), adds=[word("x")]).status is CommitStatus.FENCED
    assert stage.store.document_counts() == {"words": {"processed": 2}}


def test_a_zombie_can_neither_fail_nor_give_up_what_another_handles(stage: Stage) -> None:
    stage.bring("a")
    zombie = stage.take(worker="zombie")
    stage.store.release("zombie")
    living = stage.take(worker="living")
    assert stage.settle(zombie, RetryLater(["a"], after=3600)).status is CommitStatus.FENCED
    assert stage.settle(zombie, DeadLettered(["a"], failure=failure())).status is CommitStatus.FENCED
    assert stage.settle(living, Processed(["a"])).status is CommitStatus.COMMITTED
    assert stage.store.dead_letters() == []


def test_a_zombie_cannot_settle_what_nobody_has_claimed_again(stage: Stage) -> None:
    stage.bring("a")
    zombie = stage.take()
    stage.store.release("anna")
    assert stage.settle(zombie, Processed(["a"])).status is CommitStatus.FENCED
    assert stage.rows("waiting") == 1


def test_a_row_that_never_was_settles_nothing(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    delivery.row += 1000
    assert stage.settle(delivery, Processed(["a"])).status is CommitStatus.FENCED
    assert stage.state("a").status == "pending"


def test_a_lease_that_has_lapsed_unnoticed_still_counts(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    stage.clock.advance(LEASE * 2)
    assert stage.settle(delivery, Processed(["a"])).status is CommitStatus.COMMITTED, "nobody else has it"
