"""Documents: listing them, where they stand, and what can be done about them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse

from onward.app import App
from onward.console.acting import CHANGES
from onward.console.api import models
from onward.console.api.acting import CHANGED, WHO, carry_out
from onward.console.api.describing import problems
from onward.console.api.finding import find_document, find_source
from onward.console.asking import Onward, Running
from onward.console.live import Live, TooMany
from onward.console.operations import Operation
from onward.console.problems import Problem
from onward.facts.finding import NotFound
from onward.facts.life import body_of, next_facts, outlook_of, time_fact
from onward.facts.processing import DONE, FAILED, Looking, Processing, stands_for_source
from onward.facts.wording import iso, source_name
from onward.model.documents import DocumentState, Status
from onward.recovery.phrasing import in_utc

router = APIRouter(prefix="/v3/documents", tags=["Documents"])

PART = "v3-status"
"""The live part that streams of a document's status come from."""
LOOKED_THROUGH = 1_000
"""So many documents are looked at for one page."""
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


# -- what is told of one


def _status(state: DocumentState, now: Processing) -> dict[str, Any]:
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


def _brief(state: DocumentState, now: Processing) -> dict[str, Any]:
    return _status(state, now) | {
        "source": source_name(state.source) if state.source else None,
        "created_at": time_fact(state.created_at),
        "updated_at": time_fact(state.updated_at),
    }


# -- lists


@router.get(
    "",
    summary="List documents",
    response_model=models.Documents,
    responses=problems(404, 422),
)
def list_documents(
    app: Onward,
    after: After = "",
    limit: Limit = 50,
    status: models.Progress | None = None,
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
    looking = Looking(app)
    found: list[dict[str, Any]] = []
    last, looked_at = after, 0
    for cursor, state in pages:
        if len(found) == limit or looked_at >= LOOKED_THROUGH:
            return {"documents": found, "next": last}
        last, looked_at = cursor, looked_at + 1
        now = looking.at(state) if state is not None else None
        if state is not None and now is not None and status in (None, now.status):
            found.append(_brief(state, now))
    return {"documents": found, "next": None}


def _submitted(app: App, source: str | None, after: str, limit: int) -> Iterator[tuple[str, DocumentState | None]]:
    """What stands for each source, in the order of the first tasks of the sources: each has exactly one."""
    while states := app.store.states("tasks", source=source, after=after, limit=max(50, limit)):
        after = states[-1].id
        bodies = {
            id: json.loads(text) for id, _, text in app.store.read_bodies("tasks", [one.id for one in states])
        }
        first = {id: body["source_id"] for id, body in bodies.items() if _is_first(body)}
        requests = {one.id: one for one in app.store.states_of([("archives", id) for id in first.values()])}
        for one in states:
            if one.id in first:
                yield one.id, requests.get(first[one.id])


def _is_first(task: dict[str, Any]) -> bool:
    """Whether it is the pipeline's, and of the first submission."""
    return task.get("submission") == 1 and isinstance(task.get("source_id"), str)


def _of_collection(
    app: App, collection: str, source: str | None, after: str, limit: int, status: str | None
) -> Iterator[tuple[str, DocumentState | None]]:
    if "\0" in after or "\0" in collection:
        return
    # Looking for what is not there goes through all that is; how many there are of each is known.
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


# -- one of them


@router.get(
    "/{id:path}/status",
    summary="See where a document stands",
    response_model=models.DocumentStatus,
    responses=problems(404),
)
def get_status(app: Onward, id: str) -> dict[str, Any]:
    """Its status, how often it was tried, when it is tried again, and why it failed last.

    `failed` is told only when it will not be tried again by itself; until then it is `queued`, with `next_retry`.
    """
    state = find_document(app, id)
    return _status(state, Looking(app).at(state))


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
    except TooMany:
        raise Problem(
            503,
            "Too many watch",
            "Ask for its status now and then, or come back later.",
            headers={"retry-after": "30"},
        ) from None
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_told(stream), media_type="text/event-stream", headers=headers)


async def _told(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A document's status from the live part that all who follow it share; ends when that is final."""
    async with aclosing(stream) as parts:  # type: ignore[type-var]
        async for part in parts:
            _, found, data = part.decode().partition("\ndata: ")
            if not found:
                yield part  # it only shows that it is there
                continue
            told = json.loads(data)
            yield f"event: status\ndata: {told}\n\n".encode()
            if json.loads(told)["status"] in (DONE, FAILED):
                return


def status_part(web: FastAPI, which: str) -> str:
    """A document's status as JSON, for who follows it; of one that was forgotten, that it failed."""
    app: App = web.state.onward
    collection, _, id = which.partition("/")
    for state in app.store.states_of([(collection, id)]):
        return json.dumps(_status(state, Looking(app).at(state)))
    gone = Processing(FAILED, error="it was forgotten")
    return json.dumps(_status(DocumentState(collection, id, Status.DISCARDED), gone))


@router.get(
    "/{id:path}",
    summary="Get a document",
    response_model=models.Document,
    responses=problems(404),
)
def get_document(app: Onward, id: str) -> dict[str, Any]:
    """A submitted document with all that came from it; or any other one, by its id or as COLLECTION/ID."""
    state = find_document(app, id)
    now = Looking(app).at(state)
    return _brief(state, now) | {
        "documents": now.documents,
        "parent": state.parent,
        "revision": state.revision,
        "next": next_facts(outlook_of(app, state, in_words=in_utc)),
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


# -- changing them


@router.post(
    "/{id:path}/retry",
    summary="Try a document again",
    response_model=models.Changed,
    responses={**CHANGED, **problems(404, 409)},
)
def retry(app: Onward, operations: Running, id: str, asked: models.Asked | None = None) -> JSONResponse:
    """Try it again now, and with a source all that failed of it. What waits for its next try is hurried."""
    state, asked = find_document(app, id), asked or models.Asked()
    if stands_for_source(state):
        answer = carry_out(app, operations, "retry-submitted", {"id": state.id, "reset": asked.reset})
    else:
        given = {"collection": state.collection, "id": state.id}
        answer = carry_out(app, operations, "reset" if asked.reset else "retry", given)
    return _unless_nothing(answer)


@router.post(
    "/{id:path}/cancel",
    summary="Cancel a document",
    response_model=models.Changed,
    responses={**CHANGED, **problems(404, 409)},
)
def cancel(app: Onward, operations: Running, id: str) -> JSONResponse:
    """Give up what is not finished of it; what is finished stays. Retrying it undoes this."""
    state = find_document(app, id)
    if stands_for_source(state):
        return _unless_nothing(carry_out(app, operations, "cancel-submitted", {"id": state.id}))
    given = {"collection": state.collection, "id": state.id}
    return _unless_nothing(carry_out(app, operations, "discard", given))


def _unless_nothing(answer: JSONResponse) -> JSONResponse:
    told = json.loads(bytes(answer.body))
    if not told["touches"]:
        raise Problem(409, "There is nothing to change", told["text"])
    return answer


@router.delete(
    "/{id:path}",
    summary="Forget a document",
    status_code=204,
    response_class=Response,
    responses={
        200: {"model": models.Forgetting, "description": "What would be removed, with `dry_run`"},
        202: {"model": models.Changed, "description": "It has begun; `operation` tells how it goes"},
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
    change, given = CHANGES["forget"], {"source": state.id}
    plan = change.plan(app, given)
    if dry_run:
        told = {"id": state.id, "source": source_name(state.source), "documents": plan.touches, "dry_run": True}
        return JSONResponse(told)
    if plan.long:
        return carry_out(app, operations, "forget", given)
    change.do(app, given, Operation(plan.title, plan.back), who=WHO, via="api")
    return Response(status_code=204)
