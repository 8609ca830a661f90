"""A run on somebody's own RabbitMQ takes nothing from the apps that use it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel

from onward.backends.rabbitmq.topology import INBOX
from onward.torture.queues import BusError, check_bus, delete_queues

T = TypeVar("T")


def on_channel(url: str, act: Callable[[AbstractChannel], Awaitable[T]]) -> T:
    async def run() -> T:
        async with await aio_pika.connect(url) as connection:
            return await act(await connection.channel())

    return asyncio.run(run())


def test_a_virtual_host_that_an_app_uses_is_refused(rabbit_url: str) -> None:
    on_channel(rabbit_url, lambda channel: channel.declare_queue(INBOX, durable=True))
    with pytest.raises(BusError, match=r"has a queue 'onward.inbox'.*rabbitmqctl add_vhost") as refused:
        check_bus(rabbit_url)
    assert "guest:guest" not in str(refused.value)


def test_an_empty_one_is_used_and_left_empty(rabbit_url: str) -> None:
    check_bus(rabbit_url)
    mine = ("onward_torture_1.unpacking", INBOX)
    for name in (*mine, "another.app"):
        on_channel(rabbit_url, lambda channel, name=name: channel.declare_queue(name, durable=True))  # type: ignore[misc]
    delete_queues(rabbit_url, mine[:1])
    for name in mine:
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
            on_channel(rabbit_url, lambda channel, name=name: channel.get_queue(name))  # type: ignore[misc]
    assert on_channel(rabbit_url, lambda channel: channel.get_queue("another.app")).name == "another.app"


def test_a_bus_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(BusError, match=r"127\.0\.0\.1:1.* cannot be used") as refused:
        check_bus("amqp://me:secret@127.0.0.1:1/")
    assert "secret" not in str(refused.value)
