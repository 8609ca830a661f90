"""Trouble: the wire comes back by itself, whatever happened to the broker, its queues or the network."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from onward.backends.rabbitmq import RabbitWire
from onward.backends.rabbitmq.topology import INBOX
from onward.ports.wire import Announcement, WireUnavailable
from onward.retry import Exponential
from onward.torture.servers import Proxy, RabbitServer
from tests.rabbitmq.stage import (
    EXCHANGE,
    Opener,
    by_hand,
    eventually,
    heard,
    met,
    publish,
    rows_of,
    wire_threads,
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries again every second at least: a broker takes long enough to start."""
    monkeypatch.setattr("onward.backends.rabbitmq.wire.BACKOFF", Exponential(base=0.2, cap=1, jitter=True))


def announced(wire: RabbitWire, row: int) -> bool:
    """Whether the broker took the announcement."""
    try:
        wire.announce([Announcement("reading", (row,))])
    except WireUnavailable:
        return False
    return True


def works_again(wire: RabbitWire, row: int) -> None:
    """Wait until announcements are taken again, and see that they arrive."""
    eventually(lambda: announced(wire, row), f"announcing works again; trouble: {wire.trouble!r}")
    eventually(lambda: row in rows_of(wire.take("reading", 1)), "the announcement arrives")
    assert wire.trouble == ""


@pytest.mark.parametrize("queue", ("reading", INBOX))
def test_a_queue_that_somebody_deleted_is_declared_and_heard_again(
    opened: Opener, rabbit_url: str, queue: str
) -> None:
    wire = opened(rabbit_url)
    by_hand(rabbit_url, lambda channel: channel.queue_delete(queue))
    eventually(lambda: wire.trouble, "the wire noticed")
    works_again(wire, 1)
    publish(rabbit_url, b"hello", key="pages.found")
    assert [one.raw for one in met(wire, 1)] == [b"hello"]


def test_announcing_to_a_queue_that_nobody_hears_makes_it_again(opened: Opener, rabbit_url: str) -> None:
    wire = opened(rabbit_url)
    by_hand(rabbit_url, lambda channel: channel.queue_delete("reading"))
    works_again(wire, 1)


def test_an_exchange_that_somebody_deleted_is_declared_again(
    opened: Opener, rabbit_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The broker tells nobody that it is gone: it is looked for now and then.
    monkeypatch.setattr("onward.backends.rabbitmq.session.CHECK_SECONDS", 0.1)
    wire = opened(rabbit_url)
    by_hand(rabbit_url, lambda channel: channel.exchange_delete(EXCHANGE))

    def published() -> bool:
        try:
            publish(rabbit_url, b"hello", key="pages.found")
        except Exception:
            return False
        return True

    eventually(published, "the exchange is back, and bound")
    assert [one.raw for one in met(wire, 1)] == [b"hello"]


def test_a_killed_broker_loses_nothing_that_was_confirmed(
    opened: Opener, rabbit_url: str, rabbit_server: RabbitServer
) -> None:
    wire = opened(rabbit_url)
    wire.announce([Announcement("reading", (row,)) for row in range(5)])
    held = heard(wire, "reading", 5)
    rabbit_server.kill()
    eventually(lambda: wire.trouble, "the wire noticed")
    with pytest.raises(WireUnavailable, match="RabbitMQ"):
        wire.announce([Announcement("reading", (5,))])
    with pytest.raises(WireUnavailable, match="RabbitMQ"):
        wire.ready()
    wire.done([one.tag for one in held])  # of a connection that is gone
    rabbit_server.start()
    assert set(rows_of(heard(wire, "reading", 5))) == set(range(5))
    works_again(wire, 6)


def test_a_broker_that_is_stopped_and_started_while_in_use(
    opened: Opener, rabbit_url: str, rabbit_server: RabbitServer
) -> None:
    wire = opened(rabbit_url)
    confirmed: set[int] = set()
    over = threading.Event()

    def keep_announcing() -> None:
        row = 0
        while not over.is_set():
            row += 1
            if announced(wire, row):
                confirmed.add(row)

    announcing = threading.Thread(target=keep_announcing)
    announcing.start()
    came: set[int] = set()

    def work(until: Callable[[], bool]) -> Callable[[], bool]:
        def some() -> bool:
            taken = wire.take("reading", 10)
            came.update(rows_of(taken))
            wire.done([one.tag for one in taken])
            return until()

        return some

    eventually(work(lambda: len(came) > 20), "some work before")
    rabbit_server.stop()
    rabbit_server.start()
    before = len(confirmed)
    eventually(work(lambda: len(confirmed) > before + 20), "some work after")
    over.set()
    announcing.join()
    eventually(work(lambda: confirmed <= came), "everything that was confirmed")
    assert confirmed <= came


def test_a_cut_network_is_noticed_and_healed(
    opened: Opener, rabbit_url: str, rabbit_server: RabbitServer, network: Callable[[int], Proxy]
) -> None:
    proxy = network(rabbit_server.port)
    url = rabbit_url.replace(f":{rabbit_server.port}/", f":{proxy.port}/")
    wire = opened(f"{url}?heartbeat=1")
    wire.announce([Announcement("reading", (1,))])
    heard(wire, "reading", 1)
    proxy.cut()
    assert not announced(wire, 2)
    eventually(lambda: wire.trouble, "the wire noticed")
    proxy.heal()
    works_again(wire, 3)


def test_a_network_that_refuses_is_tried_again(
    opened: Opener, rabbit_url: str, rabbit_server: RabbitServer, network: Callable[[int], Proxy]
) -> None:
    proxy = network(rabbit_server.port)
    wire = opened(rabbit_url.replace(f":{rabbit_server.port}/", f":{proxy.port}/"))
    proxy.refuse()
    eventually(lambda: "nothing listens" in wire.trouble, "the wire was refused")
    proxy.heal()
    works_again(wire, 1)


@pytest.mark.parametrize("how", ("cut", "refuse"))
def test_closing_does_not_wait_for_the_network(
    opened: Opener, rabbit_url: str, rabbit_server: RabbitServer, network: Callable[[int], Proxy], how: str
) -> None:
    proxy = network(rabbit_server.port)
    url = rabbit_url.replace(f":{rabbit_server.port}/", f":{proxy.port}/")
    wire = opened(f"{url}?heartbeat=1")
    getattr(proxy, how)()
    eventually(lambda: wire.trouble, "the wire noticed")
    wire.close()
    assert wire_threads() == []


def test_closing_ends_an_announcement_that_waits(
    opened: Opener, rabbit_url: str, rabbit_server: RabbitServer, network: Callable[[int], Proxy]
) -> None:
    proxy = network(rabbit_server.port)
    wire = opened(rabbit_url.replace(f":{rabbit_server.port}/", f":{proxy.port}/"))
    proxy.cut()
    said: list[bool] = []
    announcing = threading.Thread(target=lambda: said.append(announced(wire, 1)))
    announcing.start()
    wire.close()
    announcing.join()
    assert said == [False]
    assert wire_threads() == []


@pytest.fixture
def short_of_memory(rabbit_server: RabbitServer) -> Iterator[Callable[[bool], None]]:
    """Makes the broker believe that it has too little memory, or enough."""

    def set_alarm(on: bool) -> None:
        mark = "0.0000001" if on else "0.9"
        rabbit_server.evaluate(f"vm_memory_monitor:set_vm_memory_high_watermark({mark})")

    yield set_alarm
    set_alarm(False)


def test_a_blocked_broker_takes_nothing_but_still_delivers(
    opened: Opener, rabbit_url: str, short_of_memory: Callable[[bool], None]
) -> None:
    wire = opened(rabbit_url)
    wire.announce([Announcement("reading", (row,)) for row in range(25)])
    short_of_memory(True)
    with pytest.raises(WireUnavailable, match="blocked and takes no messages: low on memory"):
        eventually(lambda: not announced_at_all(wire, 99), "the broker blocks")
    with pytest.raises(WireUnavailable, match="blocked"):
        wire.announce([Announcement("reading", (99,))])
    assert "blocked" in wire.trouble
    rows: list[int] = []

    def work() -> bool:
        taken = wire.take("reading", 10)
        rows.extend(rows_of(taken))
        wire.done([one.tag for one in taken])
        return set(range(25)) <= set(rows)

    # More than the prefetch: acknowledgements get through as well.
    eventually(work, "what was announced before is delivered")
    short_of_memory(False)
    eventually(lambda: wire.trouble == "", "the broker takes messages again")
    wire.announce([Announcement("reading", (100,))])
    rows.clear()
    eventually(lambda: work() or 100 in rows, "the next one arrives")


def announced_at_all(wire: RabbitWire, row: int) -> bool:
    wire.announce([Announcement("reading", (row,))])
    return True
