"""Documents: lists, status, retry, cancel, forget."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse

from onward.app import App
from onward.console.api import schemas
from onward.console.api.lookup import find_document, find_source
from onward.console.api.openapi import problems
from onward.console.api.operations import API, BACK, CHANGED, carry_out
from onward.console.live import Live, TooManyWatchers
from onward.console.operations import Operation
from onward.console.problems import Problem
from onward.console.request_context import Onward, Running
from onward.model.documents import DocumentState, Status
from onward.ops.actions.documents import DiscardDocuments, RetryDocuments
from onward.ops.actions.sources import CancelSource, ForgetSource, RetrySource
from onward.ops.bad_input import NotFound
from onward.ops.queries.document_details import body_of, next_facts, next_step_of, time_fact
from onward.ops.queries.document_progress import DONE, FAILED, DocumentProgress, ProgressReader, stands_for_source
from onward.ops.text.format import iso, source_name, utc_time

router = APIRouter(prefix="/v3/documents", tags=["Documents"])

PART = "v3-status"
"""The live part that streams of a document's status come from."""
LOOKED_THROUGH = 1_000
"""At most this many documents are read for one page."""
_STORED = {
    DONE: (Status.PROCESSED,),
    FAILED: (Status.FAILED, Status.FAILED_MAX_RETRIES, Status.DISCARDED),
}
After = Annotated[str, Query(max_length=600, description="`next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=100, description="How many at most.")]
FromSource = Annotated[
    str | None,
    Query(min_length=1, max_length=2_100, description="Its location, the end of it, or its document's id."),
]


# -- facts of a document


def _status(state: DocumentState, now: DocumentProgress) -> dict[str, Any]:
    return {
        "id": state.id,
        "collection": state.collection,
        "status": now.status,
        "tries": now.tries,
        "rounds": now.rounds,
        "next_retry": iso(now.next_retry),
        "processing_metadata": {
            "error": now.error or None,
            "failed_documents": now.failed,
            "set_aside": now.set_aside,
        },
    }


def _brief(state: DocumentState, now: DocumentProgress) -> dict[str, Any]:
    return _status(state, now) | {
        "source": source_name(state.source) if state.source else None,
        "created_at": time_fact(state.created_at),
        "updated_at": time_fact(state.updated_at),
    }


# -- lists


@router.get(
    "",
    summary="List documents",
    response_model=schemas.Documents,
    responses=problems(404, 422),
)
def list_documents(
    app: Onward,
    after: After = "",
    limit: Limit = 50,
    status: schemas.Progress | None = None,
    source: FromSource = None,
    collection: Annotated[
        str | None,
        Query(min_length=1, max_length=200, description="Documents of this collection, such as `messages`."),
    ] = None,
) -> dict[str, Any]:
    """Submitted documents, or with `collection` those that came from them, in an order that never changes.

    Go on with `after` as long as `next` is not null: with `status`, a page may hold fewer than there are left.
    """
    wanted = find_source(app, source)
    if collection is None:
        pages = _submitted(app, wanted, after, limit)
    else:
        pages = _of_collection(app, collection, wanted, after, limit, status)
    looking = ProgressReader(app)
    found: list[dict[str, Any]] = []
    last, looked_at = after, 0
    for cursor, state in pages:
        if len(found) == limit or looked_at >= LOOKED_THROUGH:
            return {"documents": found, "next": last}
        last, looked_at = cursor, looked_at + 1
        now = looking.of(state) if state is not None else None
        if state is not None and now is not None and status in (None, now.status):
            found.append(_brief(state, now))
    return {"documents": found, "next": None}


def _submitted(app: App, source: str | None, after: str, limit: int) -> Iterator[tuple[str, DocumentState | None]]:
    """Yield the document of each source, in the order of the first tasks of the sources: each has exactly one."""
    while states := app.store.states("tasks", source=source, after=after, limit=max(50, limit)):
        after = states[-1].id
        bodies = {
            id: json.loads(text) for id, _, text in app.store.read_bodies("tasks", [state.id for state in states])
        }
        first = {id: body["source_id"] for id, body in bodies.items() if _is_first(body)}
        requests = {state.id: state for state in app.store.states_of([("archives", id) for id in first.values()])}
        for one in states:
            if one.id in first:
                yield one.id, requests.get(first[one.id])


def _is_first(task: dict[str, Any]) -> bool:
    """Return whether a task is one of the pipeline, and of the first submission of its source."""
    return task.get("submission") == 1 and isinstance(task.get("source_id"), str)


def _of_collection(
    app: App, collection: str, source: str | None, after: str, limit: int, status: str | None
) -> Iterator[tuple[str, DocumentState | None]]:
    if "\0" in after or "\0" in collection:
        return
    # A search for a status that no document has would read all documents; the counts are known.
    known = app.store.document_counts(source).get(collection, {})
    wanted = [one for one in _STORED.get(status or "", (Status.PENDING,)) if known.get(one)]
    stored: list[str | None] = [None] if status is None else [*wanted]
    size = limit + 1
    while True:
        found: list[DocumentState] = []
        for one in stored:
            found += app.store.states(collection, status=one, source=source, after=after, limit=size)
        page = sorted(found, key=lambda state: state.id)[:size]
        if not page:
            return
        after = page[-1].id
        for state in page:
            yield state.id, state


# -- one document


@router.get(
    "/{id:path}/status",
    summary="See where a document stands",
    response_model=schemas.DocumentStatus,
    responses=problems(404),
)
def get_status(app: Onward, id: str) -> dict[str, Any]:
    """Get its status, how often it was tried, when it is tried again, and why it failed last.

    It is `failed` only when it will not be tried again by itself; until then `queued`, with `next_retry`.
    """
    state = find_document(app, id)
    return _status(state, ProgressReader(app).of(state))


@router.get(
    "/{id:path}/events",
    summary="Follow a document",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events: `status` with the answer of `/status` whenever that changes. "
            "The stream ends when the document is done or failed.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **problems(404, 503),
    },
)
async def follow(request: Request, app: Onward, id: str) -> Response:
    """Server-sent events: one whenever the status has changed, until it is done or failed."""
    state = await run_in_threadpool(find_document, app, id)
    watched: Live = request.app.state.live
    try:
        stream = watched.watch(f"{PART}/{state.collection}/{state.id}")
    except TooManyWatchers:
        raise Problem(
            503,
            "Too many open streams",
            "Ask for its status now and then, or come back later.",
            headers={"retry-after": "30"},
        ) from None
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_status_events(stream), media_type="text/event-stream", headers=headers)


async def _status_events(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the status of a document from its shared live part, until the status is final."""
    async with aclosing(stream) as parts:  # type: ignore[type-var]
        async for part in parts:
            _, found, data = part.decode().partition("\ndata: ")
            if not found:
                yield part  # a comment that keeps the connection open
                continue
            status = json.loads(data)
            yield f"event: status\ndata: {status}\n\n".encode()
            if json.loads(status)["status"] in (DONE, FAILED):
                return


def status_part(web: FastAPI, which: str) -> str:
    """Render a document's status as JSON; a forgotten document has failed."""
    app: App = web.state.onward
    collection, _, id = which.partition("/")
    for state in app.store.states_of([(collection, id)]):
        return json.dumps(_status(state, ProgressReader(app).of(state)))
    gone = DocumentProgress(FAILED, error="it was forgotten")
    return json.dumps(_status(DocumentState(collection, id, Status.DISCARDED), gone))


@router.get(
    "/{id:path}",
    summary="Get a document",
    response_model=schemas.Document,
    responses=problems(404),
)
def get_document(app: Onward, id: str) -> dict[str, Any]:
    """Get a submitted document with all that came from it; or any other one, by its id or as COLLECTION/ID."""
    state = find_document(app, id)
    now = ProgressReader(app).of(state)
    return _brief(state, now) | {
        "documents": now.documents,
        "parent": state.parent,
        "revision": state.revision,
        "next": next_facts(next_step_of(app, state), utc_time),
        "content": _content(app, state),
    }


def _content(app: App, state: DocumentState) -> dict[str, Any]:
    try:
        body = body_of(app, state.collection, state.id)
    except ValueError:
        raise NotFound(f"{state.collection}/{state.id} is gone") from None
    if isinstance(body.get("source"), str):
        body["source"] = source_name(body["source"])  # it may carry a password
    return body


# -- changes


@router.post(
    "/{id:path}/retry",
    summary="Try a document again",
    response_model=schemas.Changed,
    responses={**CHANGED, **problems(404, 409)},
)
def retry(app: Onward, operations: Running, id: str, asked: schemas.RetryOptions | None = None) -> JSONResponse:
    """Try it again now, and with a source all that failed of it. What waits for its next try is hurried."""
    state, asked = find_document(app, id), asked or schemas.RetryOptions()
    if stands_for_source(state):
        return _unless_nothing(carry_out(app, operations, RetrySource(state.id, reset=asked.reset)))
    action = RetryDocuments(keys=((state.collection, state.id),), reset=asked.reset)
    return _unless_nothing(carry_out(app, operations, action))


@router.post(
    "/{id:path}/cancel",
    summary="Cancel a document",
    response_model=schemas.Changed,
    responses={**CHANGED, **problems(404, 409)},
)
def cancel(app: Onward, operations: Running, id: str) -> JSONResponse:
    """Give up what is not finished of it; what is finished stays. Retrying it undoes this."""
    state = find_document(app, id)
    if stands_for_source(state):
        return _unless_nothing(carry_out(app, operations, CancelSource(state.id)))
    action = DiscardDocuments(keys=((state.collection, state.id),))
    return _unless_nothing(carry_out(app, operations, action))


def _unless_nothing(answer: JSONResponse) -> JSONResponse:
    changed = json.loads(bytes(answer.body))
    if not changed["touches"]:
        raise Problem(409, "There is nothing to change", changed["text"])
    return answer


@router.delete(
    "/{id:path}",
    summary="Forget a document",
    status_code=204,
    response_class=Response,
    responses={
        200: {"model": schemas.Forgetting, "description": "What would be removed, with `dry_run`"},
        202: {"model": schemas.Changed, "description": "It has begun; `operation` tells how it goes"},
        204: {"description": "It is removed"},
        **problems(404, 409),
    },
)
def forget(app: Onward, operations: Running, id: str, dry_run: bool = False) -> Response:
    """Remove a source and all that came from it, for ever. With `dry_run`, only say how much that is."""
    state = find_document(app, id)
    if not stands_for_source(state) or state.source is None:
        raise Problem(
            409,
            "Only a source can be forgotten",
            f"{state.collection}/{state.id} came from {source_name(state.source or 'another program')}. "
            "Cancel it, or forget its source.",
        )
    action = ForgetSource(state.source)
    plan = action.plan(app)
    if dry_run:
        return JSONResponse({"id": state.id, **plan.facts, "dry_run": True})
    if plan.slow:
        return carry_out(app, operations, action)
    action.run(app, Operation(plan.title, BACK), API)
    return Response(status_code=204)
