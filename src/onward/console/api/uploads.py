"""The bytes of a file, sent before the folder that it is in."""

from __future__ import annotations

from typing import BinaryIO

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from onward.app import App
from onward.console.api.openapi import MULTIPART, problems
from onward.console.api.submissions import FILE_BODY, media_type, sent_file
from onward.console.api.upload_schemas import UploadedFile
from onward.console.problems import Problem
from onward.console.request_context import Onward
from onward.ops.submissions import store_upload
from onward.ops.text.format import one_line

router = APIRouter(prefix="/v3", tags=["Documents"])


@router.post(
    "/uploads",
    summary="Send a file of a folder",
    status_code=201,
    response_model=UploadedFile,
    responses=problems(409, 413, 415, 422),
    openapi_extra={"requestBody": {"required": True, "content": FILE_BODY}},
)
async def upload(request: Request, app: Onward) -> UploadedFile:
    """Send the bytes of a file; `POST /v3/documents` with `type: folder` then says where it is in the folder.

    The same bytes are stored once. They are kept for a day, and longer if a folder names them.
    """
    if media_type(request) != MULTIPART:
        detail = f"Content-Type is {one_line(media_type(request), 60)!r}: send a file as {MULTIPART}."
        raise Problem(415, "This kind of body is not taken", detail)
    async with sent_file(request) as file:
        return await run_in_threadpool(_stored, app, file.filename or "", file.file)


def _stored(app: App, name: str, stream: BinaryIO) -> UploadedFile:
    blob = store_upload(app, name, stream)
    return UploadedFile(digest=blob.digest, size=blob.size)
