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
from onward.console.api import models
from onward.console.api.describing import problems
from onward.console.problems import Problem
from onward.observe.exposing import CountedHere
from onward.observe.health import Health
from onward.observe.standing import Standing

router = APIRouter(tags=["Monitoring"])

FIRST_LOOK = 2.0
"""Seconds that who asks first waits for the store to answer."""


class Monitoring:
    """What is seen of the store, and of this server; nothing runs before somebody asks."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._looked = threading.Event()
        self._health: Health | None = None
        self._standing: Standing | None = None
        self._registry: CollectorRegistry | None = None

    def stop(self) -> None:
        with self._lock:
            if self._health is not None:
                self._health.stop()
            if self._standing is not None:
                self._standing.stop()

    def health(self) -> Health:
        with self._lock:
            if self._health is None:
                self._health = Health({"store": self._answers})
                self._health.start()
        self._looked.wait(FIRST_LOOK)
        return self._health

    def _answers(self) -> str:
        try:
            self._app.store.subscriptions()
            problem = ""
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if self._health is not None:
            self._health.note("store", problem)  # before who asked first goes on
        self._looked.set()
        return problem

    def registry(self) -> CollectorRegistry | None:
        """What is counted; None: metrics are switched off, or pushed."""
        app = self._app
        if app.settings.metrics_backend != "prometheus":
            return None
        with self._lock:
            if self._registry is None:
                registry = CollectorRegistry()
                registry.register(CountedHere(app.metrics))
                self._standing = Standing(
                    app.store, app.settings.ladder, services=list(app.registry.services), disk=app.settings.home
                )
                self._standing.start()
                registry.register(self._standing)
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
    503: {"model": models.Health, "description": "Something does not answer; `checks` says what"}
}


@router.get("/healthz", summary="Is it alive?", response_model=models.Health)
async def alive() -> dict[str, object]:
    """Answered by the server's main loop itself."""
    return {"status": "ok", "checks": {"loop": "ok"}}


@router.get("/readyz", summary="Can it work?", response_model=models.Health, responses=_SICK)
async def ready(request: Request) -> JSONResponse:
    """Whether the store answers. A store that hangs does not hang whoever asks."""
    health = await run_in_threadpool(_monitoring(request).health)
    health.beat()
    well, checks = health.ready()
    return JSONResponse({"status": "ok" if well else "not ok", "checks": checks}, 200 if well else 503)
