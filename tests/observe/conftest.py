"""A Pushgateway that tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import need_server
from tests.observe.servers import PushgatewayServer
from tests.support.servers.__main__ import missing_monitoring


@pytest.fixture(scope="session")
def needs_monitoring() -> None:
    """For tests that run Prometheus, Pushgateway, Alertmanager or their tools."""
    need_server("; ".join(missing_monitoring()))


@pytest.fixture(scope="session")
def shared_pushgateway(needs_monitoring: None) -> Iterator[PushgatewayServer]:
    """A Pushgateway for this test process."""
    with PushgatewayServer() as server:
        yield server


@pytest.fixture
def pushgateway_server(shared_pushgateway: PushgatewayServer) -> PushgatewayServer:
    """A Pushgateway to which nothing was pushed yet."""
    shared_pushgateway.start()
    shared_pushgateway.wipe()
    return shared_pushgateway
