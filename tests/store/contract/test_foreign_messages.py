"""Messages of other programs: entered once, and kept with their bytes and properties if they cannot be read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onward.ledger import store
from onward.model.events import Envelope
from onward.model.ledger import DeadLetter, DeadLettered, Processed, RetryLater, Subscription
from onward.retry import Reason
from tests.support.store_pages import NOON, Stage, failure, page

RAW = b'{"event_type": "Noticed", "event_id": "theirs", "data": {"what": 7}}'
PROPERTIES = '{"headers": {"x-try": 2}, "routing_key": "noticed"}'


def foreign(stage: Stage, id: str, what: str = "") -> Envelope:
    return replace(stage.noticed(what or id), event_id=id, foreign=True)


def malformed(stage: Stage, event_type: str = "Noticed", event_id: str = "theirs") -> DeadLetter:
    stage.store.keep_malformed(
        RAW, failure("not an event"), event_type=event_type, event_id=event_id, properties=PROPERTIES
    )
    return stage.store.dead_letters()[-1]


# -- once


def test_of_many_ids_each_is_entered_once(stage: Stage) -> None:
    stage.store.publish([foreign(stage, "known")])
    events = [foreign(stage, id, f"{n}") for n, id in enumerate(("a", "known", "b", "a", "a", "c"))]
    published = stage.store.publish([*events, stage.noticed("our own")])
    assert [one.rows for one in published] == [1, 0, 1, 0, 0, 1, 1]
    assert [one.duplicates for one in published] == [0, 1, 0, 1, 1, 0, 0]


def test_the_event_of_a_dead_letter_is_known_however_old_it_is(stage: Stage) -> None:
    stage.store.publish([foreign(stage, "old")])
    stage.settle(stage.take(service="listening"), DeadLettered(failure=failure()))
    stage.clock.advance(30 * 86_400)
    stage.store.prune(keep_seconds=0, keep_count=0)
    assert stage.store.publish([foreign(stage, "old"), foreign(stage, "new")])[0].duplicates == 1


def test_a_message_that_was_never_read_does_not_keep_its_correction_out(stage: Stage) -> None:
    malformed(stage)
    assert stage.store.publish([foreign(stage, "theirs")])[0].rows == 1


def test_each_prune_forgets_a_bounded_number_until_none_is_left(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_FORGOTTEN", 3)
    stage.store.publish([foreign(stage, str(number), str(number)) for number in range(8)])
    stage.clock.advance(8 * 86_400)
    for _ in range(2):
        stage.store.prune(keep_seconds=0, keep_count=0)
        stage.clock.advance(1.0)
    left = stage.store.atomically(lambda: stage.store.db.run("forget_foreign_events", stage.clock.now(), 100))
    assert left == 2


# -- bytes and properties


def test_a_message_that_cannot_be_read_has_bytes_properties_and_what_can_be_decoded(stage: Stage) -> None:
    letter = malformed(stage)
    assert (letter.raw, letter.unread) == (RAW, True)
    assert letter.properties == {"headers": {"x-try": 2}, "routing_key": "noticed"}
    assert letter.original_event == {"event_type": "Noticed", "event_id": "theirs", "data": {"what": 7}}
    assert letter.idempotency_key == "theirs"


def test_bytes_and_properties_of_an_event_stay_with_every_row_of_it(stage: Stage) -> None:
    stage.store.add_documents([page("a"), page("b")])
    stage.store.publish([replace(stage.found("a", "b"), raw=RAW, properties=PROPERTIES)])
    delivery = stage.take()
    stage.settle(delivery, RetryLater(["a"]), DeadLettered(["b"], failure=failure()))
    stage.settle(
        stage.take(), DeadLettered(["a"], reason=Reason.MALFORMED, failure=failure(), raw=b"less than that")
    )
    letters = stage.store.dead_letters()
    assert [(one.raw, one.properties is not None, one.unread) for one in letters] == [(RAW, True, False)] * 2


def test_an_event_without_a_consumer_has_them_when_one_subscribes(stage: Stage) -> None:
    unheard = replace(stage.noticed(), event_type="Unheard", raw=RAW, properties=PROPERTIES)
    assert stage.store.publish([unheard])[0].unrouted
    stage.store.subscribe([Subscription("hearing", "Unheard")])
    stage.settle(stage.take(service="hearing"), DeadLettered(failure=failure()))
    (letter,) = stage.store.dead_letters("hearing")
    assert (letter.raw, letter.properties and letter.properties["routing_key"]) == (RAW, "noticed")


# -- read again


def test_a_message_that_can_be_read_now_replaces_its_dead_letter(stage: Stage) -> None:
    stage.store.subscribe([Subscription("watching", "Noticed")])
    letter = malformed(stage)
    other = next(one for one in stage.store.dead_letters() if one.row != letter.row)
    entered = stage.store.enter_unread(letter.row, foreign(stage, "theirs"))
    assert entered is not None
    assert [documents for _, documents in entered] == [[]]
    assert [one.row for one in stage.store.dead_letters()] == [other.row], "each service has its own"
    delivery = stage.take(service=letter.service_name)
    assert (delivery.event_id, delivery.row) == ("theirs", entered[0][0])
    assert stage.rows("waiting", other.service_name) == 0
    assert stage.store.enter_unread(letter.row, foreign(stage, "theirs")) is None, "it is gone"
    assert stage.store.publish([foreign(stage, "theirs")])[0].duplicates == 1, "its id is known now"


def test_one_that_was_for_no_service_goes_to_all_that_take_it_now(stage: Stage) -> None:
    letter = malformed(stage, event_type="")
    stage.store.subscribe([Subscription("watching", "Noticed")])
    entered = stage.store.enter_unread(letter.row, foreign(stage, "theirs"))
    assert entered is not None
    assert {stage.take(service=name).event_id for name in ("listening", "watching")} == {"theirs"}


def test_one_that_nobody_takes_waits_for_a_consumer(stage: Stage) -> None:
    letter = malformed(stage, event_type="")
    unheard = replace(foreign(stage, "theirs"), event_type="Unheard")
    assert stage.store.enter_unread(letter.row, unheard) == []
    assert stage.store.counts() == {"": {"unrouted": 1}}


def test_one_about_documents_begins_their_round(stage: Stage) -> None:
    stage.store.add_documents([page("a")])
    letter = malformed(stage, event_type="PagesFound")
    assert letter.service_name == "reading"
    entered = stage.store.enter_unread(letter.row, stage.found("a"))
    assert entered is not None
    assert entered[0][1] == [("pages", "a")]
    assert stage.state("a").round == 1
    stage.settle(stage.take(), Processed(["a"]))
    assert stage.state("a").status == "processed"


def test_one_that_still_cannot_be_read_has_the_new_error_too(stage: Stage) -> None:
    letter = malformed(stage)
    stage.clock.advance(60)
    stage.store.record_unread(letter.row, replace(failure("still none"), at=NOON + 60, fingerprint="beef"))
    (again,) = stage.store.dead_letters()
    assert [one["message"] for one in again.errors] == ["not an event", "still none"]
    assert (again.last_error, again.fingerprint, again.timestamp) == ("still none", "beef", NOON)
    assert [one.row for one in stage.store.find_dead_letters(fingerprint="beef")] == [letter.row]
    group = stage.store.failure_group("beef")
    assert group is not None
    assert group.failures == 1
