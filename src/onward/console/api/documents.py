"""Documents: lists, status, retry, cancel, forget; and tasks, each one ingestion of a source."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse

from onward.app import App
from onward.console.api import schemas
from onward.console.api.openapi import changes, problems, reads
from onward.console.live import event_stream
from onward.console.operations import API, carry_out
from onward.console.problems import Problem
from onward.console.request_context import Onward, Running
from onward.model.documents import DocumentKey, DocumentState, Status
from onward.ops.actions.action import ActionProgress
from onward.ops.actions.document_retries import RetryDocuments
from onward.ops.actions.documents import DiscardDocuments
from onward.ops.actions.sources import CancelSource, ForgetSource, RetrySource
from onward.ops.bad_input import NotFound
from onward.ops.lookup import PAGE
from onward.ops.lookup import pages as pages_of
from onward.ops.queries.document_details import (
    DONE,
    EMBEDDED,
    FAILED,
    STATE_SCHEMAS,
    DocumentProgress,
    ProgressReader,
    body_facts,
    body_of,
    next_facts,
    next_step_of,
    stands_for_source,
    state_facts,
)
from onward.ops.queries.documents import find_by_title, source_named
from onward.ops.queries.titles import find_titles
from onward.ops.text.format import iso, one_line, printable, source_name, utc_time

router = APIRouter(prefix="/v3/documents", tags=["Documents"])
tasks_router = APIRouter(prefix="/v3/tasks", tags=["Tasks"])

PART = "v3-status"  # the live part that streams of a document's status come from
LOOKED_THROUGH = 1_000  # documents that are read for one page
_STORED = {DONE: (Status.PROCESSED,), FAILED: (Status.FAILED, Status.FAILED_MAX_RETRIES, Status.DISCARDED)}
_PREFERRED = ("archives", "messages", "threads", "chunks", "summaries")  # a thread and its summary share an id
After = Annotated[str, Query(max_length=600, description="`next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=100, description="How many at most.")]
FromSource = Annotated[
    str | None,
    Query(min_length=1, max_length=2_100, description="Its location, the end of it, or its document's id."),
]
Author = Query(min_length=1, max_length=500, description="Part of a name or address.")
Date = Annotated[datetime | None, Query(description="A date or time in ISO 8601; UTC, unless it says otherwise.")]
Facts = dict[str, Any]


def find_document(app: App, given: str) -> DocumentState:
    """Return the document with this id, or with this COLLECTION/ID; never look into the file system."""
    id = printable(given)
    if "\0" not in id:
        names = sorted(app.store.document_counts())
        names.sort(key=lambda name: _PREFERRED.index(name) if name in _PREFERRED else len(_PREFERRED))
        found = app.store.states_of([(name, id) for name in names])
        collection, slash, rest = id.partition("/")
        if not found and slash:
            found = app.store.states_of([(collection, rest)])
        if found:
            return found[0]
    raise NotFound(f"there is no document {one_line(id, 100)!r}; GET /v3/documents lists them")


def find_source(app: App, given: str | None) -> str | None:
    """Return the source with this location or id, or the only one whose location ends so."""
    return None if given is None else source_named(app, printable(given))


def _bodies(app: App, ids: list[str]) -> dict[str, Facts]:
    return {id: json.loads(text) for id, _, text in app.store.read_bodies("tasks", ids)}


def _status(state: DocumentState, now: DocumentProgress) -> Facts:
    return {
        "id": state.id,
        "collection": state.collection,
        "status": now.status,
        "tries": now.tries,
        "rounds": now.rounds,
        "attemptsMade": now.attempts_made,
        "next_retry": iso(now.next_retry),
        "failedReason": now.error or None,
        "processing_metadata": {
            "error": now.error or None,
            "failed_documents": now.failed,
            "set_aside": now.set_aside,
        },
    }


def _brief(state: DocumentState, now: DocumentProgress) -> Facts:
    facts = state_facts(state)
    shown = {name: facts[name] for name in (*STATE_SCHEMAS, EMBEDDED) if name in facts}
    return shown | _status(state, now) | {"source": source_name(state.source) if state.source else None}


@reads(router, "", "List documents", schemas.Documents, 404, 422)
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
    title: Annotated[
        str | None, Query(min_length=1, max_length=500, description="Words of its subject, or of its path.")
    ] = None,
) -> Facts:
    """Submitted documents, or with `collection` those that came from them, in an order that never changes.

    With `title`, all that are found by it: messages, threads and archives, or those of `collection`.
    Go on with `after` as long as `next` is not null: with `status`, a page may hold fewer than there are left.
    """
    wanted = find_source(app, source)
    if title is not None:
        pages = _titled(app, title, collection, wanted, after)
    elif collection is None:
        pages = _submitted(app, wanted, after, limit)
    else:
        pages = _of_collection(app, collection, wanted, after, limit, status)
    looking = ProgressReader(app)
    found: list[Facts] = []
    shown: list[DocumentKey] = []
    last = after
    for looked_at, (cursor, state) in enumerate(pages):
        if len(found) == limit or looked_at >= LOOKED_THROUGH:
            return {"documents": _with_titles(app, found, shown), "next": last}
        last = cursor
        if state is not None and status in (None, (now := looking.of(state)).status):
            found.append(_brief(state, now))
            shown.append((state.collection, state.id))
    return {"documents": _with_titles(app, found, shown), "next": None}


def _with_titles(app: App, found: list[Facts], keys: list[DocumentKey]) -> list[Facts]:
    titles = find_titles(app, keys)
    return [facts | {"title": titles.get(key)} for key, facts in zip(keys, found, strict=True)]


def _titled(
    app: App, title: str, collection: str | None, source: str | None, after: str
) -> Iterator[tuple[str, DocumentState | None]]:
    found = {f"{name}/{id}": (name, id) for name, id in find_by_title(app, title, collection)}
    cursors = sorted(cursor for cursor in found if cursor > after)
    for page in pages_of(cursors, PAGE):
        states = {(one.collection, one.id): one for one in app.store.states_of([found[one] for one in page])}
        for cursor in page:
            state = states.get(found[cursor])
            yield cursor, state if state is not None and source in (None, state.source) else None


def _submitted(app: App, source: str | None, after: str, limit: int) -> Iterator[tuple[str, DocumentState | None]]:
    """Yield the document of each source, in the order of the first tasks of the sources: each has exactly one."""
    while states := app.store.states("tasks", source=source, after=after, limit=max(50, limit)):
        after = states[-1].id
        first = {
            id: task["source_id"]
            for id, task in _bodies(app, [state.id for state in states]).items()
            if task.get("submission") == 1 and isinstance(task.get("source_id"), str)
        }
        requests = {state.id: state for state in app.store.states_of([("archives", id) for id in first.values()])}
        for one in states:
            if one.id in first:
                yield one.id, requests.get(first[one.id])


def _of_collection(
    app: App, collection: str, source: str | None, after: str, limit: int, status: str | None
) -> Iterator[tuple[str, DocumentState | None]]:
    if "\0" in after or "\0" in collection:
        return
    # A search for a status that no document has would read all documents; the counts are known.
    known = app.store.document_counts(source).get(collection, {})
    wanted = [one for one in _STORED.get(status or "", (Status.PENDING,)) if known.get(one)]
    stored: list[str | None] = [None] if status is None else [*wanted]
    while True:
        found: list[DocumentState] = []
        for one in stored:
            found += app.store.states(collection, status=one, source=source, after=after, limit=limit + 1)
        page = sorted(found, key=lambda state: state.id)[: limit + 1]
        if not page:
            return
        after = page[-1].id
        for state in page:
            yield state.id, state


@reads(router, "/{id:path}/status", "Get the status of a document", schemas.DocumentStatus, 404)
def get_status(app: Onward, id: str) -> Facts:
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
    refused = ("Too many open streams", "Ask for its status now and then, or come back later.")
    return event_stream(request, f"{PART}/{state.collection}/{state.id}", refused, _status_events)


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


@reads(router, "/{id:path}", "Get a document", schemas.Document, 404)
def get_document(app: Onward, id: str) -> Facts:
    """Get a submitted document with all that came from it; or any other one, by its id or as COLLECTION/ID."""
    state = find_document(app, id)
    now = ProgressReader(app).of(state)
    try:
        content = body_facts(state.collection, body_of(app, state.collection, state.id))
    except ValueError:
        raise NotFound(f"{state.collection}/{state.id} is gone") from None
    if isinstance(content.get("source"), str):
        content["source"] = source_name(content["source"])  # it may carry a password
    return _brief(state, now) | {
        "documents": now.documents,
        "parent": state.parent,
        "revision": state.revision,
        "next": next_facts(next_step_of(app, state), utc_time),
        "content": content,
    }


@changes(router, "/{id:path}/retry", "Try a document again")
def retry(app: Onward, operations: Running, id: str, asked: schemas.RetryOptions | None = None) -> JSONResponse:
    """Try it again now, and with a source all that failed of it. What waits for its next try is hurried."""
    state, reset = find_document(app, id), asked is not None and asked.reset
    one = RetryDocuments(keys=((state.collection, state.id),), reset=reset)
    action = RetrySource(state.id, reset=reset) if stands_for_source(state) else one
    return carry_out(app, operations, action, needs_something=True)


@changes(router, "/{id:path}/cancel", "Cancel a document")
def cancel(app: Onward, operations: Running, id: str) -> JSONResponse:
    """Give up what is not finished of it; what is finished stays. Retrying it undoes this."""
    state = find_document(app, id)
    one = DiscardDocuments(keys=((state.collection, state.id),))
    action = CancelSource(state.id) if stands_for_source(state) else one
    return carry_out(app, operations, action, needs_something=True)


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
        came = f"{state.collection}/{state.id} came from {source_name(state.source or 'another program')}."
        raise Problem(409, "Only a source can be forgotten", f"{came} Cancel it, or forget its source.")
    action = ForgetSource(state.source)
    plan = action.plan(app)
    if dry_run:
        return JSONResponse({"id": state.id, **plan.facts, "dry_run": True})
    if plan.slow:
        return carry_out(app, operations, action)
    action.run(app, ActionProgress(), API)
    return Response(status_code=204)


# -- tasks


@reads(tasks_router, "", "List tasks", schemas.Tasks, 404, 422)
def list_tasks(app: Onward, after: After = "", limit: Limit = 50, source: FromSource = None) -> Facts:
    """List every ingestion of every source, in an order that never changes; go on while `next` is given."""
    if "\0" in after:
        return {"tasks": [], "next": None}
    states = app.store.states("tasks", source=find_source(app, source), after=printable(after), limit=limit + 1)
    page = states[:limit]
    bodies = _bodies(app, [one.id for one in page])
    tasks = [_task(app, bodies[one.id]) for one in page if "source_id" in bodies.get(one.id, {})]
    return {"tasks": tasks, "next": page[-1].id if len(states) > limit else None}


@reads(tasks_router, "/{id}", "See how a task goes", schemas.TaskProgress, 404)
def get_task(app: Onward, id: str) -> Facts:
    """Get its progress, and the counts of items and messages by result."""
    from onward.ops.queries.ingestion_report import read_ingestion_report
    from onward.pipeline.sources import source_status

    body = _bodies(app, [printable(id)]).get(printable(id), {}) if "\0" not in id else {}
    if "source_id" not in body:
        raise NotFound(f"there is no task {one_line(id, 60)!r}; GET /v3/tasks lists them")
    report = read_ingestion_report(app, body["source"], {}).as_dict()
    status = source_status(app, body["source"])
    total = sum(sum(counts.values()) for counts in status.documents.values())
    counted = (
        *("items", "messages", "attachments", "without_text", "damaged", "passed_over", "ignored"),
        *("waiting", "failures"),
    )
    return _task(app, body) | {
        **{name: getattr(status, name) for name in ("documents", "pending", "failed", "set_aside")},
        **{name: report[name] for name in counted},
        "done": total - status.pending - status.set_aside,
        "total": total,
    }


def _task(app: App, body: Facts) -> Facts:
    from onward.pipeline.documents import Archive
    from onward.pipeline.sources import source_status

    request = app.get(Archive, body["source_id"])
    return {
        "id": body["id"],
        "document_id": body["source_id"],
        "source": source_name(body["source"]),
        "submission": body["submission"],
        "current": request is not None and request.submission == body["submission"],
        "submitted_at": iso(body["submitted_at"]),
        "status": source_status(app, body["source"]).status,
    }
