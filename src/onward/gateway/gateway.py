"""The gateway to RabbitMQ: a thread that receives events of other programs and publishes the store's own.

One process of a fleet has the gateway at a time, by a lease in the store. It has two connections to the broker,
because a broker that is short of disk space reads nothing more from a connection that publishes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from aiormq import exceptions

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
from onward.gateway.inbox import INBOX, Enter, Inbox
from onward.gateway.outbox import EXCHANGE, Outbox
from onward.ledger.store_errors import StoreError
from onward.model.ledger import GatewayReport
from onward.retry import Exponential, redact_error
from onward.runtime.process_identity import describe_process, is_gone

if TYPE_CHECKING:
    from onward.ledger.store import Store

ROLE = "gateway"
LEASE_SECONDS = 15.0  # another process takes over when the one that has the gateway has been gone for this time
RENEW_SECONDS = 5.0
OPEN_SECONDS = 10.0
CHECK_SECONDS = 30.0  # pause between two declarations: the broker does not report every deletion
REPLY_SECONDS = 30.0  # for which the reply to a declaration is awaited
STEADY_SECONDS = 30.0  # after a connection that lasted this long, the backoff starts again
FINISH_SECONDS = 2.0  # how long a stop waits for the messages that are being stored
STOP_SECONDS = 5.0
TROUBLE_SECONDS = 10.0  # a worker that ends when nothing is due waits for a broker in trouble for this time
BACKOFF = Exponential(base=0.2, cap=30.0, jitter=True)
THREADS = (
    "lease",
    "inbox",
    "outbox",
    "wake-ups",
)  # calls of the store wait for a database, each in a thread of its own

T = TypeVar("T")
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


class Part(Protocol):
    """The inbox or the outbox, each with a connection of its own."""

    needs_inbox: bool  # whether it uses the inbox queue, not only the exchange
    trouble: str  # what is wrong while the connection works; empty: nothing

    async def open(self, connection: BrokerConnection, end: Callable[[str], None]) -> None:
        """Begin with a new connection; call `end` with the reason if it cannot be used any more."""

    async def run(self) -> None:
        """Work until cancelled."""

    async def close(self) -> None:
        """Complete what is under way."""


class Gateway:
    """Enters events that other programs publish to RabbitMQ into the store, and publishes the store's outbox.

    It reconnects for ever, and declares deleted queues and exchanges again.
    """

    def __init__(
        self,
        url: str,
        store: Store,
        enter: Enter,
        routing_keys: Sequence[str],
        *,
        name: str = "",
    ) -> None:
        self._url = url
        self._store = store
        self._enter = enter
        self._name = f"{name or 'onward'} on {socket.gethostname()}, process {os.getpid()}"
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{id(self):x}"
        self._routing_keys = sorted(set(routing_keys))
        self._has_delivery_limit = False  # the inbox was made with one, before the broker was upgraded
        self._random = Random()
        self._connections: dict[str, BrokerConnection] = {}  # of the inbox and the outbox
        self._parts: dict[str, Part] = {}
        self._store_name = ""
        self._leads = False  # this process has the gateway
        self._troubles: dict[str, str] = {}  # by the name of the connection
        self._trouble_since: float | None = None  # by the monotonic clock
        self._emptied_at = 0.0
        self._started_at = 0.0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()

    @property
    def trouble(self) -> str:
        """Why events do not arrive or leave now; empty: nothing is wrong, or another process has the gateway."""
        if self._thread is None or not self._thread.is_alive():
            return "the gateway does not run"
        for connection in list(self._connections.values()):
            if connection.blocked:
                return (
                    f"{where(connection.url)} takes no messages: {connection.blocked}. Free memory or disk space "
                    "on its machine; `rabbitmqctl status` says which is short"
                )
        found = (*list(self._troubles.values()), *(part.trouble for part in list(self._parts.values())))
        return next(filter(None, found), "")

    @property
    def has_been_empty(self) -> bool:
        """Whether the inbox was found empty at least once since the start, with everything from it stored."""
        return self._emptied_at >= self._started_at > 0.0

    def is_behind(self, within: float = 0.0) -> bool:
        """Return whether events have still to be read from the inbox, or to leave within this time, and can.

        After `TROUBLE_SECONDS` of trouble with the broker, they cannot.
        """
        now = self._store.now()
        trouble, emptied_at = self.trouble, self._emptied_at
        if not self._leads:
            report = self._store.gateway_report()
            emptied_at = report.emptied_at
            if now - report.at <= LEASE_SECONDS:  # an older one is of a process that has ended
                trouble = trouble or report.trouble
        if not trouble:
            self._trouble_since = None
            due = self._store.next_outgoing()
            return emptied_at < self._started_at or (due is not None and due <= now + within)
        if self._trouble_since is None:
            self._trouble_since = time.monotonic()
        return time.monotonic() - self._trouble_since < TROUBLE_SECONDS

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
        """Begin to receive and publish; raise `BrokerError` with the remedy if a person has to change something.

        A broker that cannot be reached is no error: the gateway connects when it is back.
        """
        if self._thread is not None:
            raise BrokerError("this gateway is started already; stop it first")
        try:
            self.check()
        except BrokerUnavailable as error:
            _log.warning("%s. Events wait in the store until then", error)
        self._started_at = self._store.now()
        self._stopping = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._troubles.clear()
        arguments = self._loop, self._stopping
        self._thread = threading.Thread(target=self._run, args=arguments, name="onward-gateway", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the connections, after the messages that are being stored are acknowledged."""
        if self._thread is None or self._loop is None:
            return
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_SECONDS)
        self._thread = None

    # -- in the thread

    def _run(self, loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
        loop.set_exception_handler(
            lambda _, context: _log.debug("%s", context.get("message"), exc_info=context.get("exception"))
        )
        # Also as variables: after a stop that took too long, the attributes may be those of the next start.
        threads = self._threads = {name: ThreadPoolExecutor(1, f"onward-gateway-{name}") for name in THREADS}
        bus = self._bus = self._store.bus()
        try:
            loop.run_until_complete(self._serve(stopping))
        finally:
            # Not asyncio.run: it waits for host names that are still being looked up.
            bus.close()
            for thread in threads.values():
                thread.shutdown(wait=False)
            loop.close()

    async def _serve(self, stopping: asyncio.Event) -> None:
        stopped = asyncio.create_task(stopping.wait())
        leading = asyncio.create_task(self._lead_when_possible())
        await asyncio.wait({leading, stopped}, return_when=asyncio.FIRST_COMPLETED)
        leading.cancel()
        await asyncio.wait({leading})
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=CLOSE_SECONDS)

    async def _lead_when_possible(self) -> None:
        """Take the gateway when no other process has it, and keep it."""
        links: list[asyncio.Task[None]] = []
        try:
            while True:
                self._leads = await self._renew()
                if self._leads and not links:
                    self._parts = self._new_parts()
                    links = [
                        asyncio.create_task(self._stay_connected(name, part)) for name, part in self._parts.items()
                    ]
                elif links and not self._leads:
                    await _cancel(links)
                    links = []
                    self._parts = {}
                    self._troubles.clear()
                await asyncio.sleep(RENEW_SECONDS)
        finally:
            await _cancel(links)
            led, self._leads, self._parts = self._leads, False, {}
            if led:
                with suppress(Exception):
                    await self._in_store(lambda: self._store.release_role(ROLE, self._holder))

    def _new_parts(self) -> dict[str, Part]:
        name, threads = self._store_name, self._threads
        return {
            "inbox": Inbox(self._enter, name, threads["inbox"], self._found_empty),
            "outbox": Outbox(self._store, name, self._bus, threads["outbox"], threads["wake-ups"]),
        }

    def _found_empty(self) -> None:
        self._emptied_at = self._store.now()

    async def _renew(self) -> bool:
        """Take or keep the gateway, and report on it; return False if another process has it."""

        def renew() -> bool:
            store, now = self._store, self._store.now()
            held = store.acquire_role(ROLE, self._holder, LEASE_SECONDS)
            if not held and is_gone((last := store.gateway_report()).process):
                # It was killed: there is no need to wait until its lease has lapsed.
                store.release_role(ROLE, last.holder)
                held = store.acquire_role(ROLE, self._holder, LEASE_SECONDS)
            if held and not self._store_name:
                self._store_name = store.store_name()
            if held:
                process = describe_process() | {"pid": os.getpid()}
                store.report_gateway(GatewayReport(self._holder, now, self.trouble, self._emptied_at, process))
            return held

        try:
            return await self._in_store(lambda: self._store.atomically(renew))
        except Exception as error:
            log = _log.debug if isinstance(error, StoreError) else _log.warning
            log("the lease of the gateway was not renewed: %s", redact_error(str(error)))
            return self._leads  # without the store nothing is received or published by anyone

    async def _in_store(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads["lease"], call)

    async def _stay_connected(self, name: str, part: Part) -> None:
        """Connect and let the part work; after a failure, connect again."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began = loop.time()
            try:
                trouble = await self._work_until_failure(name, part)
            except Exception as error:
                trouble = str(explain(error, parse_url(self._url)))
            if trouble not in self._troubles.values():
                _log.warning("%s; connecting again", trouble)
            self._troubles[name] = trouble
            self._trouble_since = self._trouble_since or time.monotonic()
            failures = 1 if loop.time() - began > STEADY_SECONDS else failures + 1
            await asyncio.sleep(BACKOFF.delay(failures, self._random))

    async def _work_until_failure(self, name: str, part: Part) -> str:
        """Connect and let the part work; return what ended the connection."""
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def end(reason: str) -> None:
            if not ended.done():
                ended.set_result(reason)

        connection = self._connections[name] = BrokerConnection(self._url, self._name, on_ended=end)
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._open(connection, part, end)
            if self._troubles.pop(name, "") and not self._troubles:
                self._trouble_since = None
                _log.info("connected to RabbitMQ again")
            tasks = [asyncio.create_task(part.run()), asyncio.create_task(self._declare_again(connection, part))]
            for task in tasks:
                task.add_done_callback(lambda done: end(connection.end_reason(done)))
            await asyncio.wait({ended})  # not `await ended`: a stop would cancel it
            return ended.result()
        finally:
            if not ended.done():
                # A stop, not a failure: the messages that are being stored are acknowledged.
                end("stopped")
                with suppress(Exception):
                    async with asyncio.timeout(FINISH_SECONDS):
                        await part.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, connection.close(), return_exceptions=True)
            self._connections.pop(name, None)  # whether it was blocked says nothing about the next one

    async def _open(
        self, connection: BrokerConnection, part: Part | None = None, end: Callable[[str], None] | None = None
    ) -> None:
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await connection.open()
                await self._declare(connection, inbox=part is None or part.needs_inbox)
                if part is not None and end is not None:
                    await part.open(connection, end)
        except TimeoutError as error:
            raise connection.explain(error) from error

    async def _declare(self, connection: BrokerConnection, *, inbox: bool) -> None:
        """Declare missing queues and exchanges; raise `BrokerError` with the remedy."""
        version = connection.version
        if version and version < (3, 8):
            found = f"{where(connection.url)} is version {'.'.join(map(str, version))}"
            raise BrokerError(f"{found}, which has no quorum queues; Onward needs 3.8 or later. Upgrade it")
        try:
            async with connection.short_channel() as channel:
                await channel.exchange_declare(EXCHANGE, exchange_type="topic", durable=True)
                if not inbox:
                    return
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
            await self._declare(connection, inbox=inbox)
        except (exceptions.AMQPError, exceptions.ChannelInvalidStateError) as error:
            raise connection.explain(error) from error

    async def _declare_again(self, connection: BrokerConnection, part: Part) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if connection.blocked:
                continue  # the broker would reply when it has free memory and disk space again
            async with asyncio.timeout(REPLY_SECONDS):
                await self._declare(connection, inbox=part.needs_inbox)


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
