"""Other programs, written with bare aio-pika: one publishes events to the exchange, one receives them."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import suppress
from typing import Any

import aio_pika
from aio_pika.abc import AbstractExchange, AbstractIncomingMessage

EXCHANGE = "copilot.events"
RECONNECT_SECONDS = 0.2


class OtherProgram:
    """Runs in a thread with an event loop, and connects again whenever the broker was away."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._running = asyncio.run_coroutine_threadsafe(self._stay_connected(), self._loop)

    async def _stay_connected(self) -> None:
        while not self._stopping.is_set():
            try:
                connection = await aio_pika.connect(self._url, timeout=5)
                try:
                    channel = await connection.channel()
                    exchange = await channel.declare_exchange(EXCHANGE, aio_pika.ExchangeType.TOPIC, durable=True)
                    if await self._work_until_the_end(connection, channel, exchange):
                        return
                finally:
                    await asyncio.wait({asyncio.create_task(_close(connection))}, timeout=5)
            except (aio_pika.exceptions.AMQPError, OSError, TimeoutError, RuntimeError):
                pass
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _work_until_the_end(self, connection: Any, channel: Any, exchange: AbstractExchange) -> bool:
        """Return whether the work is done; it is not if the connection was lost."""
        closed = asyncio.Event()
        connection.close_callbacks.add(lambda *_: closed.set())
        working = asyncio.create_task(self.work(channel, exchange))
        waiting = [asyncio.create_task(event.wait()) for event in (closed, self._stopping)]
        await asyncio.wait({working, *waiting}, return_when=asyncio.FIRST_COMPLETED)
        is_done = working.done() and not working.cancelled() and working.exception() is None
        for task in (working, *waiting):
            task.cancel()
        await asyncio.gather(working, *waiting, return_exceptions=True)
        return is_done

    async def work(self, channel: Any, exchange: AbstractExchange) -> None:
        raise NotImplementedError

    def join(self, seconds: float) -> None:
        """Wait until the work is done."""
        self._running.result(seconds)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._running.result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _close(connection: Any) -> None:
    with suppress(Exception):
        await connection.close()


class Consumer(OtherProgram):
    """Receives every event that is published to the exchange, and acknowledges it."""

    def __init__(self, url: str, *routing_keys: str, queue: str = "another-program") -> None:
        self._keys, self._queue = routing_keys or ("#",), queue
        self.bound = threading.Event()
        self.events: list[dict[str, Any]] = []
        super().__init__(url)

    async def work(self, channel: Any, exchange: AbstractExchange) -> None:
        await channel.set_qos(prefetch_count=200)
        queue = await channel.declare_queue(self._queue, durable=True, arguments={"x-queue-type": "quorum"})
        for key in self._keys:
            await queue.bind(exchange, key)
        self.bound.set()
        async with queue.iterator() as messages:
            async for message in messages:
                await self._receive(message)

    async def _receive(self, message: AbstractIncomingMessage) -> None:
        self.events.append(json.loads(message.body))
        await message.ack()

    @property
    def ids(self) -> set[str]:
        return {event["event_id"] for event in list(self.events)}


class Producer(OtherProgram):
    """Publishes events one after the other, each until the broker has confirmed it."""

    def __init__(self, url: str, events: list[dict[str, Any]], routing_key: str) -> None:
        self._left = list(reversed(events))
        self._key = routing_key
        super().__init__(url)

    async def work(self, channel: Any, exchange: AbstractExchange) -> None:
        while self._left:
            # It stays in the list until it is confirmed: after a lost connection it is published again.
            body = json.dumps(self._left[-1]).encode()
            message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await exchange.publish(message, self._key, mandatory=True)
            self._left.pop()
