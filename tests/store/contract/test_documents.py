"""Documents are added if absent, replaced if their revision holds, removed with all that descended."""

from __future__ import annotations

from onward.model.events import Envelope
from onward.model.ledger import Processed, Replacement, Subscription
from tests.support.store_pages import NOON, Page, Stage, page, word


def test_documents_are_written_and_read(stage: Stage) -> None:
    assert stage.store.add_documents([page("a", "hello"), page("b")]) == 2
    assert stage.store.get(Page, "a") == Page(id="a", text="hello")
    assert stage.store.get(Page, "nobody") is None
    assert [one.id for one in stage.store.get_many(Page, ["b", "nobody", "a"])] == ["b", "a"]
    assert stage.store.read_bodies("pages", ["a"]) == [("a", 1, page("a", "hello").body)]


def test_a_new_document_is_pending_at_revision_1_and_begun_by_nobody(stage: Stage) -> None:
    stage.store.add_documents([page("a", source="s", parent="sites/x", priority=2)])
    state = stage.state("a")
    assert (state.status, state.revision, state.round, state.row, state.final) == ("pending", 1, 0, None, False)
    assert (state.source, state.parent, state.priority) == ("s", "sites/x", 2)
    assert state.created_at == state.updated_at == NOON


def test_adding_what_exists_changes_nothing(stage: Stage) -> None:
    stage.store.add_documents([page("a", "first")])
    assert stage.store.add_documents([page("a", "second"), page("b"), page("b", "twice")]) == 1
    assert (stage.text("a"), stage.text("b"), stage.state("a").revision) == ("first", "", 1)


def test_text_of_any_kind_is_kept_as_it_is(stage: Stage) -> None:
    text = "naïve 🦉 \u0000 \u2028 'quoted' \\ \"json\" [brackets]"
    stage.store.add_documents([page("ö/['x']", text)])
    assert stage.text("ö/['x']") == text
    stage.publish("ö/['x']")
    assert stage.take().inputs[0].status == "ready"


def test_what_a_work_adds_belongs_to_its_source(stage: Stage) -> None:
    stage.bring("a", source="s")
    stage.settle(stage.take(), Processed(["a"]), adds=[word("w"), word("x", source="t")])
    assert (stage.state("w", "words").source, stage.state("x", "words").source) == ("s", "t")


def test_changed_content_grows_the_revision_and_makes_the_document_pending(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), Processed(["a"]))
    assert stage.store.replace_document(page("a", "new"))
    state = stage.state("a")
    assert (state.status, state.revision, state.attempt_count, state.round) == ("pending", 2, 0, 1)


def test_the_same_content_again_changes_nothing(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), Processed(["a"]))
    assert not stage.store.replace_document(page("a"))
    assert (stage.state("a").status, stage.state("a").revision) == ("processed", 1)


def test_replacing_what_does_not_exist_adds_it(stage: Stage) -> None:
    assert stage.store.replace_document(page("a", "new"))
    assert (stage.text("a"), stage.state("a").revision) == ("new", 1)


def test_changed_content_removes_all_that_descended_from_the_old(stage: Stage) -> None:
    stage.store.add_documents([page("a"), word("w", parent="pages/a"), word("v", parent="words/w"), word("other")])
    stage.store.replace_document(page("a", "new"))
    assert stage.store.document_counts() == {"pages": {"pending": 1}, "words": {"processed": 1}}


def test_a_work_replaces_in_its_own_transaction_and_may_add_new_descendants(stage: Stage) -> None:
    stage.bring("a")
    stage.store.add_documents([word("old", parent="pages/a")])
    stage.settle(
        stage.take(),
        Processed(["a"]),
        replaces=[Replacement("pages", "a", page("a", "new").body, 1)],
        adds=[word("new", parent="pages/a")],
    )
    assert (stage.text("a"), stage.state("a").status, stage.state("a").revision) == ("new", "processed", 2)
    assert stage.store.state("words", "old") is None
    assert stage.store.state("words", "new") is not None


def test_content_that_no_result_depends_on_is_replaced_without_making_anything_again(stage: Stage) -> None:
    stage.bring("a")
    stage.store.add_documents([word("made", parent="pages/a")])
    stage.settle(stage.take(), Processed(["a"]))
    before = stage.state("a")
    stage.bring("b")
    body = page("a", "new").body
    replacement = Replacement("pages", "a", body, 1, [("author", "Dora")], keeps_results=True)
    stage.settle(stage.take(), Processed(["b"]), replaces=[replacement])
    after = stage.state("a")
    assert (stage.text("a"), after.status, after.revision, after.round) == ("new", "processed", 2, before.round)
    assert stage.store.state("words", "made") is not None
    assert [one.id for one in stage.store.find("pages", "author", ["Dora"])] == ["a"]


def test_a_work_on_content_that_was_replaced_meanwhile_is_done_again(stage: Stage) -> None:
    stage.bring("b")
    reader = stage.take()
    stage.bring("a")
    replacement = Replacement("pages", "b", page("b", "new").body, 1, keeps_results=True)
    stage.settle(stage.take(), Processed(["a"]), replaces=[replacement])
    assert stage.settle(reader, Processed(["b"])).status == "stale"
    assert stage.state("b").status == "pending"


def test_removing_takes_the_descendants_their_rows_and_nothing_else(stage: Stage) -> None:
    stage.bring("a", "b")
    stage.store.add_documents([page("child", parent="pages/a"), page("grandchild", parent="pages/child")])
    stage.publish("grandchild", "b", found_by="x")
    stage.store.publish([stage.noticed()])
    stage.settle(stage.take(service="listening"), Processed(), removes=[("pages", "a")])
    assert stage.store.document_counts() == {"pages": {"pending": 1}}
    delivery = next(one for one in stage.claim() if one.row == stage.state("b").row)
    assert [one.id for one in delivery.inputs] == ["b"], "its event goes on without the removed one"


def test_a_document_of_the_same_id_in_another_collection_is_another_document(stage: Stage) -> None:
    stage.store.add_documents([page("parent"), word("a", parent="pages/parent"), page("x"), page("a")])
    stage.store.add_documents([page("y", parent="pages/parent")])
    stage.publish("a", "y")
    stage.store.publish([stage.noticed()])
    stage.settle(stage.take(service="listening"), Processed(), removes=[("pages", "parent")])
    assert stage.state("a").status == "pending"
    assert [one.id for one in stage.take().inputs] == ["a"]


def test_documents_are_counted_by_collection_and_status(stage: Stage) -> None:
    stage.bring("a", "b")
    stage.store.add_documents([word("w")])
    stage.settle(stage.take(), Processed(["a"]))
    assert stage.store.document_counts() == {
        "pages": {"processed": 1, "pending": 1},
        "words": {"processed": 1},
    }


def test_a_document_that_nobody_finishes_has_nothing_to_wait_for(stage: Stage) -> None:
    stage.store.add_documents([word("w")])
    assert stage.state("w", "words").status == "processed"


def test_a_document_that_nobody_finished_is_taken_on_by_whoever_comes_to_finish_it(stage: Stage) -> None:
    stage.store.add_documents([word("w")])
    heard = Envelope("WordHeard", '{"word_ids": ["w"]}', "event-1", stage.store.now())
    assert stage.store.publish([heard])[0].unrouted
    stage.store.subscribe([Subscription("spelling", "WordHeard", "words", "word_ids", ("word_ids",))])
    assert (stage.state("w", "words").status, stage.state("w", "words").round) == ("pending", 1)
    stage.settle(stage.take(service="spelling"), Processed(["w"]))
    assert stage.state("w", "words").status == "processed"
