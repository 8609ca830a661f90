"""The overview: what needs a person first, then how everything flows."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from onward.app import App
from onward.console.asking import Onward
from onward.console.bars import stack
from onward.console.flow import draw, say
from onward.console.late import late
from onward.console.pulse import STEP, Pulse
from onward.console.rendering import fragment, page
from onward.console.sources import short
from onward.facts.accounting import COLLECTIONS
from onward.facts.listing import source_key
from onward.facts.standing import Standing, look
from onward.model.documents import FINAL, Status

router = APIRouter()

SHOWN_SOURCES = 8
FEW_SOURCES = 100
"""Of so many it is looked up which are not finished; of more, only what workers hold says it."""
_FINISHED = FINAL - {Status.DISCARDED}


class Place(NamedTuple):
    """A page where something can be put right."""

    path: str
    title: str


_PLACES = (
    ("onward breakers", Place("/workers", "Workers and breakers")),
    ("onward worker", Place("/workers", "Workers")),
    ("onward retry-job", Place("/workers", "Workers")),
    ("onward failures", Place("/failures", "Failures")),
    ("onward failed", Place("/queues", "Failed queues")),
    ("onward batches", Place("/batches", "Failed batches")),
)
_DOCUMENTS = "onward documents list --status "


def place_of(command: str) -> Place:
    """The page that does what a command does."""
    if command.startswith(_DOCUMENTS):
        return Place("/documents?" + urlencode({"status": command.removeprefix(_DOCUMENTS)}), "These documents")
    places = (place for prefix, place in _PLACES if command.startswith(prefix))
    return next(places, Place("/documents", "Documents"))


@router.get("/")
def show(request: Request, app: Onward) -> Response:
    """How everything stands."""
    shown = _look(request.app)
    standing: Standing = shown["standing"]
    takes = "ingestion" in app.registry.services
    return page(
        request,
        "overview.html",
        part=fragment("overview_part.html", **shown),
        empty=not standing.documents,
        takes_sources=takes,
        workers=len(standing.workers),
        worker=standing.worker,
    )


def part(web: FastAPI, which: str) -> str:
    """The same, for who watches it."""
    return fragment("overview_part.html", **_look(web))


def _look(web: FastAPI) -> dict[str, Any]:
    app: App = web.state.onward
    every = app.store.sources()
    chosen = _sources(app, every)
    standing = look(app, chosen, late=partial(late, web))
    return {
        "standing": standing,
        "needs": [(one, place_of(one.command)) for one in standing.needs],
        "flow": draw(standing, app.store.subscriptions()),
        "say": say,
        "bars": {name: stack(standing.documents[name]) for name in _collections(standing)},
        "sources": [
            (source_key(one), short(one), told) for one, told in zip(chosen, standing.sources, strict=True)
        ],
        "other_sources": len(every) - len(chosen),
        "rates": _rates(web.state.pulse, standing, app.store.now()),
        "step": STEP,
    }


def _sources(app: App, every: list[str]) -> list[str]:
    """The sources that are shown: those that run first, and of many not all."""
    keys = [key for one in app.store.held(examples=SHOWN_SOURCES) for key in one.examples]
    running = dict.fromkeys(one.source for one in app.store.states_of(keys) if one.source)
    for source in sorted(every) if len(every) <= FEW_SOURCES else ():
        if any(counts.get(Status.PENDING) for counts in app.store.document_counts(source).values()):
            running[source] = None
    return [*running, *(one for one in sorted(every) if one not in running)][:SHOWN_SOURCES]


def _collections(standing: Standing) -> list[str]:
    """Collections in the order in which documents go through them; what keeps only the books comes to no bar."""
    names = [name for name in (*COLLECTIONS, "summaries") if name in standing.documents]
    return names + sorted(standing.documents.keys() - set(names) - {"tasks", "reports"})


def _rates(pulse: Pulse, standing: Standing, now: float) -> list[float]:
    finished = standing.count(*_FINISHED)
    pulse.note(finished, now)
    return pulse.rates(now)
