"""Monitoring servers that tests of metrics and alerts share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onward.torture.servers.__main__ import missing_monitoring
from tests.conftest import need_server
from tests.observe.servers import AlertmanagerServer, PrometheusServer, PushgatewayServer


@pytest.fixture(scope="session")
def needs_monitoring() -> None:
    """For tests that run Prometheus, Pushgateway, Alertmanager or their tools."""
    need_server("; ".join(missing_monitoring()))


@pytest.fixture(scope="session")
def prometheus_server(needs_monitoring: None) -> Iterator[PrometheusServer]:
    """A Prometheus for this test process; a test says what it scrapes: `configure({"scrape_configs": …})`."""
    with PrometheusServer() as server:
        yield server


@pytest.fixture(scope="session")
def alertmanager_server(needs_monitoring: None) -> Iterator[AlertmanagerServer]:
    """An Alertmanager for this test process, that tells nobody."""
    with AlertmanagerServer() as server:
        yield server


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
