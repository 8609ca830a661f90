"""Problems that need an operator, as data; `ops/text` makes the sentence, the link and the command."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from onward.model.documents import Status
from onward.ops.queries.outbox import OutboxBacklog
from onward.ops.queries.services import Outage

if TYPE_CHECKING:
    from onward.ops.queries.status import SystemStatus


class NeedKind(StrEnum):
    """Why a person is needed."""

    OPENED_BY_HAND = "opened_by_hand"
    OUTAGE = "outage"
    NO_WORKER = "no_worker"
    NOT_SERVED = "not_served"  # events of a service are due, and the workers that are alive do not run it
    OVERDUE = "overdue"  # documents are due to be retried, and no worker runs
    RETRY_JOB = "retry_job"
    INCOMING = "incoming"  # what callers published in their transactions does not get to the ledger
    OUTBOX = "outbox"  # events for other programs do not leave
    REGRESSION = "regression"  # failures that were fixed are back
    FAILED = "failed"
    GIVEN_UP = "given_up"
    DEAD_LETTERS = "dead_letters"
    FAILED_BATCHES = "failed_batches"
    STUCK = "stuck"


@dataclass(frozen=True, slots=True)
class Need:
    """Something that needs a person."""

    kind: NeedKind
    count: int = 0  # documents, events or failed batches
    documents: int = 0  # in failed batches
    outage: Outage | None = None
    services: tuple[tuple[str, int], ...] = ()  # with their number of events or dead letters
    retry_job_seconds_ago: float | None = None
    outbox: OutboxBacklog | None = None
    start_worker: str = ""  # the command that starts a worker for this store
    worker_runs: bool = False


def find_needs(status: SystemStatus) -> list[Need]:
    """Return what needs a person, the most urgent first."""
    needs = (_outage_needs, _work_needs, _incoming_needs, _outbox_needs, _failure_needs)
    return [need for find in needs for need in find(status)]


def due_events(status: SystemStatus) -> int:
    """Count the events that a worker could claim now; if no worker is alive, also those that dead ones hold."""
    due = sum(stage.waiting for stage in status.stages if stage.next_due is None)
    return due if status.workers else due + sum(stage.working for stage in status.stages)


def _outage_needs(status: SystemStatus) -> list[Need]:
    return [
        Need(NeedKind.OPENED_BY_HAND if outage.by_hand else NeedKind.OUTAGE, outage=outage)
        for outage in status.outages
        if outage.by_hand or outage.needs_person
    ]


def _incoming_needs(status: SystemStatus) -> list[Need]:
    workers = bool(status.workers)
    if not status.incoming.waiting or (workers and not status.incoming.late):
        return []
    count = status.incoming.waiting
    return [Need(NeedKind.INCOMING, count, start_worker=status.worker, worker_runs=workers)]


def _work_needs(status: SystemStatus) -> list[Need]:
    start, workers = status.worker, bool(status.workers)
    if not workers and (due := due_events(status)):
        return [Need(NeedKind.NO_WORKER, due, start_worker=start)]
    unserved = [stage for stage in status.stages if stage.waiting and stage.next_due is None and not stage.served]
    if unserved:
        return [
            Need(
                NeedKind.NOT_SERVED,
                stage.waiting,
                services=((stage.service, stage.waiting),),
                start_worker=start if stage.of_pipeline else "",
            )
            for stage in unserved
        ]
    if not workers and status.overdue.total:
        return [Need(NeedKind.OVERDUE, status.overdue.total, start_worker=start)]
    job = status.retry_job
    waiting = job.waiting + sum(batch["documents"] for batch in status.set_aside)
    if not waiting or not job.overdue or (job.last_run is None and workers):
        return []
    ago = job.seconds_ago
    return [Need(NeedKind.RETRY_JOB, waiting, retry_job_seconds_ago=ago, start_worker=start, worker_runs=workers)]


def _outbox_needs(status: SystemStatus) -> list[Need]:
    if not status.outbox.late:
        return []
    return [Need(NeedKind.OUTBOX, status.outbox.waiting, outbox=status.outbox, start_worker=status.worker)]


def _failure_needs(status: SystemStatus) -> list[Need]:
    needs = []
    if status.regressions:
        needs.append(Need(NeedKind.REGRESSION, status.regressions))
    if failed := status.count(Status.FAILED):
        needs.append(Need(NeedKind.FAILED, failed))
    if given_up := status.count(Status.FAILED_MAX_RETRIES):
        needs.append(Need(NeedKind.GIVEN_UP, given_up))
    # Documents with dead letters of a service that finishes them are retried by the retry job, or counted above.
    counts = ((one.service, one.malformed if one.finishes else one.dead_letters) for one in status.stages)
    if letters := tuple((service, count) for service, count in counts if count):
        needs.append(Need(NeedKind.DEAD_LETTERS, sum(count for _, count in letters), services=letters))
    if persistent := [batch for batch in status.set_aside if batch["persistent"]]:
        documents = sum(batch["documents"] for batch in persistent)
        needs.append(Need(NeedKind.FAILED_BATCHES, len(persistent), documents))
    if stuck := sum(status.stuck.values()):
        needs.append(Need(NeedKind.STUCK, stuck))
    return needs
