"""Submitting documents: a URL, a text, a file or a folder; one or many.

With an idempotency key, a repeated request gets the stored response, from any server and after a restart.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, BinaryIO, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Header, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.responses import JSONResponse

from onward.app import App
from onward.console.api.openapi import MULTIPART, problems
from onward.console.api.schemas import MAX_IN_BATCH, Accepted, BatchAnswers, SubmittedText, SubmittedURL
from onward.console.api.upload_schemas import SubmittedFolder
from onward.console.operations import CONSOLE
from onward.console.problems import Problem, problem_of
from onward.console.request_context import Onward
from onward.console.sessions import Sessions, cookie_of
from onward.ledger.store_errors import StoreConflict
from onward.model.documents import Document
from onward.ops.bad_input import BadInput
from onward.ops.folder_uploads import FolderFile, store_folder
from onward.ops.queries.document_details import QUEUED, ProgressReader
from onward.ops.submissions import (
    check_takes_sources,
    copier,
    keep_upload,
    submit_source,
    text_source,
    upload_source,
    url_source,
)
from onward.ops.text.format import one_line, source_name
from onward.retry import OnwardError

router = APIRouter(prefix="/v3/documents", tags=["Documents"])

MAX_JSON_BYTES = 10_000_000  # JSON bodies are read into memory
KEPT_SECONDS = 86_400.0
SWEPT_AT_ONCE = 200
Answer = tuple[int, dict[str, Any]]  # the status and the body of a response
_KEY = re.compile(r"[!-~]{1,255}")
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        json_schema_extra={"pattern": "^[!-~]{1,255}$"},
        description="A text of your own, new for every request: the same request again gets the same answer, for "
        "24 hours. With another body it is refused.",
    ),
]


FILE_BODY = {
    MULTIPART: {
        "schema": {
            "type": "object",
            "required": ["file"],
            "properties": {"file": {"type": "string", "format": "binary", "minLength": 1}},
        }
    }
}


def _body(content: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": content}}


@router.post(
    "",
    summary="Submit a document",
    status_code=202,
    response_model=Accepted,
    responses={
        200: {"model": Accepted, "description": "It is known already"},
        **problems(400, 409, 413, 415, 422),
    },
    openapi_extra=_body(
        {
            "application/json": {
                "schema": {
                    "oneOf": [
                        {"$ref": f"#/components/schemas/Submitted{kind}"} for kind in ("URL", "Text", "Folder")
                    ]
                },
                "example": {"url": "https://example.org/list.mbox.gz", "type": "url"},
            },
            **FILE_BODY,
        }
    ),
)
async def submit(request: Request, app: Onward, key: Key = None) -> JSONResponse:
    """Have a URL fetched, or send a text, a file or a folder. The answer comes at once; workers do the work.

    The same URL, or the same content under the same name, is the same document: it is answered with 200, and
    nothing is done again. A file is kept before this answers. The files of a folder are sent to `POST /v3/uploads`
    before.
    """
    if media_type(request) == MULTIPART:
        async with sent_file(request) as file:
            response = await run_in_threadpool(_submit_file, app, key, file)
    else:
        body = await _read_json(request)
        response = await run_in_threadpool(_submit_one, app, key, body)
    sessions: Sessions = request.app.state.sessions
    replayed = "idempotency-replayed" in response.headers
    if (
        response.status_code == 202 and not replayed and sessions.is_valid(cookie_of(request))
    ):  # a person, on a page of the console
        source = json.loads(bytes(response.body))["source"]
        await run_in_threadpool(CONSOLE.log, app, "ingest", {"source": source}, 1)
    return response


@router.post(
    "/batch",
    summary="Submit many documents",
    response_model=BatchAnswers,
    responses=problems(400, 409, 413, 415, 422),
    openapi_extra=_body(
        {
            "application/json": {
                "schema": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MAX_IN_BATCH,
                    "items": {"description": "As for one document; what makes no sense is refused on its own."},
                },
                "example": [{"url": "https://example.org/a.html"}, {"content": "A note.", "title": "note.md"}],
            }
        }
    ),
)
async def submit_batch(request: Request, app: Onward, key: Key = None) -> JSONResponse:
    """Submit up to 100 URLs and texts. Each is answered on its own: a bad one does not hold up the others."""
    body = await _read_json(request)
    if not isinstance(body, list) or not 1 <= len(body) <= MAX_IN_BATCH:
        what = f"a list of {len(body)}" if isinstance(body, list) else f"a {type(body).__name__}"
        raise BadInput(f"The body is {what}: give a list of 1 to {MAX_IN_BATCH} documents.")
    return await run_in_threadpool(_submit_many, app, key, body)


# -- reading the request


@asynccontextmanager
async def sent_file(request: Request) -> AsyncIterator[UploadFile]:
    async with request.form(max_files=1, max_fields=10) as form:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise BadInput("The form has no file: send one in the field `file`, with a file name.")
        yield file


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _read_json(request: Request) -> Any:
    given = media_type(request)
    if given != "application/json":
        taken = "send application/json with a url or a content, or a file as multipart/form-data"
        detail = f"Content-Type is {one_line(given, 60)!r}: {taken}."
        raise Problem(415, "This kind of body is not taken", detail)
    read = bytearray()
    async for part in request.stream():
        read += part
        if len(read) > MAX_JSON_BYTES:
            detail = f"JSON of at most {MAX_JSON_BYTES:,} bytes is taken; send more as a file."
            raise Problem(413, "Too large", detail)
    try:
        return json.loads(read.decode())
    except (ValueError, RecursionError) as error:
        raise BadInput(f"The body is no JSON: {one_line(str(error), 100)}.") from None


def _read_one(body: Any) -> SubmittedURL | SubmittedText | SubmittedFolder:
    if not isinstance(body, Mapping):
        raise BadInput(f"It is a {type(body).__name__}: give an object with a url or a content.")
    kind = body.get("type", "text" if "content" in body else "url")
    try:
        if kind == "text":
            return SubmittedText.model_validate(body)
        if kind == "url":
            return SubmittedURL.model_validate(body)
        if kind == "folder":
            return SubmittedFolder.model_validate(body)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False, include_context=False)) from None
    raise BadInput(f"type is {one_line(repr(kind), 60)}: give url or text, or folder, or send a file.")


class StoredSource(NamedTuple):
    source: str
    write: Callable[[BinaryIO], None] | None = None  # writes its bytes once more, if it has some


def _store_source(app: App, submitted: SubmittedURL | SubmittedText | SubmittedFolder) -> StoredSource:
    """Return the source; the bytes of a text or a folder are stored first."""
    check_takes_sources(app)
    match submitted:
        case SubmittedURL():
            return StoredSource(url_source(submitted.url))
        case SubmittedText():
            source = text_source(app, submitted.content, submitted.title)
            return StoredSource(source, copier(io.BytesIO(submitted.content.encode())))
        case SubmittedFolder():
            files = [FolderFile(one.path, one.digest) for one in submitted.files]
            return StoredSource(*store_folder(app, submitted.name, files))


# -- idempotency keys


class KnownRequest(Document, collection="idempotency_keys"):
    """A request that was handled: the digest of its body, and its response."""

    body: str
    status: int
    answer: str
    at: float


def _run_once(
    app: App, endpoint: str, key: str | None, body: object, handle: Callable[[], Answer]
) -> JSONResponse:
    """Handle a request in one transaction with its key; respond with the stored answer if the key is known."""
    if key is None:
        return _respond(*app.atomically(handle))
    shown = repr(one_line(key, 60))
    if not _KEY.fullmatch(key):
        raise BadInput(f"Idempotency-Key is {shown}: give up to 255 visible characters, new every time.")
    id = Document.make_id("idempotency", endpoint, key)
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()

    def handle_or_replay() -> JSONResponse:
        now = app.store.now()
        known = app.get(KnownRequest, id)
        if known is not None and now - known.at <= KEPT_SECONDS:
            if known.body != digest:
                detail = f"Idempotency-Key {shown} came with another body before. Give each request its own."
                raise Problem(409, "This key was used for something else", detail)
            return _respond(known.status, json.loads(known.answer), {"idempotency-replayed": "true"})
        # Keys that are too old are removed, some each time.
        name = KnownRequest.collection
        old = app.store.find_states(collection=name, before=now - KEPT_SECONDS, limit=SWEPT_AT_ONCE)
        if expired := {(name, state.id) for state in old} | ({(name, id)} if known is not None else set()):
            app.store.remove_documents(sorted(expired))
        status, answer = handle()
        request = KnownRequest(id=id, body=digest, status=status, answer=json.dumps(answer), at=now)
        if not app.add(request):
            raise StoreConflict("another server has just stored the same key; the request is tried again")
        return _respond(status, answer)

    return app.atomically(handle_or_replay)


def _respond(status: int, answer: dict[str, Any], headers: Mapping[str, str] | None = None) -> JSONResponse:
    location = {"location": f"/v3/documents/{quote(answer['id'])}"} if "id" in answer else {}
    return JSONResponse(answer, status, {**(headers or {}), **location})


# -- submitting


def _submit_file(app: App, key: str | None, file: UploadFile) -> JSONResponse:
    source = upload_source(app, file.filename or "", file.file)
    response = _run_once(app, "documents", key, source, lambda: _put(app, source))
    keep_upload(app, source, copier(file.file))
    return response


def _submit_one(app: App, key: str | None, body: Any) -> JSONResponse:
    stored = _store_source(app, _read_one(body))
    response = _run_once(app, "documents", key, body, lambda: _put(app, stored.source))
    _keep(app, stored)
    return response


def _keep(app: App, stored: StoredSource) -> None:
    if stored.write is not None:
        keep_upload(app, stored.source, stored.write)


def _put(app: App, source: str) -> Answer:
    submitted = submit_source(app, source)
    status = QUEUED
    if not submitted.new and (state := app.state("archives", submitted.id)) is not None:
        status = ProgressReader(app).of(state).status
    facts = {"id": submitted.id, "status": status, "source": source_name(submitted.source)}
    return 202 if submitted.new else 200, facts | {"duplicate": not submitted.new}


def _submit_many(app: App, key: str | None, body: list[Any]) -> JSONResponse:
    found = [_source_or_problem(app, item) for item in body]

    def submit_all() -> Answer:
        results: list[dict[str, Any]] = []
        for index, stored in enumerate(found):
            document, problem = None, None
            if isinstance(stored, Problem):
                status, problem = stored.status, stored.as_dict()
            else:
                status, document = _put(app, stored.source)
            results.append({"index": index, "document": document, "problem": problem, "status_code": status})
        count = [result["status_code"] for result in results].count
        accepted, duplicates = count(202), count(200)
        totals = {"accepted": accepted, "duplicates": duplicates, "refused": len(results) - accepted - duplicates}
        return 200, totals | {"results": results}

    response = _run_once(app, "batch", key, body, submit_all)
    for stored in found:
        if not isinstance(stored, Problem):
            _keep(app, stored)
    return response


def _source_or_problem(app: App, body: Any) -> StoredSource | Problem:
    """Return the source of one item, or its problem. Conflicts and store errors are raised for the whole batch."""
    try:
        return _store_source(app, _read_one(body))
    except (OnwardError, RequestValidationError, Problem) as error:
        problem = problem_of(error)
        if problem.status >= 500 or problem.status == 409:
            raise
        return problem
