"""Dead letters go back at a rate, after a canary, and whatever happens it is known what went back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onward import Event
from onward.backend_urls import open_store
from onward.ledger.store_errors import StoreError, StoreUnavailable
from onward.model.failures import Failure
from onward.model.ledger import (
    Charge,
    DeadLettered,
    Delivery,
    InFailedBatch,
    Processed,
    RetryLater,
    SettlementPart,
    Subscription,
)
from onward.recovery.requeue_dead_letters import (
    NO_WORKER,
    DeadLetterFilter,
    Requeue,
    matching_dead_letters,
)
from onward.retry import Reason
from tests.support.store_pages import LISTENING, NOON, Clock, Noticed, Stage, failure, page

EVERYTHING = DeadLetterFilter()


@pytest.fixture
def stage() -> Iterator[Stage]:
    clock = Clock()
    store = open_store("sqlite://:memory:", clock)
    yield Stage(store, clock)
    store.close()


def give_up(stage: Stage, *ids: str, error: Failure | None = None) -> int:
    stage.bring(*ids)
    delivery = stage.take()
    stage.settle(delivery, DeadLettered(ids, failure=error or failure(), charge=Charge.TRY))
    return delivery.row


def left(stage: Stage) -> list[str]:
    """The documents whose letters are still in the failed queue."""
    return [id for letter in stage.store.find_dead_letters() for _, id in letter.documents]


Handler = Callable[[Delivery], SettlementPart]


def done(delivery: Delivery) -> SettlementPart:
    return Processed([one.id for one in delivery.inputs])


class Crew:
    """Workers that get something done whenever somebody sleeps."""

    def __init__(self, stage: Stage, handler: Handler | None = None) -> None:
        self.stage = stage
        self.handler = handler
        self.slept: list[float] = []
        self.told: list[tuple[int, int, str]] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        assert len(self.slept) < 10_000, "it waits for ever"
        self.stage.clock.advance(seconds)
        for delivery in self.stage.claim() if self.handler else ():
            assert self.handler is not None
            self.stage.settle(delivery, self.handler(delivery))


def requeue(stage: Stage, crew: Crew | None = None, wanted: DeadLetterFilter = EVERYTHING, **how: Any) -> Requeue:
    crew = crew or Crew(stage)
    return Requeue(
        stage.store,
        matching_dead_letters(stage.store, wanted),
        sleep=crew.sleep,
        waiting=lambda *told: crew.told.append(told),
        **how,
    )


# -- which letters


def test_letters_are_streamed_past_the_end_of_a_page(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.recovery.requeue_dead_letters.PAGE", 2)
    rows = [give_up(stage, id) for id in "abcde"]
    assert [one.row for one in matching_dead_letters(stage.store, EVERYTHING)] == rows
    assert [one.row for one in matching_dead_letters(stage.store, DeadLetterFilter(limit=3))] == rows[:3]
    assert [
        one.row for one in matching_dead_letters(stage.store, DeadLetterFilter(service="reading", limit=9))
    ] == rows
    assert list(matching_dead_letters(stage.store, DeadLetterFilter(limit=0))) == []


def test_each_part_of_a_filter_counts(stage: Stage) -> None:
    give_up(stage, "a")
    stage.clock.advance(60)
    row = give_up(stage, "b", error=Failure(NOON, "KeyError", "no", "beef"))
    for wanted in (
        DeadLetterFilter(fingerprint="beef"),
        DeadLetterFilter(error_type="KeyError"),
        DeadLetterFilter(since=NOON + 1),
        DeadLetterFilter(document=("pages", "b")),
    ):
        assert [one.row for one in matching_dead_letters(stage.store, wanted)] == [row]
    stage.store.archive_dead_letters([row])
    assert [one.row for one in matching_dead_letters(stage.store, DeadLetterFilter(), archived=True)] == [row]


def test_what_is_given_up_while_they_are_read_is_not_met_again(stage: Stage) -> None:
    give_up(stage, "a")
    stream = matching_dead_letters(stage.store, EVERYTHING)
    assert [next(stream).documents[0][1]] == ["a"]
    stage.clock.advance(1)
    give_up(stage, "b")
    assert list(stream) == []


# -- putting back


def test_everything_goes_back_when_nothing_holds_it(stage: Stage) -> None:
    for id in "abc":
        give_up(stage, id)
    crew = Crew(stage)
    result = requeue(stage, crew).run()
    assert (result.requeued, result.skipped_recovered, result.refused, result.left_untouched) == (3, 0, [], 0)
    assert (left(stage), stage.rows("waiting"), crew.slept) == ([], 3, [])
    assert result.canary.outcome == "none"


def test_a_rate_is_kept_from_the_first_letter_to_the_last(stage: Stage) -> None:
    for number in range(10):
        give_up(stage, f"page {number}")
    crew = Crew(stage)
    requeue(stage, crew, rate=2.0).run()
    assert crew.slept == [0.5] * 9, "there is nothing to wait for behind the last one"


def test_a_high_rate_takes_several_in_one_transaction(stage: Stage) -> None:
    for number in range(60):
        give_up(stage, f"page {number}")
    told: list[int] = []
    crew = Crew(stage)
    requeue(stage, crew, rate=80.0, report=lambda result: told.append(result.requeued)).run()
    assert told == [20, 40, 60]
    assert crew.slept == pytest.approx([0.25, 0.25])


@pytest.mark.parametrize("rate", (0.0, -1.0, float("nan")))
def test_a_rate_that_would_never_end_is_refused(stage: Stage, rate: float) -> None:
    with pytest.raises(ValueError, match="rate must be more than 0"):
        requeue(stage, rate=rate)


def test_what_recovers_meanwhile_is_skipped(stage: Stage) -> None:
    for id in "abc":
        give_up(stage, id)

    def recover(seconds: float) -> None:
        stage.clock.advance(seconds)
        if stage.state("b").status == "pending" and stage.state("b").round == 1:
            stage.publish("b")
            stage.settle(next(one for one in stage.claim() if one.inputs[0].id == "b"), Processed(["b"]))

    result = Requeue(stage.store, matching_dead_letters(stage.store, EVERYTHING), sleep=recover, rate=1.0).run()
    assert (result.requeued, result.skipped_recovered, left(stage)) == (2, 1, [])
    assert (stage.state("b").status, stage.state("b").round) == ("processed", 2)


def test_of_two_at_once_each_counts_what_it_has_put_back(stage: Stage) -> None:
    for id in "abcd":
        give_up(stage, id)
    first = Requeue(stage.store, list(matching_dead_letters(stage.store, EVERYTHING)), sleep=Crew(stage).sleep)
    second = Requeue(
        stage.store, list(matching_dead_letters(stage.store, DeadLetterFilter(limit=3))), sleep=Crew(stage).sleep
    )
    assert (second.run().requeued, first.run().requeued) == (3, 1)
    assert (second.result.skipped_recovered, first.result.skipped_recovered) == (0, 3)
    assert stage.rows("waiting") == 4


def test_what_was_never_an_event_is_refused_with_the_reason(stage: Stage) -> None:
    stage.store.keep_malformed(b"\xff", failure("not JSON"))
    stage.store.keep_malformed(b"{", failure("not JSON"), event_type="Noticed")
    give_up(stage, "a")
    result = requeue(stage).run()
    assert result.requeued == 1
    assert all("still cannot be read as an event: not JSON" in one.reason for one in result.refused)
    assert (len(result.refused), result.unreadable) == (2, 2)
    assert len(stage.store.find_dead_letters()) == 2, "they are kept"


class Sounded(Event, type="Noticed"):
    """A later form of the event, which reads what the earlier one did not."""

    what: str | int


def test_what_can_be_read_after_a_fix_goes_back(stage: Stage) -> None:
    keep(stage, b'{"event_type": "Noticed", "event_id": "theirs", "data": {"what": 7}}', event_type="Noticed")
    (before,) = stage.store.find_dead_letters()
    result = requeue(stage, events=lambda: [Noticed]).run()
    assert (result.requeued, result.unreadable) == (0, 1)
    assert "Noticed fails its schema: what" in result.refused[0].reason
    (letter,) = stage.store.find_dead_letters()
    assert letter.last_error.startswith("Noticed fails its schema: what")
    assert (letter.row, len(letter.errors)) == (before.row, 2)

    result = requeue(stage, events=lambda: [Sounded]).run()
    assert (result.requeued, result.unreadable, stage.store.find_dead_letters()) == (1, 0, [])
    delivery = stage.take(service="listening")
    assert (delivery.event_id, delivery.data) == ("theirs", '{"what":7}')


def test_an_unknown_type_goes_back_when_a_service_takes_it(stage: Stage) -> None:
    keep(stage, b'{"event_type": "Rung", "event_id": "theirs", "data": {"bell": 1}}')
    assert (
        "the event type 'Rung' is unknown; known are: Noticed, PagesFound"
        in requeue(stage).run().refused[0].reason
    )
    stage.store.subscribe([Subscription("hearing", "Rung")])
    assert requeue(stage).run().requeued == 1, "its worker checks the data"
    assert stage.take(service="hearing").data == '{"bell": 1}'


def test_what_its_service_does_not_take_any_more_stays(stage: Stage) -> None:
    keep(stage, b"?", event_type="Noticed")
    keep(stage, b'{"event_type": "Noticed"}', event_type="PagesFound")
    stage.store.retire_service("listening")
    reasons = [one.reason for one in requeue(stage, events=lambda: [Noticed]).run().refused]
    assert "its service 'listening' was retired" in reasons[0]
    assert "its service 'reading' does not take Noticed" in reasons[1]


def test_what_was_read_again_is_watched_as_a_canary(stage: Stage) -> None:
    for id in "ab":
        stage.store.add_documents([page(id)])
        keep(stage, b'{"event_type": "PagesFound", "data": {"page_ids": ["%s"]}}' % id.encode(), "PagesFound")
    gives_up = Crew(stage, lambda delivery: DeadLettered([one.id for one in delivery.inputs], failure=failure()))
    result = requeue(stage, gives_up, canary=1).run()
    assert (result.canary.outcome, result.requeued, result.left_untouched) == ("failed", 1, 1)
    assert [letter.unread for letter in stage.store.find_dead_letters()] == [True, False]


def keep(stage: Stage, raw: bytes, event_type: str = "") -> None:
    """Keep a message that could not be read."""
    stage.store.keep_malformed(raw, failure("not an event"), event_type=event_type)


def test_an_event_that_a_worker_found_malformed_may_go_back_to_a_newer_one(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), DeadLettered(["a"], reason=Reason.MALFORMED, failure=failure(), raw=b"{}"))
    assert requeue(stage).run().requeued == 1


def test_one_bad_letter_never_stops_the_others(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [give_up(stage, id) for id in "abc"]
    whole = stage.store.requeue

    def fragile(row: int) -> bool:
        if row == rows[1]:
            with stage.store.transaction():
                raise StoreError("malformed JSON")
        return whole(row)

    monkeypatch.setattr(stage.store, "requeue", fragile)
    result = requeue(stage).run()
    assert (result.requeued, left(stage)) == (2, ["b"])
    assert [(one.row, one.reason) for one in result.refused] == [(rows[1], "StoreError: malformed JSON")]


def test_a_store_that_is_gone_stops_the_run_and_what_was_done_is_known(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [give_up(stage, id) for id in "abc"]
    whole = stage.store.requeue

    def failing(row: int) -> bool:
        if row == rows[2]:
            raise StoreUnavailable("gone")
        return whole(row)

    monkeypatch.setattr(stage.store, "requeue", failing)
    run = requeue(stage, rate=1.0)
    with pytest.raises(StoreUnavailable):
        run.run()
    assert (run.result.requeued, run.result.refused, left(stage)) == (2, [], ["c"])


def test_an_interrupted_run_has_done_what_it_says_and_the_next_one_goes_on(stage: Stage) -> None:
    for id in "abcd":
        give_up(stage, id)

    def interrupt(seconds: float) -> None:
        stage.clock.advance(seconds)
        if len(left(stage)) == 2:
            raise KeyboardInterrupt

    run = Requeue(stage.store, matching_dead_letters(stage.store, EVERYTHING), sleep=interrupt, rate=1.0)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert (run.result.requeued, left(stage)) == (2, ["c", "d"])
    assert requeue(stage).run().requeued == 2
    assert stage.rows("waiting") == 4


# -- the canary


def test_the_rest_follows_when_the_canary_is_done(stage: Stage) -> None:
    for id in "abcde":
        give_up(stage, id)
    crew = Crew(stage, done)
    run = requeue(stage, crew, canary=2)
    result = run.run()
    assert (result.requeued, result.canary.outcome, len(result.canary.rows)) == (5, "passed", 2)
    assert [stage.state(id).status for id in "abcde"] == ["processed"] * 2 + ["pending"] * 3
    assert crew.told[0][:2] == (0, 2)


def dead(delivery: Delivery) -> SettlementPart:
    return DeadLettered([one.id for one in delivery.inputs], failure=failure("still broken"), charge=Charge.TRY)


def failed(delivery: Delivery) -> SettlementPart:
    return DeadLettered([one.id for one in delivery.inputs], failure=failure("still broken"), final=True)


def aside(delivery: Delivery) -> SettlementPart:
    return InFailedBatch([one.id for one in delivery.inputs], failure("still broken"))


@pytest.mark.parametrize("handler", (dead, failed, aside))
def test_a_canary_that_fails_again_leaves_the_rest_untouched(stage: Stage, handler: Handler) -> None:
    for id in "abcde":
        give_up(stage, id)
    result = requeue(stage, Crew(stage, handler), canary=2).run()
    assert (result.requeued, result.left_untouched, result.canary.outcome) == (2, 3, "failed")
    assert [(one.document, one.error) for one in result.canary.failures] == [
        (("pages", "a"), "ValueError: still broken"),
        (("pages", "b"), "ValueError: still broken"),
    ]
    assert result.canary.message == "2 of 2 failed again: ValueError: still broken"
    assert [id for id in left(stage) if id in "cde"] == ["c", "d", "e"]
    assert [stage.state(id).round for id in "abcde"] == [2, 2, 1, 1, 1]


def test_a_canary_that_is_tried_again_is_waited_for(stage: Stage) -> None:
    give_up(stage, "a")
    give_up(stage, "b")

    def at_last(delivery: Delivery) -> SettlementPart:
        ids = [one.id for one in delivery.inputs]
        if delivery.tries < 2:
            return RetryLater(ids, after=40.0, charge=Charge.TRY, failure=failure())
        return Processed(ids)

    result = requeue(stage, Crew(stage, at_last), canary=1, patience=60.0).run()
    assert (result.canary.outcome, result.requeued) == ("passed", 2)


def test_one_failed_document_of_a_canary_with_several_is_enough(stage: Stage) -> None:
    give_up(stage, "a", "b")
    give_up(stage, "c")

    def sleep(seconds: float) -> None:
        stage.clock.advance(seconds)
        for delivery in stage.claim():
            stage.settle(delivery, Processed(["a"]), DeadLettered(["b"], failure=failure("b is bad")))

    result = Requeue(stage.store, matching_dead_letters(stage.store, EVERYTHING), sleep=sleep, canary=1).run()
    assert [(one.document, one.error) for one in result.canary.failures] == [
        (("pages", "b"), "ValueError: b is bad")
    ]
    assert result.left_untouched == 1


def test_a_canary_without_documents_is_followed_by_its_row(stage: Stage) -> None:
    for what in "xyz":
        stage.store.publish([stage.noticed(what)])
        stage.settle(stage.take(service="listening"), DeadLettered(failure=failure(), charge=Charge.TRY))

    def sleep(seconds: float) -> None:
        stage.clock.advance(seconds)
        for delivery in stage.claim(service="listening"):
            stage.settle(delivery, *([] if '"x"' in delivery.data else [DeadLettered(failure=failure("deaf"))]))

    wanted = DeadLetterFilter(service=LISTENING.service)
    first = Requeue(stage.store, matching_dead_letters(stage.store, wanted), sleep=sleep, canary=1).run()
    assert (first.canary.outcome, first.requeued) == ("passed", 3)
    sleep(1.0)
    second = Requeue(stage.store, matching_dead_letters(stage.store, wanted), sleep=sleep, canary=1).run()
    assert [one.error for one in second.canary.failures] == ["ValueError: deaf"]
    assert second.left_untouched == 1


def test_a_canary_whose_document_comes_only_now_is_no_failure(stage: Stage) -> None:
    stage.publish("late")
    stage.settle(stage.take(), DeadLettered(["late"], failure=failure()))
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        stage.clock.advance(seconds)
        if len(slept) == 1:
            stage.store.add_documents([page("late")])
        else:
            stage.settle(stage.take(), Processed(["late"]))

    result = Requeue(stage.store, matching_dead_letters(stage.store, EVERYTHING), sleep=sleep, canary=1).run()
    assert (result.canary.outcome, len(slept), stage.state("late").status) == ("passed", 2, "processed")


def test_a_canary_taken_in_by_a_waiting_twin_is_followed_by_its_documents(stage: Stage) -> None:
    give_up(stage, "a")
    give_up(stage, "b")
    stage.publish("a")
    stage.take()
    stage.store.reset("pages", "a")
    stage.store.release("anna")
    result = requeue(stage, Crew(stage, dead), canary=1).run()
    assert (result.canary.outcome, result.left_untouched) == ("failed", 1)


def test_a_canary_that_nobody_takes_is_given_up_with_the_reason(stage: Stage) -> None:
    give_up(stage, "a")
    give_up(stage, "b")
    crew = Crew(stage)
    result = requeue(stage, crew, canary=1, patience=60.0).run()
    assert (result.canary.outcome, result.left_untouched) == ("unanswered", 1)
    assert result.canary.message == f"1 of 1 made no progress for 60 s: {NO_WORKER}"
    assert sum(crew.slept) == 60.0
    assert crew.told[0][2] == NO_WORKER
    assert left(stage) == ["b"]


def test_with_a_worker_alive_the_hint_is_an_outage_or_nothing(stage: Stage) -> None:
    stage.store.register_worker("anna", {})
    give_up(stage, "a")
    crew = Crew(stage)
    requeue(stage, crew, canary=1, patience=1.0).run()
    assert {hint for _, _, hint in crew.told} == {""}
    stage.store.subscribe([type(LISTENING)("watching", "Noticed", needs=("api",))])
    stage.store.publish([stage.noticed()])
    stage.settle(stage.take(service="watching"), DeadLettered(failure=failure()))
    stage.store.open_breaker("api", "it answers 503")
    crew = Crew(stage)
    requeue(stage, crew, DeadLetterFilter(service="watching"), canary=1, patience=1.0).run()
    assert {hint for _, _, hint in crew.told} == {"api is down: it answers 503"}


def test_a_refused_letter_is_no_canary(stage: Stage) -> None:
    stage.store.keep_malformed(b"\xff", failure("not JSON"))
    give_up(stage, "a")
    give_up(stage, "b")
    result = requeue(stage, Crew(stage, done), canary=1).run()
    assert (result.canary.outcome, result.requeued, len(result.refused)) == ("passed", 2, 1)
    assert (stage.state("a").status, stage.state("b").status) == ("processed", "pending")


def test_a_canary_of_nothing_is_none(stage: Stage) -> None:
    result = requeue(stage, canary=3).run()
    assert (result.canary.outcome, result.requeued, result.handled) == ("none", 0, 0)
