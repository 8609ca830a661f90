"""The gateway to RabbitMQ: a thread with an event loop that stays connected until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from random import Random

from onward.gateway.connection import CLOSE_SECONDS, BrokerConnection
from onward.gateway.error_messages import BrokerError, BrokerUnavailable, explain, parse_url
from onward.gateway.inbox import Enter, Inbox, Topology
from onward.retry import Exponential

OPEN_SECONDS = 30.0
CHECK_SECONDS = 30.0  # pause between two declarations: the broker does not report every deletion
STEADY_SECONDS = 30.0  # after a connection that lasted this long, the backoff starts again
FINISH_SECONDS = 2.0  # how long a stop waits for the message that is being stored
STOP_SECONDS = 5.0
BACKOFF = Exponential(base=0.2, cap=30.0, jitter=True)

_log = logging.getLogger("onward.gateway")
# Our own messages report what failed, with a remedy; the library's tracebacks would repeat it.
logging.getLogger("aiormq").setLevel(logging.CRITICAL)


class Gateway:
    """Enters events that other programs publish to RabbitMQ into the store.

    It reconnects for ever, and declares deleted queues and exchanges again.
    """

    def __init__(self, url: str, enter: Enter, routing_keys: Sequence[str], *, name: str = "") -> None:
        self._url = url
        self._enter = enter
        self._name = f"{name or 'onward'} on {socket.gethostname()}, process {os.getpid()}"
        self._topology = Topology(routing_keys)
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
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has failed to connect
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
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(FINISH_SECONDS):
                        await inbox.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, connection.close(), return_exceptions=True)

    async def _open(self, connection: BrokerConnection, inbox: Inbox | None = None) -> None:
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await connection.open()
                await self._topology.declare(connection)
                if inbox is not None:
                    await inbox.open()
        except TimeoutError as error:
            raise connection.explain(error) from error

    async def _declare_again(self, connection: BrokerConnection) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            async with asyncio.timeout(CHECK_SECONDS):
                await self._topology.declare(connection)
