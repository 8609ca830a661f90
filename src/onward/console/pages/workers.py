"""Workers and breakers: who is alive and doing what, what nobody does, and which dependencies are down."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from onward.app import App
from onward.console.asking import Onward
from onward.console.changes_breakers import BREAKERS
from onward.console.rendering import document_path, fragment, page
from onward.console.timelines import openings_chart
from onward.facts.breakers import breaker_facts
from onward.facts.workers import EXAMPLES, worker_facts
from onward.ports.recovery import Held
from onward.retry.redact import redact

router = APIRouter()

QUIET = 30.0
"""A worker that was not heard of for so many seconds is said to be quiet."""
LISTED_OPENINGS = 20


@router.get(BREAKERS)
def show(request: Request, app: Onward) -> Response:
    """Who works, and what holds work up."""
    return page(request, "workers.html", part=_part(app))


def part(web: FastAPI, which: str) -> str:
    """The same, for who watches it."""
    return _part(web.state.onward)


def _part(app: App) -> str:
    facts, breakers, openings = worker_facts(app), breaker_facts(app), app.store.openings()
    now = app.store.now()
    held: dict[str, list[Held]] = {}
    for one in app.store.held(examples=EXAMPLES):
        held.setdefault(one.worker, []).append(one)
    newest = max(app.store.versions(), key=lambda one: one[1], default=("", 0.0, 0.0))[0]
    return fragment(
        "workers_part.html",
        facts=facts,
        workers=[
            one | {"doing": _doing(held.get(one["worker"], [])), "quiet": one["seen_seconds_ago"] > QUIET}
            for one in facts["workers"]
        ],
        silent=[_silent(one["worker"], some, now) for one in facts["silent"] if (some := held.get(one["worker"]))],
        unserved=[
            # As a point in time, which stays the same while it waits.
            one | {"since": app.store.next_due([one["service"]], suspects=True)}
            for one in facts["not_served"]
        ],
        newest=newest,
        breakers=[
            one | {"where": quote(one["dependency"], safe=""), "late": _is_past(one["next_probe"], now)}
            for one in breakers
        ],
        chart=openings_chart(openings, [one["dependency"] for one in breakers], now),
        openings=[one | {"reason": redact(one["reason"])} for one in reversed(openings[-LISTED_OPENINGS:])],
    )


def _is_past(at: str | None, now: float) -> bool:
    return at is not None and datetime.fromisoformat(at).timestamp() <= now


def _silent(worker: str, held: list[Held], now: float) -> dict[str, Any]:
    until = max(one.until for one in held)
    return {"worker": worker, "doing": _doing(held), "until": until, "late": until <= now}


def _doing(held: list[Held]) -> list[dict[str, Any]]:
    return [
        {
            "service": one.service,
            "events": one.events,
            "documents": one.documents,
            "examples": [
                {"name": f"{collection}/{id}", "path": document_path(collection, id)}
                for collection, id in one.examples
            ],
        }
        for one in held
    ]
