"""Metrics and health, on the same port as everything else."""

from __future__ import annotations

import threading

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from onward.app import App
from onward.console.api import schemas
from onward.console.api.openapi import problems, reads
from onward.console.problems import Problem
from onward.observe.process_observer import Health
from onward.observe.prometheus import ProcessCollector, StoreCollector

router = APIRouter(tags=["Monitoring"])

_METRICS_TYPES = ("text/plain", "application/openmetrics-text")
FIRST_CHECK_SECONDS = 2.0  # the first request waits at most this long for the store to respond


class Monitoring:
    """Health and metrics of the store and of this server; started at the first request."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._looked = threading.Event()
        self._health: Health | None = None
        self._collector: StoreCollector | None = None
        self._registry = CollectorRegistry()

    def stop(self) -> None:
        with self._lock:
            for started in (self._health, self._collector):
                if started is not None:
                    started.stop()

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
            if self._collector is None:
                self._collector = StoreCollector(
                    app.store, app.settings.ladder, services=list(app.registry.services), disk=app.settings.home
                )
                self._collector.start()
                self._registry.register(ProcessCollector(app.metrics))
                self._registry.register(self._collector)
        return self._registry


@router.get(
    "/metrics",
    summary="Metrics, for Prometheus",
    response_class=Response,
    responses={
        200: {
            "description": "In the words of Prometheus, or of OpenMetrics if that is asked for",
            "content": {name: {"schema": {"type": "string"}} for name in _METRICS_TYPES},
        },
        **problems(404),
    },
)
def metrics(request: Request) -> Response:
    """Queues, dead letters, batches, breakers, workers and totals. `METRICS_BACKEND` switches it off."""
    registry = request.app.state.monitoring.registry()
    if registry is None:
        detail = "They are switched off or pushed: METRICS_BACKEND says so."
        raise Problem(404, "There are no metrics here", detail)
    encode, kind = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(registry), media_type=kind)


@reads(router, "/healthz", "Is it alive?", schemas.Health)
async def alive() -> dict[str, object]:
    """Respond from the server's main loop itself."""
    return {"status": "ok", "checks": {"loop": "ok"}}


@router.get(
    "/readyz",
    summary="Can it work?",
    response_model=schemas.Health,
    responses={503: {"model": schemas.Health, "description": "Something does not answer; `checks` says what"}},
)
async def ready(request: Request) -> JSONResponse:
    """Check that the store responds. A store that hangs does not block this request."""
    health = await run_in_threadpool(request.app.state.monitoring.health)
    health.beat()
    well, checks = health.ready()
    return JSONResponse({"status": "ok" if well else "not ok", "checks": checks}, 200 if well else 503)
