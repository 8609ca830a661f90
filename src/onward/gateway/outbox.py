"""The outbox: publishes the store's outgoing events to the broker, and deletes those that it has confirmed.

An event leaves at least once: after a crash, or a connection that was lost before the confirmation came, it is
published again under the same `event_id`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiormq import Channel, exceptions
from aiormq.abc import ChannelFrame
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from onward.gateway.connection import BrokerConnection, BrokerError, BrokerUnavailable, where
from onward.gateway.inbox import STORE_BACKOFF, STORE_HEADER
from onward.ledger.store_errors import StoreError
from onward.model.ledger import OutgoingEvent
from onward.retry import redact_error

if TYPE_CHECKING:
    from onward.ledger.dialect import Bus
    from onward.ledger.store import Store

EXCHANGE: Final = "copilot.events"
MAX_PUBLISHED = 500  # events that are published before their confirmations are awaited
CONFIRM_SECONDS = 60.0  # the broker confirms within this time, unless it is short of memory or disk space
WAIT_SECONDS = 1.0  # pause between two looks into the outbox, if nothing wakes the gateway
ROUTE_SECONDS = 30.0  # pause between two checks whether a queue takes what was unroutable
LATE_COMMIT_SECONDS = 30.0  # a transaction that puts events into the outbox ends within this time
SCAN_SECONDS = 60.0  # pause between two looks at all that is due, also what was committed later than that

T = TypeVar("T")
_log = logging.getLogger("onward.gateway")


@dataclass
class Outbox:
    """Publishes outgoing events."""

    _store: Store
    _store_name: str
    _bus: Bus  # wakes the gateway after a commit
    _store_thread: Executor
    _bus_thread: Executor

    needs_inbox = False

    def __post_init__(self) -> None:
        self._connection: BrokerConnection | None = None
        self._channel: Channel | None = None
        # 1 after a connection was lost while publishing: perhaps one event is the cause.
        self._limit = MAX_PUBLISHED
        self._scanned_at = self._routed_at = -SCAN_SECONDS
        self._random = Random()

    async def open(self, connection: BrokerConnection, end: Callable[[str], None]) -> None:
        del end
        self._connection, self._channel = connection, await connection.channel()

    async def close(self) -> None:
        """Do nothing: what was not confirmed is published again."""

    async def run(self) -> None:
        """Publish what is due until cancelled."""
        loop, failures = asyncio.get_running_loop(), 0
        while True:
            try:
                if events := await self._due():
                    await self._publish(events)
                    self._limit = min(self._limit * 2, MAX_PUBLISHED)
                else:
                    await self._probe_unroutable()
                    await loop.run_in_executor(self._bus_thread, self._bus.wait, WAIT_SECONDS)
                failures = 0
            except StoreError as error:
                failures += 1
                log = _log.warning if failures == 1 else _log.debug
                log("outgoing events cannot be read from the store: %s", redact_error(str(error)))
                await asyncio.sleep(STORE_BACKOFF.delay(failures, self._random))

    async def _due(self) -> list[OutgoingEvent]:
        """Return events that are due.

        Deleted rows stay in an index of PostgreSQL while a transaction is open that may see them. So what was due
        long ago is looked at only now and then.
        """
        now, since = time.monotonic(), self._store.now() - LATE_COMMIT_SECONDS
        if now - self._scanned_at >= SCAN_SECONDS:
            since = 0.0
        events = await self._in_store(lambda: self._store.due_outgoing(limit=self._limit, since=since))
        if len(events) < self._limit and not since:
            self._scanned_at = now
        return events

    async def _publish(self, events: Sequence[OutgoingEvent]) -> None:
        """Publish events, and settle each by the broker's reply."""
        confirmed, refused, unroutable = list[int](), list[int](), list[int]()
        try:
            replies = await self._publish_all(events)
        except BrokerError as error:
            if len(events) == 1 and not isinstance(error, BrokerUnavailable):
                # The broker closes the channel for this event alone. It must not keep the others from leaving.
                await self._in_store(lambda: self._store.settle_outgoing([], refused=[events[0].id]))
            self._limit = 1
            raise
        for event, reply in zip(events, replies, strict=True):
            match reply:
                case exceptions.PublishError():
                    unroutable.append(event.id)
                case BaseException():
                    refused.append(event.id)
                case _:
                    confirmed.append(event.id)
        settle = self._store.settle_outgoing
        await self._in_store(lambda: settle(confirmed, refused=refused, unroutable=unroutable))

    async def _publish_all(self, events: Sequence[OutgoingEvent]) -> list[Any]:
        """Publish messages in one go; return each one's confirmation, or the error with which it was refused.

        The library's `basic_publish` takes twice the processor time: it has a task and a lock for each message.
        """
        connection, channel = self._connection, self._channel
        assert connection is not None, "opened before"
        assert channel is not None, "opened before"
        confirmations: list[asyncio.Future[Any]] = []
        frames: list[Any] = []
        try:
            async with channel.lock:
                for event in events:
                    body = event.body.encode()
                    header = ContentHeader(body_size=len(body), properties=self._properties(event))
                    publish = Basic.Publish(exchange=EXCHANGE, routing_key=event.routing_key, mandatory=True)
                    frames += [publish, header, *channel._split_body(body)]
                    channel.delivery_tag += 1
                    tag, confirmation = channel.delivery_tag, channel.create_future()
                    channel.confirmations[tag] = confirmation
                    channel.message_id_delivery_tag[event.event_id] = tag
                    confirmations.append(confirmation)
                await channel.write_queue.put(ChannelFrame.marshall(channel.number, frames))
            await _await_confirmations(connection, confirmations)
        except (exceptions.AMQPError, exceptions.ChannelInvalidStateError) as error:
            raise connection.explain(error) from error
        finally:
            for event in events:
                channel.message_id_delivery_tag.pop(event.event_id, None)
        return [confirmation.exception() or confirmation.result() for confirmation in confirmations]

    def _properties(self, event: OutgoingEvent) -> Basic.Properties:
        return Basic.Properties(
            content_type="application/json",
            delivery_mode=2,  # persistent
            message_id=event.event_id,
            app_id="onward",
            headers={STORE_HEADER: self._store_name},
        )

    async def _probe_unroutable(self) -> None:
        """Publish the oldest unroutable event of each routing key; if a queue takes it, the others follow."""
        now = time.monotonic()
        if now - self._routed_at < ROUTE_SECONDS:
            return
        self._routed_at = now
        for event in await self._in_store(self._store.unroutable_outgoing):
            (reply,) = await self._publish_all([event])
            if not isinstance(reply, BaseException):
                await self._in_store(partial(self._reroute, event))

    def _reroute(self, event: OutgoingEvent) -> None:
        self._store.settle_outgoing([event.id])
        self._store.reroute_outgoing(event.routing_key)

    async def _in_store(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._store_thread, call)


async def _await_confirmations(connection: BrokerConnection, confirmations: Sequence[asyncio.Future[Any]]) -> None:
    pending: set[asyncio.Future[Any]] = set(confirmations)
    while pending:
        done, pending = await asyncio.wait(pending, timeout=CONFIRM_SECONDS)
        if not done and not connection.blocked:
            raise BrokerUnavailable(f"{where(connection.url)} does not confirm messages; see its log")
    for confirmation in confirmations:
        if confirmation.cancelled():
            raise connection.explain(ConnectionResetError("the connection was lost"))
        error = confirmation.exception()
        if error is not None and not isinstance(error, exceptions.DeliveryError):
            raise connection.explain(error)
