"""Streams of the live parts of pages."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from onward.console import pages
from onward.console.live import Live, TooMany
from onward.console.problems import Problem

router = APIRouter()


@router.get("/live/{name:path}")
async def live(request: Request, name: str) -> Response:
    """Server-sent events: the part of this name, whenever it has changed."""
    name += request.query_params.get("id", "")
    if name.partition("/")[0] not in pages.PARTS:
        raise Problem(404, "Not found", "There is no such part of a page.")
    watched: Live = request.app.state.live
    try:
        stream = watched.watch(name)
    except TooMany:
        raise Problem(
            503, "Too many watch", "Close a page, or come back later.", headers={"retry-after": "30"}
        ) from None
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)
