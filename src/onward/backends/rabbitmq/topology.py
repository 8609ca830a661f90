"""What has to exist on the broker, and declaring it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aiormq import Channel, exceptions

from onward.backends.rabbitmq.connection import Line
from onward.backends.rabbitmq.explaining import missing, named_in, too_old
from onward.ports.wire import Queue

INBOX: Final = "onward.inbox"
"""Where strangers' events come in: one queue, so that each is entered once, however many services consume it."""

_QUORUM_SINCE = (3, 8)
_DELIVERY_LIMIT_SINCE = (4,)
_log = logging.getLogger("onward.wire")


@dataclass(frozen=True, slots=True)
class Topology:
    """An exchange for strangers, their inbox, and two queues for each service: its own and its failed one."""

    exchange: str
    queues: tuple[Queue, ...]
    _limited: set[str] = field(default_factory=set, compare=False)
    """Queues with a delivery limit: they were made before the broker was upgraded."""

    def queue_names(self) -> Iterator[str]:
        """Every queue, once."""
        yield from dict.fromkeys(
            (INBOX, *(queue.service for queue in self.queues), *(queue.failed_queue for queue in self.queues))
        )

    async def declare(self, line: Line) -> None:
        """Declare what is missing; raises `StoreError` with the remedy."""
        if line.version and line.version < _QUORUM_SINCE:
            raise too_old(line.version, line.url)
        while True:
            try:
                async with line.passing_channel() as channel:
                    await self._declare(channel, line.version)
                return
            except exceptions.ChannelPreconditionFailed as error:
                limited = _limited_queue(error)
                if limited is None or limited in self._limited:
                    raise line.explain(error) from error
                # Of use as it is, and perhaps full of messages: not a reason to stop.
                self._limited.add(limited)
                _log.warning(
                    "queue %r was made with a delivery limit: after so many crashes the broker drops a message in "
                    "it; delete the queue when it is empty, and it will be made anew without one",
                    limited,
                )
            except (exceptions.AMQPError, exceptions.ChannelInvalidStateError) as error:
                raise line.explain(error) from error

    async def _declare(self, channel: Channel, version: tuple[int, ...]) -> None:
        await channel.exchange_declare(self.exchange, exchange_type="topic", durable=True)
        for name in self.queue_names():
            arguments = queue_arguments(() if name in self._limited else version)
            await channel.queue_declare(name, durable=True, arguments=arguments)
        for key in dict.fromkeys(queue.routing_key for queue in self.queues):
            await channel.queue_bind(INBOX, self.exchange, key)


def queue_arguments(version: tuple[int, ...]) -> dict[str, Any]:
    """What makes a queue replicated, and never discard anything, on a broker of this version."""
    if version >= _DELIVERY_LIMIT_SINCE:
        # Newer brokers drop a message after 20 deliveries, unless told not to. Older ones have no such limit, and
        # take -1 for "after the first".
        return {"x-queue-type": "quorum", "x-delivery-limit": -1}
    return {"x-queue-type": "quorum"}


async def count_ready(line: Line, services: Sequence[str]) -> dict[str, int]:
    """How many messages wait in each service's queue, delivered to nobody; raises `StoreError`."""
    counts: dict[str, int] = {}
    try:
        async with line.passing_channel() as channel:
            for service in services:
                found = await channel.queue_declare(service, passive=True)
                counts[service] = found.message_count or 0
    except exceptions.ChannelNotFoundEntity:
        raise missing(services[len(counts)], line.url) from None
    except (exceptions.AMQPError, exceptions.ChannelInvalidStateError) as error:
        raise line.explain(error) from error
    return counts


def _limited_queue(error: exceptions.ChannelPreconditionFailed) -> str | None:
    said = str(error.args[-1])
    return named_in(said)[1] if "'x-delivery-limit'" in said else None
