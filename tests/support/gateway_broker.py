"""Shared by the gateway's tests: gateways that record messages, a broker that can be inspected, and waiting."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakSet

import aiormq
from pamqp.commands import Basic

from onward.backend_urls import open_store
from onward.gateway import Gateway
from onward.gateway.inbox import INBOX
from onward.gateway.outbox import EXCHANGE
from onward.ledger.store import Store
from onward.runtime.publisher import ForeignMessage
from tests.support.servers import RabbitServer

KEY = "pages.found"
SECONDS = 60.0

T = TypeVar("T")


class RecordingGateway(Gateway):
    """A gateway that enters messages into a list, with an empty outbox."""

    def __init__(self, url: str, *routing_keys: str, store: Store | None = None) -> None:
        store = store or open_store("sqlite://:memory:")
        super().__init__(url, store, self._record, routing_keys or (KEY,), name="a test")
        self.store = store
        self.entered: list[ForeignMessage] = []
        self.failing = False

    def _record(self, messages: Sequence[ForeignMessage]) -> None:
        if self.failing:
            raise ConnectionError("the store is away")
        self.entered += messages

    def wait_for(self, *bodies: bytes) -> None:
        """Wait until these messages, and no others, have arrived."""
        eventually(
            lambda: len(self.entered) >= len(bodies),
            f"{len(bodies)} messages; found {self.entered}; trouble: {self.trouble!r}",
        )
        assert [message.raw for message in self.entered] == list(bodies)


Opener = Callable[..., RecordingGateway]


class Broker:
    """A virtual host, inspected on the server."""

    def __init__(self, server: RabbitServer, url: str) -> None:
        self._server = server
        self._vhost = urlsplit(url).path.removeprefix("/")
        self.url = url

    def unacknowledged(self) -> int:
        """Count the messages of the inbox, delivered or not, that nobody has acknowledged; -1: no queue."""
        return int(
            self._server.evaluate(
                f'case rabbit_amqqueue:lookup(rabbit_misc:r(<<"{self._vhost}">>, queue, <<"{INBOX}">>)) of '
                "{ok, Q} -> case ra:local_query(amqqueue:get_pid(Q), fun rabbit_fifo:query_messages_total/1) of "
                "{ok, {_, N}, _} -> N; _ -> -1 end; _ -> -1 end"
            )
        )

    def wait_until_acknowledged(self) -> None:
        eventually(lambda: self.unacknowledged() == 0, "every message of the inbox is acknowledged")


def eventually(ask: Callable[[], T], what: str, seconds: float = SECONDS) -> T:
    """Ask until the result is true; fail after a time that no slow machine needs."""
    ends = time.monotonic() + seconds
    while not (result := ask()):
        assert time.monotonic() < ends, f"waited in vain: {what}"
        time.sleep(0.01)
    return result


def by_hand(url: str, act: Callable[[aiormq.Channel], Awaitable[T]]) -> T:
    """Do something on the broker over a separate connection."""

    async def run() -> T:
        connection = await aiormq.connect(url)
        try:
            channel = await connection.channel()
            assert isinstance(channel, aiormq.Channel)
            return await act(channel)
        finally:
            await connection.close()

    return asyncio.run(run())


def publish(url: str, body: bytes, *, key: str = KEY, exchange: str = EXCHANGE, **properties: Any) -> None:
    """Publish as another program does."""
    by_hand(
        url,
        lambda channel: channel.basic_publish(
            body, exchange=exchange, routing_key=key, properties=Basic.Properties(**properties), mandatory=True
        ),
    )


def waiting_in_inbox(url: str) -> int:
    """Count the messages of the inbox that are delivered to nobody."""
    found = by_hand(url, lambda channel: channel.queue_declare(INBOX, passive=True))
    return found.message_count or 0


_left_over = WeakSet[threading.Thread]()


def note_left_over_threads() -> None:
    """Note the threads of other tests: on a busy machine, one may still be closing its connection."""
    _left_over.update(gateway_threads())


def gateway_threads() -> list[threading.Thread]:
    """Return the threads of gateways that were started since the test began."""
    found = (thread for thread in threading.enumerate() if thread.name == "onward-gateway")
    return [thread for thread in found if thread not in _left_over]
