"""The queues of a run on somebody's own RabbitMQ: none that is there already is used, none is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from onward.retry import OnwardError, redact


class BusError(OnwardError):
    """A run cannot take place on this bus."""


def check_bus(url: str) -> None:
    """Refuse a virtual host in which an app hears what others publish: a run would take that from it."""
    asyncio.run(_check(url))


def delete_queues(url: str, queues: Sequence[str]) -> None:
    """Delete the queues of a run, with the inbox that was made for it."""
    asyncio.run(_delete(url, queues))


async def _check(url: str) -> None:
    try:
        import aio_pika
        from aio_pika.exceptions import AMQPError, ChannelNotFoundEntity

        from onward.backends.rabbitmq.topology import INBOX
    except ModuleNotFoundError as error:
        raise BusError(
            f"a bus on RabbitMQ needs the package {error.name!r}: pip install 'onward[rabbitmq]'"
        ) from error
    try:
        async with await aio_pika.connect(url) as connection:
            await (await connection.channel()).declare_queue(INBOX, passive=True)
    except ChannelNotFoundEntity:
        return
    except (AMQPError, OSError) as error:
        raise BusError(f"{redact(url)} cannot be used: {redact(str(error))}") from error
    raise BusError(
        f"{redact(url)} has a queue {INBOX!r}, through which an app hears of events: a run here would take them "
        "from it. Give a virtual host of its own, made by: rabbitmqctl add_vhost onward_torture"
    )


async def _delete(url: str, queues: Sequence[str]) -> None:
    import aio_pika

    from onward.backends.rabbitmq.topology import INBOX

    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        for name in (*queues, INBOX):
            await channel.queue_delete(name)
