"""Failed queues: copies of dead letters, for people who look at the broker."""

from __future__ import annotations

import aiormq
import pytest

from onward.ports.wire import Announcement, Copy, WireUnavailable
from tests.rabbitmq.stage import READING, Opener, by_hand, eventually, heard, rows_of


def test_copies_lie_in_the_failed_queue(opened: Opener, rabbit_url: str) -> None:
    wire = opened(rabbit_url)
    wire.copy([Copy("reading.failed", b'{"n": 1}', "d1"), Copy("reading.failed", b'{"n": 2}', "d" * 300)])
    wire.close()

    async def look(channel: aiormq.Channel) -> list[tuple[bytes, str | None, int | None]]:
        found = [await channel.basic_get("reading.failed") for _ in range(2)]
        return [(one.body, one.header.properties.message_id, one.header.properties.delivery_mode) for one in found]

    assert by_hand(rabbit_url, look) == [(b'{"n": 1}', "d1", 2), (b'{"n": 2}', "d" * 255, 2)]


def test_a_failed_queue_that_somebody_deleted_is_made_again(opened: Opener, rabbit_url: str) -> None:
    wire = opened(rabbit_url)
    by_hand(rabbit_url, lambda channel: channel.queue_delete("reading.failed"))
    with pytest.raises(WireUnavailable, match=r"'reading\.failed' is gone"):
        wire.copy([Copy("reading.failed", b"1", "d1")])

    def copied() -> bool:
        try:
            wire.copy([Copy("reading.failed", b"2", "d2")])
        except WireUnavailable:
            return False
        return True

    eventually(copied, "the failed queue is back")
    found = by_hand(rabbit_url, lambda channel: channel.basic_get("reading.failed", no_ack=True))
    assert found.body == b"2"


def test_nothing_to_send_needs_no_broker(opened: Opener, rabbit_url: str) -> None:
    wire = opened(rabbit_url, READING)
    wire.copy([])
    wire.announce([])
    wire.announce([Announcement("reading", (1,))])
    assert rows_of(heard(wire, "reading", 1)) == [1]
