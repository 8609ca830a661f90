"""Fleets on a PostgreSQL and a RabbitMQ of one's own, and wires that nobody helps out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from onward.runtime import relay, wiring
from onward.torture.servers import RabbitServer
from tests.wire.stage import NEVER, Broker, Fleet


@pytest.fixture
def fleet(postgres_store_url: str, rabbit_url: str) -> Iterator[Fleet]:
    fleet = Fleet(postgres_store_url, rabbit_url)
    yield fleet
    fleet.close()


@pytest.fixture
def broker(rabbit_server: RabbitServer, rabbit_url: str) -> Broker:
    return Broker(rabbit_server, rabbit_url)


@pytest.fixture
def only_by_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks in the ledger, nothing is announced twice: what is done was told by a message."""
    monkeypatch.setattr(wiring, "LOOK_EVERY", NEVER)
    monkeypatch.setattr(relay, "LOST_AFTER", NEVER)


@pytest.fixture
def soon_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks in the ledger, and a message that is lost is soon missed."""
    monkeypatch.setattr(wiring, "LOOK_EVERY", NEVER)
    monkeypatch.setattr(relay, "LOST_AFTER", 0.5)
    monkeypatch.setattr(relay, "CHECK_EVERY", 0.1)


@pytest.fixture
def short_of_memory(rabbit_server: RabbitServer) -> Iterator[Callable[[bool], None]]:
    """Makes the broker believe that it has too little memory, or enough."""

    def set_alarm(on: bool) -> None:
        mark = "0.0000001" if on else "0.9"
        rabbit_server.evaluate(f"vm_memory_monitor:set_vm_memory_high_watermark({mark})")

    yield set_alarm
    set_alarm(False)
