"""What is due again: found by its time, judged once, and counted for good."""

from __future__ import annotations

import pytest

from onward.model.ledger import Charge, DeadLettered, InFailedBatch, Processed, RetryLater
from tests.support.store_pages import NOON, Stage, failure, page


def _given_up(stage: Stage, id: str, **more: object) -> None:
    stage.bring(id, **more)
    stage.settle(stage.take(), DeadLettered([id], failure=failure()))


def test_only_what_nothing_else_has_is_looked_at(stage: Stage) -> None:
    _given_up(stage, "given up")
    stage.bring("waiting")
    stage.bring("set aside")
    (waiting, aside) = stage.claim()
    stage.settle(aside, InFailedBatch(["set aside"], failure()))
    stage.settle(waiting, RetryLater(["waiting"], after=60, charge=Charge.TRY, failure=failure()))
    stage.bring("running")
    stage.take()
    stage.bring("done")
    stage.settle(stage.take(), Processed(["done"]))
    stage.store.add_documents([page("never begun")])
    assert sorted(stage.store.due_for_check(limit=10)) == [("pages", "given up"), ("pages", "never begun")]


def test_they_come_by_priority_then_by_age(stage: Stage) -> None:
    for id, priority in (("old", 0), ("new", 0), ("urgent", 5), ("last", -3)):
        stage.store.add_documents([page(id, priority=priority)])
        stage.clock.advance(1)
    assert [id for _, id in stage.store.due_for_check(limit=10)] == ["urgent", "old", "new", "last"]
    assert [id for _, id in stage.store.due_for_check(limit=2)] == ["urgent", "old"]


def test_what_is_to_be_looked_at_later_is_not_seen_before(stage: Stage) -> None:
    _given_up(stage, "a")
    stage.store.defer_checks([(("pages", "a"), NOON + 300)])
    assert stage.store.due_for_check(limit=10) == []
    assert stage.store.next_check() == NOON + 300
    stage.clock.advance(300)
    assert stage.store.due_for_check(limit=10) == [("pages", "a")]


def test_only_what_waits_for_its_backoff_is_counted_as_that(stage: Stage) -> None:
    waits = {("pages", 1): 300.0}
    for id in ("a", "scheduled", "begun", "other"):
        _given_up(stage, id)
    stage.bring("set aside", source="s")
    stage.settle(stage.take(), InFailedBatch(["set aside"], failure()))
    stage.store.add_documents([page("never begun")])
    stage.store.schedule([("pages", "scheduled")], NOON + 7200)
    stage.publish("begun")
    row = stage.state("begun").row
    stage.store.atomically(lambda: stage.store.db.send("delete_rows", [row]))
    assert stage.store.clear_dangling_rows(after=0, limit=9)[1] == [("pages", "begun")]
    ids = ("a", "scheduled", "begun", "other", "set aside", "never begun")
    stage.store.defer_checks([(("pages", id), NOON + 7200) for id in ids])
    assert stage.store.waiting_for_backoff({**waits, ("pages", 2): 300.0}) == {"pages": 2}, "`a` and `other`"
    assert stage.store.waiting_for_backoff({}) == {}, "a collection that is not retried now"
    stage.clock.advance(300)
    assert stage.store.waiting_for_backoff(waits) == {}, "its backoff has elapsed; something else holds it up"


def test_whatever_happens_to_a_document_is_a_reason_to_look(stage: Stage) -> None:
    _given_up(stage, "a")
    stage.store.defer_checks([(("pages", "a"), NOON + 300)])
    stage.store.reset("pages", "a")
    assert stage.store.next_check() == 0.0


def test_an_operators_time_is_looked_for_whatever_the_status(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), DeadLettered(["a"], failure=failure(), final=True))
    assert (stage.state("a").status, stage.store.next_check()) == ("failed", None)
    stage.store.schedule([("pages", "a")], NOON + 60)
    assert stage.store.due_for_check(limit=10) == []
    assert stage.store.next_check() == NOON + 60
    stage.clock.advance(60)
    assert stage.store.due_for_check(limit=10) == [("pages", "a")]


def test_states_come_in_the_order_they_were_asked_for(stage: Stage) -> None:
    stage.bring("a", "b")
    states = stage.store.states_of([("pages", "b"), ("pages", "missing"), ("pages", "a"), ("pages", "b")])
    assert [one.id for one in states] == ["b", "a"]
    assert states[0].row is not None


def test_giving_up_keeps_the_history(stage: Stage) -> None:
    _given_up(stage, "a")
    assert stage.store.mark_out_of_rounds([("pages", "a"), ("pages", "missing")]) == 1
    state = stage.state("a")
    assert state.status == "failed_max_retries"
    assert state.last_error is not None
    assert state.last_error["message"] == "it broke"
    assert state.attempts["total"] == 2
    assert stage.store.document_counts() == {"pages": {"failed_max_retries": 1}}


def test_what_runs_is_never_given_up(stage: Stage) -> None:
    stage.bring("a")
    stage.take()
    assert stage.store.mark_out_of_rounds([("pages", "a")]) == 0
    assert stage.state("a").status == "pending"


def test_a_document_whose_row_is_gone_is_set_free(stage: Stage) -> None:
    stage.bring("a")
    stage.bring("b")
    (row,) = [one.row for one in stage.claim() if one.inputs[0].id == "a"]
    with stage.store.transaction():
        stage.store.db.run("delete_rows", [row])  # edited by hand
    after, freed = stage.store.clear_dangling_rows(after=0, limit=100)
    assert (after > 0, freed) == (True, [("pages", "a")])
    assert stage.state("a").row is None
    assert stage.state("b").row is not None
    assert stage.store.clear_dangling_rows(after=after, limit=100) == (0, [])


def test_those_that_need_help_are_counted(stage: Stage) -> None:
    _given_up(stage, "fresh")
    _given_up(stage, "exhausted")
    for _ in range(2):
        stage.publish("exhausted")
        stage.settle(stage.take(), DeadLettered(["exhausted"], failure=failure()))
    limits = {"pages": 3}
    assert stage.store.stuck(before=NOON - 1, max_rounds=limits, others=5) == {"pages": 1}
    assert stage.store.stuck(before=NOON - 1, max_rounds={}, others=5) == {}
    assert stage.store.stuck(before=NOON + 1, max_rounds={}, others=5) == {"pages": 2}
    own = {"pages": NOON + 1}
    assert stage.store.stuck(before=NOON - 1, own_before=own, max_rounds={}, others=5) == {"pages": 2}
    own = {"pages": NOON - 1}
    assert stage.store.stuck(before=NOON + 1, own_before=own, max_rounds={}, others=5) == {}


def test_one_leads_until_its_time_is_over(stage: Stage) -> None:
    assert stage.store.acquire_role("retry job", "anna", 60)
    assert stage.store.acquire_role("retry job", "anna", 60), "whoever has it may keep it"
    assert not stage.store.acquire_role("retry job", "bert", 60)
    assert stage.store.acquire_role("another job", "bert", 60)
    stage.clock.advance(60)
    assert stage.store.acquire_role("retry job", "bert", 60)
    stage.store.release_role("retry job", "anna")
    assert not stage.store.acquire_role("retry job", "anna", 60), "only the holder resigns"
    stage.store.release_role("retry job", "bert")
    assert stage.store.acquire_role("retry job", "anna", 60)


def test_a_clock_that_was_set_back_leaves_nobody_leading_for_ever(stage: Stage) -> None:
    assert stage.store.acquire_role("retry job", "anna", 60)
    stage.clock.advance(-86_400)
    assert stage.store.acquire_role("retry job", "bert", 60)


def test_totals_outlive_who_counts(stage: Stage) -> None:
    stage.store.count("requeued", "pages")
    stage.store.count("requeued", "pages", 4)
    stage.store.count("requeued", "words")
    stage.store.set_gauge("stuck", "pages", 7)
    stage.store.set_gauge("stuck", "pages", 3)
    assert stage.store.totals() == {"requeued": {"pages": 5.0, "words": 1.0}, "stuck": {"pages": 3.0}}


def test_a_batch_is_claimed_once(stage: Stage) -> None:
    stage.bring("a", source="s")
    stage.settle(stage.take(), InFailedBatch(["a"], failure()))
    (batch,) = stage.store.failed_batches()
    assert stage.store.due_batches() == []
    assert stage.store.next_batches() == {"reading": NOON + 60}
    stage.clock.advance(60)
    assert stage.store.due_batches() == [batch.id]
    assert stage.store.claim_batch(batch.id, retry_count=0, until=NOON + 360)
    assert not stage.store.claim_batch(batch.id, retry_count=0, until=NOON + 360)
    assert not stage.store.claim_batch(batch.id, retry_count=1, until=NOON + 360), "it is not due"
    moved = stage.store.failed_batch(batch.id)
    assert moved is not None
    assert (moved.retry_count, moved.retry_after) == (1, NOON + 360)
    assert stage.store.due_batches() == []


def test_a_batch_is_claimed_at_any_moment_a_clock_can_show(stage: Stage) -> None:
    """A time with all its digits comes back with fewer."""
    stage.clock.time = 1794799421.8891766
    stage.bring("a", source="s")
    stage.settle(stage.take(), InFailedBatch(["a"], failure()))
    (batch,) = stage.store.failed_batches()
    (at,) = stage.store.next_batches().values()
    stage.clock.time = at
    assert stage.store.due_batches() == [batch.id]
    assert stage.store.claim_batch(batch.id, retry_count=0, until=NOON)


def test_an_item_that_is_being_tried_is_not_idle(stage: Stage) -> None:
    stage.bring("a", "b", source="s")
    stage.settle(stage.take(), InFailedBatch(["a", "b"], failure()))
    (batch,) = stage.store.failed_batches()
    assert stage.store.idle_items(batch.id, limit=10) == [("pages", "a"), ("pages", "b")]
    stage.publish("a")
    assert stage.store.idle_items(batch.id, limit=10) == [("pages", "b")]


def test_a_batch_can_be_hurried_without_counting(stage: Stage) -> None:
    stage.bring("a", source="s")
    stage.settle(stage.take(), InFailedBatch(["a"], failure()))
    (batch,) = stage.store.failed_batches()
    assert stage.store.reschedule_batch(batch.id, NOON)
    assert stage.store.due_batches() == [batch.id]
    assert not stage.store.reschedule_batch("missing", NOON)
    assert stage.store.failed_batch("missing") is None


def test_what_is_put_back_in_the_background_waits_for_the_rest(stage: Stage) -> None:
    stage.store.add_documents([page("behind"), page("first"), page("wanted", priority=2)])
    stage.publish("behind", priority=-1)
    stage.publish("first")
    stage.publish("wanted", priority=-1)
    claimed = [stage.take(limit=1).inputs[0].id for _ in range(3)]
    assert claimed == ["wanted", "first", "behind"]


@pytest.mark.parametrize("limit", (1, 3, 20))
def test_what_waits_too_long_in_the_background_gets_every_tenth_turn(stage: Stage, limit: int) -> None:
    stage.store.add_documents([page(f"b{n}") for n in range(10)] + [page(f"f{n}") for n in range(300)])
    for n in range(10):
        stage.publish(f"b{n}", priority=-1)
    stage.clock.advance(900)
    for n in range(300):
        stage.publish(f"f{n}")
    turns: list[str] = []
    while len(turns) < 60:
        turns += [one.inputs[0].id[0] for one in stage.claim(limit)]
    assert turns[:60].count("b") == 6


def test_a_later_round_adds_to_the_same_dead_letter(stage: Stage) -> None:
    _given_up(stage, "a")
    (first,) = stage.store.dead_letters()
    stage.clock.advance(300)
    stage.publish("a", found_by="somebody else")
    stage.settle(stage.take(), DeadLettered(["a"], failure=failure("it broke again")))
    (letter,) = stage.store.dead_letters()
    assert (letter.row, letter.round) == (first.row, 2)
    assert letter.original_event == first.original_event
    assert [one["message"] for one in letter.errors] == ["it broke", "it broke again"]
    assert (letter.last_error, letter.timestamp) == ("it broke again", NOON + 300)
    assert stage.state("a").dead_letter == letter.row
    stage.publish("a")
    stage.settle(stage.take(), Processed(["a"]))
    assert stage.store.dead_letters() == []


def test_what_else_a_delivery_brought_goes_on_beside_a_letter_that_is_updated(stage: Stage) -> None:
    _given_up(stage, "a")
    stage.store.add_documents([page("b"), page("c")])
    stage.publish("a", "b", "c")
    delivery = stage.take()
    stage.settle(
        delivery,
        DeadLettered(["a"], failure=failure()),
        RetryLater(["b"], after=5, charge=Charge.TRY, failure=failure()),
        Processed(["c"]),
    )
    assert [one.documents for one in stage.store.dead_letters()] == [(("pages", "a"),)]
    assert {id: stage.state(id).status for id in "abc"} == {"a": "pending", "b": "pending", "c": "processed"}
    stage.clock.advance(5)
    again = stage.take()
    assert ([one.id for one in again.inputs], again.tries) == (["b"], 1)
    stage.settle(again, Processed(["b"]))
    assert stage.rows("waiting") + stage.rows("claimed") == 0
