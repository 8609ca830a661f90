"""One connection to the broker: how it is made, what is known of it, how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiormq
from aiormq.exceptions import AMQPError
from pamqp.common import FieldTable
from yarl import URL

from onward.backends.rabbitmq.explaining import check_url, explain
from onward.backends.rabbitmq.frames import Transport
from onward.ports import StoreError

HEARTBEAT_SECONDS = 20
CLOSE_SECONDS = 1.0


class _Connection(aiormq.Connection):
    # Two heartbeats missed, as the protocol has it; the library waits for three.
    HEARTBEAT_GRACE_MULTIPLIER = 2


class Line:
    """A connection, and what the broker said about it."""

    def __init__(
        self, url: str, name: str, *, on_ended: Callable[[str], None], on_blocked: Callable[[], None]
    ) -> None:
        self.blocked = ""
        """Why the broker takes nothing through it just now; empty: it does."""
        self.blocking = asyncio.Event()
        self._url = check_url(url)
        self._name = name
        self._on_ended = on_ended
        self._on_blocked = on_blocked
        self._transport = Transport(self._note_blocked)
        self._connection: _Connection | None = None

    async def open(self) -> None:
        """Connect; raises `StoreError` with the remedy."""
        url = self._url
        if "heartbeat" not in url.query:
            url = url.update_query(heartbeat=HEARTBEAT_SECONDS)
        properties: FieldTable = {"product": "Onward", "connection_name": self._name}
        connection = _Connection(url, transport_factory=self._transport, client_properties=properties)
        try:
            await connection.connect()
        except Exception as error:
            raise self.explain(error) from error
        self._connection = connection
        connection.closing.add_done_callback(lambda closing: self._on_ended(self._reason(closing)))

    @property
    def version(self) -> tuple[int, ...]:
        """The broker's version; empty: it does not say, or it is not RabbitMQ."""
        properties = self._connection.server_properties if self._connection else {}
        if properties.get("product") != "RabbitMQ":
            return ()
        return tuple(int(part) for part in re.findall(r"\d+", str(properties.get("version", "")))[:3])

    @property
    def url(self) -> URL:
        return self._url

    async def channel(self) -> aiormq.Channel:
        """A channel to hear or send through for long; when it ends, so does everything."""
        channel = await self._open_channel()
        channel.closing.add_done_callback(lambda closing: self._on_ended(self._reason(closing)))
        return channel

    @asynccontextmanager
    async def passing_channel(self) -> AsyncIterator[aiormq.Channel]:
        """A channel for a few questions; the broker closes it with the first answer that is no."""
        channel = await self._open_channel()
        try:
            yield channel
        finally:
            with contextlib.suppress(Exception):
                await channel.close(timeout=CLOSE_SECONDS)

    async def _open_channel(self) -> aiormq.Channel:
        if self._connection is None:
            raise RuntimeError("a channel was asked for before the connection was opened")
        try:
            # No bound on frames read but not handled, prefetch is the bound.
            channel = await self._connection.channel(frame_buffer_size=0)
        except RuntimeError as error:  # the library's word for "closed"
            raise self.explain(ConnectionResetError(*error.args)) from error
        except AMQPError as error:
            raise self.explain(error) from error
        assert isinstance(channel, aiormq.Channel)
        return channel

    def explain(self, error: BaseException) -> StoreError:
        """What is wrong and how to mend it."""
        return explain(error, self._url, self._transport.farewell)

    async def close(self) -> None:
        """End it, politely if the broker answers at once."""
        if self._connection is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._connection.close(), CLOSE_SECONDS)
        self._transport.abort()

    def _reason(self, closing: asyncio.Future[object]) -> str:
        error = None if closing.cancelled() else closing.exception()
        return str(self.explain(error)) if error else "the connection was closed"

    def _note_blocked(self, reason: str) -> None:
        self.blocked = reason
        if reason:
            self.blocking.set()
        else:
            self.blocking.clear()
        self._on_blocked()
