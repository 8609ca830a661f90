"""Wires that are closed at the end of a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onward.backends.rabbitmq import RabbitWire
from onward.ports.wire import Queue
from tests.rabbitmq.stage import READING, Opener


@pytest.fixture
def opened(rabbit_url: str) -> Iterator[Opener]:
    """Opens wires: `wire = opened(rabbit_url)`, for the service `reading` unless told otherwise."""
    wires: list[RabbitWire] = []

    def open_wire(url: str, *queues: Queue) -> RabbitWire:
        wires.append(RabbitWire(url, name="a test"))
        wires[-1].open(queues or (READING,))
        return wires[-1]

    yield open_wire
    for wire in wires:
        wire.close()
