"""The outbox: publishes the store's outgoing events to the broker, and deletes those that it has confirmed.

An event leaves at least once: after a crash, or a connection that was lost before the confirmation came, it is
published again under the same `event_id`.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections.abc import Callable, MutableMapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiormq import Channel, exceptions
from aiormq.abc import ChannelFrame
from pamqp import frame
from pamqp.commands import Basic
from pamqp.constants import FRAME_BODY, FRAME_END_CHAR, FRAME_HEADER
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
MAX_PUBLISHED_SIZE = 4_000_000  # about as many characters of their bodies together
CONFIRM_SECONDS = 60.0  # the broker confirms within this time, unless it is short of memory or disk space
WAIT_SECONDS = 1.0  # pause between two looks into the outbox, if nothing wakes the gateway
ROUTE_SECONDS = 30.0  # pause between two checks whether a queue takes what was unroutable
LATE_COMMIT_SECONDS = 30.0  # a transaction that puts events into the outbox ends within this time
SCAN_SECONDS = 60.0  # pause between two looks at all that is due, also what was committed later than that

T = TypeVar("T")
REFUSED = "the broker refuses events, perhaps because a queue is full. Start its consumers, or raise its limit"
_PREFIX = struct.Struct(">BHI")  # of a frame: its kind, channel and size
_CONTENT = struct.Struct(">HHQ")  # of a header: class, weight and size of the body
_AN_ID = "the id of an event"
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
        self.trouble = ""
        self._limit = 1  # it grows with what is confirmed
        self._read_up_to = 0.0  # what was due at this time was read, but for late commits
        self._scanned_at = self._routed_at = -SCAN_SECONDS
        self._random = Random()
        self._frames: dict[str, bytes] = {}  # the first frame of a message on this channel, by routing key
        # The properties of all messages are the same but for the id.
        self._before_id, self._after_id = self._properties(_AN_ID).marshal().split(_AN_ID.encode())
        self._before_id = self._before_id[:-1]  # without the length of the id

    async def open(self, connection: BrokerConnection, end: Callable[[str], None]) -> None:
        del end
        self._connection, self._channel = connection, await connection.channel()
        self._frames.clear()
        self._scanned_at = -SCAN_SECONDS

    async def close(self) -> None:
        """Do nothing: what was not confirmed is published again."""

    async def run(self) -> None:
        """Publish what is due until cancelled."""
        loop, failures = asyncio.get_running_loop(), 0
        while True:
            try:
                await self._probe_unroutable()
                if events := await self._due():
                    await self._publish(events)
                else:
                    await loop.run_in_executor(self._bus_thread, self._bus.wait, WAIT_SECONDS)
                failures = 0
            except StoreError as error:
                failures += 1
                log = _log.warning if failures == 1 else _log.debug
                log("outgoing events cannot be read from the store: %s", redact_error(str(error)))
                self._scanned_at = -SCAN_SECONDS
                await asyncio.sleep(STORE_BACKOFF.delay(failures, self._random))

    async def _due(self) -> list[OutgoingEvent]:
        """Return events that are due.

        Deleted rows stay in an index of PostgreSQL while a transaction is open that may see them. So what was due
        long before the last look is looked at only now and then.
        """
        now, is_scan = time.monotonic(), time.monotonic() - self._scanned_at >= SCAN_SECONDS

        def read() -> tuple[float, list[OutgoingEvent]]:
            since = 0.0 if is_scan else self._read_up_to - LATE_COMMIT_SECONDS
            return self._store.now(), self._store.due_outgoing(limit=self._limit, since=since)

        read_up_to, events = await self._in_store(read)
        if len(events) < self._limit:
            self._read_up_to = read_up_to
            self._scanned_at = now if is_scan else self._scanned_at
        return events

    async def _publish(self, events: Sequence[OutgoingEvent]) -> bool:
        """Publish events, and settle each by the broker's reply; return whether all are confirmed."""
        confirmations = [_Confirmation() for _ in events]
        limit, self._limit = self._limit, 1  # if this fails, perhaps because of one of the events
        try:
            await self._publish_all(events, confirmations)
        except Exception as error:
            if len(events) == 1:
                # Perhaps the connection is closed for this event alone. It must not keep the others from leaving.
                confirmations[0].reply = error
            await self._settle(events, confirmations)
            raise
        size = sum(len(event.body) for event in events)
        self._limit = max(1, min(limit * 2, MAX_PUBLISHED, MAX_PUBLISHED_SIZE * len(events) // size))
        return await self._settle(events, confirmations)

    async def _settle(self, events: Sequence[OutgoingEvent], confirmations: Sequence[_Confirmation]) -> bool:
        confirmed, refused, unroutable = list[int](), list[int](), list[int]()
        trouble = ""
        for event, confirmation in zip(events, confirmations, strict=True):
            match confirmation.reply:
                case None:
                    pass  # it is published again
                case exceptions.PublishError():
                    unroutable.append(event.id)
                case BaseException() as error:
                    refused.append(event.id)
                    trouble = str(error) if isinstance(error, BrokerError) else REFUSED
                case _:
                    confirmed.append(event.id)
        settle = self._store.settle_outgoing
        await self._in_store(lambda: settle(confirmed, refused=refused, unroutable=unroutable))
        self.trouble = trouble
        return len(confirmed) == len(events)

    async def _publish_all(self, events: Sequence[OutgoingEvent], confirmations: Sequence[_Confirmation]) -> None:
        """Publish messages in one go, and wait until each is confirmed or refused.

        The library's `basic_publish` takes three times the processor time: for each message it has a lock, a task
        and several futures.
        """
        connection, channel = self._connection, self._channel
        assert connection is not None, "opened before"
        assert channel is not None, "opened before"
        frames = b"".join([self._message(channel, event) for event in events])
        try:
            async with channel.lock:
                # A future of the channel: it fails when the channel is closed.
                batch = _Batch(channel.create_future(), len(events))
                expected: MutableMapping[int, Any] = channel.confirmations
                for event, confirmation in zip(events, confirmations, strict=True):
                    confirmation.batch = batch
                    channel.delivery_tag += 1
                    expected[channel.delivery_tag] = confirmation
                    channel.message_id_delivery_tag[event.event_id] = channel.delivery_tag
                await channel.write_queue.put(ChannelFrame(frames, should_close=False))
            while not (await asyncio.wait({batch.all_settled}, timeout=CONFIRM_SECONDS))[0]:
                if batch.is_at_rest() and not connection.blocked:
                    raise BrokerUnavailable(f"{where(connection.url)} does not confirm messages; see its log")
            # Not `await`: the library may set a CancelledError, as if this task were cancelled.
            if (error := batch.all_settled.exception()) is not None:
                raise connection.explain(error) from error
        except (exceptions.AMQPError, exceptions.ChannelInvalidStateError) as error:
            raise connection.explain(error) from error
        finally:
            for event in events:
                channel.message_id_delivery_tag.pop(event.event_id, None)

    def _message(self, channel: Channel, event: OutgoingEvent) -> bytes:
        """Return the frames of a message; those of one routing key differ only in id, size and body."""
        if event.routing_key not in self._frames:
            publish = Basic.Publish(exchange=EXCHANGE, routing_key=event.routing_key, mandatory=True)
            self._frames[event.routing_key] = frame.marshal(publish, channel.number)
        body = event.body.encode()
        if len(body) >= channel.max_content_size or not event.event_id.isascii():
            header = ContentHeader(body_size=len(body), properties=self._properties(event.event_id))
            bodies = [frame.marshal(part, channel.number) for part in channel._split_body(body)]
            return b"".join((self._frames[event.routing_key], frame.marshal(header, channel.number), *bodies))
        id = event.event_id.encode()
        content = b"".join((_CONTENT.pack(Basic.frame_id, 0, len(body)), self._before_id, bytes([len(id)]), id))
        content += self._after_id
        number = channel.number
        return b"".join((
            self._frames[event.routing_key],
            _PREFIX.pack(FRAME_HEADER, number, len(content)), content, FRAME_END_CHAR,
            _PREFIX.pack(FRAME_BODY, number, len(body)), body, FRAME_END_CHAR,
        ))  # fmt: skip

    def _properties(self, event_id: str) -> Basic.Properties:
        return Basic.Properties(
            content_type="application/json",
            delivery_mode=2,  # persistent
            message_id=event_id,
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
            if await self._publish([event]):
                await self._in_store(partial(self._store.reroute_outgoing, event.routing_key))

    async def _in_store(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._store_thread, call)


class _Batch:
    """Messages that were published together, until the broker has replied to each."""

    def __init__(self, all_settled: asyncio.Future[None], count: int) -> None:
        self.all_settled = all_settled
        self._left = self._left_before = count

    def settle_one(self) -> None:
        self._left -= 1
        if not self._left and not self.all_settled.done():
            self.all_settled.set_result(None)

    def is_at_rest(self) -> bool:
        """Return whether the broker has confirmed nothing since the last call."""
        before, self._left_before = self._left_before, self._left
        return self._left == before


class _Confirmation:
    """Takes the place of a future in the library's table of confirmations."""

    __slots__ = ("batch", "reply")
    batch: _Batch

    def __init__(self) -> None:
        self.reply: object = None

    def done(self) -> bool:
        return self.reply is not None

    def set_result(self, reply: object) -> None:
        self.reply = reply
        self.batch.settle_one()

    set_exception = set_result
