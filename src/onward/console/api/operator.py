"""Requests of operators: failures, failed queues, failed batches, breakers, workers, status."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse

from onward.app import App
from onward.console.api import schemas
from onward.console.api.documents import Limit
from onward.console.api.openapi import problems
from onward.console.api.operations import CHANGED, carry_out
from onward.console.dead_letter_pages import dead_letter_filter, page_of
from onward.console.pages.overview import count_overdue
from onward.console.request_context import Onward, Running
from onward.model.ledger import FailedBatch
from onward.model.ledger_views import FailureGroup
from onward.ops.actions.dead_letters import RequeueDeadLetters
from onward.ops.actions.failure_groups import (
    DiscardFailedBatches,
    DiscardFailureGroup,
    RetryFailedBatches,
    RetryFailureGroup,
)
from onward.ops.actions.services import CloseBreaker, OpenBreaker
from onward.ops.bad_input import NotFound
from onward.ops.queries.dead_letters import (
    DeadLetterSelection,
    dead_letter_brief,
    dead_letter_facts,
    failed_queue_facts,
    failed_queues,
)
from onward.ops.queries.failure_groups import (
    batch_facts,
    error_text,
    evidence_facts,
    group_facts,
    item_errors,
    list_groups,
)
from onward.ops.queries.status import read_status
from onward.ops.queries.workers import (
    breaker_facts,
    known_dependencies,
    opening_facts,
    service_facts,
    worker_facts,
)
from onward.ops.text.format import one_line
from onward.recovery.diagnosis import diagnose, evidence_of

router = APIRouter(prefix="/v3")

Skip = Annotated[int, Query(ge=0, le=100_000, description="`next` of the page before.")]
Row = Annotated[int, Query(ge=0, lt=2**63, description="`next` of the page before.")]
Facts = dict[str, Any]
MOST_DOCUMENTS = 100
"""At most this many documents of a group are listed; `GET /v3/documents` has all."""
CHANGES = {**CHANGED, **problems(404, 409)}


# -- failures


@router.get("/failures", tags=["Failures"], summary="List failure groups", response_model=schemas.FailureGroups)
def list_failures(
    app: Onward,
    service: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    everything: Annotated[
        bool, Query(alias="all", description="Also those that affect nothing any more.")
    ] = False,
    limit: Limit = 50,
    after: Skip = 0,
) -> Facts:
    """List similar failures with their probable cause; groups that affect most documents come first."""
    if service is not None and "\0" in service:
        return {"failures": [], "total": 0, "hidden": 0, "next": None}
    found = list_groups(app, service=service, everything=everything, limit=limit, offset=after)
    failures = [
        group_facts(evidence, diagnose(evidence)) | {"error": error_text(evidence.group, 500)}
        for evidence in found.page
    ]
    more = after + len(found.page)
    return {
        "failures": failures,
        "total": found.total,
        "hidden": found.hidden,
        "next": more if found.page and more < found.total else None,
    }


def _group(app: App, fingerprint: str) -> FailureGroup:
    found = app.store.failure_group(fingerprint) if "\0" not in fingerprint else None
    if found is None:
        raise NotFound(f"there is no failure group {one_line(fingerprint, 60)!r}; GET /v3/failures lists them")
    return found


@router.get(
    "/failures/{fingerprint}",
    tags=["Failures"],
    summary="Look into a failure group",
    response_model=dict[str, Any],
    responses=problems(404),
)
def get_failure(app: Onward, fingerprint: str) -> Facts:
    """Get the diagnosis, its evidence, and the first documents that are affected now."""
    evidence = evidence_of(app.store, _group(app, fingerprint))
    return group_facts(evidence, diagnose(evidence)) | evidence_facts(app, evidence, most=MOST_DOCUMENTS)


@router.post(
    "/failures/{fingerprint}/retry",
    tags=["Failures"],
    summary="Put a failure group back",
    response_model=schemas.Changed,
    responses=CHANGES,
)
def retry_failure(
    app: Onward, operations: Running, fingerprint: str, asked: schemas.Pace | None = None
) -> JSONResponse:
    """Put back its dead letters and documents: slowly with `rate`, a few first with `canary`."""
    asked = asked or schemas.Pace()
    group = _group(app, fingerprint).fingerprint
    action = RetryFailureGroup(group, canary=asked.canary or 0, rate=asked.rate, quick_plan=True)
    return carry_out(app, operations, action, dry_run=asked.dry_run)


@router.post(
    "/failures/{fingerprint}/discard",
    tags=["Failures"],
    summary="Give a failure group up",
    response_model=schemas.Changed,
    responses=CHANGES,
)
def discard_failure(
    app: Onward, operations: Running, fingerprint: str, asked: schemas.DryRun | None = None
) -> JSONResponse:
    """Give up its documents and archive its dead letters, for good."""
    action = DiscardFailureGroup(_group(app, fingerprint).fingerprint)
    return carry_out(app, operations, action, dry_run=asked is not None and asked.dry_run)


# -- failed queues


@router.get("/failed-queues", tags=["Failed queues"], summary="List failed queues", response_model=schemas.Queues)
def list_queues(app: Onward) -> Facts:
    """List how many dead letters each queue holds, and the most frequent error."""
    return {"queues": failed_queue_facts(app, archived=False)}


def _queue(app: App, name: str) -> list[str]:
    services = failed_queues(app).get(name)
    if services is None:
        known = ", ".join(one_line(queue, 60) for queue in failed_queues(app)) or "none"
        raise NotFound(f"there is no failed queue {one_line(name, 60)!r}; there are: {known}")
    return services


@router.get(
    "/failed-queues/{queue}",
    tags=["Failed queues"],
    summary="Read a failed queue",
    response_model=schemas.DeadLetters,
    responses=problems(404, 422),
)
def read_queue(
    app: Onward,
    queue: str,
    after: Row = 0,
    limit: Limit = 50,
    group: Annotated[str | None, Query(min_length=1, max_length=64)] = None,
    error_type: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    archived: bool = False,
    whole: Annotated[bool, Query(description="Each with its event, its errors and its bytes.")] = False,
) -> Facts:
    """Dead letters, oldest first; go on with `after` while `next` is given."""
    _queue(app, queue)
    every = dead_letter_filter(app, queue, {})
    asked = replace(every, group=_clean(group), error_type=_clean(error_type), archived=archived)
    letters, more = page_of(app, asked, after)
    page = letters[:limit]
    more = more or len(letters) > limit
    return {
        "queue": failed_queue_facts(app, archived=archived, queue=queue)[0],
        "letters": [dead_letter_facts(letter) if whole else dead_letter_brief(letter) for letter in page],
        "next": page[-1].row if page and more else None,
    }


def _clean(given: str | None) -> str | None:
    return None if given is None else given.replace("\0", " ")


@router.post(
    "/failed-queues/{queue}/requeue",
    tags=["Failed queues"],
    summary="Put dead letters back",
    response_model=schemas.Changed,
    responses=CHANGES,
)
def requeue(
    app: Onward, operations: Running, queue: str, asked: schemas.RequeuePace | None = None
) -> JSONResponse:
    """Each original event is tried again, in a new round of its documents. What has recovered is skipped."""
    _queue(app, queue)
    asked = asked or schemas.RequeuePace()
    selection = DeadLetterSelection(queue=queue, group=_clean(asked.group), error_type=_clean(asked.error_type))
    action = RequeueDeadLetters(selection, canary=asked.canary or 0, rate=asked.rate, quick_plan=True)
    return carry_out(app, operations, action, dry_run=asked.dry_run)


# -- failed batches


@router.get("/batches", tags=["Failed batches"], summary="List failed batches", response_model=schemas.Batches)
def list_batches(app: Onward, limit: Limit = 50, after: Skip = 0) -> Facts:
    """List the failed batches, their errors, and when they are retried; the oldest first."""
    found = sorted(app.store.failed_batches(), key=lambda batch: (batch.created_at, batch.id))
    page = found[after : after + limit]
    more = after + len(page)
    batches = [batch_facts(app, batch) for batch in page]
    return {"batches": batches, "total": len(found), "next": more if page and more < len(found) else None}


def _batch(app: App, id: str) -> FailedBatch:
    found = app.store.failed_batch(id) if "\0" not in id else None
    if found is None:
        raise NotFound(f"there is no failed batch {one_line(id, 60)!r}, or no longer; GET /v3/batches lists them")
    return found


@router.get(
    "/batches/{id}",
    tags=["Failed batches"],
    summary="Look into a failed batch",
    response_model=dict[str, Any],
    responses=problems(404),
)
def get_batch(app: Onward, id: str) -> Facts:
    """Get the batch, and the last error of each of its documents."""
    batch = _batch(app, id)
    return batch_facts(app, batch) | {"item_errors": dict(item_errors(app, batch.items))}


@router.post(
    "/batches/{id}/retry",
    tags=["Failed batches"],
    summary="Retry a failed batch now",
    response_model=schemas.Changed,
    responses=CHANGES,
)
def retry_batch(app: Onward, operations: Running, id: str, asked: schemas.DryRun | None = None) -> JSONResponse:
    """Retry it now, whenever it would have been."""
    action = RetryFailedBatches((_batch(app, id).id,))
    return carry_out(app, operations, action, dry_run=asked is not None and asked.dry_run)


@router.post(
    "/batches/{id}/discard",
    tags=["Failed batches"],
    summary="Give a failed batch up",
    response_model=schemas.Changed,
    responses=CHANGES,
)
def discard_batch(app: Onward, operations: Running, id: str, asked: schemas.DryRun | None = None) -> JSONResponse:
    """Give up all its documents, for good."""
    action = DiscardFailedBatches((_batch(app, id).id,))
    return carry_out(app, operations, action, dry_run=asked is not None and asked.dry_run)


# -- breakers


@router.get("/breakers", tags=["Breakers"], summary="List breakers", response_model=schemas.Breakers)
def list_breakers(app: Onward) -> Facts:
    """List every dependency: whether it is down, since when, why, the waiting events, and earlier outages."""
    openings: dict[str, list[Facts]] = {}
    for one in app.store.openings():
        openings.setdefault(one["dependency"], []).append(opening_facts(one))
    return {
        "breakers": [
            breaker | {"openings": openings.get(breaker["dependency"], [])[-20:]} for breaker in breaker_facts(app)
        ]
    }


def _dependency(app: App, name: str) -> str:
    known = known_dependencies(app)
    if name not in known:
        listed = ", ".join(one_line(one, 60) for one in known) or "none"
        raise NotFound(f"there is no dependency {one_line(name, 60)!r}; known are: {listed}")
    return name


@router.post(
    "/breakers/{name}/open",
    tags=["Breakers"],
    summary="Take a dependency out of service",
    response_model=schemas.Changed,
    responses=CHANGES,
)
def open_breaker(app: Onward, operations: Running, name: str, why: schemas.BreakerReason) -> JSONResponse:
    """Events that need it wait, and lose nothing, until it is closed by hand."""
    return carry_out(app, operations, OpenBreaker(_dependency(app, name), why.reason))


@router.post(
    "/breakers/{name}/close",
    tags=["Breakers"],
    summary="Bring a dependency back",
    response_model=schemas.Changed,
    responses=CHANGES,
)
def close_breaker(app: Onward, operations: Running, name: str) -> JSONResponse:
    """Let events that need it go on."""
    return carry_out(app, operations, CloseBreaker(_dependency(app, name)))


# -- everything


@router.get("/workers", tags=["Standing"], summary="List workers", response_model=schemas.Workers)
def list_workers(app: Onward) -> Facts:
    """List live workers, their events, and services without a worker."""
    return worker_facts(app)


@router.get("/services", tags=["Standing"], summary="List services", response_model=schemas.Services)
def list_services(app: Onward) -> Facts:
    """List the event, the workers and the waiting events of each service."""
    return {"services": service_facts(app.store)}


@router.get("/status", tags=["Standing"], summary="See how everything stands", response_model=dict[str, Any])
def get_status(request: Request, app: Onward) -> Facts:
    """Get the problems that need an operator, and the status of sources, services, failures, outages and workers.

    Overdue documents are counted again after ten seconds, or when another count has changed.
    """
    status = read_status(app, count_overdue=partial(count_overdue, request.app))
    status.overdue = count_overdue(request.app, status)
    return status.as_dict()
