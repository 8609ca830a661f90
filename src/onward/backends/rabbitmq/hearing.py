"""What came from the broker and waits to be taken, and acknowledging it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from aiormq import Channel
from aiormq.abc import DeliveredMessage

from onward.backends.rabbitmq.messages import read
from onward.ports.wire import Announcement, Stranger

_LARGEST_PREFETCH = 65_535


class Tag(NamedTuple):
    """Names one delivery of one message."""

    session: int
    queue: str
    number: int


class Heard:
    """Messages that came and were not taken yet; for all threads."""

    def __init__(self, services: Iterable[str]) -> None:
        self.announcements: Mapping[str, deque[Announcement]] = {service: deque() for service in services}
        self._strangers: deque[Stranger] = deque()
        self._session = 0
        self._lock = threading.Lock()
        self._news = threading.Event()

    def begin(self, session: int) -> None:
        """Forget what an earlier session left: the broker delivers it again."""
        with self._lock:
            self._session = session
            self._strangers.clear()
            for waiting in self.announcements.values():
                waiting.clear()

    def put(self, message: Announcement | Stranger) -> None:
        """A message came."""
        with self._lock:
            if message.tag.session != self._session:
                return
            if isinstance(message, Announcement):
                self.announcements[message.service].append(message)
            else:
                self._strangers.append(message)
        self.wake()

    def take(self, service: str, limit: int) -> list[Announcement]:
        """Whole announcements, until they cover so many rows."""
        taken: list[Announcement] = []
        rows = 0
        with self._lock:
            waiting = self.announcements.get(service, ())
            while waiting and rows < limit:
                taken.append(waiting.popleft())
                rows += len(taken[-1].rows)
        return taken

    def strangers(self, limit: int) -> list[Stranger]:
        with self._lock:
            return [self._strangers.popleft() for _ in range(min(limit, len(self._strangers)))]

    def wait(self, seconds: float) -> None:
        self._news.wait(max(0.0, seconds))
        self._news.clear()

    def wake(self) -> None:
        self._news.set()


class Intake:
    """Hears one queue, and knows which of its messages are not acknowledged yet."""

    def __init__(self, session: int, queue: str, channel: Channel, heard: Heard) -> None:
        self._session = session
        self._queue = queue
        self._channel = channel
        self._heard = heard
        self._unacked: dict[int, None] = {}
        self._turn = asyncio.Lock()

    async def begin(self, prefetch: int) -> None:
        await self._channel.basic_qos(prefetch_count=min(prefetch, _LARGEST_PREFETCH))
        await self._channel.basic_consume(self._queue, self._receive)

    async def _receive(self, message: DeliveredMessage) -> None:
        number = message.delivery_tag or 0
        self._unacked[number] = None
        tag = Tag(self._session, self._queue, number)
        self._heard.put(read(message, tag, self._heard.announcements))

    async def acknowledge(self, numbers: Iterable[int]) -> None:
        """Acknowledge, without waiting for the broker; of a channel that is gone: nothing to do."""
        # In turn: an acknowledgement of many must not overtake one of a few, the broker would take the second one
        # for a mistake and close the channel.
        async with self._turn:
            up_to, single = settle(self._unacked, numbers)
            with contextlib.suppress(Exception):
                if up_to:
                    await self._channel.basic_ack(up_to, multiple=True, wait=False)
                for number in single:
                    await self._channel.basic_ack(number, wait=False)

    async def end(self) -> None:
        """Stop hearing, after the broker has every acknowledgement."""
        async with self._turn:
            with contextlib.suppress(Exception):
                await self._channel.close()


def settle(unacked: dict[int, None], numbers: Iterable[int]) -> tuple[int, list[int]]:
    """Take numbers out of those unacknowledged, which are in order.

    Answers the number up to which everything is settled (0: nothing more than before), and the ones beyond it.
    """
    settled = {number for number in numbers if number in unacked}
    up_to = 0
    for number in unacked:
        if number not in settled:
            break
        up_to = number
    for number in settled:
        del unacked[number]
    return up_to, sorted(number for number in settled if number > up_to)
