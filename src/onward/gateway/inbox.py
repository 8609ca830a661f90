"""The inbox: a queue of the broker with events of other programs, which are entered into the store.

A message is acknowledged after the commit that has stored its event. Events that this store has published itself
come back to the inbox, because its own services consume them; they are recognised by a header, and acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from aiormq import Channel, exceptions
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from onward.gateway.connection import BrokerConnection, where
from onward.retry import Exponential, redact_error
from onward.runtime.publisher import ForeignMessage

INBOX: Final = "onward.inbox"  # one queue, so each event of another program is entered once for all services
STORE_HEADER: Final = "onward-store"  # names the store that has published a message
PREFETCH = 1_000  # messages that the broker delivers before the first of them is acknowledged
MAX_ENTERED = 500  # messages that are entered in one transaction
MAX_ENTERED_BYTES = 8_000_000  # of their bodies together, unless one alone is larger
MAX_HELD_BYTES = 64_000_000  # with more in memory, the prefetch is reduced
MAX_ENVELOPE_BYTES = 2_000  # an event that leaves has its id within the first bytes
PROBE_SECONDS = 1.0  # pause between two checks whether the queue is empty, while no message arrives
STORE_BACKOFF = Exponential(base=0.2, cap=5.0, jitter=True)

Enter = Callable[[Sequence[ForeignMessage]], object]  # enters messages of other programs into the store
_log = logging.getLogger("onward.gateway")


@dataclass
class Inbox:
    """Consumes the inbox queue."""

    _enter: Enter
    _store_name: str
    _store_thread: Executor
    _on_empty: Callable[[], None]  # called when the queue was found empty and every message from it is stored

    needs_inbox = True
    trouble = ""

    def __post_init__(self) -> None:
        self._prefetch = PREFETCH  # of the next consumer
        self._held_bytes = 0
        self._channel: Channel | None = None
        self._messages: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
        self._entering = asyncio.Lock()
        self._random = Random()

    async def open(self, connection: BrokerConnection, end: Callable[[str], None]) -> None:
        channel = self._channel = await connection.channel()
        self._messages = asyncio.Queue()  # the broker delivers again what was not acknowledged
        self._held_bytes = 0
        reason = f"queue {INBOX!r} is gone from {where(connection.url)}; it is being declared again"
        channel.on_consumer_cancel_callbacks.add(lambda _: end(reason))
        try:
            deliver_to(channel, lambda message: self._hold(message, end))
            await self._consume(channel)
        except (exceptions.AMQPError, exceptions.ChannelInvalidStateError) as error:
            raise connection.explain(error) from error

    async def _consume(self, channel: Channel) -> None:
        self._given_prefetch = self._prefetch
        await channel.basic_qos(prefetch_count=self._given_prefetch)
        self._consumer_tag = (await channel.basic_consume(INBOX, self._messages.put)).consumer_tag or ""

    def _hold(self, message: DeliveredMessage, end: Callable[[str], None]) -> None:
        self._messages.put_nowait(message)
        self._held_bytes += len(message.body)
        if self._held_bytes > MAX_HELD_BYTES and self._given_prefetch > 1:
            # Only a new connection makes the broker take back what it has begun to deliver.
            self._prefetch = max(1, self._given_prefetch // 10)
            end(f"the messages in {INBOX!r} are large; they are read with a prefetch of {self._prefetch}")

    async def run(self) -> None:
        """Enter and acknowledge messages until cancelled."""
        assert self._channel is not None, "opened before"
        while True:
            if self._messages.empty() and await self._is_empty(self._channel):
                if self._given_prefetch < PREFETCH:
                    self._prefetch = PREFETCH
                    await self._channel.basic_cancel(self._consumer_tag)
                    await self._consume(self._channel)
                await asyncio.get_running_loop().run_in_executor(self._store_thread, self._on_empty)
            try:
                async with asyncio.timeout(PROBE_SECONDS):
                    messages = [await self._messages.get()]
            except TimeoutError:
                continue
            size = len(messages[0].body)
            while not self._messages.empty() and len(messages) < MAX_ENTERED and size < MAX_ENTERED_BYTES:
                messages.append(self._messages.get_nowait())
                size += len(messages[-1].body)
            async with self._entering:
                await self._enter_all([_foreign(one) for one in messages if not self._is_own(one)])
                last = messages[-1].delivery_tag or 0
                await self._channel.basic_ack(last, multiple=True, wait=False)
            self._held_bytes -= size

    def _is_own(self, message: DeliveredMessage) -> bool:
        properties = message.header.properties
        if (properties.headers or {}).get(STORE_HEADER) != self._store_name:
            return False
        # A program that reacts to an event may copy its properties into a message with another event.
        return f'"event_id":"{properties.message_id}",'.encode() in message.body[:MAX_ENVELOPE_BYTES]

    async def _is_empty(self, channel: Channel) -> bool:
        if (await channel.queue_declare(INBOX, passive=True)).message_count:
            return False
        # A message that left the queue before the first reply is on its way to this channel. The broker sends it
        # before it reads the second request.
        await channel.queue_declare(INBOX, passive=True)
        return self._messages.empty()

    async def _enter_all(self, messages: list[ForeignMessage]) -> None:
        failures = 0
        while messages:
            try:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._store_thread, self._enter, messages)
                return
            except Exception as error:  # the messages stay in the queue until they are stored
                failures += 1
                log = _log.warning if failures == 1 else _log.debug
                log("events of other programs cannot be stored yet: %s", redact_error(str(error)))
                await asyncio.sleep(STORE_BACKOFF.delay(failures, self._random))

    async def close(self) -> None:
        """Wait until the messages that are being entered are stored and acknowledged; stop consuming."""
        async with self._entering:
            if self._channel is not None:
                with suppress(Exception):
                    await self._channel.close()


def deliver_to(channel: Channel, take: Callable[[DeliveredMessage], None]) -> None:
    """Call a function with each message of a channel. The library would start a task for each of them."""

    async def deliver(delivery: Basic.Deliver) -> None:
        header = await channel._get_frame()
        if not isinstance(header, ContentHeader):
            raise exceptions.ProtocolSyntaxError(f"a message without a header: {header!r}")
        take(await channel._read_content(delivery, header))

    channel._on_deliver_frame = deliver  # type: ignore[assignment,method-assign]


def _foreign(message: DeliveredMessage) -> ForeignMessage:
    properties = message.header.properties
    given: dict[str, Any] = {"exchange": message.exchange, "routing_key": message.routing_key}
    for name in Basic.Properties.attributes():
        if (value := getattr(properties, name)) not in (None, ""):
            given[name] = value
    return ForeignMessage(message.body, properties.message_id or "", given)
