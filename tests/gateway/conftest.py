"""Gateways that are stopped at the end of a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.gateway_broker import Broker, Opener, RecordingGateway, note_left_over_threads
from tests.support.servers import RabbitServer


@pytest.fixture(autouse=True)
def threads_of_this_test() -> None:
    note_left_over_threads()


@pytest.fixture
def opened(rabbit_url: str) -> Iterator[Opener]:
    """Starts gateways: `gateway = opened(rabbit_url)`, for one routing key unless others are given."""
    gateways: list[RecordingGateway] = []

    def start_gateway(url: str, *routing_keys: str) -> RecordingGateway:
        gateways.append(RecordingGateway(url, *routing_keys))
        gateways[-1].start()
        return gateways[-1]

    yield start_gateway
    for gateway in gateways:
        gateway.stop()


@pytest.fixture
def broker(rabbit_server: RabbitServer, rabbit_url: str) -> Broker:
    return Broker(rabbit_server, rabbit_url)
