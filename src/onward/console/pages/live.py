"""Streams of the live parts of pages."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from onward.console import pages
from onward.console.live import Live, TooManyWatchers
from onward.console.problems import Problem

router = APIRouter()


@router.get("/live/{name:path}")
async def live(request: Request, name: str) -> Response:
    """Send the part of a page as a server-sent event, whenever it has changed."""
    name += request.query_params.get("id", "")
    if name.partition("/")[0] not in pages.PARTS:
        raise Problem(404, "Not found", "There is no such part of a page.")
    watched: Live = request.app.state.live
    try:
        stream = watched.watch(name)
    except TooManyWatchers:
        raise Problem(
            503, "Too many open live pages", "Close a page, or come back later.", headers={"retry-after": "30"}
        ) from None
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)
