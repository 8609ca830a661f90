"""The overview: what needs a person, then the pipeline, documents and sources."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from onward.app import App
from onward.console.charts import bar_segments, pipeline_chart
from onward.console.page_templates import fragment, page
from onward.console.request_context import Onward
from onward.console.throughput import STEP_SECONDS, Throughput
from onward.console.timed_cache import TimedCache
from onward.model.documents import FINAL, Status
from onward.ops.queries.documents import source_key
from onward.ops.queries.ingestion_report import COLLECTIONS
from onward.ops.queries.status import Overdue, SystemStatus, overdue, read_status
from onward.ops.text.format import short_name
from onward.recovery.retry_decision import RetryJobRules

router = APIRouter()

SHOWN_SOURCES = 8
FEW_SOURCES = 100
"""Of at most this many sources each is checked for pending documents; of more, only what workers run is known."""
_FINISHED = FINAL - {Status.DISCARDED}


@router.get("/")
def show(request: Request, app: Onward) -> Response:
    """Show the status of everything."""
    values = _values(request.app)
    status: SystemStatus = values["status"]
    return page(
        request,
        "overview.html",
        part=fragment("overview_part.html", **values),
        empty=not status.documents,
        takes_sources="ingestion" in app.registry.services,
        workers=len(status.workers),
        worker=status.worker,
    )


def part(web: FastAPI, which: str) -> str:
    """Render the live part of the page."""
    return fragment("overview_part.html", **_values(web))


def count_overdue(web: FastAPI, status: SystemStatus) -> Overdue:
    """Count what is overdue; the last count is returned for `OVERDUE_SECONDS` while nothing else has changed."""
    app: App = web.state.onward
    cache: TimedCache[Overdue] = web.state.overdue
    key = (status.documents, len(status.set_aside))
    return cache.get(key, lambda: overdue(app.store, RetryJobRules.of(app.settings)))


def _values(web: FastAPI) -> dict[str, Any]:
    app: App = web.state.onward
    sources = app.store.sources()
    chosen = _sources(app, sources)
    status = read_status(app, chosen, count_overdue=partial(count_overdue, web))
    return {
        "status": status,
        "needs": status.needs,
        "chart": pipeline_chart(status, app.store.subscriptions()),
        "bars": {name: bar_segments(status.documents[name]) for name in _collections(status)},
        "sources": [
            (source_key(source), short_name(source), facts)
            for source, facts in zip(chosen, status.sources, strict=True)
        ],
        "other_sources": len(sources) - len(chosen),
        "rates": _rates(web.state.throughput, status, app.store.now()),
        "step": STEP_SECONDS,
    }


def _sources(app: App, every: list[str]) -> list[str]:
    """Return the sources that are shown: running ones first, and of many only some."""
    keys = [key for one in app.store.claims_by_worker(examples=SHOWN_SOURCES) for key in one.examples]
    running = dict.fromkeys(state.source for state in app.store.states_of(keys) if state.source)
    for source in sorted(every) if len(every) <= FEW_SOURCES else ():
        if any(counts.get(Status.PENDING) for counts in app.store.document_counts(source).values()):
            running[source] = None
    return [*running, *(one for one in sorted(every) if one not in running)][:SHOWN_SOURCES]


def _collections(status: SystemStatus) -> list[str]:
    """Return the collections in the order of the pipeline; tasks and reports have no bar."""
    names = [name for name in (*COLLECTIONS, "summaries") if name in status.documents]
    return names + sorted(status.documents.keys() - set(names) - {"tasks", "reports"})


def _rates(throughput: Throughput, status: SystemStatus, now: float) -> list[float]:
    finished = status.count(*_FINISHED)
    throughput.note(finished, now)
    return throughput.rates(now)
