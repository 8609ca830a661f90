"""Large handlers checkpoint: what is so far is committed, and a redelivery goes on from there."""

from __future__ import annotations

from onward.model.ledger import CommitStatus, Processed, RetryLater
from tests.support.store_pages import LEASE, Stage, page, word


def test_a_checkpoint_commits_what_is_so_far_and_keeps_the_delivery(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    committed = stage.settle(delivery, closes=False, cursor='{"line": 7}', adds=[word("w")])
    assert committed.status is CommitStatus.COMMITTED
    assert stage.store.state("words", "w") is not None
    assert (stage.rows("claimed"), stage.state("a").status) == (1, "pending")
    assert stage.settle(delivery, Processed(["a"])).status is CommitStatus.COMMITTED


def test_a_redelivery_goes_on_from_the_cursor(stage: Stage) -> None:
    stage.bring("a")
    assert stage.take().cursor is None
    stage.settle(stage.store.claimed("anna")[0], closes=False, cursor="7")
    stage.store.record_crash("anna", [])
    assert stage.take().cursor == "7"


def test_a_retry_goes_on_from_the_cursor_even_when_it_is_split_off(stage: Stage) -> None:
    stage.bring("a", "b")
    delivery = stage.take()
    stage.settle(delivery, closes=False, cursor="7")
    stage.settle(delivery, RetryLater(["a"]), closes=False)
    stage.settle(delivery, RetryLater(["b"]), inputs=[])
    assert [one.cursor for one in stage.claim()] == ["7", "7"]


def test_a_zombie_cannot_checkpoint(stage: Stage) -> None:
    stage.bring("a")
    zombie = stage.take()
    stage.store.release("anna")
    assert stage.settle(zombie, closes=False, cursor="7", adds=[word("w")]).status is CommitStatus.FENCED
    assert stage.take().cursor is None
    assert stage.store.state("words", "w") is None


def test_new_content_is_read_from_its_beginning(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    stage.settle(delivery, closes=False, cursor="7", adds=[word("w", parent="pages/a")])
    stage.store.replace_document(page("a", "new"))
    assert stage.store.state("words", "w") is None, "it descended from the old content"
    assert stage.settle(delivery, Processed(["a"])).status is CommitStatus.STALE
    assert stage.take().cursor is None


def test_who_checkpoints_is_alive_and_keeps_the_lease(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    stage.clock.advance(LEASE - 1)
    stage.settle(delivery, closes=False, cursor="7", lease=LEASE)
    stage.clock.advance(LEASE - 1)
    assert stage.store.reclaim() == 0, "it would have lapsed long ago"
    stage.clock.advance(2)
    assert stage.store.reclaim() == 1
