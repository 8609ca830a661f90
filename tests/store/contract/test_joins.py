"""An event that waits for documents is published once, when the last of them is final."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from onward import Joined
from onward.ledger import join_actions, joins
from onward.model.documents import Status
from onward.model.joins import NewJoin
from onward.model.ledger import Charge, DeadLettered, Processed, RetryLater
from tests.support.joins import GATHERING, gathered, join, keys
from tests.support.store_pages import Stage, failure, page, word

GIVEN_UP = DeadLettered(failure=failure(), final=True, charge=Charge.TRY)


@pytest.fixture
def stage(stage: Stage) -> Stage:
    stage.store.subscribe([GATHERING])
    return stage


def process(stage: Stage, *, failing: str = "", limit: int = 100) -> None:
    """Settle the deliveries that are due, each with one page."""
    for delivery in stage.claim(limit):
        (given,) = delivery.inputs
        stage.settle(delivery, GIVEN_UP if given.id in failing else Processed([given.id]))


def bring(stage: Stage, ids: str) -> None:
    """Write pages, each with an event of its own."""
    for id in ids:
        stage.bring(id)


def test_the_last_document_publishes_the_event(stage: Stage) -> None:
    bring(stage, "abc")
    stage.store.open_join(join("abc"))
    process(stage, limit=2)
    assert gathered(stage) == []
    process(stage)
    assert gathered(stage) == [Joined(total=3, processed=3)]
    assert stage.store.open_joins() == []


def test_documents_that_were_given_up_or_removed_are_counted(stage: Stage) -> None:
    bring(stage, "abcd")
    stage.store.open_join(join("abcd"))
    process(stage, failing="bc", limit=3)
    assert stage.store.remove_documents(keys("d")) == 1
    expected = Joined(total=4, processed=1, failed=2, removed=1, failed_ids=("pages/b", "pages/c"))
    assert gathered(stage) == [expected]


def test_without_documents_it_is_published_at_once(stage: Stage) -> None:
    stage.store.open_join(join(""))
    assert gathered(stage) == [Joined()]


def test_documents_that_are_final_already_are_counted_as_they_are(stage: Stage) -> None:
    bring(stage, "ab")
    process(stage, failing="b")
    stage.store.add_documents([word("w")])  # which no service finishes
    members = [*keys("ab"), ("words", "w"), ("pages", "never stored")]
    stage.store.open_join(replace(join(""), members=members))
    assert gathered(stage) == [Joined(total=4, processed=2, failed=1, removed=1, failed_ids=("pages/b",))]


def test_it_waits_for_documents_of_the_same_work(stage: Stage) -> None:
    stage.bring("a")
    new = replace(join(""), members=[("pages", "new"), ("words", "w")])
    event = stage.found("new")
    stage.settle(stage.take(), Processed(["a"]), adds=[page("new"), word("w")], emits=[event], joins=[new])
    assert gathered(stage) == []
    process(stage)
    assert gathered(stage) == [Joined(total=2, processed=2)]


def test_what_a_work_adds_as_failed_is_counted(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), Processed(["a"]), adds=[page("x", failure=failure())], joins=[join("x")])
    assert gathered(stage) == [Joined(total=1, failed=1, failed_ids=("pages/x",))]


def test_a_work_that_is_refused_waits_for_nothing(stage: Stage) -> None:
    stage.bring("a")
    zombie = stage.take()
    stage.store.release("anna")
    stage.settle(zombie, Processed(["a"]), joins=[join("a")])
    assert stage.store.open_joins() == []


def test_a_service_without_documents_can_wait_for_some(stage: Stage) -> None:
    stage.store.publish([stage.noticed("hello")])
    (delivery,) = stage.claim(service="listening")
    stage.settle(delivery, Processed(), adds=[page("p")], emits=[], joins=[join("p")])
    stage.publish("p")
    process(stage)
    assert gathered(stage) == [Joined(total=1, processed=1)]


# -- the ways in which a document ends


def discard(stage: Stage) -> None:
    assert stage.store.discard("pages", "a")


def run_out_of_rounds(stage: Stage) -> None:
    stage.settle(stage.take(), DeadLettered(failure=failure(), charge=Charge.TRY))
    assert gathered(stage) == [], "a dead letter that the retry job requeues is not final"
    assert stage.store.mark_out_of_rounds(keys("a")) == 1


def remove(stage: Stage) -> None:
    assert stage.store.remove_documents(keys("a")) == 1


def remove_with_its_parent(stage: Stage) -> None:
    stage.bring("parent")
    parent = stage.claim()[-1]
    stage.store.add_documents([page("child", parent="pages/parent")])
    stage.publish("child")
    stage.store.open_join(join("", what="child"))
    assert gathered(stage) == [Joined()]
    stage.store.open_join(replace(join("", what="a"), members=[("pages", "child")]))
    stage.settle(parent, removes=[("pages", "parent")])
    stage.store.remove_documents(keys("a"))


def replace_its_parent(stage: Stage) -> None:
    stage.store.add_documents([page("parent"), page("child", parent="pages/parent")])
    stage.store.open_join(replace(join("", what="a"), members=[("pages", "child")]))
    stage.store.replace_document(page("parent", "new"))
    stage.store.remove_documents(keys("a"))


def forget(stage: Stage) -> None:
    stage.store.add_documents([page("of source", source="s")])
    stage.store.open_join(replace(join(""), members=[("pages", "of source")]))
    assert stage.store.forget("s") == 1
    stage.store.remove_documents(keys("a"))


def fail_by_a_work_that_removes_it(stage: Stage) -> None:
    stage.bring("b")
    for delivery in stage.claim():
        (given,) = delivery.inputs
        if given.id == "b":
            stage.settle(delivery, Processed(["b"]), removes=[("pages", "a")])


ENDS: dict[Callable[[Stage], None], Joined] = {
    discard: Joined(total=1, failed=1, failed_ids=("pages/a",)),
    run_out_of_rounds: Joined(total=1, failed=1, failed_ids=("pages/a",)),
    remove: Joined(total=1, removed=1),
    forget: Joined(total=2, removed=2),
    fail_by_a_work_that_removes_it: Joined(total=1, removed=1),
}


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_however_a_document_ends_it_is_counted(end: Callable[[Stage], None], stage: Stage) -> None:
    stage.bring("a")
    stage.store.open_join(join("a"))
    end(stage)
    assert gathered(stage) == [ENDS[end]]


@pytest.mark.parametrize("end", (remove_with_its_parent, replace_its_parent), ids=lambda end: end.__name__)
def test_a_descendant_ends_with_its_parent(end: Callable[[Stage], None], stage: Stage) -> None:
    stage.bring("a")
    stage.store.open_join(join("a", what="a"))
    end(stage)
    assert gathered(stage) == [Joined(total=2, removed=2)]


def test_a_retry_is_no_end(stage: Stage) -> None:
    stage.bring("a")
    stage.store.open_join(join("a"))
    stage.settle(stage.take(), RetryLater(charge=Charge.TRY, failure=failure()))
    assert gathered(stage) == []
    process(stage)
    assert gathered(stage) == [Joined(total=1, processed=1)]


def test_a_document_is_counted_once(stage: Stage) -> None:
    bring(stage, "ab")
    stage.store.open_join(join("ab"))
    process(stage, limit=1)
    stage.store.replace_document(page("a", "new"))
    stage.publish("a")
    assert stage.state("a").status == "pending"
    process(stage)
    assert gathered(stage) == [Joined(total=2, processed=2)]


def test_a_document_that_is_removed_and_added_again_counts_as_removed(stage: Stage) -> None:
    stage.bring("a")
    stage.store.open_join(join("a"))
    stage.store.remove_documents(keys("a"))
    stage.bring("a")
    assert gathered(stage) == [Joined(total=1, removed=1)]


# -- failed documents that are not allowed


def test_without_failed_documents_it_waits_until_they_are_put_right(stage: Stage) -> None:
    bring(stage, "ab")
    stage.store.open_join(join("ab", allow_failed=False))
    process(stage, failing="b")
    assert gathered(stage) == []
    stage.store.requeue(stage.store.dead_letters("reading")[0].row)
    process(stage)
    assert gathered(stage) == [Joined(total=2, processed=2)]


def test_without_failed_documents_it_waits_for_those_that_failed_before(stage: Stage) -> None:
    bring(stage, "ab")
    process(stage, failing="b")
    stage.store.open_join(join("ab", allow_failed=False))
    assert gathered(stage) == []
    assert stage.store.discard("pages", "b")
    assert gathered(stage) == [Joined(total=2, processed=1, failed=1, failed_ids=("pages/b",))]


def test_one_waits_for_a_failed_document_and_another_does_not(stage: Stage) -> None:
    stage.bring("a")
    stage.store.open_join(join("a", what="strict", allow_failed=False))
    stage.store.open_join(join("a", what="mild"))
    process(stage, failing="a")
    assert gathered(stage) == [Joined(total=1, failed=1, failed_ids=("pages/a",))]
    stage.store.remove_documents(keys("a"))
    assert gathered(stage) == [Joined(total=1, removed=1)]


# -- extending


def test_an_equal_event_adds_its_documents(stage: Stage) -> None:
    bring(stage, "abc")
    stage.store.open_join(join("ab"))
    process(stage, limit=1)
    stage.store.open_join(join("abc"))  # a is counted already
    (found,) = stage.store.open_joins()
    assert (found.remaining, found.processed, found.open_documents) == (2, 1, (("pages", "b"), ("pages", "c")))
    process(stage)
    assert gathered(stage) == [Joined(total=3, processed=3)]


def test_a_removed_document_that_is_added_and_named_again_is_waited_for(stage: Stage) -> None:
    """The content of its parent has changed, and the handler has made the same documents again."""
    bring(stage, "abc")
    stage.store.open_join(join("abcx"))
    stage.store.remove_documents(keys("ab"))
    stage.bring("a")
    stage.store.open_join(join("ax"))
    (found,) = stage.store.open_joins()
    assert (found.remaining, found.removed, found.open_documents) == (2, 2, (("pages", "a"), ("pages", "c")))
    process(stage)
    assert gathered(stage) == [Joined(total=4, processed=2, removed=2)]


def test_other_data_is_another_event(stage: Stage) -> None:
    bring(stage, "ab")
    stage.store.open_join(join("a", what="first"))
    stage.store.open_join(join("b", what="second"))
    process(stage)
    assert gathered(stage) == [Joined(total=1, processed=1)] * 2


def test_after_it_was_published_an_equal_event_is_published_again(stage: Stage) -> None:
    bring(stage, "a")
    for _ in range(2):
        stage.store.open_join(join("a"))
        process(stage)
        assert gathered(stage) == [Joined(total=1, processed=1)]


def test_two_equal_events_of_one_transaction_are_one(stage: Stage) -> None:
    bring(stage, "ab")
    with stage.store.transaction():
        stage.store.open_join(join("a"))
        stage.store.open_join(join("b"))
    process(stage)
    assert gathered(stage) == [Joined(total=2, processed=2)]


# -- checkpoints


def test_a_checkpoint_waits_for_its_own_document(stage: Stage) -> None:
    stage.bring("parent")
    delivery = stage.take()
    bring(stage, "abc")
    stage.settle(delivery, closes=False, cursor="1", joins=[join("ab")])
    process(stage)
    assert gathered(stage) == [], "the handler may add more"
    stage.bring("d")
    stage.settle(delivery, Processed(["parent"]), joins=[join("cd")])
    assert gathered(stage) == [], "the last part was added before the document was counted"
    process(stage)
    assert gathered(stage) == [Joined(total=4, processed=4)], "the parent is not counted"


def test_a_handler_that_is_given_up_after_a_checkpoint_is_counted_as_failed(stage: Stage) -> None:
    stage.bring("parent")
    delivery = stage.take()
    bring(stage, "a")
    stage.settle(delivery, closes=False, cursor="1", joins=[join("a")])
    stage.settle(delivery, GIVEN_UP)
    process(stage)
    assert gathered(stage) == [Joined(total=2, processed=1, failed=1, failed_ids=("pages/parent",))]


def test_a_handler_that_goes_on_after_it_was_given_up_is_waited_for_again(stage: Stage) -> None:
    stage.bring("parent")
    delivery = stage.take()
    bring(stage, "ab")
    (a, _) = stage.claim()
    stage.settle(delivery, closes=False, cursor="1", joins=[join("ab")])
    stage.settle(delivery, GIVEN_UP)
    stage.store.requeue(stage.store.dead_letters("reading")[0].row)
    again = stage.take()
    stage.settle(again, closes=False, cursor="2", joins=[join("c")])
    stage.settle(a, Processed(["a"]))
    stage.store.release("anna", [_.row])
    for one in [one for one in stage.claim() if one.inputs[0].id == "b"]:
        stage.settle(one, Processed(["b"]))
    assert gathered(stage) == [], "c never existed, a and b are processed, and the handler goes on"
    stage.settle(again, Processed(["parent"]))
    assert gathered(stage) == [Joined(total=3, processed=2, removed=1)]


# -- sources


def test_the_event_of_a_forgotten_source_is_not_published(stage: Stage) -> None:
    bring(stage, "a")
    stage.store.add_documents([page("s", source="site")])
    stage.publish("s")
    stage.store.open_join(join("as", source="site"))
    stage.store.forget("site")
    process(stage)
    assert gathered(stage) == []
    assert stage.store.open_joins() == []


def test_a_source_that_was_forgotten_and_comes_again_begins_anew(stage: Stage) -> None:
    bring(stage, "ab")
    stage.store.open_join(join("a", source="site"))
    stage.store.forget("site")
    stage.store.open_join(join("b", source="site"))
    process(stage)
    assert gathered(stage) == [Joined(total=1, processed=1)]
    stage.store.sweep_joins()
    assert members(stage) == 0


# -- many members


def members(stage: Stage) -> int:
    """How many rows of members there are."""
    return len(stage.store.db.read("member_page", 0, "", "", 0.0, 100_000))


@pytest.fixture
def small_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joins, "MAX_COMMIT_DOCUMENTS", 2)
    monkeypatch.setattr(join_actions, "MAX_COMMIT_DOCUMENTS", 2)


@pytest.mark.usefixtures("small_transactions")
def test_many_documents_are_added_in_several_transactions_and_removed_in_several(stage: Stage) -> None:
    bring(stage, "abcde")
    process(stage)
    stage.store.open_join(join("abcde"))
    assert gathered(stage) == [Joined(total=5, processed=5)], "once, not for each part"
    assert (stage.store.open_joins(), members(stage)) == ([], 5)
    stage.store.sweep_joins()
    assert members(stage) == 0


class Crash(Exception):
    """The caller dies here."""


@pytest.mark.usefixtures("small_transactions")
def test_a_small_call_does_not_end_the_wait_of_one_that_adds_many(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(stage, "abcd")
    process(stage, limit=2)
    opens = stage.store._open_join

    def open_and_meet(new: NewJoin) -> None:
        opens(new)
        if new.hold_seconds:
            monkeypatch.setattr(stage.store, "_open_join", opens)
            stage.store.open_join(join("a"))

    monkeypatch.setattr(stage.store, "_open_join", open_and_meet)
    stage.store.open_join(join("abcd"))
    assert gathered(stage) == [], "not all documents have been added"
    process(stage)
    assert gathered(stage) == [Joined(total=4, processed=4)]


def open_and_crash(stage: Stage, new: NewJoin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add all members but those of the last transaction."""
    opens = stage.store._open_join

    def crash(new: NewJoin) -> None:
        if new.releases:
            raise Crash
        opens(new)

    with monkeypatch.context() as patch:
        patch.setattr(stage.store, "_open_join", crash)
        with pytest.raises(Crash):
            stage.store.open_join(new)


@pytest.mark.usefixtures("small_transactions")
@pytest.mark.parametrize("first", (True, False))
def test_a_caller_that_ends_while_it_adds_takes_away_no_event_of_another(
    first: bool, stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A committed work waits with an equal event, from before the caller or from after it."""
    bring(stage, "abcd")
    a = stage.take(limit=1)
    if first:
        stage.store.open_join(join("d"))
    open_and_crash(stage, join("bcd"), monkeypatch)
    if not first:
        stage.settle(a, Processed(["a"]), joins=[join("a")])
    process(stage)
    assert gathered(stage) == [], "the caller may still be adding"
    stage.clock.advance(join_actions.HOLD_SECONDS + 1)
    stage.store.sweep_joins()
    assert "Gathered does not wait for all documents" in caplog.text
    assert gathered(stage) == [Joined(total=3, processed=3)], "with what was added"
    assert (stage.store.open_joins(), members(stage)) == ([], 3)


@pytest.mark.usefixtures("small_transactions")
def test_a_caller_that_ends_before_all_are_added_publishes_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bring(stage, "abc")
    process(stage)
    open_and_crash(stage, join("abc"), monkeypatch)
    assert gathered(stage) == []
    stage.clock.advance(join_actions.HOLD_SECONDS + 1)
    stage.store.sweep_joins()
    assert "Gathered will not be published" in caplog.text
    assert (gathered(stage), stage.store.open_joins(), members(stage)) == ([], [], 0)
    stage.store.open_join(join("abc"))
    assert gathered(stage) == [Joined(total=3, processed=3)]


def test_at_most_a_hundred_failed_documents_are_named(stage: Stage) -> None:
    names = [f"{number:03}" for number in range(120)]
    stage.store.add_documents([page(name, failure=failure()) for name in names])
    stage.store.open_join(replace(join(""), members=[("pages", name) for name in names]))
    (found,) = gathered(stage)
    assert (found.failed, found.failed_ids) == (120, tuple(f"pages/{name}" for name in names[:100]))


def test_long_ids_are_named_as_far_as_they_fit(stage: Stage) -> None:
    names = [f"{number:03}" + "x" * 500 for number in range(100)]
    stage.store.add_documents([page(name, failure=failure()) for name in names])
    stage.store.open_join(replace(join(""), members=[("pages", name) for name in names]))
    (found,) = gathered(stage)
    assert found.failed == 100
    assert 10 < len(found.failed_ids) < 50


# -- looking, and repairing


def test_a_document_is_listed_with_what_waits_for_it(stage: Stage) -> None:
    bring(stage, "ab")
    stage.store.open_join(join("ab"))
    (found,) = stage.store.joins_of_document("pages", "a")
    assert (found.event_type, found.remaining, stage.store.join_count()) == ("Gathered", 2, 1)
    process(stage, limit=1)
    assert stage.store.joins_of_document("pages", "a") == []


def end_without_counting(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Process what is due as a worker does that knows no joins."""
    with monkeypatch.context() as patch:
        patch.setattr("onward.ledger.transactions.complete_joins", lambda unit: False)
        process(stage, failing="b")
        stage.store.remove_documents(keys("c"))
        stage.store.remove_documents(keys("d"))
        stage.store.add_documents([page("d")])


def test_a_sweep_counts_what_older_workers_have_ended(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    bring(stage, "abcd")
    stage.store.open_join(join("abcd"))
    end_without_counting(stage, monkeypatch)
    assert stage.store.sweep_joins() == 0, "the join is young: who has ended them may still count them"
    assert gathered(stage) == []
    stage.clock.advance(join_actions.REPAIR_AFTER_SECONDS + 1)
    assert stage.store.sweep_joins() == 4
    assert gathered(stage) == [Joined(total=4, processed=1, failed=1, removed=2, failed_ids=("pages/b",))]
    assert stage.store.sweep_joins() == 0


def test_a_sweep_leaves_a_join_alone_that_allows_no_failed_document(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(stage, "b")
    stage.store.open_join(join("b", allow_failed=False))
    end_without_counting(stage, monkeypatch)
    stage.clock.advance(join_actions.REPAIR_AFTER_SECONDS + 1)
    assert (stage.store.sweep_joins(), stage.state("b").status) == (0, Status.FAILED)
    assert gathered(stage) == []


def test_sweeps_look_at_all_members_in_turn(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_actions, "MAX_CHECKED_MEMBERS", 2)
    bring(stage, "abe")
    stage.store.open_join(join("abe"))
    end_without_counting(stage, monkeypatch)
    stage.clock.advance(join_actions.REPAIR_AFTER_SECONDS + 1)
    assert [stage.store.sweep_joins() for _ in range(2)] == [2, 1]
    assert gathered(stage) == [Joined(total=3, processed=2, failed=1, failed_ids=("pages/b",))]
