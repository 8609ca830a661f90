"""Submitting documents: a URL, a text or a file; one or many."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Header, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.responses import JSONResponse

from onward.app import App
from onward.console.api.idempotency import StoredResponse, digest, run_once
from onward.console.api.openapi import MULTIPART, problems
from onward.console.api.schemas import MAX_IN_BATCH, Accepted, BatchAnswers, SubmittedText, SubmittedURL
from onward.console.problems import Problem, problem_of
from onward.console.request_context import Onward
from onward.ops.queries.document_progress import QUEUED, ProgressReader
from onward.ops.submissions import (
    Submitted,
    check_takes_sources,
    keep_upload,
    submit_source,
    text_source,
    text_stream,
    upload_source,
    url_source,
)
from onward.ops.text.format import one_line, source_name
from onward.retry import OnwardError

router = APIRouter(prefix="/v3/documents", tags=["Documents"])

MAX_JSON_BYTES = 10_000_000
"""Larger JSON bodies are refused; they are read into memory."""
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        json_schema_extra={"pattern": "^[!-~]{1,255}$"},
        description="A text of your own, new for every request: the same request again gets the same answer, for "
        "24 hours. With another body it is refused.",
    ),
]
_TAKEN = "send application/json with a url or a content, or a file as multipart/form-data"


@router.post(
    "",
    summary="Submit a document",
    status_code=202,
    response_model=Accepted,
    responses={
        200: {"model": Accepted, "description": "It is known already"},
        **problems(400, 409, 413, 415, 422),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "oneOf": [
                            {"$ref": "#/components/schemas/SubmittedURL"},
                            {"$ref": "#/components/schemas/SubmittedText"},
                        ]
                    },
                    "example": {"url": "https://example.org/list.mbox.gz", "type": "url"},
                },
                MULTIPART: {
                    "schema": {
                        "type": "object",
                        "required": ["file"],
                        "properties": {"file": {"type": "string", "format": "binary", "minLength": 1}},
                    }
                },
            },
        }
    },
)
async def submit(request: Request, app: Onward, key: Key = None) -> JSONResponse:
    """Have a URL fetched, or send a text or a file. The answer comes at once; the work is done by workers.

    The same URL, or the same content under the same name, is the same document: it is answered with 200, and
    nothing is done again. A file is kept before this answers.
    """
    if _media_type(request) == MULTIPART:
        async with request.form(max_files=1, max_fields=10) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile):
                raise Problem(
                    422,
                    "This cannot be used",
                    "The form has no file: send one in the field `file`, with a file name.",
                )
            return await run_in_threadpool(_submit_file, app, key, file)
    body = await _read_json(request)
    return await run_in_threadpool(_submit_one, app, key, body)


@router.post(
    "/batch",
    summary="Submit many documents",
    response_model=BatchAnswers,
    responses=problems(400, 409, 413, 415, 422),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": MAX_IN_BATCH,
                        "items": {
                            "description": "As for one document; what makes no sense is refused on its own."
                        },
                    },
                    "example": [{"url": "https://example.org/a.html"}, {"content": "A note.", "title": "note.md"}],
                }
            },
        }
    },
)
async def submit_batch(request: Request, app: Onward, key: Key = None) -> JSONResponse:
    """Submit up to 100 URLs and texts. Each is answered on its own: a bad one does not hold up the others."""
    body = await _read_json(request)
    if not isinstance(body, list) or not 1 <= len(body) <= MAX_IN_BATCH:
        what = f"a list of {len(body)}" if isinstance(body, list) else f"a {type(body).__name__}"
        raise Problem(
            422, "This cannot be used", f"The body is {what}: give a list of 1 to {MAX_IN_BATCH} documents."
        )
    return await run_in_threadpool(_submit_many, app, key, body)


# -- reading the request


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _read_json(request: Request) -> Any:
    media_type = _media_type(request)
    if media_type != "application/json":
        raise Problem(
            415, "This kind of body is not taken", f"Content-Type is {one_line(media_type, 60)!r}: {_TAKEN}."
        )
    read = bytearray()
    async for part in request.stream():
        read += part
        if len(read) > MAX_JSON_BYTES:
            raise Problem(
                413, "Too large", f"JSON of at most {MAX_JSON_BYTES:,} bytes is taken; send more as a file."
            )
    try:
        return json.loads(read.decode())
    except (ValueError, RecursionError) as error:
        raise Problem(422, "This cannot be used", f"The body is no JSON: {one_line(str(error), 100)}.") from None


def _read_one(body: Any) -> SubmittedURL | SubmittedText:
    if not isinstance(body, Mapping):
        raise Problem(
            422, "This cannot be used", f"It is a {type(body).__name__}: give an object with a url or a content."
        )
    kind = body.get("type", "text" if "content" in body else "url")
    try:
        if kind == "text":
            return SubmittedText.model_validate(body)
        if kind == "url":
            return SubmittedURL.model_validate(body)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False, include_context=False)) from None
    raise Problem(
        422, "This cannot be used", f"type is {one_line(repr(kind), 60)}: give url or text, or send a file."
    )


def _store_source(app: App, submitted: SubmittedURL | SubmittedText) -> str:
    """Return the source; a text is stored first."""
    check_takes_sources(app)
    if isinstance(submitted, SubmittedURL):
        return url_source(submitted.url)
    return text_source(app, submitted.content, submitted.title)


# -- submitting


def _submit_file(app: App, key: str | None, file: UploadFile) -> JSONResponse:
    source = upload_source(app, file.filename or "", file.file)
    response = run_once(app, "documents", key, digest(source), lambda: _put(app, source))
    keep_upload(app, source, file.file)
    return _respond(response)


def _submit_one(app: App, key: str | None, body: Any) -> JSONResponse:
    submitted = _read_one(body)
    source = _store_source(app, submitted)
    response = run_once(app, "documents", key, digest(body), lambda: _put(app, source))
    _keep(app, source, submitted)
    return _respond(response)


def _keep(app: App, source: str, submitted: SubmittedURL | SubmittedText) -> None:
    if isinstance(submitted, SubmittedText):
        keep_upload(app, source, text_stream(submitted.content))


def _put(app: App, source: str) -> StoredResponse:
    submitted = submit_source(app, source)
    return StoredResponse(202 if submitted.new else 200, _response_body(app, submitted))


def _response_body(app: App, submitted: Submitted) -> dict[str, Any]:
    status = QUEUED
    if not submitted.new and (state := app.state("archives", submitted.id)) is not None:
        status = ProgressReader(app).of(state).status
    return {
        "id": submitted.id,
        "status": status,
        "source": source_name(submitted.source),
        "duplicate": not submitted.new,
    }


def _respond(response: StoredResponse) -> JSONResponse:
    headers = {"location": f"/v3/documents/{quote(response.body['id'])}"}
    return JSONResponse(response.body, response.status, _replay_header(response) | headers)


def _replay_header(response: StoredResponse) -> dict[str, str]:
    return {"idempotency-replayed": "true"} if response.replayed else {}


def _submit_many(app: App, key: str | None, body: list[Any]) -> JSONResponse:
    sources = [_source_or_problem(app, item) for item in body]

    def submit_all() -> StoredResponse:
        results: list[dict[str, Any]] = []
        for index, source in enumerate(sources):
            if isinstance(source, Problem):
                result = {"status_code": source.status, "problem": source.as_dict()}
            else:
                response = _put(app, source)
                result = {"status_code": response.status, "document": response.body}
            results.append({"index": index, "document": None, "problem": None} | result)
        count = [result["status_code"] for result in results].count
        accepted, duplicates = count(202), count(200)
        refused = len(results) - accepted - duplicates
        totals = {"accepted": accepted, "duplicates": duplicates, "refused": refused}
        return StoredResponse(200, totals | {"results": results})

    response = run_once(app, "batch", key, digest(body), submit_all)
    for item, source in zip(body, sources, strict=True):
        if isinstance(source, str):
            _keep(app, source, _read_one(item))
    return JSONResponse(response.body, response.status, _replay_header(response))


def _source_or_problem(app: App, body: Any) -> str | Problem:
    """Return the source of one item, or its problem. Conflicts and store errors are raised for the whole batch."""
    try:
        return _store_source(app, _read_one(body))
    except (OnwardError, RequestValidationError, Problem) as error:
        problem = problem_of(error)
        if problem.status >= 500 or problem.status == 409:
            raise
        return problem
