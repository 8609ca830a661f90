"""Metrics and health, on the same port as everything else."""

from __future__ import annotations

import threading
from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from onward.app import App
from onward.console.api import schemas
from onward.console.api.openapi import problems
from onward.console.problems import Problem
from onward.observe.process_health import Health
from onward.observe.prometheus import ProcessCollector
from onward.observe.store_metrics import StoreCollector

router = APIRouter(tags=["Monitoring"])

FIRST_CHECK_SECONDS = 2.0
"""The first request waits at most this long for the store to respond."""


class Monitoring:
    """Health and metrics of the store and of this server; started at the first request."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._looked = threading.Event()
        self._health: Health | None = None
        self._collector: StoreCollector | None = None
        self._registry: CollectorRegistry | None = None

    def stop(self) -> None:
        with self._lock:
            if self._health is not None:
                self._health.stop()
            if self._collector is not None:
                self._collector.stop()

    def health(self) -> Health:
        with self._lock:
            if self._health is None:
                self._health = Health({"store": self._answers})
                self._health.start()
        self._looked.wait(FIRST_CHECK_SECONDS)
        return self._health

    def _answers(self) -> str:
        try:
            self._app.store.subscriptions()
            problem = ""
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if self._health is not None:
            self._health.note("store", problem)  # before the first request continues
        self._looked.set()
        return problem

    def registry(self) -> CollectorRegistry | None:
        """Return the metrics; None if they are switched off or pushed."""
        app = self._app
        if app.settings.metrics_backend != "prometheus":
            return None
        with self._lock:
            if self._registry is None:
                registry = CollectorRegistry()
                registry.register(ProcessCollector(app.metrics))
                self._collector = StoreCollector(
                    app.store, app.settings.ladder, services=list(app.registry.services), disk=app.settings.home
                )
                self._collector.start()
                registry.register(self._collector)
                self._registry = registry
            return self._registry


def _monitoring(request: Request) -> Monitoring:
    monitoring: Monitoring = request.app.state.monitoring
    return monitoring


@router.get(
    "/metrics",
    summary="Metrics, for Prometheus",
    response_class=Response,
    responses={
        200: {
            "description": "In the words of Prometheus, or of OpenMetrics if that is asked for",
            "content": {
                "text/plain": {"schema": {"type": "string"}},
                "application/openmetrics-text": {"schema": {"type": "string"}},
            },
        },
        **problems(404),
    },
)
def metrics(request: Request) -> Response:
    """Queues, dead letters, batches, breakers, workers and totals. `METRICS_BACKEND` switches it off."""
    registry = _monitoring(request).registry()
    if registry is None:
        raise Problem(
            404, "There are no metrics here", "They are switched off or pushed: METRICS_BACKEND says so."
        )
    encode, kind = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(registry), media_type=kind)


_SICK: dict[int | str, dict[str, Any]] = {
    503: {"model": schemas.Health, "description": "Something does not answer; `checks` says what"}
}


@router.get("/healthz", summary="Is it alive?", response_model=schemas.Health)
async def alive() -> dict[str, object]:
    """Respond from the server's main loop itself."""
    return {"status": "ok", "checks": {"loop": "ok"}}


@router.get("/readyz", summary="Can it work?", response_model=schemas.Health, responses=_SICK)
async def ready(request: Request) -> JSONResponse:
    """Check that the store responds. A store that hangs does not block this request."""
    health = await run_in_threadpool(_monitoring(request).health)
    health.beat()
    well, checks = health.ready()
    return JSONResponse({"status": "ok" if well else "not ok", "checks": checks}, 200 if well else 503)
