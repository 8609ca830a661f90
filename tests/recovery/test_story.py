"""A document's story holds all that is kept of its life, and the outlook says what happens next and why."""

from __future__ import annotations

import shlex
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from onward.backends import open_store
from onward.model.failures import KEPT_OUTCOMES
from onward.model.ledger import Aside, Charge, Dead, Done, Wait
from onward.recovery.deciding import Rules
from onward.recovery.outlook import UNTYPEABLE, Outlook, Outlooks, describe_error
from onward.recovery.phrasing import at_time, in_utc, lasting, ordinal
from onward.recovery.story import Story, tell
from onward.retry import Reason
from tests.store.stage import NOON, READING, Clock, Stage, failure, page, word


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


def story(stage: Stage, id: str = "a") -> Story:
    told = tell(stage.store, "pages", id)
    assert told is not None
    return told


def outlook(stage: Stage, id: str = "a", *, holdup: str = "") -> Outlook:
    return Outlooks(stage.store, Rules()).of(stage.state(id), holdup=holdup)


def fail_round(stage: Stage, message: str = "it broke") -> None:
    """The round under way ends as a dead letter."""
    stage.settle(stage.take(), Dead(["a"], failure=failure(message, stage.store.now()), charge=Charge.TRY))


def change(file: Path, column: str, value: object) -> None:
    """Write as somebody else would, who knows nothing of Onward's habits."""
    eye = sqlite3.connect(file)
    with eye:
        eye.execute(f"UPDATE documents SET {column} = ? WHERE id = 'a'", (value,))
    eye.close()


# -- the story


def test_there_is_no_story_of_what_does_not_exist(stage: Stage) -> None:
    assert tell(stage.store, "pages", "nobody") is None


def test_every_outcome_is_told_in_order_with_its_round_and_try(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), Wait(["a"], after=5.0, charge=Charge.TRY, failure=failure("first", NOON)))
    stage.clock.advance(10)
    fail_round(stage, "second")
    stage.clock.advance(10)
    stage.publish("a", found_by="again")
    stage.settle(stage.take(), Done(["a"]), worker="anna", version="2")
    told = [one for one in story(stage).moments if one.what == "outcome"]
    assert [(one.round, one.attempt, one.decided, one.message) for one in told] == [
        (1, 1, "to be tried again", "first"),
        (1, 2, "round given up", "second"),
        (2, 0, "processed", ""),
    ]
    assert (told[-1].worker, told[-1].version) == ("anna", "2")
    assert story(stage).moments[0].what == "created"


def test_what_is_not_kept_is_counted_where_it_is_missing(stage: Stage) -> None:
    stage.bring("a")
    for number in range(KEPT_OUTCOMES + 5):
        stage.settle(stage.take(), Wait(["a"], charge=Charge.TRY, failure=failure(f"no. {number}")))
    told = story(stage)
    assert [one.what for one in told.moments[:4]] == ["created", "outcome", "not_kept", "outcome"]
    assert (told.not_kept, told.moments[2].count) == (5, 5)
    assert [told.moments[1].message, told.moments[-1].message] == ["no. 0", f"no. {KEPT_OUTCOMES + 4}"]


def test_the_row_that_carries_the_round_belongs_to_the_story(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    row = story(stage).row
    assert row is not None
    assert (row.id, row.state, row.worker, row.service) == (delivery.row, "claimed", "anna", "reading")
    assert (row.lease, row.documents) == (NOON + 60.0, 1)


def test_settled_events_that_named_it_are_told_before_what_they_led_to(stage: Stage) -> None:
    stage.bring("a", "b")
    stage.settle(stage.take(), Done(["a", "b"]))
    stage.bring("c")
    stage.settle(stage.take(), Done(["c"]))
    assert [one.what for one in story(stage).moments] == ["created", "event", "outcome"]
    assert story(stage).moments[1].event_type == "PagesFound"


def test_a_dead_letter_and_a_failed_batch_belong_to_the_story(stage: Stage) -> None:
    stage.bring("a")
    fail_round(stage)
    letter = story(stage).dead_letter
    assert letter is not None
    assert letter.abandoned_reason == "max_attempts_exceeded"
    stage.bring("b", source="shelf")
    stage.settle(stage.take(), Aside(["b"], failure()))
    batch = story(stage, "b").batch
    assert batch is not None
    assert batch.items == (("pages", "b"),)


def test_what_was_made_from_it_is_counted_by_status(stage: Stage) -> None:
    stage.bring("a")
    words = [word(f"w{number}", parent="pages/a") for number in range(3)]
    stage.settle(stage.take(), Done(["a"]), adds=words)
    assert story(stage).children == {"words": {"processed": 3}}
    told = tell(stage.store, "words", "w1")
    assert told is not None
    assert told.parent == "pages/a"


# -- what happens next


def test_a_worker_has_it(stage: Stage) -> None:
    stage.store.enlist("box:42:f00d", {"host": "box"})
    stage.bring("a")
    stage.take(worker="box:42:f00d")
    stage.clock.advance(12)
    assert outlook(stage).text == "a worker (box:42) has it now: reading, try 1; its lease lasts 48 s more"


def test_a_worker_that_is_silent_loses_it(stage: Stage) -> None:
    stage.bring("a")
    stage.take(worker="box:42:f00d")
    stage.clock.advance(70)
    assert outlook(stage).text == "a worker (box:42) had it and is silent for 10 s: it is given to another one"


def test_a_try_that_failed_is_followed_by_another(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), Wait(["a"], after=5.0, charge=Charge.TRY, failure=failure()))
    found = outlook(stage)
    assert found.text == "tried again in 5 s: try 1 of round 1 failed with ValueError: it broke"
    assert (found.kind, found.at) == ("due", NOON + 5)


def test_an_event_that_came_too_early_waits_for_its_document(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), Wait(["a"], after=3.0, charge=Charge.NOT_READY, failure=failure()))
    assert outlook(stage).text == "tried again in 3 s: a document of its event could not be read yet (1 time)"


def test_what_is_due_says_whether_anybody_takes_it(stage: Stage) -> None:
    stage.bring("a")
    alone = outlook(stage)
    assert (alone.kind, alone.command) == ("no_worker", "onward worker")
    stage.store.enlist("anna", {})
    assert outlook(stage).text == "due since 08:00 for reading: the next free worker takes it"


def test_a_dependency_that_is_down_is_waited_for(stage: Stage) -> None:
    stage.store.subscribe([replace(READING, needs=("printer",))])
    stage.bring("a")
    stage.store.open_breaker("printer", "no paper")
    assert outlook(stage).text == "waiting for printer, which is down since 08:00 (asked again in 10 s)"


def test_the_outage_counts_also_where_no_event_is_on_the_ledger(stage: Stage) -> None:
    stage.store.subscribe([replace(READING, needs=("printer",))])
    stage.bring("a")
    fail_round(stage)
    stage.store.open_breaker("printer", "no paper", remedy="buy some")
    assert outlook(stage).text.endswith("(asked again in 10 s): buy some")


def test_a_failed_round_is_followed_by_another_after_its_backoff(stage: Stage) -> None:
    stage.bring("a")
    fail_round(stage)
    stage.clock.advance(60)
    found = outlook(stage)
    assert found.text == "due in 4 min: round 1 of 5 failed with ValueError: it broke; backoff 5 min"
    assert (found.kind, found.at) == ("due", NOON + 300)
    stage.clock.advance(300)
    assert outlook(stage).text.startswith("due now: round 1 of 5 failed")


def test_what_is_set_aside_is_retried_with_its_batch(stage: Stage) -> None:
    stage.bring("a", source="shelf")
    stage.settle(stage.take(), Aside(["a"], failure(), after=240.0))
    found = outlook(stage)
    assert found.text.endswith("is retried at 08:04 (1st retry)")
    assert (found.kind, found.at) == ("set_aside", NOON + 240)


def test_the_operators_wish_is_told(stage: Stage) -> None:
    stage.bring("a")
    fail_round(stage)
    stage.store.schedule([("pages", "a")], NOON + 7200)
    found = outlook(stage)
    assert (found.text, found.at) == ("scheduled by an operator for 10:00", NOON + 7200)


def test_what_is_not_complete_waits_for_the_rest(stage: Stage) -> None:
    stage.store.add_documents([page("a")])
    found = outlook(stage, holdup="3 messages are still to be finished")
    assert (found.kind, found.text) == ("incomplete", "not complete: 3 messages are still to be finished")


def test_what_failed_for_good_needs_a_fix(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), Dead(["a"], Reason.NON_RETRYABLE, failure(), final=True, charge=Charge.TRY))
    found = outlook(stage)
    assert found.text == "failed for good: ValueError: it broke; after a fix"
    assert (found.kind, found.command) == ("failed", "onward retry pages/a")


def test_what_was_given_up_after_all_rounds_can_be_put_back(stage: Stage) -> None:
    stage.bring("a")
    fail_round(stage)
    stage.store.give_up([("pages", "a")])
    found = outlook(stage)
    assert found.text == "given up after 1 round, the last with ValueError: it broke; put it back"
    assert (found.kind, found.command) == ("given_up", "onward retry pages/a")


def test_nothing_happens_to_what_is_done_or_discarded(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), Done(["a"]))
    assert outlook(stage).text == "nothing: it is processed"
    stage.store.discard("pages", "a")
    assert outlook(stage).kind == "discarded"


def test_what_was_never_begun_is_due_after_an_interval(stage: Stage) -> None:
    stage.store.add_documents([page("a")])
    found = outlook(stage)
    assert (found.text, found.at) == ("due in 15 min: nothing was ever begun", NOON + 900)


def test_a_row_that_is_gone_is_not_waited_for(stage: Stage, file: Path) -> None:
    stage.store.add_documents([page("a")])
    change(file, "row", 999)
    assert outlook(stage).kind == "due"


def test_a_document_that_others_wrote_badly_is_told_all_the_same(stage: Stage, file: Path) -> None:
    stage.store.add_documents([page("a")])
    change(file, "status", "half done")
    assert outlook(stage).kind == "odd"
    change(file, "status", "processing")
    change(file, "last_attempt_time", "yesterday, I think")
    found = outlook(stage)
    assert "lastAttemptTime is 'yesterday, I think'" in found.about["problems"][0]
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
    assert lasting(seconds) == words


def test_a_time_of_another_day_has_its_date() -> None:
    assert at_time(NOON, NOON + 60) == "08:00"
    assert at_time(NOON + 86_400, NOON) == "2027-01-16 08:00"
    assert at_time(1e300, NOON) == "a time that no calendar has"


def test_for_readers_who_may_be_anywhere_a_time_has_its_zone() -> None:
    assert in_utc(NOON, NOON + 60) == "2027-01-15 08:00 UTC"
    assert in_utc(1e300, NOON) == "a time that no calendar has"


def test_ordinals() -> None:
    assert [ordinal(one) for one in (1, 2, 3, 4)] == ["1st", "2nd", "3rd", "4th"]
    assert [ordinal(one) for one in (11, 12, 13, 21)] == ["11th", "12th", "13th", "21st"]


def test_a_command_takes_an_id_as_it_is_or_says_that_nobody_can_type_it(stage: Stage) -> None:
    for id in ("it's mine", "bell\x07"):
        stage.bring(id)
        stage.settle(stage.take(), Dead([id], Reason.NON_RETRYABLE, failure(), final=True, charge=Charge.TRY))
    typed, untyped = (outlook(stage, id) for id in ("it's mine", "bell\x07"))
    assert shlex.split(typed.command) == ["onward", "retry", "pages/it's mine"]
    assert (untyped.command, untyped.text.partition("; ")[2]) == ("", UNTYPEABLE)


def test_without_a_worker_it_says_how_one_is_started_for_this_store(stage: Stage) -> None:
    stage.bring("a")
    state = stage.state("a")
    found = Outlooks(stage.store, worker="onward worker --app MODULE:APP").of(state)
    assert (found.kind, found.command) == ("no_worker", "onward worker --app MODULE:APP")
