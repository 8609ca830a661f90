"""The overview: what needs a person, the pipeline, documents and sources; and the page of workers and breakers."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, Response

from onward.app import App
from onward.console.charts import bar_segments, breaker_timeline, pipeline_chart
from onward.console.page_templates import fragment, outage_banner, outage_html, page
from onward.console.pages.services import chart_html, read_chart
from onward.console.request_context import Onward
from onward.console.timed_cache import TimedCache
from onward.model.documents import Status
from onward.model.ledger_views import WorkerClaims
from onward.ops.queries.documents import UNLISTED
from onward.ops.queries.ingestion_report import COLLECTIONS
from onward.ops.queries.needs import Need
from onward.ops.queries.services import EXAMPLES, breaker_facts, worker_facts
from onward.ops.queries.status import Overdue, SystemStatus, overdue, read_status
from onward.ops.queries.titles import find_titles
from onward.ops.text.format import one_line, short_name
from onward.ops.text.models import upgrade_sentence
from onward.ops.text.needs import need_command, need_link, need_sentence, outbox_sentences
from onward.pipeline.documents import source_id
from onward.recovery.retry_decision import RetryJobRules
from onward.retry.redact import redact

router = APIRouter(include_in_schema=False)

OVERDUE_SECONDS = 10.0  # the number of overdue documents is counted again after this time
QUIET_SECONDS = 30.0  # a worker that has not reported for this long is shown as quiet
LISTED_OPENINGS = 20
SHOWN_SOURCES = 8
FEW_SOURCES = 100  # of at most this many, each is checked for pending documents; of more, only what workers run


@router.get("/")
def show(request: Request, app: Onward) -> Response:
    values = _values(request.app)
    status: SystemStatus = values["status"]
    chart = read_chart(app, request.query_params.get("range", ""))
    return page(
        request,
        "overview.html",
        part=fragment("overview_part.html", **values),
        chart=chart,
        history=chart_html(chart),
        empty=not status.documents,
        takes_sources="ingestion" in app.registry.services,
        workers=len(status.workers),
        worker=status.worker,
    )


def part(web: FastAPI, which: str) -> str:
    return fragment("overview_part.html", **_values(web))


def count_overdue(web: FastAPI, status: SystemStatus) -> Overdue:
    """Count what is overdue; the last count is returned for `OVERDUE_SECONDS` while nothing else has changed."""
    app: App = web.state.onward
    cache: TimedCache[Overdue] = web.state.overdue
    key = (status.documents, len(status.set_aside))
    return cache.get(key, lambda: overdue(app.store, RetryJobRules.of(app.settings, app.store.subscriptions())))


def _values(web: FastAPI) -> dict[str, Any]:
    app: App = web.state.onward
    sources = app.store.sources()
    chosen = _sources(app, sources)
    status = read_status(app, chosen, count_overdue=partial(count_overdue, web))
    # In the order of the pipeline; what describes no content has no bar.
    names = [name for name in (*COLLECTIONS, "summaries") if name in status.documents]
    names += sorted(status.documents.keys() - set(names) - set(UNLISTED))
    return {
        "status": status,
        "needs": [(_need_html(need), need_command(need), need_link(need)) for need in status.needs],
        "outbox": outbox_sentences(status.outbox),
        "upgrade": upgrade_sentence(status.upgrade) if status.upgrade and status.upgrade.missing else "",
        "chart": pipeline_chart(status, app.store.subscriptions()),
        "bars": {name: bar_segments(status.documents[name]) for name in names},
        "sources": [
            (source_id(source), short_name(source), facts)
            for source, facts in zip(chosen, status.sources, strict=True)
        ],
        "other_sources": len(sources) - len(chosen),
    }


def _need_html(need: Need) -> Markup:
    """Return a need as text; the times of an outage are elements, which stay the same while it lasts."""
    if need.outage is not None:
        return outage_html(need.outage)
    return escape(one_line(need_sentence(need), 500))


def _sources(app: App, every: list[str]) -> list[str]:
    """Return the sources that are shown: running ones first, and of many only some."""
    keys = [key for one in app.store.claims_by_worker(examples=SHOWN_SOURCES) for key in one.examples]
    running = dict.fromkeys(state.source for state in app.store.states_of(keys) if state.source)
    for source in sorted(every) if len(every) <= FEW_SOURCES else ():
        if any(counts.get(Status.PENDING) for counts in app.store.document_counts(source).values()):
            running[source] = None
    return [*running, *(one for one in sorted(every) if one not in running)][:SHOWN_SOURCES]


@router.get("/outages")
def show_outages(request: Request) -> Response:
    """Return what every page says about outages, for pages that are open for long."""
    return HTMLResponse(outage_banner(request.app), headers={"cache-control": "no-store"})


# -- workers, services without workers, and dependencies that are down


@router.get("/workers")
def show_workers(request: Request) -> Response:
    return page(request, "workers.html", part=workers_part(request.app, ""))


def workers_part(web: FastAPI, which: str) -> str:
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
        titles=find_titles(app, [key for many in held.values() for one in many for key in one.examples]),
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
