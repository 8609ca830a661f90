"""One stretch of being connected: everything is declared and heard; at the first trouble all of it ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NoReturn

from aiormq import Channel, exceptions
from pamqp.commands import Basic

from onward.backends.rabbitmq.connection import CLOSE_SECONDS, Line
from onward.backends.rabbitmq.explaining import blocked, missing
from onward.backends.rabbitmq.hearing import Heard, Intake, Tag
from onward.backends.rabbitmq.topology import INBOX, Topology, count_ready
from onward.ports import StoreError
from onward.ports.wire import WireUnavailable

PUBLISH_SECONDS = 10.0
CHECK_SECONDS = 30.0
"""How often it is looked whether everything is still there; the broker does not tell of everything that goes."""
INBOX_PREFETCH = 100

Message = tuple[str, bytes, Basic.Properties]


class Session:
    """Hears and tells, over a connection each.

    A broker short of space stops reading from the connections that send: acknowledgements must not go that way.
    """

    def __init__(
        self, number: int, url: str, name: str, topology: Topology, heard: Heard, on_change: Callable[[], None]
    ) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Resolved with the reason, as soon as anything is wrong."""
        self._number = number
        self._topology = topology
        self._heard = heard
        self._hearing = Line(url, f"{name} hears", on_ended=self.end, on_blocked=on_change)
        self._telling = Line(url, f"{name} tells", on_ended=self.end, on_blocked=on_change)
        self._intakes: dict[str, Intake] = {}
        self._outlet: Channel | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Connect, declare, begin to hear; raises `StoreError` with the remedy."""
        await self._hearing.open()
        await self._topology.declare(self._hearing)
        await self._telling.open()
        self._outlet = await self._telling.channel()
        prefetch = {queue.service: queue.prefetch for queue in self._topology.queues if queue.prefetch > 0}
        if prefetch:
            prefetch[INBOX] = INBOX_PREFETCH
        for queue, count in prefetch.items():
            await self._hear(queue, count)
        self._keep(self._check())

    async def _hear(self, queue: str, prefetch: int) -> None:
        channel = await self._hearing.channel()
        channel.on_consumer_cancel_callbacks.add(lambda _: self.end(str(missing(queue, self._hearing.url))))
        intake = self._intakes[queue] = Intake(self._number, queue, channel, self._heard)
        try:
            await intake.begin(prefetch)
        except (exceptions.AMQPError, exceptions.ChannelInvalidStateError) as error:
            raise self._hearing.explain(error) from error

    def end(self, reason: str) -> None:
        """Something is wrong: the session is of no more use."""
        if not self.ended.done():
            self.ended.set_result(reason)

    @property
    def trouble(self) -> str:
        """Why nothing is carried just now; empty: all is well."""
        if self.ended.done():
            return self.ended.result()
        return str(blocked(self._telling.blocked, self._telling.url)) if self._telling.blocked else ""

    def acknowledge(self, tags: Sequence[Tag]) -> None:
        """Acknowledge messages of this session; those of others come again anyway."""
        numbers: dict[str, list[int]] = {}
        for tag in tags:
            if tag.session == self._number:
                numbers.setdefault(tag.queue, []).append(tag.number)
        for queue, those in numbers.items():
            self._keep(self._intakes[queue].acknowledge(those))

    async def publish(self, messages: Sequence[Message]) -> None:
        """Put messages into queues, all at once, and wait until the broker has them; raises `WireUnavailable`."""
        if self._telling.blocked:
            raise blocked(self._telling.blocked, self._telling.url)
        sending = asyncio.create_task(self._send(messages))
        blocking = asyncio.create_task(self._telling.blocking.wait())
        try:
            await asyncio.wait({sending, blocking}, timeout=PUBLISH_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                return await sending
            if self._telling.blocked:
                raise blocked(self._telling.blocked, self._telling.url)
            self._fail(TimeoutError())
        finally:
            sending.cancel()
            blocking.cancel()
            await asyncio.wait({sending, blocking})

    async def _send(self, messages: Sequence[Message]) -> None:
        outlet = self._outlet
        if outlet is None:
            raise RuntimeError("something was published before the session was opened")
        sent = await asyncio.gather(
            *(
                outlet.basic_publish(body, routing_key=queue, properties=properties, mandatory=True, wait=False)
                for queue, body, properties in messages
            ),
            return_exceptions=True,
        )
        for error in sent:
            if isinstance(error, BaseException):
                self._fail(error)

    def _fail(self, error: BaseException) -> NoReturn:
        trouble: StoreError
        match error:
            case exceptions.PublishError():
                trouble = missing(error.args[1], self._telling.url)
            case exceptions.DeliveryError():
                # Only this message was refused, the session is as good as it was.
                raise WireUnavailable(f"the broker did not take a message: {error}; it will be sent again")
            case _:
                trouble = self._telling.explain(error)
        self.end(str(trouble))
        raise trouble from None

    async def ready(self) -> dict[str, int]:
        """How many messages wait in each service's queue; raises `WireUnavailable`."""
        try:
            async with asyncio.timeout(PUBLISH_SECONDS):
                return await count_ready(self._hearing, [queue.service for queue in self._topology.queues])
        except TimeoutError as error:
            trouble = self._hearing.explain(error)
        except StoreError as error:
            trouble = error
        self.end(str(trouble))
        raise trouble

    async def _check(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._topology.declare(self._hearing)
            except Exception as error:
                self.end(str(self._hearing.explain(error)))
                return

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End both connections; what is not acknowledged by now comes again."""
        if not self.ended.done():
            self.end("closed")
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await asyncio.gather(*(intake.end() for intake in self._intakes.values()))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, self._hearing.close(), self._telling.close(), return_exceptions=True)
