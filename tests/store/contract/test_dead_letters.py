"""A dead letter is an event given up for now: one per service and document, until that succeeds."""

from __future__ import annotations

from onward.model.ledger import Charge, CommitStatus, DeadLetter, DeadLettered, Processed, RetryLater
from onward.retry import Reason
from tests.support.store_pages import NOON, Stage, failure, page


def give_up(stage: Stage, *ids: str, final: bool = False, message: str = "it broke") -> DeadLetter:
    stage.settle(stage.take(), DeadLettered(ids, failure=failure(message), final=final, charge=Charge.TRY))
    return stage.store.dead_letters()[-1]


def test_a_dead_letter_holds_the_event_and_its_diagnosis(stage: Stage) -> None:
    stage.store.add_documents([page("a")])
    envelope = stage.found("a", found_by="me")
    stage.store.publish([envelope])
    stage.settle(stage.take(), RetryLater(["a"], charge=Charge.TRY, failure=failure("first")))
    delivery = stage.take()
    stage.clock.advance(5)
    stage.settle(delivery, DeadLettered(["a"], failure=failure("second"), charge=Charge.TRY))
    (letter,) = stage.store.dead_letters()
    assert letter.original_event == {
        "event_type": "PagesFound",
        "event_id": envelope.event_id,
        "timestamp": NOON,
        "version": 1,
        "data": {"page_ids": ["a"], "found_by": "me"},
    }
    assert letter.idempotency_key == delivery.key
    assert (letter.attempt_count, letter.last_error, letter.error_type) == (2, "second", "ValueError")
    assert [one["message"] for one in letter.errors] == ["first", "second"]
    assert (letter.abandoned_reason, letter.fingerprint) == ("max_attempts_exceeded", "f00d")
    assert (letter.service_name, letter.failed_queue) == ("reading", "reading.failed")
    assert (letter.timestamp, letter.deaths, letter.round, letter.raw) == (NOON + 5, 0, 1, None)
    assert letter.documents == (("pages", "a"),)


def test_its_document_stays_pending_with_its_error_for_the_retry_job(stage: Stage) -> None:
    stage.bring("a")
    letter = give_up(stage, "a")
    state = stage.state("a")
    assert (state.status, state.row, state.dead_letter) == ("pending", None, letter.row)
    assert state.last_error is not None
    assert (state.last_error["message"], state.last_error["round"]) == ("it broke", 1)
    assert state.attempts["total"] == 1


def test_a_permanent_failure_makes_its_document_failed(stage: Stage) -> None:
    stage.bring("a")
    give_up(stage, "a", final=True)
    assert (stage.state("a").status, stage.state("a").final) == ("failed", True)


def test_a_later_round_that_fails_too_leaves_one_dead_letter(stage: Stage) -> None:
    stage.bring("a")
    give_up(stage, "a")
    stage.publish("a")
    letter = give_up(stage, "a", message="again")
    assert stage.store.dead_letters() == [letter]
    assert (letter.round, letter.last_error) == (2, "again")
    assert stage.state("a").dead_letter == letter.row


def test_success_closes_it(stage: Stage) -> None:
    stage.bring("a")
    give_up(stage, "a")
    stage.publish("a")
    stage.settle(stage.take(), Processed(["a"]))
    assert stage.store.dead_letters() == []
    assert (stage.state("a").dead_letter, stage.state("a").last_error) == (None, None)


def test_the_success_of_one_document_leaves_the_dead_letter_to_the_others(stage: Stage) -> None:
    stage.bring("a", "b")
    letter = give_up(stage, "a", "b")
    stage.publish("a")
    stage.settle(stage.take(), Processed(["a"]))
    (left,) = stage.store.dead_letters()
    assert (left.row, left.documents) == (letter.row, (("pages", "b"),))
    assert stage.state("b").dead_letter == letter.row


def test_a_requeue_puts_the_original_event_back_in_a_new_round(stage: Stage) -> None:
    stage.bring("a")
    letter = give_up(stage, "a", final=True)
    assert stage.store.requeue(letter.row)
    assert stage.store.dead_letters() == []
    delivery = stage.take()
    assert delivery.event_id == (letter.original_event or {})["event_id"]
    assert (delivery.round, delivery.tries, delivery.deaths) == (2, 0, 0)
    assert (stage.state("a").status, stage.state("a").attempt_count) == ("pending", 2)
    stage.settle(delivery, Processed(["a"]))
    assert stage.state("a").status == "processed"


def test_a_requeue_of_what_is_no_dead_letter_any_more_does_nothing(stage: Stage) -> None:
    stage.bring("a")
    letter = give_up(stage, "a")
    assert stage.store.requeue(letter.row)
    assert not stage.store.requeue(letter.row)
    assert not stage.store.requeue(10_000)


def test_a_requeue_leaves_a_document_alone_that_a_newer_round_has(stage: Stage) -> None:
    stage.bring("a")
    letter = give_up(stage, "a")
    stage.publish("a")
    assert not stage.store.requeue(letter.row)
    assert (stage.state("a").round, len(stage.store.dead_letters())) == (2, 1)


def test_a_requeue_takes_those_documents_that_are_still_its_own(stage: Stage) -> None:
    stage.bring("a", "b")
    letter = give_up(stage, "a", "b")
    stage.publish("a")
    assert stage.store.requeue(letter.row)
    carried = {one.row: one.inputs[0].id for one in stage.claim()}
    assert {stage.state(id).row: id for id in "ab"} == carried
    assert stage.state("a").dead_letter is None


def test_a_requeue_after_a_reset_is_carried_by_one_row_that_waits(stage: Stage) -> None:
    stage.bring("a")
    letter = give_up(stage, "a")
    stage.publish("a")
    stage.take()
    stage.store.reset("pages", "a")
    stage.store.release("anna")
    assert stage.store.requeue(letter.row)
    delivery = stage.take()
    assert stage.state("a").row == delivery.row
    assert stage.settle(delivery, Processed(["a"])).status is CommitStatus.COMMITTED


def test_an_event_whose_document_never_came_can_be_requeued(stage: Stage) -> None:
    stage.publish("late")
    letter = give_up(stage, "late")
    assert letter.documents == (("pages", "late"),)
    assert stage.store.requeue(letter.row)
    stage.settle(stage.take(), DeadLettered(["late"], reason=Reason.TTL_EXCEEDED, failure=failure()))
    stage.store.add_documents([page("late")])
    assert stage.store.requeue(letter.row)
    stage.settle(stage.take(), Processed(["late"]))
    assert (stage.state("late").status, stage.state("late").round) == ("processed", 1)


def test_an_event_of_a_service_that_finishes_nothing_dies_and_returns_alike(stage: Stage) -> None:
    stage.store.publish([stage.noticed("x")])
    stage.settle(stage.take(service="listening"), DeadLettered(failure=failure(), charge=Charge.TRY))
    (letter,) = stage.store.dead_letters("listening")
    assert letter.documents == ()
    assert stage.store.requeue(letter.row)
    assert stage.take(service="listening").data == '{"what":"x"}'


def test_what_could_not_be_read_is_kept_with_its_bytes_for_each_service_it_was_for(stage: Stage) -> None:
    raw = b"\xff\x00 not json"
    stage.store.keep_malformed(raw, failure("not JSON"), event_type="Noticed")
    (letter,) = stage.store.dead_letters()
    assert (letter.service_name, letter.abandoned_reason, letter.raw) == ("listening", "malformed", raw)
    assert letter.last_error == "not JSON"


def test_what_could_not_be_read_and_was_for_nobody_is_kept_too_but_cannot_go_back(stage: Stage) -> None:
    stage.store.keep_malformed(b"?", failure())
    (letter,) = stage.store.dead_letters()
    assert (letter.service_name, letter.failed_queue) == ("", "events.failed")
    assert not stage.store.requeue(letter.row), "nobody would ever claim it"


def test_a_work_may_find_its_event_malformed_and_keep_the_bytes(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), DeadLettered(["a"], reason=Reason.MALFORMED, failure=failure(), raw=b"{}"))
    (letter,) = stage.store.dead_letters()
    assert (letter.abandoned_reason, letter.raw) == ("malformed", b"{}")


def test_giving_up_may_be_announced_and_nobody_need_listen(stage: Stage) -> None:
    stage.bring("a", source="s")
    stage.settle(stage.take(), DeadLettered(["a"], failure=failure(), notice=stage.noticed("gave up")))
    told = stage.take(service="listening")
    assert (told.data, told.source) == ('{"what":"gave up"}', "s")
    unheard = stage.noticed()
    unheard.event_type = "NobodyListens"
    stage.publish("a")
    stage.settle(stage.take(), DeadLettered(["a"], failure=failure(), notice=unheard))
    assert "" not in stage.store.counts(), "a notice asks for nothing, so it is not kept for later"


def test_dead_letters_are_listed_by_service_in_pages(stage: Stage) -> None:
    for id in "abc":
        stage.bring(id)
        give_up(stage, id)
    stage.store.keep_malformed(b"?", failure(), event_type="Noticed")
    first = stage.store.dead_letters("reading", limit=2)
    rest = stage.store.dead_letters("reading", limit=2, after=first[-1].row)
    assert [one.documents[0][1] for one in [*first, *rest]] == ["a", "b", "c"]
    assert len(stage.store.dead_letters()) == 4


def test_a_requeue_closes_what_has_healed_on_its_own(stage: Stage) -> None:
    stage.publish("late")
    letter = give_up(stage, "late")
    stage.bring("late")
    stage.settle(stage.take(), Processed(["late"]))
    assert not stage.store.requeue(letter.row)
    assert stage.store.dead_letters() == []
