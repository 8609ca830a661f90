"""The page of sources: their last result and their next run, and the form that watches one."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from onward.app import App
from onward.console.page_templates import fragment, page
from onward.console.request_context import Onward
from onward.ops.lookup import worker_command
from onward.ops.queries.sources import settings_text, source_facts
from onward.ops.text.format import interval, short_name
from onward.pipeline.dates import read_time
from onward.runtime.process_identity import alive_workers

router = APIRouter(include_in_schema=False)


@router.get("/sources")
def show(request: Request, app: Onward) -> Response:
    """Show all sources, and the form that watches another one."""
    return page(
        request,
        "sources.html",
        part=_list(app),
        takes_sources="ingestion" in app.registry.services,
        alive=alive_workers(app.store),
        worker=worker_command(app.store),
    )


def part(web: FastAPI, which: str) -> str:
    return _list(web.state.onward)


def _list(app: App) -> str:
    return fragment("sources_part.html", rows=[_row(one) for one in source_facts(app)])


def _row(one: dict[str, Any]) -> dict[str, Any]:
    key = urlencode({"source": one["id"]})
    actions = [("Run now", f"/confirm/ingest-again?{key}")]
    if one["watched"]:
        change = "resume" if one["paused"] else "pause"
        actions.append((change.capitalize(), f"/confirm/{change}-source?{key}"))
        actions.append(("Remove", f"/confirm/remove-source?{key}"))
    counts = [(one["counts"][name], name) for name in ("new", "failed", "removed") if one["counts"].get(name)]
    times = {name: None if one[name] is None else read_time(one[name]) for name in ("next_run", "last_run")}
    every = "" if one["every_seconds"] is None else interval(one["every_seconds"])
    name = short_name(one["source"])
    more = {"name": name, "every": every, "settings": settings_text(one), "actions": actions, "counted": counts}
    return one | times | more
