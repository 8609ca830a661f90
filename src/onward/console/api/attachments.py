"""Attachments of a mail: the list with their states, and their bytes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.responses import Response

from onward.console.api import search_schemas
from onward.console.api.openapi import problems, reads
from onward.console.request_context import Onward
from onward.ops.bad_input import NotFound
from onward.ops.queries.attachments import attachment_bytes, attachments_of, download_headers
from onward.ops.text.format import one_line, printable
from onward.pipeline.documents import Message

router = APIRouter(prefix="/v3/messages", tags=["Search"])

OCTETS = "application/octet-stream"
Number = Annotated[int, Path(ge=1, le=1_000_000, description="Its number in the list.")]


@reads(router, "/{id}/attachments", "List the attachments of a mail", search_schemas.Attachments, 404)
def list_attachments(app: Onward, id: str) -> dict[str, Any]:
    """List them in the order of the mail: which of them search finds, and why it does not find the others."""
    id = printable(id).replace("\0", " ")
    message = app.get(Message, id)
    if message is None:
        raise NotFound(f"there is no message {one_line(id, 100)!r}; GET /v3/search finds them")
    found = attachments_of(app, [message]).get(message.id, [])
    return {"id": message.id, "attachments": [one.as_dict() for one in found]}


@router.get(
    "/{id}/attachments/{number}",
    summary="Download an attachment",
    response_class=Response,
    responses={
        200: {
            "description": "Its bytes, to be saved under its name.",
            "content": {OCTETS: {"schema": {"type": "string", "format": "binary"}}},
        },
        **problems(404, 422),
    },
)
def download(app: Onward, id: str, number: Number) -> Response:
    """Get the bytes of an attachment, whatever it is. A browser saves them and never shows them."""
    name, data = attachment_bytes(app, printable(id).replace("\0", " "), number)
    return Response(data, media_type=OCTETS, headers=download_headers(name))
