"""The gateway to RabbitMQ: a thread with an event loop that stays connected and reads the inbox queue.

The inbox holds messages of other programs. Each is entered into the store and then acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from aiormq import Channel, exceptions
from aiormq.abc import DeliveredMessage

from onward.gateway.connection import (
    CLOSE_SECONDS,
    BrokerConnection,
    BrokerError,
    BrokerUnavailable,
    explain,
    named_in,
    parse_url,
    where,
)
from onward.retry import Exponential, redact_error

EXCHANGE: Final = "copilot.events"
INBOX: Final = "onward.inbox"  # one queue, so each event of another program is entered once for all services
PREFETCH = 100  # messages that the broker delivers before the first of them is acknowledged
PROBE_SECONDS = 1.0  # pause between two checks whether the queue is empty, while no message arrives
STORE_BACKOFF = Exponential(base=0.2, cap=5.0, jitter=True)
OPEN_SECONDS = 30.0
CHECK_SECONDS = 30.0  # pause between two declarations: the broker does not report every deletion
STEADY_SECONDS = 30.0  # after a connection that lasted this long, the backoff starts again
FINISH_SECONDS = 2.0  # how long a stop waits for the message that is being stored
STOP_SECONDS = 5.0
BACKOFF = Exponential(base=0.2, cap=30.0, jitter=True)

Enter = Callable[[bytes, str], object]  # enters a message into the store: its body, and its message id or ""
_log = logging.getLogger("onward.gateway")
# Our own messages report what failed, with a remedy; the library's tracebacks would repeat it.
logging.getLogger("aiormq").setLevel(logging.CRITICAL)


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
    _emptied: threading.Event  # set when the queue was found empty and every message that was in it is stored
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


class Gateway:
    """Enters events that other programs publish to RabbitMQ into the store.

    It reconnects for ever, and declares deleted queues and exchanges again.
    """

    def __init__(self, url: str, enter: Enter, routing_keys: Sequence[str], *, name: str = "") -> None:
        self._url = url
        self._enter = enter
        self._name = f"{name or 'onward'} on {socket.gethostname()}, process {os.getpid()}"
        self._routing_keys = sorted(set(routing_keys))
        self._has_delivery_limit = False  # the inbox was made with one, before the broker was upgraded
        self._random = Random()
        self.trouble = "not started"  # why no events arrive now; empty if nothing is wrong
        self._emptied = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()

    @property
    def has_been_empty(self) -> bool:
        """Whether the inbox was found empty at least once since the start, with everything from it stored."""
        return self._emptied.is_set()

    def check(self) -> None:
        """Connect and declare, without reading a message; raise `BrokerError` with the remedy."""

        async def connect() -> None:
            connection = BrokerConnection(self._url, self._name, on_ended=lambda _: None)
            try:
                await self._open(connection)
            finally:
                await connection.close()

        asyncio.run(connect())

    def start(self) -> None:
        """Connect and begin to read; raise `BrokerError` with the remedy if the first connection fails."""
        parse_url(self._url)
        if self._thread is not None:
            raise BrokerError("this gateway is started already; stop it first")
        self._emptied.clear()
        self._stopping = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        opened: Future[None] = Future()
        arguments = self._loop, self._stopping, opened
        self._thread = threading.Thread(target=self._run, args=arguments, name="onward-gateway", daemon=True)
        self._thread.start()
        try:
            opened.result()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the connection, after the message that is being stored is acknowledged."""
        if self._thread is None or self._loop is None:
            return
        with suppress(RuntimeError):  # the loop is closed: it has failed to connect
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_SECONDS)
        self._thread, self.trouble = None, "stopped"

    # -- in the thread

    def _run(self, loop: asyncio.AbstractEventLoop, stopping: asyncio.Event, opened: Future[None]) -> None:
        loop.set_exception_handler(
            lambda _, context: _log.debug("%s", context.get("message"), exc_info=context.get("exception"))
        )
        store_thread = ThreadPoolExecutor(1, "onward-gateway-store")
        try:
            loop.run_until_complete(self._serve(stopping, opened, store_thread))
        finally:
            # Not asyncio.run: it waits for host names that are still being looked up.
            store_thread.shutdown(wait=False)
            loop.close()
            if not opened.done():
                opened.set_exception(BrokerUnavailable("the gateway was stopped before it was connected"))

    async def _serve(self, stopping: asyncio.Event, opened: Future[None], store_thread: Executor) -> None:
        connected = asyncio.create_task(self._stay_connected(opened, store_thread))
        stopped = asyncio.create_task(stopping.wait())
        await asyncio.wait({connected, stopped}, return_when=asyncio.FIRST_COMPLETED)
        connected.cancel()
        await asyncio.wait({connected})
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=CLOSE_SECONDS)

    async def _stay_connected(self, opened: Future[None], store_thread: Executor) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began = loop.time()
            try:
                trouble = await self._read_until_failure(opened, store_thread)
            except Exception as error:
                explained = explain(error, parse_url(self._url))
                if not opened.done():
                    opened.set_exception(explained)
                    return
                trouble = str(explained)
            if trouble != self.trouble:
                _log.warning("%s; connecting again", trouble)
            self.trouble = trouble
            failures = 1 if loop.time() - began > STEADY_SECONDS else failures + 1
            await asyncio.sleep(BACKOFF.delay(failures, self._random))

    async def _read_until_failure(self, opened: Future[None], store_thread: Executor) -> str:
        """Connect and read the inbox; return what ended the connection."""
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def end(reason: str) -> None:
            if not ended.done():
                ended.set_result(reason)

        connection = BrokerConnection(self._url, self._name, on_ended=end)
        inbox = Inbox(connection, self._enter, store_thread, self._emptied, end)
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._open(connection, inbox)
            self.trouble = ""
            if opened.done():
                _log.info("connected to RabbitMQ again")
            else:
                opened.set_result(None)
            tasks = [asyncio.create_task(inbox.run()), asyncio.create_task(self._declare_again(connection))]
            for task in tasks:
                task.add_done_callback(lambda done: end(connection.end_reason(done)))
            await asyncio.wait({ended})  # not `await ended`: a stop would cancel it
            return ended.result()
        finally:
            if not ended.done():
                # A stop, not a failure: the message that is being stored is acknowledged.
                end("stopped")
                with suppress(Exception):
                    async with asyncio.timeout(FINISH_SECONDS):
                        await inbox.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, connection.close(), return_exceptions=True)

    async def _open(self, connection: BrokerConnection, inbox: Inbox | None = None) -> None:
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await connection.open()
                await self._declare(connection)
                if inbox is not None:
                    await inbox.open()
        except TimeoutError as error:
            raise connection.explain(error) from error

    async def _declare(self, connection: BrokerConnection) -> None:
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
            await self._declare(connection)
        except (exceptions.AMQPError, exceptions.ChannelInvalidStateError) as error:
            raise connection.explain(error) from error

    async def _declare_again(self, connection: BrokerConnection) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            async with asyncio.timeout(CHECK_SECONDS):
                await self._declare(connection)
