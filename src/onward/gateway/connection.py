"""A connection to the broker."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiormq
from aiormq.exceptions import AMQPError
from pamqp.common import FieldTable

from onward.gateway.error_messages import BrokerError, explain, parse_url
from onward.gateway.frames import Transport

HEARTBEAT_SECONDS = 20
CLOSE_SECONDS = 1.0


class _Connection(aiormq.Connection):
    # The protocol allows two missed heartbeats; the library allows three.
    HEARTBEAT_GRACE_MULTIPLIER = 2


class BrokerConnection:
    """A connection, and what the broker reported about it."""

    def __init__(self, url: str, name: str, *, on_ended: Callable[[str], None]) -> None:
        """`on_ended` is called with the reason when the connection, or a channel of `channel()`, ends."""
        self.url = parse_url(url)
        self.blocked = ""
        """Why the broker accepts no messages on this connection; empty: it does."""
        self.blocking = asyncio.Event()
        self._name = name
        self._on_ended = on_ended
        self._transport = Transport(self._set_blocked)
        self._connection: _Connection | None = None

    async def open(self) -> None:
        """Connect; raise `BrokerError` with the remedy."""
        url = self.url
        if "heartbeat" not in url.query:
            url = url.update_query(heartbeat=HEARTBEAT_SECONDS)
        properties: FieldTable = {"product": "Onward", "connection_name": self._name}
        connection = _Connection(url, transport_factory=self._transport, client_properties=properties)
        try:
            await connection.connect()
        except Exception as error:
            raise self.explain(error) from error
        self._connection = connection
        connection.closing.add_done_callback(lambda closing: self._on_ended(self.end_reason(closing)))

    @property
    def version(self) -> tuple[int, ...]:
        """The broker's version; empty if it does not report one, or is not RabbitMQ."""
        properties = self._connection.server_properties if self._connection else {}
        if properties.get("product") != "RabbitMQ":
            return ()
        return tuple(int(part) for part in re.findall(r"\d+", str(properties.get("version", "")))[:3])

    async def channel(self) -> aiormq.Channel:
        """Open a channel whose end is reported to `on_ended`."""
        channel = await self._open_channel()
        channel.closing.add_done_callback(lambda closing: self._on_ended(self.end_reason(closing)))
        return channel

    @asynccontextmanager
    async def short_channel(self) -> AsyncIterator[aiormq.Channel]:
        """Open a channel for a few requests; the broker closes a channel when it refuses a request."""
        channel = await self._open_channel()
        try:
            yield channel
        finally:
            with contextlib.suppress(Exception):
                await channel.close(timeout=CLOSE_SECONDS)

    async def _open_channel(self) -> aiormq.Channel:
        if self._connection is None:
            raise RuntimeError("a channel was requested before the connection was opened")
        try:
            # Frames that were read and not processed are not limited here: prefetch limits them.
            channel = await self._connection.channel(frame_buffer_size=0)
        except RuntimeError as error:  # the library raises it for a closed connection
            raise self.explain(ConnectionResetError(*error.args)) from error
        except AMQPError as error:
            raise self.explain(error) from error
        assert isinstance(channel, aiormq.Channel)
        return channel

    def explain(self, error: BaseException) -> BrokerError:
        """Return the error with its cause and remedy."""
        return explain(error, self.url, self._transport.close_reason)

    async def close(self) -> None:
        """Close the connection; drop it if the broker does not respond at once."""
        if self._connection is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._connection.close(), CLOSE_SECONDS)
        self._transport.abort()

    def end_reason(self, closing: asyncio.Future[Any]) -> str:
        """Return why a connection, a channel or a task that used them ended."""
        error = None if closing.cancelled() else closing.exception()
        return str(self.explain(error)) if error else "the connection was closed"

    def _set_blocked(self, reason: str) -> None:
        self.blocked = reason
        if reason:
            self.blocking.set()
        else:
            self.blocking.clear()
