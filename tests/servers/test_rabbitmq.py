"""A private RabbitMQ can be killed and started again, and keeps what it confirmed."""

from __future__ import annotations

import asyncio

import aio_pika
from pamqp.common import Arguments

from tests.support.servers import RabbitServer
from tests.support.servers.private import descendants, is_alive

LETTERS: Arguments = {"x-queue-type": "quorum"}


async def post(url: str, body: bytes) -> None:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.declare_queue("letters", durable=True, arguments=LETTERS)
        message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, "letters")


async def fetch(url: str) -> bytes:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("letters", durable=True, arguments=LETTERS)
        message = await queue.get()
        await message.ack()
        return message.body


def test_what_was_confirmed_survives_a_kill(rabbit_server: RabbitServer, rabbit_url: str) -> None:
    asyncio.run(post(rabbit_url, b"kept"))
    rabbit_server.settle()
    port, family = rabbit_server.port, [rabbit_server.pid, *descendants(rabbit_server.pid)]

    rabbit_server.kill()
    assert not any(map(is_alive, family)), "a killed server leaves no process behind"
    rabbit_server.start()

    assert (asyncio.run(fetch(rabbit_url)), rabbit_server.port) == (b"kept", port)


def test_virtual_hosts_share_no_queues(rabbit_server: RabbitServer, rabbit_url: str) -> None:
    other = rabbit_server.create_vhost("other.one")
    asyncio.run(post(other, b"for the other"))
    asyncio.run(post(rabbit_url, b"for this one"))
    assert asyncio.run(fetch(rabbit_url)) == b"for this one"

    rabbit_server.delete_vhost("other.one")
    assert "other.one" not in rabbit_server.evaluate("rabbit_vhost:list_names()")
