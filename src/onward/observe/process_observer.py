"""Publishes metrics and health of a process and its store."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self

from onward.app import App
from onward.observe.monitoring_server import AddressUnavailable, MonitoringServer, Page, text_page
from onward.observe.process_health import Check, Health
from onward.settings import MissingExtra, Settings

if TYPE_CHECKING:
    from onward.ledger.store import Store
    from onward.observe.pushgateway import PushgatewayClient
    from onward.observe.store_metrics import StoreCollector

log = logging.getLogger("onward")

NO_METRICS = "there are no metrics: prometheus-client is not installed; run: pip install 'onward[metrics]'"


class ProcessObserver:
    """Runs beside the work; its problems are logged and stop nothing."""

    def __init__(
        self,
        app: App,
        *,
        store: Store | None = None,
        checks: Mapping[str, Check] | None = None,
        exposes: bool = True,
    ) -> None:
        """`checks` are health checks beside that of the store. With `exposes`, metrics and health are served."""
        settings = app.settings
        store = store or app.store
        self.metrics = app.metrics
        self.health = Health({"store": partial(_check_store, store), **(checks or {})})
        self._collector: StoreCollector | None = None
        self._pushgateway: PushgatewayClient | None = None
        metrics_page = text_page(404, "metrics are switched off (METRICS_BACKEND)")
        if settings.metrics_backend != "noop":
            if _has_prometheus(settings):
                metrics_page = self._open_metrics(app, store, metrics_page)
            else:
                metrics_page = text_page(404, NO_METRICS)
        self.server: MonitoringServer | None = None
        if exposes and settings.metrics_address != "off":
            try:
                self.server = MonitoringServer(settings.metrics_address, metrics_page, self.health)
            except AddressUnavailable as error:
                log.error("%s", error)

    def _open_metrics(self, app: App, store: Store, no_metrics: Page) -> Page:
        from prometheus_client import CollectorRegistry

        from onward.observe.prometheus import ProcessCollector, render
        from onward.observe.pushgateway import PushgatewayClient
        from onward.observe.store_metrics import StoreCollector

        settings = app.settings
        self._collector = StoreCollector(
            store, settings.ladder, services=list(app.registry.services), disk=_disk(settings)
        )
        if settings.metrics_backend == "prometheus_pushgateway" and settings.pushgateway_url:
            self._pushgateway = PushgatewayClient(
                store, app.metrics, self._collector, settings.pushgateway_url, instance=settings.metrics_instance
            )
            return no_metrics
        registry = CollectorRegistry()
        registry.register(ProcessCollector(app.metrics))
        registry.register(self._collector)
        return partial(render, registry)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        if self._collector is not None:
            self._collector.start()
        if self.server is not None:
            self.health.start()
            self.server.start()
            log.log(
                logging.WARNING if self.server.moved else logging.INFO,
                "metrics and health at %s%s",
                self.server.url,
                f" ({self.server.moved} is in use)" if self.server.moved else "",
            )
        if self._pushgateway is not None:
            self._pushgateway.start()

    def stop(self) -> None:
        self.health.stop()
        if self.server is not None:
            self.server.stop()
        if self._pushgateway is not None:
            self._pushgateway.stop()
        if self._collector is not None:
            self._collector.stop()


def _has_prometheus(settings: Settings) -> bool:
    """Return whether prometheus-client is installed; raise if it is not, though the settings ask for it."""
    if find_spec("prometheus_client") is not None:
        return True
    if "metrics_backend" in settings.model_fields_set:
        raise MissingExtra(f"METRICS_BACKEND={settings.metrics_backend}", "prometheus_client", "metrics")
    return False


def _check_store(store: Store) -> str:
    store.subscriptions()
    return ""


def _disk(settings: Settings) -> Path:
    """Return the folder of the store's file, or the data folder; the nearest one that exists."""
    scheme, _, rest = settings.store.partition("://")
    file = scheme == "sqlite" and ":memory:" not in rest
    folder = Path(rest.removeprefix("/")).parent.absolute() if file else settings.home.absolute()
    return next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
