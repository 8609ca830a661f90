"""A document's story holds all that is kept of its life, and the outlook says what happens next and why."""

from __future__ import annotations

import shlex
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from onward.backend_urls import open_store
from onward.model.failures import KEPT_OUTCOMES
from onward.model.ledger import Charge, DeadLettered, InFailedBatch, Processed, RetryLater
from onward.ops.text.format import local_time, ordinal, sentence_text, utc_time, whole_duration
from onward.ops.text.history import UNTYPEABLE, next_step_command, next_step_sentence
from onward.recovery.history import DocumentHistory, read_history
from onward.recovery.next_step import NextStep, NextSteps, Unfinished, describe_error
from onward.recovery.retry_decision import RetryJobRules
from onward.retry import Reason
from tests.support.store_pages import NOON, READING, Clock, Stage, failure, page, word


@pytest.fixture(autouse=True)
def greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sentences hold local times."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "onward.db"


@pytest.fixture
def stage(file: Path) -> Iterator[Stage]:
    clock = Clock()
    store = open_store(f"sqlite:///{file}", clock)
    yield Stage(store, clock)
    store.close()


def story(stage: Stage, id: str = "a") -> DocumentHistory:
    told = read_history(stage.store, "pages", id)
    assert told is not None
    return told


def next_step(stage: Stage, id: str = "a", *, unfinished: Unfinished | None = None) -> NextStep:
    return NextSteps(stage.store, RetryJobRules()).of(stage.state(id), unfinished=unfinished)


def text(step: NextStep) -> str:
    return sentence_text(next_step_sentence(step), step.now)


def fail_round(stage: Stage, message: str = "it broke") -> None:
    """The round under way ends as a dead letter."""
    stage.settle(stage.take(), DeadLettered(["a"], failure=failure(message, stage.store.now()), charge=Charge.TRY))


def change(file: Path, column: str, value: object) -> None:
    """Write as somebody else would, who knows nothing of Onward's habits."""
    eye = sqlite3.connect(file)
    with eye:
        eye.execute(f"UPDATE documents SET {column} = ? WHERE id = 'a'", (value,))
    eye.close()


# -- the story


def test_there_is_no_story_of_what_does_not_exist(stage: Stage) -> None:
    assert read_history(stage.store, "pages", "nobody") is None


def test_every_outcome_is_told_in_order_with_its_round_and_try(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), RetryLater(["a"], after=5.0, charge=Charge.TRY, failure=failure("first", NOON)))
    stage.clock.advance(10)
    fail_round(stage, "second")
    stage.clock.advance(10)
    stage.publish("a", found_by="again")
    stage.settle(stage.take(), Processed(["a"]), worker="anna", version="2")
    told = [one for one in story(stage).entries if one.what == "outcome"]
    assert [(one.round, one.attempt, one.outcome, one.message) for one in told] == [
        (1, 1, "retried", "first"),
        (1, 2, "gave_up", "second"),
        (2, 0, "processed", ""),
    ]
    assert (told[-1].worker, told[-1].version) == ("anna", "2")
    assert story(stage).entries[0].what == "created"


def test_what_is_not_kept_is_counted_where_it_is_missing(stage: Stage) -> None:
    stage.bring("a")
    for number in range(KEPT_OUTCOMES + 5):
        stage.settle(stage.take(), RetryLater(["a"], charge=Charge.TRY, failure=failure(f"no. {number}")))
    told = story(stage)
    assert [one.what for one in told.entries[:4]] == ["created", "outcome", "not_kept", "outcome"]
    assert (told.not_kept, told.entries[2].count) == (5, 5)
    assert [told.entries[1].message, told.entries[-1].message] == ["no. 0", f"no. {KEPT_OUTCOMES + 4}"]


def test_the_row_that_carries_the_round_belongs_to_the_story(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    row = story(stage).row
    assert row is not None
    assert (row.id, row.state, row.worker, row.service) == (delivery.row, "claimed", "anna", "reading")
    assert (row.lease, row.documents) == (NOON + 60.0, 1)


def test_settled_events_that_named_it_are_told_before_what_they_led_to(stage: Stage) -> None:
    stage.bring("a", "b")
    stage.settle(stage.take(), Processed(["a", "b"]))
    stage.bring("c")
    stage.settle(stage.take(), Processed(["c"]))
    assert [one.what for one in story(stage).entries] == ["created", "event", "outcome"]
    assert story(stage).entries[1].event_type == "PagesFound"


def test_a_dead_letter_and_a_failed_batch_belong_to_the_story(stage: Stage) -> None:
    stage.bring("a")
    fail_round(stage)
    letter = story(stage).dead_letter
    assert letter is not None
    assert letter.abandoned_reason == "max_attempts_exceeded"
    stage.bring("b", source="shelf")
    stage.settle(stage.take(), InFailedBatch(["b"], failure()))
    batch = story(stage, "b").batch
    assert batch is not None
    assert batch.items == (("pages", "b"),)


def test_what_was_made_from_it_is_counted_by_status(stage: Stage) -> None:
    stage.bring("a")
    words = [word(f"w{number}", parent="pages/a") for number in range(3)]
    stage.settle(stage.take(), Processed(["a"]), adds=words)
    assert story(stage).children == {"words": {"processed": 3}}
    told = read_history(stage.store, "words", "w1")
    assert told is not None
    assert told.state.parent == "pages/a"


# -- what happens next


def test_a_worker_has_it(stage: Stage) -> None:
    stage.store.register_worker("box:42:f00d", {"host": "box"})
    stage.bring("a")
    stage.take(worker="box:42:f00d")
    stage.clock.advance(12)
    assert text(next_step(stage)) == "worker box:42 runs it now: reading, try 1; its lease lasts 48 s more"


def test_a_worker_that_is_silent_loses_it(stage: Stage) -> None:
    stage.bring("a")
    stage.take(worker="box:42:f00d")
    stage.clock.advance(70)
    assert (
        text(next_step(stage))
        == "worker box:42 claimed it and has been silent for 10 s: another worker takes it over"
    )


def test_a_try_that_failed_is_followed_by_another(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), RetryLater(["a"], after=5.0, charge=Charge.TRY, failure=failure()))
    found = next_step(stage)
    assert text(found) == "retried in 5 s: try 1 of round 1 failed with ValueError: it broke"
    assert (found.kind, found.at) == ("due", NOON + 5)


def test_an_event_that_came_too_early_waits_for_its_document(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), RetryLater(["a"], after=3.0, charge=Charge.NOT_READY, failure=failure()))
    assert text(next_step(stage)) == "retried in 3 s: a document of its event could not be read yet (1 time)"


def test_what_is_due_says_whether_anybody_takes_it(stage: Stage) -> None:
    stage.bring("a")
    alone = next_step(stage)
    assert (alone.kind, next_step_command(alone)) == ("no_worker", "onward worker")
    stage.store.register_worker("anna", {})
    assert text(next_step(stage)) == "due since 08:00 for reading: the next free worker takes it"


def test_a_dependency_that_is_down_is_waited_for(stage: Stage) -> None:
    stage.store.subscribe([replace(READING, needs=("printer",))])
    stage.bring("a")
    stage.store.open_breaker("printer", "no paper")
    assert text(next_step(stage)) == "waiting for printer, which has been down since 08:00 (next probe in 10 s)"


def test_the_outage_counts_also_where_no_event_is_on_the_ledger(stage: Stage) -> None:
    stage.store.subscribe([replace(READING, needs=("printer",))])
    stage.bring("a")
    fail_round(stage)
    stage.store.open_breaker("printer", "no paper", remedy="buy some")
    assert text(next_step(stage)).endswith("(next probe in 10 s): buy some")


def test_a_failed_round_is_followed_by_another_after_its_backoff(stage: Stage) -> None:
    stage.bring("a")
    fail_round(stage)
    stage.clock.advance(60)
    found = next_step(stage)
    assert text(found) == "due in 4 min: round 1 of 5 failed with ValueError: it broke; backoff 5 min"
    assert (found.kind, found.at) == ("due", NOON + 300)
    stage.clock.advance(300)
    assert text(next_step(stage)).startswith("due now: round 1 of 5 failed")


def test_what_is_set_aside_is_retried_with_its_batch(stage: Stage) -> None:
    stage.bring("a", source="shelf")
    stage.settle(stage.take(), InFailedBatch(["a"], failure(), after=240.0))
    found = next_step(stage)
    assert text(found).endswith("is retried at 08:04 (1st retry)")
    assert (found.kind, found.at) == ("set_aside", NOON + 240)


def test_the_operators_wish_is_told(stage: Stage) -> None:
    stage.bring("a")
    fail_round(stage)
    stage.store.schedule([("pages", "a")], NOON + 7200)
    found = next_step(stage)
    assert (text(found), found.at) == ("scheduled by an operator for 10:00", NOON + 7200)


def test_what_is_not_complete_waits_for_the_rest(stage: Stage) -> None:
    stage.store.add_documents([page("a")])
    found = next_step(stage, unfinished=Unfinished(3, "messages"))
    assert (found.kind, text(found)) == ("incomplete", "not complete: 3 messages are not finished yet")


def test_what_failed_for_good_needs_a_fix(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), DeadLettered(["a"], Reason.NON_RETRYABLE, failure(), final=True, charge=Charge.TRY))
    found = next_step(stage)
    assert text(found) == "failed for good: ValueError: it broke; retry it after a fix"
    assert (found.kind, next_step_command(found)) == ("failed", "onward retry pages/a")


def test_what_was_given_up_after_all_rounds_can_be_put_back(stage: Stage) -> None:
    stage.bring("a")
    fail_round(stage)
    stage.store.mark_out_of_rounds([("pages", "a")])
    found = next_step(stage)
    assert text(found) == "given up after 1 round, the last with ValueError: it broke; put it back"
    assert (found.kind, next_step_command(found)) == ("given_up", "onward retry pages/a")


def test_nothing_happens_to_what_is_done_or_discarded(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), Processed(["a"]))
    assert text(next_step(stage)) == "nothing: it is processed"
    stage.store.discard("pages", "a")
    assert next_step(stage).kind == "discarded"


def test_what_was_never_begun_is_due_after_an_interval(stage: Stage) -> None:
    stage.store.add_documents([page("a")])
    found = next_step(stage)
    assert (text(found), found.at) == ("due in 15 min: it was never started", NOON + 900)


def test_a_row_that_is_gone_is_not_waited_for(stage: Stage, file: Path) -> None:
    stage.store.add_documents([page("a")])
    change(file, "row", 999)
    assert next_step(stage).kind == "due"


def test_a_document_that_others_wrote_badly_is_told_all_the_same(stage: Stage, file: Path) -> None:
    stage.store.add_documents([page("a")])
    change(file, "status", "half done")
    assert next_step(stage).kind == "odd"
    change(file, "status", "processing")
    change(file, "last_attempt_time", "yesterday, I think")
    found = next_step(stage)
    assert "lastAttemptTime is 'yesterday, I think'" in found.problems[0]
    assert story(stage).state.status == "processing"


# -- words


def test_errors_are_told_on_one_line_without_secrets() -> None:
    assert describe_error({"error_type": "E", "message": "a\nb password=hunter22"}) == "E: a b password=***"
    assert describe_error("just text") == "just text"
    assert describe_error(None) == ""


@pytest.mark.parametrize(
    ("seconds", "words"),
    ((-5, "0 s"), (40, "40 s"), (540, "9 min"), (5 * 3600, "5 h"), (3 * 86400, "3 days")),
)
def test_a_span_is_told_as_exactly_as_anybody_wants(seconds: float, words: str) -> None:
    assert whole_duration(seconds) == words


def test_a_time_of_another_day_has_its_date() -> None:
    assert local_time(NOON, NOON + 60) == "08:00"
    assert local_time(NOON + 86_400, NOON) == "2027-01-16 08:00"
    assert local_time(1e300, NOON) == "a time that no calendar has"


def test_for_readers_who_may_be_anywhere_a_time_has_its_zone() -> None:
    assert utc_time(NOON, NOON + 60) == "2027-01-15 08:00 UTC"
    assert utc_time(1e300, NOON) == "a time that no calendar has"


def test_ordinals() -> None:
    assert [ordinal(one) for one in (1, 2, 3, 4)] == ["1st", "2nd", "3rd", "4th"]
    assert [ordinal(one) for one in (11, 12, 13, 21)] == ["11th", "12th", "13th", "21st"]


def test_a_command_takes_an_id_as_it_is_or_says_that_nobody_can_type_it(stage: Stage) -> None:
    for id in ("it's mine", "bell\x07"):
        stage.bring(id)
        stage.settle(
            stage.take(), DeadLettered([id], Reason.NON_RETRYABLE, failure(), final=True, charge=Charge.TRY)
        )
    typed, untyped = (next_step(stage, id) for id in ("it's mine", "bell\x07"))
    assert shlex.split(next_step_command(typed)) == ["onward", "retry", "pages/it's mine"]
    assert (next_step_command(untyped), text(untyped).partition("; ")[2]) == ("", UNTYPEABLE)


def test_without_a_worker_it_says_how_one_is_started_for_this_store(stage: Stage) -> None:
    stage.bring("a")
    state = stage.state("a")
    found = NextSteps(stage.store, start_worker="onward worker --app MODULE:APP").of(state)
    assert (found.kind, next_step_command(found)) == ("no_worker", "onward worker --app MODULE:APP")
