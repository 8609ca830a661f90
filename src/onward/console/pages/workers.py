"""The page of workers and breakers: live workers, services without workers, and dependencies that are down."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from onward.app import App
from onward.console.charts import breaker_timeline
from onward.console.page_templates import fragment, page
from onward.model.ledger_views import WorkerClaims
from onward.ops.queries.workers import EXAMPLES, breaker_facts, worker_facts
from onward.retry.redact import redact

router = APIRouter()

QUIET_SECONDS = 30.0  # a worker that has not reported for this long is shown as quiet
LISTED_OPENINGS = 20


@router.get("/workers")
def show(request: Request) -> Response:
    return page(request, "workers.html", part=part(request.app, ""))


def part(web: FastAPI, which: str) -> str:
    app: App = web.state.onward
    facts, breakers, openings = worker_facts(app), breaker_facts(app), app.store.openings()
    now = app.store.now()
    held: dict[str, list[WorkerClaims]] = {}
    for of_service in app.store.claims_by_worker(examples=EXAMPLES):
        held.setdefault(of_service.worker, []).append(of_service)
    newest = max(app.store.versions(), key=lambda version: version[1], default=("", 0.0, 0.0))[0]
    silent = {one["worker"]: held[one["worker"]] for one in facts["silent"] if one["worker"] in held}
    return fragment(
        "workers_part.html",
        facts=facts,
        held=held,
        quiet_seconds=QUIET_SECONDS,
        silent=[(worker, claims, max(one.until for one in claims)) for worker, claims in silent.items()],
        now=now,
        # As a point in time, which stays the same while it waits.
        since={one["service"]: app.store.next_due([one["service"]], suspects=True) for one in facts["not_served"]},
        newest=newest,
        breakers=[(one, _is_past(one["next_probe"], now)) for one in breakers],
        chart=breaker_timeline(openings, [one["dependency"] for one in breakers], now),
        openings=[one | {"reason": redact(one["reason"])} for one in reversed(openings[-LISTED_OPENINGS:])],
    )


def _is_past(at: str | None, now: float) -> bool:
    return at is not None and datetime.fromisoformat(at).timestamp() <= now
