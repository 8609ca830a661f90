"""The cast of the wire's tests: two services, people who use the broker by hand, and waiting."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import aiormq
from pamqp.commands import Basic

from onward.backends.rabbitmq import RabbitWire
from onward.backends.rabbitmq.topology import INBOX
from onward.ports.wire import Announcement, Queue, Stranger

EXCHANGE = "copilot.events"
READING = Queue("reading", "pages.found", "reading.failed", prefetch=10)
COUNTING = Queue("counting", "pages.found", "counting.failed", prefetch=10)

T = TypeVar("T")
Opener = Callable[..., RabbitWire]


def eventually(ask: Callable[[], T], what: str, seconds: float = 60) -> T:
    """Ask again and again until the answer is yes; a machine may be slow, but not that slow."""
    ends = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < ends, f"waited in vain: {what}"
        time.sleep(0.01)
    return answer


def heard(wire: RabbitWire, service: str, rows: int) -> list[Announcement]:
    """Wait until so many rows of a service were announced, and take them."""
    taken: list[Announcement] = []

    def enough() -> bool:
        taken.extend(wire.take(service, 1))
        return sum(len(one.rows) for one in taken) >= rows

    eventually(enough, f"{rows} rows for {service}; heard {taken}; trouble: {wire.trouble!r}")
    return taken


def met(wire: RabbitWire, count: int) -> list[Stranger]:
    """Wait until so many strangers came, and take them."""
    taken: list[Stranger] = []

    def enough() -> bool:
        taken.extend(wire.strangers(1))
        return len(taken) >= count

    eventually(enough, f"{count} strangers; met {taken}; trouble: {wire.trouble!r}")
    return taken


def rows_of(announcements: list[Announcement]) -> list[int]:
    return sorted(row for one in announcements for row in one.rows)


def by_hand(url: str, act: Callable[[aiormq.Channel], Awaitable[T]]) -> T:
    """Do something on the broker as anybody can, with a connection of one's own."""

    async def run() -> T:
        connection = await aiormq.connect(url)
        try:
            channel = await connection.channel()
            assert isinstance(channel, aiormq.Channel)
            return await act(channel)
        finally:
            await connection.close()

    return asyncio.run(run())


def publish(url: str, body: bytes, *, key: str, exchange: str = EXCHANGE, **properties: Any) -> None:
    """Publish as a program does that knows nothing of Onward."""
    by_hand(
        url,
        lambda channel: channel.basic_publish(
            body, exchange=exchange, routing_key=key, properties=Basic.Properties(**properties), mandatory=True
        ),
    )


def waiting_in_inbox(url: str) -> int:
    found = by_hand(url, lambda channel: channel.queue_declare(INBOX, passive=True))
    return found.message_count or 0


def wire_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "onward-wire"]
