"""Strangers: what programs publish that know nothing of Onward, and garbage."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import aiormq
import pytest
from aiormq.abc import ChannelFrame
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from onward.backends.rabbitmq.messages import ANNOUNCEMENT
from onward.ports.wire import Announcement
from tests.rabbitmq.stage import (
    COUNTING,
    EXCHANGE,
    READING,
    Opener,
    by_hand,
    heard,
    met,
    publish,
    rows_of,
    waiting_in_inbox,
)

EVENT = json.dumps({"event_type": "PagesFound", "data": {"page_ids": ["p1"]}}).encode()


def test_an_event_comes_once_however_many_services_consume_it(opened: Opener, rabbit_url: str) -> None:
    wire = opened(rabbit_url, READING, COUNTING)
    publish(rabbit_url, EVENT, key="pages.found", message_id="e1")
    publish(rabbit_url, b"the last", key="pages.found")
    first, last = met(wire, 2)
    assert (first.raw, first.message_id, first.routing_key) == (EVENT, "e1", "pages.found")
    assert last.raw == b"the last"
    assert wire.ready() == {"reading": 0, "counting": 0}
    wire.done([first.tag, last.tag])
    wire.close()
    assert waiting_in_inbox(rabbit_url) == 0


def test_a_stranger_that_was_not_entered_comes_again(opened: Opener, rabbit_url: str) -> None:
    first = opened(rabbit_url)
    publish(rabbit_url, EVENT, key="pages.found")
    met(first, 1)
    first.close()
    assert [one.raw for one in met(opened(rabbit_url), 1)] == [EVENT]


def test_a_stranger_may_come_straight_into_a_service_queue(opened: Opener, rabbit_url: str) -> None:
    wire = opened(rabbit_url)
    publish(rabbit_url, EVENT, exchange="", key="reading", message_id="e2")
    (stranger,) = met(wire, 1)
    assert (stranger.raw, stranger.message_id, stranger.routing_key) == (EVENT, "e2", "reading")
    wire.done([stranger.tag])
    assert wire.take("reading", 10) == []


@pytest.mark.parametrize(
    "body",
    (
        b"",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"service": "reading"}',
        b'{"service": "reading", "rows": "1"}',
        b'{"service": "reading", "rows": [1.5]}',
        b'{"service": "reading", "rows": [true]}',
        b'{"service": "reading", "rows": [-1]}',
        b'{"service": "reading", "rows": [9223372036854775808]}',
        b'{"service": "unheard of", "rows": [1]}',
        b'["reading", 1]',
    ),
    ids=range(11),
)
def test_what_only_claims_to_be_an_announcement_is_a_stranger(
    opened: Opener, rabbit_url: str, body: bytes
) -> None:
    wire = opened(rabbit_url)
    publish(rabbit_url, body, exchange="", key="reading", content_type=ANNOUNCEMENT)
    assert [one.raw for one in met(wire, 1)] == [body]
    wire.announce([Announcement("reading", (1,))])
    assert rows_of(heard(wire, "reading", 1)) == [1]
    assert wire.trouble == ""


def test_a_large_body_comes_whole(opened: Opener, rabbit_url: str) -> None:
    wire = opened(rabbit_url)
    body = bytes(range(256)) * 4096
    publish(rabbit_url, body, key="pages.found")
    assert met(wire, 1)[0].raw == body


def test_properties_that_nobody_can_read_do_not_stop_the_wire(opened: Opener, rabbit_url: str) -> None:
    wire = opened(rabbit_url)
    publish_unreadable(rabbit_url, b"timestamp in microseconds", timestamp=datetime(2000, 1, 1, tzinfo=UTC))
    publish(rabbit_url, EVENT, key="pages.found", headers={"odd": None, "nested": {"a": [1, "b"]}})
    assert [one.raw for one in met(wire, 2)] == [b"timestamp in microseconds", EVENT]
    wire.announce([Announcement("reading", (1,))])
    assert rows_of(heard(wire, "reading", 1)) == [1]
    assert wire.trouble == ""


def test_a_routing_key_that_is_no_text_does_not_stop_the_wire(opened: Opener, rabbit_url: str) -> None:
    wire = opened(rabbit_url, replace(READING, routing_key="pages.#"))
    publish(rabbit_url, b"1", key="pages.größe")
    publish_unreadable(rabbit_url, b"2", datetime(2000, 1, 1, tzinfo=UTC), key=b"pages.gr\xf6\xdfe")
    assert [(one.raw, one.routing_key) for one in met(wire, 2)] == [(b"1", "pages.größe"), (b"2", "pages.gr??e")]
    assert wire.trouble == ""


def publish_unreadable(url: str, body: bytes, timestamp: datetime, key: bytes = b"pages.found") -> None:
    """Publish with a timestamp that no calendar knows, and perhaps a routing key that is no text."""

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
        await channel.queue_declare("reading", passive=True)  # answered after the message was taken

    by_hand(url, send)
