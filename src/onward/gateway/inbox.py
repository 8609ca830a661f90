"""The inbox: messages of other programs, entered into the store and then acknowledged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from threading import Event
from typing import Any, Final

from aiormq import Channel, exceptions
from aiormq.abc import DeliveredMessage

from onward.gateway.connection import BrokerConnection
from onward.gateway.error_messages import BrokerError, named_in, where
from onward.retry import Exponential, redact_error

EXCHANGE: Final = "copilot.events"
INBOX: Final = "onward.inbox"  # one queue, so each event of another program is entered once for all services
PREFETCH = 100  # messages that the broker delivers before the first of them is acknowledged
PROBE_SECONDS = 1.0  # pause between two checks whether the queue is empty, while no message arrives
STORE_BACKOFF = Exponential(base=0.2, cap=5.0, jitter=True)

Enter = Callable[[bytes, str], object]  # enters a message into the store: its body, and its message id or ""
_log = logging.getLogger("onward.gateway")


class Topology:
    """A topic exchange that other programs publish to, and the inbox queue, bound by routing keys."""

    def __init__(self, routing_keys: Sequence[str]) -> None:
        self._routing_keys = sorted(set(routing_keys))
        self._has_delivery_limit = False  # the inbox was made with one, before the broker was upgraded

    async def declare(self, connection: BrokerConnection) -> None:
        """Declare missing queues and exchanges; raise `BrokerError` with the remedy."""
        version = connection.version
        if version and version < (3, 8):
            found = f"{where(connection.url)} is version {'.'.join(map(str, version))}"
            raise BrokerError(f"{found}, which has no quorum queues; Onward needs 3.8 or later. Upgrade it")
        try:
            async with connection.short_channel() as channel:
                await channel.exchange_declare(EXCHANGE, exchange_type="topic", durable=True)
                arguments = queue_arguments(() if self._has_delivery_limit else version)
                await channel.queue_declare(INBOX, durable=True, arguments=arguments)
                for key in self._routing_keys:
                    await channel.queue_bind(INBOX, EXCHANGE, key)
        except exceptions.ChannelPreconditionFailed as error:
            text = str(error.args[-1])
            is_about_limit = "'x-delivery-limit'" in text and named_in(text) == ("queue", INBOX)
            if not is_about_limit or self._has_delivery_limit:
                raise connection.explain(error) from error
            # The queue works as it is and may hold messages, so this is no reason to stop.
            self._has_delivery_limit = True
            _log.warning(
                "queue %r was made with a delivery limit: the broker drops a message after that many failed "
                "deliveries; delete the queue when it is empty, and it will be made again without a limit",
                INBOX,
            )
            await self.declare(connection)
        except (exceptions.AMQPError, exceptions.ChannelInvalidStateError) as error:
            raise connection.explain(error) from error


def queue_arguments(version: tuple[int, ...]) -> dict[str, Any]:
    """Return the arguments of a replicated queue that never discards a message, for a broker of this version."""
    if version >= (4,):
        # Newer brokers drop a message after 20 deliveries unless the limit is -1. Older ones have no limit, and
        # treat -1 as "after the first delivery".
        return {"x-queue-type": "quorum", "x-delivery-limit": -1}
    return {"x-queue-type": "quorum"}


@dataclass
class Inbox:
    """Consumes the inbox queue over one connection, one message after the other."""

    _connection: BrokerConnection
    _enter: Enter
    _store_thread: Executor
    _emptied: Event  # set when the queue was found empty and every message that was in it is stored
    _on_deleted: Callable[[str], None]  # called when the queue was deleted

    def __post_init__(self) -> None:
        self._channel: Channel | None = None
        self._messages: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
        self._entering = asyncio.Lock()
        self._random = Random()

    async def open(self) -> None:
        channel = self._channel = await self._connection.channel()
        reason = f"queue {INBOX!r} is gone from {where(self._connection.url)}; it is being declared again"
        channel.on_consumer_cancel_callbacks.add(lambda _: self._on_deleted(reason))
        try:
            await channel.basic_qos(prefetch_count=PREFETCH)
            await channel.basic_consume(INBOX, self._messages.put)
        except (exceptions.AMQPError, exceptions.ChannelInvalidStateError) as error:
            raise self._connection.explain(error) from error

    async def run(self) -> None:
        """Enter and acknowledge messages until cancelled."""
        assert self._channel is not None, "opened before"
        while True:
            if not self._emptied.is_set() and self._messages.empty() and await self._is_empty(self._channel):
                self._emptied.set()
            try:
                async with asyncio.timeout(None if self._emptied.is_set() else PROBE_SECONDS):
                    message = await self._messages.get()
            except TimeoutError:
                continue
            async with self._entering:
                await self._enter_message(message)
                await self._channel.basic_ack(message.delivery_tag or 0, wait=False)

    async def _is_empty(self, channel: Channel) -> bool:
        if (await channel.queue_declare(INBOX, passive=True)).message_count:
            return False
        # A message that left the queue before the first reply is on its way to this channel. The broker sends it
        # before it reads the second request.
        await channel.queue_declare(INBOX, passive=True)
        return self._messages.empty()

    async def _enter_message(self, message: DeliveredMessage) -> None:
        message_id = message.header.properties.message_id or ""
        failures = 0
        while True:
            try:
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._store_thread, self._enter, message.body, message_id)
                return
            except Exception as error:  # the message stays in the queue until it is stored
                failures += 1
                log = _log.warning if failures == 1 else _log.debug
                log("an event of another program cannot be stored yet: %s", redact_error(str(error)))
                await asyncio.sleep(STORE_BACKOFF.delay(failures, self._random))

    async def close(self) -> None:
        """Wait for the message that is being entered; stop consuming after the broker has its acknowledgement."""
        async with self._entering:
            if self._channel is not None:
                with suppress(Exception):
                    await self._channel.close()
