"""The inbox: messages of other programs, entered into the store and then acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from random import Random
from threading import Event

from aiormq import Channel, exceptions
from aiormq.abc import DeliveredMessage

from onward.gateway.connection import BrokerConnection
from onward.gateway.error_messages import deleted_queue
from onward.gateway.topology import INBOX
from onward.retry import Exponential, redact_error

PREFETCH = 100
"""Messages that the broker delivers before the first of them is acknowledged."""
PROBE_SECONDS = 1.0
"""Pause between two checks whether the queue is empty, while no message arrives."""
STORE_BACKOFF = Exponential(base=0.2, cap=5.0, jitter=True)

Enter = Callable[[bytes, str], object]
"""Enters a message into the store: its body and its message id, which may be empty."""
_log = logging.getLogger("onward.gateway")


class Inbox:
    """Consumes the inbox queue over one connection, one message after the other."""

    def __init__(
        self,
        connection: BrokerConnection,
        enter: Enter,
        store_thread: Executor,
        emptied: Event,
        *,
        on_deleted: Callable[[str], None],
    ) -> None:
        """`emptied` is set when the queue was found empty and every message that was in it is stored.

        `on_deleted` is called when the queue was deleted.
        """
        self._connection = connection
        self._enter = enter
        self._store_thread = store_thread
        self._emptied = emptied
        self._on_deleted = on_deleted
        self._channel: Channel | None = None
        self._messages: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
        self._entering = asyncio.Lock()
        self._random = Random()

    async def open(self) -> None:
        """Start to consume."""
        channel = self._channel = await self._connection.channel()
        reason = str(deleted_queue(INBOX, self._connection.url))
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
                with contextlib.suppress(Exception):
                    await self._channel.close()
