"""Which events the outbox reads and publishes together, with a broker that a test plays itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiormq import exceptions
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from onward.backend_urls import open_store
from onward.gateway import BrokerUnavailable
from onward.gateway.outbox import MAX_PUBLISHED, MAX_PUBLISHED_SIZE, Outbox
from onward.ledger.store import Store
from onward.ledger.store_errors import StoreUnavailable
from onward.model.events import Envelope, new_id
from onward.model.ledger import OutgoingEvent, OutgoingEvents
from tests.support.store_pages import NOON, Clock

CONFIRMED = Basic.Ack()
_CHANNEL: Any = None  # nobody uses it
RETURNED = DeliveredMessage(delivery=Basic.Return(), header=ContentHeader(), body=b"", channel=_CHANNEL)
UNROUTABLE = exceptions.PublishError(RETURNED, Basic.Return())


class PlayedBroker:
    """Replies to each event as a test says, and records what was published together."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.reply: Callable[[OutgoingEvent], object] = lambda event: CONFIRMED

    async def publish_all(self, events: Sequence[OutgoingEvent], confirmations: Sequence[Any]) -> None:
        self.batches.append([event.routing_key for event in events])
        for event, confirmation in zip(events, confirmations, strict=True):
            reply = self.reply(event)
            if isinstance(reply, BrokerUnavailable):
                raise reply
            confirmation.reply = reply


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Iterator[Store]:
    store = open_store("sqlite://:memory:", clock)
    store.outgoing = OutgoingEvents(None)
    yield store
    store.close()


@pytest.fixture
def broker() -> PlayedBroker:
    return PlayedBroker()


@pytest.fixture
def outbox(store: Store, broker: PlayedBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outbox]:
    bus = store.bus()
    with ThreadPoolExecutor(1) as reading, ThreadPoolExecutor(1) as waiting:
        outbox = Outbox(store, "a store", bus, reading, waiting)
        monkeypatch.setattr(outbox, "_publish_all", broker.publish_all)
        yield outbox
        bus.close()


def put(store: Store, *keys: str, data: str = "{}") -> None:
    for key in keys:
        store.publish([Envelope("Noticed", data, new_id(), NOON, notice=True, routing_key=key)])


def run_until(outbox: Outbox, is_done: Callable[[], bool]) -> None:
    """Let the outbox work; if its connection is lost, it gets a new one."""

    async def work() -> None:
        while not is_done():
            running = asyncio.create_task(outbox.run())
            while not running.done() and not is_done():
                await asyncio.wait({running}, timeout=0.001)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(work(), 30))


def left(store: Store) -> list[str]:
    return [event.routing_key for event in store.due_outgoing(limit=1_000)]


def test_events_that_waited_longer_than_a_late_commit_leave_without_waiting_for_a_scan(
    store: Store, clock: Clock, outbox: Outbox
) -> None:
    run_until(outbox, lambda: outbox._scanned_at > 0)  # everything was looked at
    put(store, "early")
    clock.advance(50.0)  # the broker was slow to confirm
    put(store, "late")
    run_until(outbox, lambda: not left(store))


def test_after_an_error_of_the_store_everything_is_looked_at(
    store: Store, clock: Clock, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_until(outbox, lambda: outbox._scanned_at > 0)
    put(store, "a")
    clock.advance(40.0)
    outbox._limit = 10  # so that it reads all that is due
    settle, failed = store.settle_outgoing, list[bool]()

    def fail_once(*ids: Any, **more: Any) -> None:
        if not failed:
            failed.append(True)
            raise StoreUnavailable("away for a while")
        settle(*ids, **more)

    monkeypatch.setattr(store, "settle_outgoing", fail_once)
    run_until(outbox, lambda: not left(store))


def test_unroutable_events_are_tried_again_while_others_leave_without_a_pause(
    store: Store, outbox: Outbox, broker: PlayedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "lost", "lost")
    broker.reply = lambda event: UNROUTABLE
    run_until(outbox, lambda: store.outbox_status().unroutable == 2)

    def never_pause(seconds: float) -> None:
        pytest.fail("there is always something to publish")

    monkeypatch.setattr("onward.gateway.outbox.ROUTE_SECONDS", 0.0)
    monkeypatch.setattr(outbox._bus, "wait", never_pause)

    def confirm(event: OutgoingEvent) -> object:
        put(store, "busy")
        return CONFIRMED

    broker.reply = confirm
    put(store, "busy")
    run_until(outbox, lambda: store.outbox_status().unroutable == 0 and "lost" not in left(store))


def test_an_event_that_ends_every_connection_keeps_no_other(
    store: Store, outbox: Outbox, broker: PlayedBroker
) -> None:
    put(store, "a", "b", "poison", "c", "d")
    broker.reply = lambda event: BrokerUnavailable("reset") if event.routing_key == "poison" else CONFIRMED
    run_until(outbox, lambda: store.outbox_status().waiting == 1)
    assert [key for batch in broker.batches for key in batch].count("a") == 1, "what was confirmed left once"
    assert outbox.trouble == "" or "reset" in outbox.trouble


def test_an_unroutable_event_that_ends_every_connection_keeps_no_other(
    store: Store, outbox: Outbox, broker: PlayedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "a", "b")
    broker.reply = lambda event: UNROUTABLE
    run_until(outbox, lambda: store.outbox_status().unroutable == 2)
    monkeypatch.setattr("onward.gateway.outbox.ROUTE_SECONDS", 0.0)
    broker.reply = lambda event: BrokerUnavailable("reset") if event.routing_key == "a" else CONFIRMED
    run_until(outbox, lambda: store.outbox_status().unroutable == 0)
    assert store.outbox_status().waiting == 1, "it is published again later"


def test_small_events_leave_in_large_batches_and_large_ones_in_small_batches(
    store: Store, outbox: Outbox, broker: PlayedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.transaction():
        put(store, *["small"] * 3 * MAX_PUBLISHED)
    run_until(outbox, lambda: not left(store))
    assert max(map(len, broker.batches)) == MAX_PUBLISHED
    outbox._limit = 1  # as after a lost connection
    broker.batches.clear()
    with store.transaction():
        put(store, *["large"] * 250, data=f'{{"what":"{"x" * 60_000}"}}')
    run_until(outbox, lambda: not left(store))
    assert max(map(len, broker.batches)) <= MAX_PUBLISHED_SIZE // 60_000
    assert max(map(len, broker.batches)) > 20


def test_a_refusal_is_reported_until_the_event_has_left(
    store: Store, outbox: Outbox, broker: PlayedBroker
) -> None:
    put(store, "full")
    broker.reply = lambda event: exceptions.DeliveryError(None, Basic.Nack())
    run_until(outbox, lambda: "a queue is full" in outbox.trouble)
    broker.reply = lambda event: CONFIRMED
    run_until(outbox, lambda: bool(store.clock.advance(1.0)) or not outbox.trouble)  # type: ignore[attr-defined]
    assert store.outbox_status().waiting == 0
