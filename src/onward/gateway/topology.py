"""The exchange and the queue that the gateway declares on the broker."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from aiormq import exceptions

from onward.gateway.connection import BrokerConnection
from onward.gateway.error_messages import named_in, too_old

EXCHANGE: Final = "copilot.events"
INBOX: Final = "onward.inbox"
"""The queue of events from other programs: one queue, so each event is entered once for all services."""

_QUORUM_SINCE = (3, 8)
_DELIVERY_LIMIT_SINCE = (4,)
_log = logging.getLogger("onward.gateway")


class Topology:
    """A topic exchange that other programs publish to, and the inbox queue, bound by routing keys."""

    def __init__(self, routing_keys: Sequence[str]) -> None:
        self._routing_keys = sorted(set(routing_keys))
        self._has_delivery_limit = False
        """The inbox was made with a delivery limit, before the broker was upgraded."""

    async def declare(self, connection: BrokerConnection) -> None:
        """Declare missing queues and exchanges; raise `BrokerError` with the remedy."""
        if connection.version and connection.version < _QUORUM_SINCE:
            raise too_old(connection.version, connection.url)
        try:
            await self._declare(connection)
        except exceptions.ChannelPreconditionFailed as error:
            if not _is_about_delivery_limit(error) or self._has_delivery_limit:
                raise connection.explain(error) from error
            # The queue works as it is and may hold messages, so this is no reason to stop.
            self._has_delivery_limit = True
            _log.warning(
                "queue %r was made with a delivery limit: the broker drops a message after that many failed "
                "deliveries; delete the queue when it is empty, and it will be made again without a limit",
                INBOX,
            )
            await self.declare(connection)
        except (exceptions.AMQPError, exceptions.ChannelInvalidStateError) as error:
            raise connection.explain(error) from error

    async def _declare(self, connection: BrokerConnection) -> None:
        async with connection.short_channel() as channel:
            await channel.exchange_declare(EXCHANGE, exchange_type="topic", durable=True)
            arguments = queue_arguments(() if self._has_delivery_limit else connection.version)
            await channel.queue_declare(INBOX, durable=True, arguments=arguments)
            for key in self._routing_keys:
                await channel.queue_bind(INBOX, EXCHANGE, key)


def queue_arguments(version: tuple[int, ...]) -> dict[str, Any]:
    """Return the arguments of a replicated queue that never discards a message, for a broker of this version."""
    if version >= _DELIVERY_LIMIT_SINCE:
        # Newer brokers drop a message after 20 deliveries unless the limit is -1. Older ones have no limit, and
        # treat -1 as "after the first delivery".
        return {"x-queue-type": "quorum", "x-delivery-limit": -1}
    return {"x-queue-type": "quorum"}


def _is_about_delivery_limit(error: exceptions.ChannelPreconditionFailed) -> bool:
    text = str(error.args[-1])
    return "'x-delivery-limit'" in text and named_in(text) == ("queue", INBOX)
