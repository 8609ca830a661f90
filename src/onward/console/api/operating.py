"""What operators ask and do: failures, failed queues, failed batches, breakers, workers, how everything stands."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse

from onward.app import App
from onward.console.api import models
from onward.console.api.acting import CHANGED, carry_out
from onward.console.api.describing import problems
from onward.console.api.documents import Limit
from onward.console.asking import Onward, Running
from onward.console.late import late
from onward.console.letters import page_of, wanted
from onward.facts.batches import batch_facts, item_errors
from onward.facts.breakers import breaker_facts, known_dependencies, opening_facts
from onward.facts.diagnosis import error_text, evidence_facts, group_facts, list_groups
from onward.facts.finding import NotFound
from onward.facts.letters import brief_facts, letter_facts, queue_facts, queues
from onward.facts.standing import look
from onward.facts.wording import one_line
from onward.facts.workers import worker_facts
from onward.model.ledger import FailedBatch
from onward.model.recovery import FailureGroup
from onward.recovery.verdicts import evidence_of, judge

router = APIRouter(prefix="/v3")

Skip = Annotated[int, Query(ge=0, le=100_000, description="`next` of the page before.")]
Row = Annotated[int, Query(ge=0, lt=2**63, description="`next` of the page before.")]
Facts = dict[str, Any]
MOST_DOCUMENTS = 100
"""Of a group's documents so many are listed; `GET /v3/documents` has all."""
CHANGES = {**CHANGED, **problems(404, 409)}


# -- failures


@router.get("/failures", tags=["Failures"], summary="List failure groups", response_model=models.FailureGroups)
def list_failures(
    app: Onward,
    service: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    everything: Annotated[
        bool, Query(alias="all", description="Also those that affect nothing any more.")
    ] = False,
    limit: Limit = 50,
    after: Skip = 0,
) -> Facts:
    """Failures that are alike, with a verdict on what is probably wrong; what affects most documents first."""
    if service is not None and "\0" in service:
        return {"failures": [], "total": 0, "hidden": 0, "next": None}
    found = list_groups(app, service=service, everything=everything, limit=limit, offset=after)
    told = [group_facts(one, judge(one)) | {"error": error_text(one.group, 500)} for one in found.page]
    more = after + len(found.page)
    return {
        "failures": told,
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
    """The verdict, what speaks for it, and the first documents that it affects now."""
    evidence = evidence_of(app.store, _group(app, fingerprint))
    return group_facts(evidence, judge(evidence)) | evidence_facts(app, evidence, most=MOST_DOCUMENTS)


@router.post(
    "/failures/{fingerprint}/retry",
    tags=["Failures"],
    summary="Put a failure group back",
    response_model=models.Changed,
    responses=CHANGES,
)
def retry_failure(
    app: Onward, operations: Running, fingerprint: str, asked: models.Pace | None = None
) -> JSONResponse:
    """Put back its dead letters and documents: slowly with `rate`, a few first with `canary`."""
    asked = asked or models.Pace()
    given = {"fingerprint": _group(app, fingerprint).fingerprint, "canary": asked.canary, "rate": asked.rate}
    return carry_out(app, operations, "retry-group", given, dry_run=asked.dry_run)


@router.post(
    "/failures/{fingerprint}/discard",
    tags=["Failures"],
    summary="Give a failure group up",
    response_model=models.Changed,
    responses=CHANGES,
)
def discard_failure(
    app: Onward, operations: Running, fingerprint: str, asked: models.DryRun | None = None
) -> JSONResponse:
    """Give up its documents and archive its dead letters, for good."""
    given = {"fingerprint": _group(app, fingerprint).fingerprint}
    return carry_out(app, operations, "discard-group", given, dry_run=asked is not None and asked.dry_run)


# -- failed queues


@router.get("/failed-queues", tags=["Failed queues"], summary="List failed queues", response_model=models.Queues)
def list_queues(app: Onward) -> Facts:
    """How many dead letters each holds, and what most of them failed with."""
    return {"queues": [queue_facts(app, name, services, False) for name, services in queues(app).items()]}


def _queue(app: App, name: str) -> list[str]:
    services = queues(app).get(name)
    if services is None:
        known = ", ".join(one_line(one, 60) for one in queues(app)) or "none"
        raise NotFound(f"there is no failed queue {one_line(name, 60)!r}; there are: {known}")
    return services


@router.get(
    "/failed-queues/{queue}",
    tags=["Failed queues"],
    summary="Read a failed queue",
    response_model=models.Letters,
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
    services = _queue(app, queue)
    asked = replace(wanted(app, queue, {}), group=_clean(group), error_type=_clean(error_type), archived=archived)
    letters, more = page_of(app, asked, after)
    page = letters[:limit]
    more = more or len(letters) > limit
    return {
        "queue": queue_facts(app, queue, services, archived),
        "letters": [letter_facts(one) if whole else brief_facts(one) for one in page],
        "next": page[-1].row if page and more else None,
    }


def _clean(given: str | None) -> str | None:
    return None if given is None else given.replace("\0", " ")


@router.post(
    "/failed-queues/{queue}/requeue",
    tags=["Failed queues"],
    summary="Put dead letters back",
    response_model=models.Changed,
    responses=CHANGES,
)
def requeue(app: Onward, operations: Running, queue: str, asked: models.RequeuePace | None = None) -> JSONResponse:
    """Each original event is tried again, in a new round of its documents. What has recovered is skipped."""
    _queue(app, queue)
    asked = asked or models.RequeuePace()
    given = {"queue": queue} | asked.model_dump(exclude={"dry_run"})
    return carry_out(app, operations, "requeue", given, dry_run=asked.dry_run)


# -- failed batches


@router.get("/batches", tags=["Failed batches"], summary="List failed batches", response_model=models.Batches)
def list_batches(app: Onward, limit: Limit = 50, after: Skip = 0) -> Facts:
    """What was set aside, why, and when it is retried; the oldest first."""
    found = sorted(app.store.failed_batches(), key=lambda one: (one.created_at, one.id))
    page = found[after : after + limit]
    more = after + len(page)
    told = [batch_facts(app, one) for one in page]
    return {"batches": told, "total": len(found), "next": more if page and more < len(found) else None}


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
    """The batch, and the last error of each of its documents."""
    batch = _batch(app, id)
    return batch_facts(app, batch) | {"item_errors": dict(item_errors(app, batch.items))}


@router.post(
    "/batches/{id}/retry",
    tags=["Failed batches"],
    summary="Retry a failed batch now",
    response_model=models.Changed,
    responses=CHANGES,
)
def retry_batch(app: Onward, operations: Running, id: str, asked: models.DryRun | None = None) -> JSONResponse:
    """Retry it now, whenever it would have been."""
    given = {"id": _batch(app, id).id}
    return carry_out(app, operations, "retry-batch", given, dry_run=asked is not None and asked.dry_run)


@router.post(
    "/batches/{id}/discard",
    tags=["Failed batches"],
    summary="Give a failed batch up",
    response_model=models.Changed,
    responses=CHANGES,
)
def discard_batch(app: Onward, operations: Running, id: str, asked: models.DryRun | None = None) -> JSONResponse:
    """Give up all its documents, for good."""
    given = {"id": _batch(app, id).id}
    return carry_out(app, operations, "discard-batch", given, dry_run=asked is not None and asked.dry_run)


# -- breakers


@router.get("/breakers", tags=["Breakers"], summary="List breakers", response_model=models.Breakers)
def list_breakers(app: Onward) -> Facts:
    """Every dependency: whether it is down, since when, why, what waits for it, and when it was down before."""
    openings: dict[str, list[Facts]] = {}
    for one in app.store.openings():
        openings.setdefault(one["dependency"], []).append(opening_facts(one))
    return {
        "breakers": [one | {"openings": openings.get(one["dependency"], [])[-20:]} for one in breaker_facts(app)]
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
    response_model=models.Changed,
    responses=CHANGES,
)
def open_breaker(app: Onward, operations: Running, name: str, why: models.Why) -> JSONResponse:
    """Events that need it wait, and lose nothing, until it is closed by hand."""
    given = {"name": _dependency(app, name), "reason": why.reason}
    return carry_out(app, operations, "open-breaker", given)


@router.post(
    "/breakers/{name}/close",
    tags=["Breakers"],
    summary="Bring a dependency back",
    response_model=models.Changed,
    responses=CHANGES,
)
def close_breaker(app: Onward, operations: Running, name: str) -> JSONResponse:
    """Let events that need it go on."""
    return carry_out(app, operations, "close-breaker", {"name": _dependency(app, name)})


# -- everything


@router.get("/workers", tags=["Standing"], summary="List workers", response_model=models.Workers)
def list_workers(app: Onward) -> Facts:
    """Who is alive, what each is doing, and what nobody does."""
    return worker_facts(app)


@router.get("/status", tags=["Standing"], summary="See how everything stands", response_model=dict[str, Any])
def get_standing(request: Request, app: Onward) -> Facts:
    """What needs a person, and how sources, services, failures, outages and workers stand.

    What is overdue is counted again after ten seconds, or when another count has changed.
    """
    standing = look(app, late=partial(late, request.app))
    standing.overdue = late(request.app, standing)
    return asdict(standing)
