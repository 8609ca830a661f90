"""Requests of operators: failures, failed queues, failed batches, breakers, workers, status, and operations."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BeforeValidator
from starlette.responses import JSONResponse

from onward.app import App
from onward.console.action_forms import clean
from onward.console.api import schemas
from onward.console.api.documents import Limit
from onward.console.api.failure_decisions import GroupPace, known_group
from onward.console.api.openapi import changes, problems, reads
from onward.console.operations import API, carry_out
from onward.console.pages.overview import count_overdue
from onward.console.pages.queues import QueuePageFilter, page_of
from onward.console.request_context import Onward, Running
from onward.model.group_life import MAX_NAME_CHARACTERS, GroupState
from onward.model.ledger import FailedBatch
from onward.model.operations import OperationStatus
from onward.ops.actions.dead_letters import RequeueDeadLetters
from onward.ops.actions.failure_groups import (
    DiscardFailedBatches,
    DiscardFailureGroup,
    RetryFailedBatches,
    RetryFailureGroup,
)
from onward.ops.actions.group_canary import RetryGroupInSteps
from onward.ops.actions.services import CloseBreaker, OpenBreaker
from onward.ops.bad_input import BadInput, NotFound
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
from onward.ops.queries.operations import list_operations, operation_facts
from onward.ops.queries.services import (
    breaker_facts,
    known_dependencies,
    opening_facts,
    service_facts,
    worker_facts,
)
from onward.ops.queries.status import read_status
from onward.ops.text.format import one_line
from onward.recovery.diagnosis import diagnose
from onward.recovery.evidence import evidence_of

router = APIRouter(prefix="/v3")
failures = partial(reads, router, tag="Failures")
queues = partial(reads, router, tag="Failed queues")
batches = partial(reads, router, tag="Failed batches")
status_call = partial(reads, router, tag="Status")

Skip = Annotated[int, Query(ge=0, le=100_000, description="`next` of the page before.")]
Row = Annotated[int, Query(ge=0, lt=2**63, description="`next` of the page before.")]
Facts = dict[str, Any]
EMPTY_IS_NONE = BeforeValidator(lambda given: given or None)  # null in a query is an empty value
MOST_DOCUMENTS = 100  # documents of a group that are listed; `GET /v3/documents` has all


def _page(name: str, shown: list[Facts], after: int, total: int) -> Facts:
    more = after + len(shown)
    return {name: shown, "total": total, "next": more if shown and more < total else None}


def _clean(given: str | None) -> str | None:
    return None if given is None else given.replace("\0", " ")


# -- failures


@failures("/failures", "List failure groups", schemas.FailureGroups)
def list_failures(
    app: Onward,
    service: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    everything: Annotated[
        bool, Query(alias="all", description="Also those that are closed, or affect nothing any more.")
    ] = False,
    state: Annotated[
        GroupState | None,
        EMPTY_IS_NONE,
        Query(description="Only those in this state; `closed` includes `fix_expected`."),
    ] = None,
    owner: Annotated[str | None, Query(min_length=1, max_length=MAX_NAME_CHARACTERS)] = None,
    limit: Limit = 50,
    after: Skip = 0,
) -> Facts:
    """List similar failures with their probable cause: regressions first, then what affects most documents."""
    service, owner = _clean(service), _clean(owner)
    found = list_groups(
        app, service=service, everything=everything, state=state, owner=owner, limit=limit, offset=after
    )
    shown = [group_facts(one, diagnose(one)) | {"error": error_text(one.group, 500)} for one in found.page]
    return _page("failures", shown, after, found.total) | {"hidden": found.hidden, "closed": found.closed}


@failures("/failures/{fingerprint}", "Look into a failure group", dict[str, Any], 404)
def get_failure(app: Onward, fingerprint: str) -> Facts:
    """Get the diagnosis, its evidence, and the first documents that are affected now."""
    evidence = evidence_of(app.store, known_group(app, fingerprint))
    return group_facts(evidence, diagnose(evidence)) | evidence_facts(app, evidence, most=MOST_DOCUMENTS)


@changes(router, "/failures/{fingerprint}/retry", "Put a failure group back", tag="Failures")
def retry_failure(
    app: Onward, operations: Running, fingerprint: str, asked: GroupPace | None = None
) -> JSONResponse:
    """Put back its dead letters and documents: slowly with `rate`, a few first with `canary` or `growing`."""
    pace, group = asked or GroupPace(), known_group(app, fingerprint).fingerprint
    if pace.growing:
        if pace.canary is not None:
            raise BadInput("give either `canary`, or `growing`")
        steps = RetryGroupInSteps(group, share=pace.share, rate=pace.rate, quick_plan=True)
        return carry_out(app, operations, steps, asked)
    action = RetryFailureGroup(group, canary=pace.canary or 0, rate=pace.rate, quick_plan=True)
    return carry_out(app, operations, action, asked)


@changes(router, "/failures/{fingerprint}/discard", "Give a failure group up", tag="Failures")
def discard_failure(
    app: Onward, operations: Running, fingerprint: str, asked: schemas.DryRun | None = None
) -> JSONResponse:
    """Give up its documents and archive its dead letters, for good."""
    return carry_out(app, operations, DiscardFailureGroup(known_group(app, fingerprint).fingerprint), asked)


# -- failed queues


@queues("/failed-queues", "List failed queues", schemas.Queues)
def list_queues(app: Onward) -> Facts:
    """List how many dead letters each queue holds, and the most frequent error."""
    return {"queues": failed_queue_facts(app, archived=False)}


def _check_known(kind: str, name: str, known: Iterable[str], listing: str) -> None:
    if name not in known:
        listed = ", ".join(one_line(one, 60) for one in known) or "none"
        raise NotFound(f"there is no {kind} {one_line(name, 60)!r}; {listing} are: {listed}")


@queues("/failed-queues/{queue}", "Read a failed queue", schemas.DeadLetters, 404, 422)
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
    _check_known("failed queue", queue, failed_queues(app), "there")
    services = tuple(failed_queues(app)[queue])
    asked = QueuePageFilter(queue, services, _clean(error_type), _clean(group), archived)
    letters, more = page_of(app, asked, after)
    shown = letters[:limit]
    return {
        "queue": failed_queue_facts(app, archived=archived, queue=queue)[0],
        "dead_letters": [dead_letter_facts(letter) if whole else dead_letter_brief(letter) for letter in shown],
        "next": shown[-1].row if shown and (more or len(letters) > limit) else None,
    }


@changes(router, "/failed-queues/{queue}/requeue", "Put dead letters back", tag="Failed queues")
def requeue(
    app: Onward, operations: Running, queue: str, asked: schemas.RequeuePace | None = None
) -> JSONResponse:
    """Each original event is tried again, in a new round of its documents. What has recovered is skipped."""
    _check_known("failed queue", queue, failed_queues(app), "there")
    pace = asked or schemas.RequeuePace()
    selection = DeadLetterSelection(queue=queue, group=_clean(pace.group), error_type=_clean(pace.error_type))
    action = RequeueDeadLetters(selection, canary=pace.canary or 0, rate=pace.rate, quick_plan=True)
    return carry_out(app, operations, action, asked)


# -- failed batches


@batches("/batches", "List failed batches", schemas.Batches)
def list_batches(app: Onward, limit: Limit = 50, after: Skip = 0) -> Facts:
    """List the failed batches, their errors, and when they are retried; the oldest first."""
    found = sorted(app.store.failed_batches(), key=lambda batch: (batch.created_at, batch.id))
    shown = [batch_facts(app, batch) for batch in found[after : after + limit]]
    return _page("batches", shown, after, len(found))


def _batch(app: App, id: str) -> FailedBatch:
    found = app.store.failed_batch(id) if "\0" not in id else None
    if found is None:
        raise NotFound(f"there is no failed batch {one_line(id, 60)!r}, or no longer; GET /v3/batches lists them")
    return found


@batches("/batches/{id}", "Look into a failed batch", dict[str, Any], 404)
def get_batch(app: Onward, id: str) -> Facts:
    """Get the batch, and the last error of each of its documents."""
    batch = _batch(app, id)
    return batch_facts(app, batch) | {"item_errors": dict(item_errors(app, batch.items))}


@changes(router, "/batches/{id}/retry", "Retry a failed batch now", tag="Failed batches")
def retry_batch(app: Onward, operations: Running, id: str, asked: schemas.DryRun | None = None) -> JSONResponse:
    """Retry it now, whenever it would have been."""
    return carry_out(app, operations, RetryFailedBatches((_batch(app, id).id,)), asked)


@changes(router, "/batches/{id}/discard", "Give a failed batch up", tag="Failed batches")
def discard_batch(app: Onward, operations: Running, id: str, asked: schemas.DryRun | None = None) -> JSONResponse:
    """Give up all its documents, for good."""
    return carry_out(app, operations, DiscardFailedBatches((_batch(app, id).id,)), asked)


@reads(router, "/breakers", "List breakers", schemas.Breakers, tag="Breakers")
def list_breakers(app: Onward) -> Facts:
    """List every dependency: whether it is down, since when, why, the waiting events, and earlier outages."""
    openings: dict[str, list[Facts]] = {}
    for one in app.store.openings():
        openings.setdefault(one["dependency"], []).append(opening_facts(one))
    return {
        "breakers": [one | {"openings": openings.get(one["dependency"], [])[-20:]} for one in breaker_facts(app)]
    }


@changes(router, "/breakers/{name}/open", "Take a dependency out of service", tag="Breakers")
def open_breaker(app: Onward, operations: Running, name: str, why: schemas.BreakerReason) -> JSONResponse:
    """Events that need it wait, and lose nothing, until it is closed by hand."""
    _check_known("dependency", name, known_dependencies(app), "known")
    return carry_out(app, operations, OpenBreaker(name, why.reason))


@changes(router, "/breakers/{name}/close", "Bring a dependency back", tag="Breakers")
def close_breaker(app: Onward, operations: Running, name: str) -> JSONResponse:
    """Let events that need it go on."""
    _check_known("dependency", name, known_dependencies(app), "known")
    return carry_out(app, operations, CloseBreaker(name))


@status_call("/workers", "List workers", schemas.Workers)
def list_workers(app: Onward) -> Facts:
    """List live workers, their events, and services without a worker."""
    return worker_facts(app)


@status_call("/services", "List services", schemas.Services)
def list_services(app: Onward) -> Facts:
    """List the event, the workers and the waiting events of each service."""
    return {"services": service_facts(app.store)}


@status_call("/status", "Get the status of everything", dict[str, Any])
def get_status(request: Request, app: Onward) -> Facts:
    """Get the problems that need an operator, and the status of sources, services, failures, outages and workers.

    Overdue documents are counted again after ten seconds, or when another count has changed.
    """
    status = read_status(app, count_overdue=partial(count_overdue, request.app))
    status.overdue = count_overdue(request.app, status)
    return status.as_dict()


Status = Annotated[OperationStatus | None, EMPTY_IS_NONE, Query(description="Only those with this status.")]
Before = Annotated[str | None, Query(description="Only those that were begun before the one with this id.")]


@status_call("/operations", "List operations", list[schemas.Operation], 422)
def get_operations(
    app: Onward, status: Status = None, who: str | None = None, before: Before = None, limit: Limit = 50
) -> list[Facts]:
    """List operations, the newest first: actions that run or have run. They are kept for 30 days."""
    who, before = (clean(text) if text else None for text in (who, before))
    found = list_operations(app, status=status, who=who, before=before, limit=limit)
    return [operation_facts(one) for one in found]


@status_call("/operations/{id}", "See how an operation goes", schemas.Operation, 404)
def get_operation(operations: Running, id: str) -> Facts:
    """Get its progress and its result. `interrupted`: the process that ran it has ended; it can be continued."""
    return operation_facts(operations.get(id))


change_operation = partial(router.post, tags=["Status"], status_code=202, response_model=schemas.Operation)


@change_operation("/operations/{id}/stop", summary="Stop an operation where it is", responses=problems(404))
def stop_operation(operations: Running, id: str) -> Facts:
    """Stop an operation as soon as possible; completed changes are kept."""
    return operation_facts(operations.stop(id))


@change_operation("/operations/{id}/continue", summary="Continue an operation", responses=problems(404, 409))
def continue_operation(operations: Running, id: str) -> Facts:
    """Continue an operation that was interrupted, was stopped or has failed: what is done is skipped."""
    return operation_facts(operations.get(operations.go_on(id, API).id))
