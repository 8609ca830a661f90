"""The gateway connects again by itself, whatever happened to the broker, its queues or the network."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import aiormq
import pytest

from onward.gateway.inbox import INBOX
from onward.gateway.outbox import EXCHANGE
from onward.retry import Exponential
from tests.support.gateway_broker import (
    KEY,
    Broker,
    Opener,
    RecordingGateway,
    by_hand,
    eventually,
    gateway_threads,
    publish,
    waiting_in_inbox,
)
from tests.support.servers import Proxy, RabbitServer


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect again every second at least: a broker takes long enough to start."""
    monkeypatch.setattr("onward.gateway.gateway.BACKOFF", Exponential(base=0.2, cap=1, jitter=True))


def published(url: str, body: bytes) -> bool:
    """Whether the broker routed the message into the inbox."""
    try:
        publish(url, body)
    except Exception:
        return False
    return True


def works_again(gateway: RecordingGateway, url: str, body: bytes = b"hello") -> None:
    """Wait until messages are routed again, and arrive."""
    eventually(lambda: published(url, body), f"the inbox is bound; trouble: {gateway.trouble!r}")
    eventually(lambda: body in [message.raw for message in gateway.entered], f"it arrives: {gateway.trouble!r}")
    eventually(lambda: not gateway.trouble, "both connections are back")


def through(proxy: Proxy, rabbit_url: str, rabbit_server: RabbitServer) -> str:
    return rabbit_url.replace(f":{rabbit_server.port}/", f":{proxy.port}/")


def test_a_queue_that_somebody_deleted_is_declared_and_read_again(opened: Opener, rabbit_url: str) -> None:
    gateway = opened(rabbit_url)
    by_hand(rabbit_url, lambda channel: channel.queue_delete(INBOX))
    works_again(gateway, rabbit_url)


def test_an_exchange_that_somebody_deleted_is_declared_again(
    opened: Opener, rabbit_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The broker does not report that an exchange is gone: it is declared again at intervals.
    monkeypatch.setattr("onward.gateway.gateway.CHECK_SECONDS", 0.1)
    gateway = opened(rabbit_url)
    by_hand(rabbit_url, lambda channel: channel.exchange_delete(EXCHANGE))
    works_again(gateway, rabbit_url)


def test_a_killed_broker_delivers_again_what_was_not_acknowledged(
    opened: Opener, rabbit_url: str, rabbit_server: RabbitServer, broker: Broker
) -> None:
    gateway = opened(rabbit_url)
    gateway.failing = True
    bodies = [f"{number}".encode() for number in range(5)]
    for body in bodies:
        publish(rabbit_url, body)
    eventually(lambda: waiting_in_inbox(rabbit_url) == 0, "all are delivered")
    rabbit_server.settle()
    rabbit_server.kill()
    eventually(lambda: gateway.trouble, "the gateway noticed")
    gateway.failing = False
    rabbit_server.start()
    eventually(lambda: {message.raw for message in gateway.entered} >= set(bodies), "all are stored")
    broker.wait_until_acknowledged()
    works_again(gateway, rabbit_url)


def test_a_broker_that_is_stopped_and_started_while_in_use(
    opened: Opener, rabbit_url: str, rabbit_server: RabbitServer
) -> None:
    gateway = opened(rabbit_url)
    confirmed: set[bytes] = set()
    over = threading.Event()

    def keep_publishing() -> None:
        number = 0
        while not over.is_set():
            number += 1
            if published(rabbit_url, body := f"{number}".encode()):
                confirmed.add(body)

    publishing = threading.Thread(target=keep_publishing)
    publishing.start()
    eventually(lambda: len(gateway.entered) > 20, "some messages before")
    rabbit_server.stop()
    rabbit_server.start()
    before = len(gateway.entered)
    eventually(lambda: len(gateway.entered) > before + 20, "some messages after")
    over.set()
    publishing.join()
    eventually(lambda: confirmed <= {message.raw for message in gateway.entered}, "all that was confirmed")


def test_a_cut_network_is_noticed_and_healed(
    opened: Opener, rabbit_url: str, rabbit_server: RabbitServer, network: Callable[[int], Proxy]
) -> None:
    proxy = network(rabbit_server.port)
    gateway = opened(f"{through(proxy, rabbit_url, rabbit_server)}?heartbeat=1")
    publish(rabbit_url, b"before")
    gateway.wait_for(b"before")
    proxy.cut()
    publish(rabbit_url, b"meanwhile")
    eventually(lambda: gateway.trouble, "the gateway noticed")
    proxy.heal()
    works_again(gateway, rabbit_url)
    # The broker may find out later than the gateway that the old connection is dead, and deliver it again then.
    eventually(lambda: b"meanwhile" in [message.raw for message in gateway.entered], "it is delivered again")


def test_a_network_that_refuses_is_tried_again(
    opened: Opener, rabbit_url: str, rabbit_server: RabbitServer, network: Callable[[int], Proxy]
) -> None:
    proxy = network(rabbit_server.port)
    gateway = opened(through(proxy, rabbit_url, rabbit_server))
    proxy.refuse()
    eventually(lambda: "nothing listens" in gateway.trouble, "the gateway was refused")
    proxy.heal()
    works_again(gateway, rabbit_url)


@pytest.mark.parametrize("how", ("cut", "refuse"))
def test_a_stop_does_not_wait_for_the_network(
    opened: Opener, rabbit_url: str, rabbit_server: RabbitServer, network: Callable[[int], Proxy], how: str
) -> None:
    proxy = network(rabbit_server.port)
    gateway = opened(f"{through(proxy, rabbit_url, rabbit_server)}?heartbeat=1")
    getattr(proxy, how)()
    eventually(lambda: gateway.trouble, "the gateway noticed")
    gateway.stop()
    assert gateway_threads() == []


@pytest.fixture
def short_of_memory(rabbit_server: RabbitServer) -> Iterator[Callable[[bool], None]]:
    """Makes the broker believe that it has too little memory, or enough."""

    def set_alarm(on: bool) -> None:
        mark = "0.0000001" if on else "0.9"
        rabbit_server.evaluate(f"vm_memory_monitor:set_vm_memory_high_watermark({mark})")

    yield set_alarm
    set_alarm(False)


def test_a_blocked_broker_still_delivers_and_is_acknowledged(
    opened: Opener, rabbit_url: str, broker: Broker, short_of_memory: Callable[[bool], None]
) -> None:
    gateway = opened(rabbit_url)
    gateway.failing = True
    bodies = [f"{number}".encode() for number in range(1200)]  # more than the prefetch

    async def send(channel: aiormq.Channel) -> None:
        for body in bodies:
            await channel.basic_publish(body, exchange=EXCHANGE, routing_key=KEY)

    by_hand(rabbit_url, send)
    short_of_memory(True)
    gateway.failing = False
    eventually(lambda: {message.raw for message in gateway.entered} == set(bodies), "all are stored")
    broker.wait_until_acknowledged()
    assert gateway.trouble == ""
