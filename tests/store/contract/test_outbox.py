"""The outbox: what leaves for other programs is stored with what it reports, and deleted when it was confirmed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from onward.model.events import Envelope, new_id
from onward.model.ledger import (
    KEEP_UNROUTED_SECONDS,
    DeadLettered,
    GatewayReport,
    OutgoingEvent,
    OutgoingEvents,
    Processed,
    Subscription,
)
from tests.support.store_pages import NOON, Stage, failure, page

ALL = OutgoingEvents(None)


@pytest.fixture
def sending(stage: Stage) -> Stage:
    """A store whose events leave."""
    stage.store.outgoing = ALL
    return stage


def outgoing(stage: Stage, limit: int = 100) -> list[OutgoingEvent]:
    return stage.store.due_outgoing(limit=limit)


def keys(stage: Stage) -> list[str]:
    return [event.routing_key for event in outgoing(stage)]


def read(event: OutgoingEvent) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(event.body)
    return body


def test_an_event_leaves_in_its_envelope(sending: Stage) -> None:
    sending.store.add_documents([page("a")])
    envelope = sending.found("a", trace="00-11-22-01")
    sending.store.publish([envelope])
    (event,) = outgoing(sending)
    assert (event.event_id, event.routing_key) == (envelope.event_id, "pages.found")
    body = read(event)
    assert body.pop("idempotency_key") == sending.take().key
    assert body == {
        "event_type": "PagesFound",
        "event_id": envelope.event_id,
        "timestamp": "2027-01-15T08:00:00Z",
        "version": "1.0",
        "round": 1,
        "attempt": 1,
        "trace": "00-11-22-01",
        "data": {"page_ids": ["a"], "found_by": ""},
    }


def test_without_a_gateway_nothing_is_kept(stage: Stage) -> None:
    stage.bring("a")
    assert outgoing(stage) == []


def test_only_the_chosen_types_leave(stage: Stage) -> None:
    stage.store.outgoing = OutgoingEvents(frozenset({"Noticed"}))
    stage.store.publish([stage.found("a"), stage.noticed()])
    assert keys(stage) == ["noticed"]


def test_what_another_program_has_published_does_not_leave_again(sending: Stage) -> None:
    sending.store.publish([Envelope("Noticed", "{}", "e1", NOON, foreign=True)])
    assert outgoing(sending) == []


def test_an_event_without_a_consumer_leaves_once(sending: Stage) -> None:
    envelope = Envelope("Unheard", "{}", new_id(), NOON, routing_key="unheard")
    sending.store.publish([envelope])
    sending.store.subscribe([Subscription("hearing", "Unheard")])
    assert keys(sending) == ["unheard"], "its first consumer is no second fact"


def test_what_a_work_emits_leaves_with_its_commit_and_not_without(sending: Stage) -> None:
    sending.bring("a")
    delivery = sending.take()
    late = sending.settle(delivery, Processed(["a"]), emits=[sending.noticed("done")])
    assert late.status == "committed"
    assert keys(sending) == ["pages.found", "noticed"]
    again = sending.settle(delivery, Processed(["a"]), emits=[sending.noticed("again")])
    assert again.status == "fenced"
    assert keys(sending) == ["pages.found", "noticed"]


def test_a_transaction_that_fails_leaves_nothing_behind(sending: Stage) -> None:
    def steps() -> None:
        sending.store.publish([sending.noticed()])
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        sending.store.atomically(steps)
    assert outgoing(sending) == []


def test_a_notice_leaves_although_no_service_takes_it(sending: Stage) -> None:
    sending.bring("a")
    notice = Envelope("ReadingFailed", "{}", new_id(), NOON, notice=True, routing_key="reading.failed.notice")
    sending.settle(sending.take(), DeadLettered(["a"], failure=failure(), notice=notice))
    assert keys(sending) == ["pages.found", "reading.failed.notice"]


def test_a_delayed_event_leaves_when_it_is_due(sending: Stage) -> None:
    sending.store.publish([sending.noticed(due_in=60.0)])
    assert outgoing(sending) == []
    sending.clock.advance(60.0)
    assert keys(sending) == ["noticed"]
    assert sending.store.oldest_outgoing() == NOON + 60.0, "until then it did not wait"


def test_events_are_read_in_order_and_deleted_when_confirmed(sending: Stage) -> None:
    for what in "abc":
        sending.store.publish([sending.noticed(what)])
        sending.clock.advance(1.0)
    assert [read(event)["data"]["what"] for event in outgoing(sending, limit=2)] == ["a", "b"]
    sending.store.settle_outgoing([event.id for event in outgoing(sending, limit=2)])
    assert [read(event)["data"]["what"] for event in outgoing(sending)] == ["c"]


def test_a_number_is_never_used_twice(sending: Stage) -> None:
    # A gateway that was taken over may delete what it read long ago: that must not be another event.
    sending.store.publish([sending.noticed("first")])
    (first,) = outgoing(sending)
    sending.store.settle_outgoing([first.id])
    sending.store.publish([sending.noticed("second")])
    sending.store.settle_outgoing([first.id])
    assert len(outgoing(sending)) == 1


def test_a_refused_event_waits_longer_each_time_and_holds_up_no_other(sending: Stage) -> None:
    sending.store.publish([sending.noticed()])
    (event,) = outgoing(sending)
    pauses = []
    for _ in range(8):
        sending.store.settle_outgoing([], refused=[event.id])
        pauses.append(0)
        while not outgoing(sending) and pauses[-1] < 100:
            sending.clock.advance(1.0)
            pauses[-1] += 1
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    sending.store.settle_outgoing([], refused=[event.id])
    sending.store.publish([sending.noticed("other")])
    assert len(outgoing(sending)) == 1
    assert sending.store.oldest_outgoing() == NOON, "it is still counted as behind"


def test_an_unroutable_event_waits_for_a_queue_and_does_not_count_as_behind(sending: Stage) -> None:
    sending.store.publish([sending.noticed("a"), sending.noticed("b"), sending.found("c")])
    sending.store.settle_outgoing([], unroutable=[event.id for event in outgoing(sending)])
    assert outgoing(sending) == []
    assert sending.store.oldest_outgoing() is None
    status = sending.store.outbox_status()
    assert (status.waiting, status.oldest, status.unroutable) == (0, None, 3)
    first = {event.routing_key: read(event)["data"] for event in sending.store.unroutable_outgoing()}
    assert first == {"noticed": {"what": "a"}, "pages.found": {"page_ids": ["c"], "found_by": ""}}
    sending.store.reroute_outgoing("noticed")
    assert keys(sending) == ["noticed", "noticed"]


def test_unroutable_events_are_kept_for_a_while_and_others_for_ever(sending: Stage) -> None:
    sending.store.publish([sending.noticed("a"), sending.noticed("b")])
    unroutable, _ = outgoing(sending)
    sending.store.settle_outgoing([], unroutable=[unroutable.id])
    sending.clock.advance(KEEP_UNROUTED_SECONDS - 1)
    sending.store.prune(keep_seconds=1, keep_count=1)
    assert sending.store.outbox_status().unroutable == 1
    sending.clock.advance(61)
    sending.store.prune(keep_seconds=1, keep_count=1)
    status = sending.store.outbox_status()
    assert (status.waiting, status.unroutable) == (1, 0)


def test_of_too_many_unroutable_events_the_newest_are_kept(
    sending: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.ledger.store.MAX_UNROUTED", 2)
    sending.store.publish([sending.noticed(what) for what in "abcd"])
    sending.store.settle_outgoing([], unroutable=[event.id for event in outgoing(sending)])
    sending.store.prune(keep_seconds=1, keep_count=1)
    sending.store.reroute_outgoing("noticed")
    assert [read(event)["data"]["what"] for event in outgoing(sending)] == ["c", "d"]


def test_what_became_due_long_ago_can_be_left_out(sending: Stage) -> None:
    sending.store.publish([sending.noticed("old")])
    sending.clock.advance(100.0)
    sending.store.publish([sending.noticed("new")])
    (event,) = sending.store.due_outgoing(limit=10, since=NOON + 50)
    assert read(event)["data"]["what"] == "new"


def test_the_gateway_reports_for_all_processes(stage: Stage) -> None:
    assert stage.store.outbox_status().gateway == stage.store.gateway_report() == GatewayReport()
    name = stage.store.store_name()
    report = GatewayReport("anna", NOON, "nothing listens there", NOON - 5)
    stage.store.report_gateway(report)
    assert stage.store.outbox_status().gateway == stage.store.gateway_report() == report
    assert stage.store.store_name() == name, "it does not change"


def test_when_the_next_event_is_due_to_leave(sending: Stage) -> None:
    assert sending.store.next_outgoing() is None
    envelope = sending.noticed("later")
    envelope.due_in = 60.0
    sending.store.publish([envelope])
    assert sending.store.next_outgoing() == NOON + 60
    sending.store.publish([sending.noticed("now")])
    assert sending.store.next_outgoing() == NOON
    sending.store.settle_outgoing([], unroutable=[event.id for event in outgoing(sending)])
    assert sending.store.next_outgoing() == NOON + 60


def test_a_report_of_a_newer_release_is_read(stage: Stage) -> None:
    stage.store.store_name()
    report = json.dumps({"holder": "anna", "speed": 7})
    stage.store.atomically(lambda: stage.store.db.send("report_gateway", report))
    assert stage.store.gateway_report() == GatewayReport("anna")
