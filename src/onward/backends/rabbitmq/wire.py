"""The wire over RabbitMQ: an event loop in a thread of its own, that stays connected for ever."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import logging
import os
import socket
import threading
from collections.abc import Coroutine, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeVar

from onward.backends.rabbitmq.explaining import check_url, explain
from onward.backends.rabbitmq.hearing import Heard
from onward.backends.rabbitmq.messages import write_announcement, write_copy
from onward.backends.rabbitmq.session import Message, Session
from onward.backends.rabbitmq.topology import Topology
from onward.ports import StoreError
from onward.ports.wire import Announcement, Copy, Queue, Stranger, WireUnavailable
from onward.retry import Exponential

EXCHANGE: Final = "copilot.events"
OPEN_SECONDS = 30.0
STEADY_SECONDS = 30.0
"""A session that lasted so long was a good one: after it, waiting begins at the shortest."""
CLOSE_SECONDS = 5.0
ANSWER_SECONDS = 60.0
"""A net: everything asked of the session ends earlier, by itself."""
MESSAGES_AT_ONCE = 1000
BACKOFF = Exponential(base=0.2, cap=30.0, jitter=True)

T = TypeVar("T")
_log = logging.getLogger("onward.wire")
# What goes wrong is said by us, in words and with a remedy; its tracebacks would say it again.
logging.getLogger("aiormq").setLevel(logging.CRITICAL)


class RabbitWire:
    """Carries announcements and strangers' events over RabbitMQ; see `onward.ports.wire.Wire`.

    A queue with a prefetch of 0 is declared and announced to, but not heard.
    """

    def __init__(self, url: str, *, name: str = "", exchange: str = EXCHANGE) -> None:
        self._url = url
        self._name = name or f"onward on {socket.gethostname()}, process {os.getpid()}"
        self._exchange = exchange
        self._topology = Topology(exchange, ())
        self._heard = Heard(())
        self._random = Random()
        self._session: Session | None = None
        self._hearing: Session | None = None
        """The session that messages come by, also while it is being opened."""
        self._trouble = "not opened yet"
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """Only while work may be given to it."""
        self._stopping: asyncio.Event | None = None

    def open(self, queues: Sequence[Queue]) -> None:
        check_url(self._url)
        with self._lock:
            if self._thread is not None:
                raise StoreError("this wire is open already; close it first, or make another one")
            self._topology = Topology(self._exchange, tuple(queues))
            self._heard = Heard(queue.service for queue in queues)
            self._trouble = "connecting"
            opened: concurrent.futures.Future[None] = concurrent.futures.Future()
            self._thread = threading.Thread(target=self._run, args=(opened,), name="onward-wire", daemon=True)
            self._thread.start()
        try:
            opened.result()
        except BaseException:
            self.close()
            raise

    def wait(self, seconds: float) -> None:
        self._heard.wait(seconds)

    def wake(self) -> None:
        self._heard.wake()

    def take(self, service: str, limit: int) -> list[Announcement]:
        return self._heard.take(service, limit)

    def strangers(self, limit: int) -> list[Stranger]:
        return self._heard.strangers(limit)

    def done(self, tags: Sequence[Any]) -> None:
        with self._lock:
            if self._loop is not None and tags:
                self._loop.call_soon_threadsafe(self._acknowledge, tuple(tags))

    def announce(self, announcements: Sequence[Announcement]) -> None:
        self._publish([(one.service, *write_announcement(one)) for one in announcements])

    def copy(self, copies: Sequence[Copy]) -> None:
        self._publish([(one.failed_queue, *write_copy(one)) for one in copies])

    def ready(self) -> Mapping[str, int]:
        return self._ask(self._count())

    @property
    def trouble(self) -> str:
        session = self._session
        return session.trouble if session else self._trouble

    def close(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
            if self._loop is not None and self._stopping is not None:
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._loop = None
        if thread is not None:
            thread.join(CLOSE_SECONDS)
            self._trouble = "closed"
        self.wake()

    # -- what the loop's thread does

    def _run(self, opened: concurrent.futures.Future[None]) -> None:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(_note)
        try:
            loop.run_until_complete(self._live(opened))
        finally:
            # Not asyncio.run: it waits for host names that are still being looked up.
            loop.close()
            if not opened.done():
                opened.set_exception(WireUnavailable("the wire was closed while it was being opened"))

    async def _live(self, opened: concurrent.futures.Future[None]) -> None:
        stopping = asyncio.Event()
        with self._lock:
            if self._thread is not threading.current_thread():
                return  # closed before it began
            self._loop, self._stopping = asyncio.get_running_loop(), stopping
        keeping = asyncio.create_task(self._keep_connected(opened))
        stopped = asyncio.create_task(stopping.wait())
        await asyncio.wait({keeping, stopped}, return_when=asyncio.FIRST_COMPLETED)
        with self._lock:
            if self._thread is threading.current_thread():
                self._loop = None
        # Nothing new comes any more: the connections end, and whoever still waits for an answer is told.
        keeping.cancel()
        await asyncio.wait({keeping})
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=CLOSE_SECONDS / 2)

    async def _keep_connected(self, opened: concurrent.futures.Future[None]) -> None:
        failures = 0
        for number in itertools.count(1):
            began = asyncio.get_running_loop().time()
            try:
                await self._be_connected(number, opened)
            except Exception as error:
                trouble = explain(error, check_url(self._url))
                if not opened.done():
                    opened.set_exception(trouble)
                    return
                self._report(str(trouble))
            lasted = asyncio.get_running_loop().time() - began
            failures = 1 if lasted > STEADY_SECONDS else failures + 1
            await asyncio.sleep(BACKOFF.delay(failures, self._random))

    async def _be_connected(self, number: int, opened: concurrent.futures.Future[None]) -> None:
        """Connect, and stay so until something is wrong."""
        self._heard.begin(number)
        session = Session(number, self._url, self._name, self._topology, self._heard, self._heard.wake)
        # What comes while it opens may be done with before it is open.
        self._hearing = session
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await session.open()
            self._session, self._trouble = session, ""
            if opened.done():
                _log.info("connected to RabbitMQ again")
            else:
                opened.set_result(None)
            self._heard.wake()
            self._report(await session.ended)
        finally:
            self._session = self._hearing = None
            await session.close()

    def _report(self, trouble: str) -> None:
        if trouble != self._trouble:
            _log.warning("%s; connecting again", trouble)
        self._trouble = trouble
        self._heard.wake()

    def _acknowledge(self, tags: Sequence[Any]) -> None:
        if self._hearing is not None:
            self._hearing.acknowledge(tags)

    def _publish(self, messages: Sequence[Message]) -> None:
        # Each part has its time: how long all of it may take depends on how much it is.
        for start in range(0, len(messages), MESSAGES_AT_ONCE):
            self._ask(self._send(messages[start : start + MESSAGES_AT_ONCE]))

    async def _send(self, messages: Sequence[Message]) -> None:
        await self._current().publish(messages)

    async def _count(self) -> dict[str, int]:
        return await self._current().ready()

    def _current(self) -> Session:
        if self._session is None:
            raise WireUnavailable(self._trouble or "the wire is being closed")
        return self._session

    def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        with self._lock:
            if self._loop is None:
                work.close()
                raise WireUnavailable(f"nothing can be sent: {self._trouble or 'the wire is closed'}")
            answer = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return answer.result(ANSWER_SECONDS)
        except concurrent.futures.CancelledError:
            raise WireUnavailable("the wire was closed meanwhile") from None
        except TimeoutError:
            raise WireUnavailable(
                "the wire did not answer; is this process too busy to run its threads?"
            ) from None


def _note(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    _log.debug("%s", context.get("message"), exc_info=context.get("exception"))
