"""What one process lets be seen of itself and of its store: metrics, health, pushes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from prometheus_client import CollectorRegistry

from onward.app import App
from onward.observe.exposing import CannotExpose, CountedHere, Exposition
from onward.observe.health import Check, Health
from onward.observe.pushing import Pushing
from onward.observe.standing import Standing
from onward.ports import Store
from onward.settings import Settings

log = logging.getLogger("onward")


class Observatory:
    """Started beside the work; whatever goes wrong in here is logged, and stops nothing."""

    def __init__(
        self,
        app: App,
        *,
        store: Store | None = None,
        checks: Mapping[str, Check] | None = None,
        exposes: bool = True,
    ) -> None:
        """`checks`: what else must answer beside the store. Without `exposes` it can only push."""
        settings = app.settings
        store = store or app.store
        self.metrics = app.metrics
        self.health = Health({"store": _answers(store), **(checks or {})})
        standing = self._standing = Standing(
            store, settings.ladder, services=list(app.registry.services), disk=_disk(settings)
        )
        self._pushing: Pushing | None = None
        if settings.metrics_backend == "prometheus_pushgateway" and settings.pushgateway_url:
            self._pushing = Pushing(
                store, app.metrics, standing, settings.pushgateway_url, instance=settings.metrics_instance
            )
        self.exposition = self._exposed(settings, standing) if exposes else None

    def _exposed(self, settings: Settings, standing: Standing) -> Exposition | None:
        if settings.metrics_address == "off":
            return None
        registry: CollectorRegistry | None = None
        if settings.metrics_backend == "prometheus":
            registry = CollectorRegistry()
            registry.register(CountedHere(self.metrics))
            registry.register(standing)
        try:
            return Exposition(settings.metrics_address, registry, self.health)
        except CannotExpose as error:
            log.error("%s", error)
            return None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self._standing.start()
        if self.exposition is not None:
            self.health.start()
            self.exposition.start()
            log.log(
                logging.WARNING if self.exposition.moved else logging.INFO,
                "metrics and health at %s%s",
                self.exposition.url,
                f" ({self.exposition.moved} is taken)" if self.exposition.moved else "",
            )
        if self._pushing is not None:
            self._pushing.start()

    def stop(self) -> None:
        self.health.stop()
        if self.exposition is not None:
            self.exposition.stop()
        if self._pushing is not None:
            self._pushing.stop()
        self._standing.stop()


def _answers(store: Store) -> Callable[[], str]:
    def check() -> str:
        store.subscriptions()
        return ""

    return check


def _disk(settings: Settings) -> Path:
    """Where the store's file is, or the data folder; the nearest folder above it that there is."""
    scheme, _, rest = settings.store.partition("://")
    file = scheme == "sqlite" and ":memory:" not in rest
    folder = Path(rest.removeprefix("/")).parent.absolute() if file else settings.home.absolute()
    return next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
