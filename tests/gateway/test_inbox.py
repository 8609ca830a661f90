"""The inbox: every message is handed to the store, and acknowledged when it is stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from threading import Event

import aiormq
import pytest
from aiormq.abc import ChannelFrame
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from onward.backend_urls import open_store
from onward.gateway import Gateway
from onward.gateway.inbox import INBOX
from onward.gateway.outbox import EXCHANGE
from onward.runtime.publisher import ForeignMessage
from tests.support.gateway_broker import (
    KEY,
    SECONDS,
    Broker,
    Opener,
    RecordingGateway,
    by_hand,
    eventually,
    publish,
    waiting_in_inbox,
)

EVENT = json.dumps({"event_type": "PagesFound", "data": {"page_ids": ["p1"]}}).encode()


def test_a_message_is_stored_once_with_its_id_and_then_acknowledged(
    opened: Opener, rabbit_url: str, broker: Broker
) -> None:
    gateway = opened(rabbit_url, KEY, KEY, "pages.lost")
    publish(rabbit_url, EVENT, message_id="e1")
    publish(rabbit_url, b"the last")
    gateway.wait_for(EVENT, b"the last")
    assert gateway.entered[0].message_id == "e1"
    broker.wait_until_acknowledged()


def test_a_message_may_be_sent_straight_into_the_queue(opened: Opener, rabbit_url: str) -> None:
    gateway = opened(rabbit_url)
    publish(rabbit_url, EVENT, exchange="", key=INBOX)
    gateway.wait_for(EVENT)


def test_a_message_that_cannot_be_stored_is_tried_again_and_not_acknowledged_before(
    opened: Opener, rabbit_url: str, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = opened(rabbit_url)
    gateway.failing = True
    publish(rabbit_url, EVENT)
    eventually(lambda: waiting_in_inbox(rabbit_url) == 0, "it is delivered")
    assert broker.unacknowledged() == 1
    gateway.failing = False
    gateway.wait_for(EVENT)
    broker.wait_until_acknowledged()


def test_a_message_that_was_not_stored_before_a_stop_is_delivered_again(opened: Opener, rabbit_url: str) -> None:
    first = opened(rabbit_url)
    first.failing = True
    publish(rabbit_url, EVENT)
    eventually(lambda: waiting_in_inbox(rabbit_url) == 0, "it is delivered")
    first.stop()
    assert first.entered == []
    opened(rabbit_url).wait_for(EVENT)


def test_a_stop_waits_for_the_message_that_is_being_stored(rabbit_url: str) -> None:
    storing, stored = Event(), Event()

    def enter(messages: Sequence[ForeignMessage]) -> None:
        storing.set()
        assert stored.wait(SECONDS)

    gateway = Gateway(rabbit_url, open_store("sqlite://:memory:"), enter, [KEY])
    gateway.start()
    publish(rabbit_url, EVENT)
    assert storing.wait(SECONDS)
    stored.set()
    gateway.stop()
    assert waiting_in_inbox(rabbit_url) == 0, "acknowledged"


def test_two_gateways_share_the_messages(opened: Opener, rabbit_url: str, broker: Broker) -> None:
    gateways = [opened(rabbit_url) for _ in range(2)]
    bodies = {f"{number}".encode() for number in range(50)}

    async def send(channel: aiormq.Channel) -> None:
        for body in bodies:
            await channel.basic_publish(body, exchange=EXCHANGE, routing_key=KEY)

    by_hand(rabbit_url, send)
    eventually(lambda: sum(len(one.entered) for one in gateways) >= len(bodies), "all are stored")
    broker.wait_until_acknowledged()
    assert sorted(message.raw for one in gateways for message in one.entered) == sorted(bodies)


def test_an_inbox_has_been_empty_when_all_that_waited_is_stored(opened: Opener, rabbit_url: str) -> None:
    opened(rabbit_url).stop()
    for number in range(150):
        publish(rabbit_url, f"{number}".encode(), exchange="", key=INBOX)
    gateway = RecordingGateway(rabbit_url)
    gateway.failing = True
    gateway.start()
    assert not gateway.has_been_empty
    gateway.failing = False
    eventually(lambda: gateway.has_been_empty, "the inbox was found empty")
    assert len(gateway.entered) == 150
    gateway.stop()


def test_a_large_body_arrives_whole(opened: Opener, rabbit_url: str) -> None:
    gateway = opened(rabbit_url)
    body = bytes(range(256)) * 4096
    publish(rabbit_url, body)
    gateway.wait_for(body)


def test_properties_that_cannot_be_decoded_do_not_stop_the_gateway(opened: Opener, rabbit_url: str) -> None:
    gateway = opened(rabbit_url)
    publish_unreadable(rabbit_url, b"timestamp in microseconds", timestamp=datetime(2000, 1, 1, tzinfo=UTC))
    publish(rabbit_url, EVENT, headers={"odd": None, "nested": {"a": [1, "b"]}})
    gateway.wait_for(b"timestamp in microseconds", EVENT)
    assert gateway.trouble == ""


def test_a_routing_key_that_is_not_text_does_not_stop_the_gateway(opened: Opener, rabbit_url: str) -> None:
    gateway = opened(rabbit_url, "pages.#")
    publish(rabbit_url, b"1", key="pages.größe")
    publish_unreadable(rabbit_url, b"2", datetime(2000, 1, 1, tzinfo=UTC), key=b"pages.gr\xf6\xdfe")
    gateway.wait_for(b"1", b"2")
    assert gateway.trouble == ""


def publish_unreadable(url: str, body: bytes, timestamp: datetime, key: bytes = b"pages.found") -> None:
    """Publish with a timestamp that no calendar knows, and perhaps a routing key that is not text."""

    class Publish(Basic.Publish):
        def marshal(self) -> bytes:
            return super().marshal().replace(b"x" * len(key), key)

    class Header(ContentHeader):
        def marshal(self) -> bytes:
            right = super().marshal()
            assert right.endswith(int(timestamp.timestamp()).to_bytes(8, "big"))
            return right[:-8] + (1_700_000_000_000_000).to_bytes(8, "big")

    async def send(channel: aiormq.Channel) -> None:
        header = Header(body_size=len(body), properties=Basic.Properties(timestamp=timestamp))
        frames: list[Frame | ContentHeader | ContentBody] = [
            Publish(exchange=EXCHANGE, routing_key="x" * len(key)),
            header,
            ContentBody(body),
        ]
        await channel.write_queue.put(ChannelFrame.marshall(channel.number, frames))
        await channel.queue_declare(INBOX, passive=True)  # the broker replies after it has taken the message

    by_hand(url, send)


def test_large_messages_are_not_all_in_memory_at_once(
    opened: Opener, rabbit_url: str, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.gateway.inbox.MAX_HELD_BYTES", 300_000)
    monkeypatch.setattr("onward.gateway.inbox.MAX_ENTERED_BYTES", 50_000)
    opened(rabbit_url).stop()
    bodies = {str(number).zfill(20_000).encode() for number in range(60)}

    async def send(channel: aiormq.Channel) -> None:
        for body in bodies:
            await channel.basic_publish(body, exchange=EXCHANGE, routing_key=KEY)

    by_hand(rabbit_url, send)
    prefetches: list[int] = []
    batches: list[int] = []
    gateway = RecordingGateway(rabbit_url)
    record = gateway._record

    def enter(messages: Sequence[ForeignMessage]) -> None:
        prefetches.append(gateway._parts["inbox"]._given_prefetch)  # type: ignore[attr-defined]  # it is an Inbox
        batches.append(len(messages))
        record(messages)

    gateway._enter = enter
    gateway.start()
    eventually(lambda: {message.raw for message in gateway.entered} == bodies, "all are stored")
    broker.wait_until_acknowledged()
    assert max(batches) <= 3, "50 kB and the message that exceeds it"
    assert min(prefetches) == 10, "fewer messages than this have 300 kB"
    eventually(lambda: gateway.has_been_empty, "nothing is left")
    eventually(lambda: gateway._parts["inbox"]._given_prefetch == 1_000, "small messages come fast again")  # type: ignore[attr-defined]
    publish(rabbit_url, EVENT)
    eventually(lambda: gateway.entered[-1].raw == EVENT, "it still reads")
    gateway.stop()
