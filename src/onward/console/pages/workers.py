"""The page of workers and breakers: live workers, services without workers, and dependencies that are down."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from onward.app import App
from onward.console.action_forms import WORKERS_PATH
from onward.console.charts import breaker_timeline
from onward.console.page_templates import document_path, fragment, page
from onward.console.request_context import Onward
from onward.model.ledger_views import WorkerClaims
from onward.ops.queries.workers import EXAMPLES, breaker_facts, worker_facts
from onward.retry.redact import redact

router = APIRouter()

QUIET_SECONDS = 30.0
"""A worker that has not reported for this long is shown as quiet."""
LISTED_OPENINGS = 20


@router.get(WORKERS_PATH)
def show(request: Request, app: Onward) -> Response:
    """Show workers and breakers."""
    return page(request, "workers.html", part=_part(app))


def part(web: FastAPI, which: str) -> str:
    """Render the live part of the page."""
    return _part(web.state.onward)


def _part(app: App) -> str:
    facts, breakers, openings = worker_facts(app), breaker_facts(app), app.store.openings()
    now = app.store.now()
    held: dict[str, list[WorkerClaims]] = {}
    for of_service in app.store.claims_by_worker(examples=EXAMPLES):
        held.setdefault(of_service.worker, []).append(of_service)
    newest = max(app.store.versions(), key=lambda version: version[1], default=("", 0.0, 0.0))[0]
    return fragment(
        "workers_part.html",
        facts=facts,
        workers=[
            worker
            | {
                "doing": _doing(held.get(worker["worker"], [])),
                "quiet": worker["seen_seconds_ago"] > QUIET_SECONDS,
            }
            for worker in facts["workers"]
        ],
        silent=[
            _silent(worker["worker"], claims, now)
            for worker in facts["silent"]
            if (claims := held.get(worker["worker"]))
        ],
        unserved=[
            # As a point in time, which stays the same while it waits.
            service | {"since": app.store.next_due([service["service"]], suspects=True)}
            for service in facts["not_served"]
        ],
        newest=newest,
        breakers=[
            breaker
            | {"where": quote(breaker["dependency"], safe=""), "late": _is_past(breaker["next_probe"], now)}
            for breaker in breakers
        ],
        chart=breaker_timeline(openings, [breaker["dependency"] for breaker in breakers], now),
        openings=[
            opening | {"reason": redact(opening["reason"])} for opening in reversed(openings[-LISTED_OPENINGS:])
        ],
    )


def _is_past(at: str | None, now: float) -> bool:
    return at is not None and datetime.fromisoformat(at).timestamp() <= now


def _silent(worker: str, held: list[WorkerClaims], now: float) -> dict[str, Any]:
    until = max(claims.until for claims in held)
    return {"worker": worker, "doing": _doing(held), "until": until, "late": until <= now}


def _doing(held: list[WorkerClaims]) -> list[dict[str, Any]]:
    return [
        {
            "service": claims.service,
            "events": claims.events,
            "documents": claims.documents,
            "examples": [
                {"name": f"{collection}/{id}", "path": document_path(collection, id)}
                for collection, id in claims.examples
            ],
        }
        for claims in held
    ]
