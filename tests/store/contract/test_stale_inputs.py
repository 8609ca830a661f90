"""A work that relied on what has changed meanwhile is dropped, and its event handled again."""

from __future__ import annotations

from onward.model.ledger import CommitStatus, Processed, Replacement
from tests.support.store_pages import Stage, page, settlement, standings, word


def test_changed_content_makes_the_work_stale_and_the_event_comes_again_uncharged(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    stage.store.replace_document(page("a", "new"))
    assert stage.settle(delivery, Processed(["a"]), adds=[word("w")]).status is CommitStatus.STALE
    assert stage.store.state("words", "w") is None
    again = stage.take()
    assert (again.inputs[0].status, again.inputs[0].revision, again.tries) == ("ready", 2, 0)
    stage.settle(again, Processed(["a"]))
    assert stage.state("a").status == "processed"


def test_a_reset_supersedes_what_is_under_way(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    stage.store.reset("pages", "a")
    assert stage.settle(delivery, Processed(["a"])).status is CommitStatus.STALE
    assert stage.state("a").status == "pending"
    assert standings(stage.take()) == {"a": "superseded"}


def test_a_discarded_document_is_not_brought_back_by_what_is_under_way(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    stage.store.discard("pages", "a")
    assert stage.settle(delivery, Processed(["a"])).status is CommitStatus.STALE
    assert stage.state("a").status == "discarded"


def test_a_newer_round_supersedes_what_is_under_way(stage: Stage) -> None:
    stage.bring("a")
    older = stage.take()
    stage.publish("a", found_by="somebody else")
    assert stage.settle(older, Processed(["a"])).status is CommitStatus.STALE
    assert {str(one.inputs[0].status) for one in stage.claim()} == {"superseded", "ready"}


def test_a_removed_document_makes_its_work_void(stage: Stage) -> None:
    stage.bring("a")
    stage.bring("b")
    first, second = stage.claim()
    stage.settle(first, Processed(["a"]), removes=[("pages", "b")])
    assert stage.settle(second, Processed(["b"]), adds=[word("w")]).status is CommitStatus.FENCED
    assert stage.store.document_counts() == {"pages": {"processed": 1}}


def test_other_documents_that_a_work_has_read_count_too(stage: Stage) -> None:
    stage.bring("a")
    stage.store.add_documents([page("other")])
    delivery = stage.take()
    stage.store.replace_document(page("other", "new"))
    assert stage.settle(delivery, Processed(["a"]), reads=[("pages", "other", 1)]).status is CommitStatus.STALE
    assert (
        stage.settle(stage.take(), Processed(["a"]), reads=[("pages", "other", 2)]).status
        is CommitStatus.COMMITTED
    )


def test_a_replacement_holds_only_for_the_revision_that_was_read(stage: Stage) -> None:
    stage.bring("a")
    stage.store.add_documents([page("other")])
    delivery = stage.take()
    stage.store.replace_document(page("other", "theirs"))
    ours = Replacement("pages", "other", page("other", "ours").body, revision=1)
    assert stage.settle(delivery, Processed(["a"]), replaces=[ours]).status is CommitStatus.STALE
    assert stage.text("other") == "theirs"


def test_works_of_one_group_see_what_those_before_them_did(stage: Stage) -> None:
    stage.bring("a")
    stage.bring("b")
    stage.store.add_documents([page("shared")])
    first, second = stage.claim()
    answers = stage.store.settle(
        [
            settlement(one, replaces=[Replacement("pages", "shared", page("shared", text).body, 1)])
            for one, text in ((first, "first"), (second, "second"))
        ]
    )
    assert [one.status for one in answers] == [CommitStatus.COMMITTED, CommitStatus.STALE]
    assert (stage.text("shared"), stage.state("shared").revision) == ("first", 2)
