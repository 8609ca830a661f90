"""Problems that need an operator: a sentence, a command and a page of the console for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from onward.model.documents import Status
from onward.ops.queries.workers import Outage
from onward.ops.text.format import be, counted, duration, number, shell_command, whole_duration

if TYPE_CHECKING:
    from onward.ops.queries.status import SystemStatus


class NeedKind(StrEnum):
    OPENED_BY_HAND = "opened_by_hand"
    OUTAGE = "outage"
    NO_WORKER = "no_worker"
    NOT_SERVED = "not_served"  # events of a service are due, and the workers that are alive do not run it
    OVERDUE = "overdue"  # documents are due to be retried, and no worker runs
    RETRY_JOB = "retry_job"
    FAILED = "failed"
    GIVEN_UP = "given_up"
    DEAD_LETTERS = "dead_letters"
    FAILED_BATCHES = "failed_batches"
    STUCK = "stuck"


class PageLink(NamedTuple):
    path: str
    title: str


_LINKS = {
    NeedKind.OPENED_BY_HAND: PageLink("/workers#breakers", "Workers and breakers"),
    NeedKind.OUTAGE: PageLink("/workers#breakers", "Workers and breakers"),
    NeedKind.FAILED: PageLink("/failures", "Failures"),
    NeedKind.GIVEN_UP: PageLink(f"/documents?status={Status.FAILED_MAX_RETRIES}", "These documents"),
    NeedKind.DEAD_LETTERS: PageLink("/queues", "Failed queues"),
    NeedKind.FAILED_BATCHES: PageLink("/batches", "Failed batches"),
    NeedKind.STUCK: PageLink(f"/documents?status={Status.PENDING}", "These documents"),
}


@dataclass(frozen=True, slots=True)
class Need:
    kind: NeedKind
    count: int = 0  # documents, events or failed batches
    text: str = ""
    command: str = ""  # meets the need, or shows more of it

    @property
    def link(self) -> PageLink:
        return _LINKS.get(self.kind, PageLink("/workers", "Workers"))


def find_needs(status: SystemStatus) -> list[Need]:
    """Return what needs a person, the most urgent first."""
    return [*_outage_needs(status), *_work_needs(status), *_failure_needs(status)]


def due_events(status: SystemStatus) -> int:
    """Count the events that a worker could claim now; if no worker is alive, also those that dead ones hold."""
    due = sum(stage.waiting for stage in status.stages if stage.next_due is None)
    return due if status.workers else due + sum(stage.working for stage in status.stages)


def _outage_needs(status: SystemStatus) -> Iterator[Need]:
    for outage in status.outages:
        name, why = outage.dependency, outage.reason.rstrip(".")
        if outage.by_hand:
            text = f"{name} was taken out of service by an operator ({why}); bring it back when it works"
            yield Need(NeedKind.OPENED_BY_HAND, 0, text, shell_command("onward breakers close", name))
        elif outage.needs_person:
            yield Need(NeedKind.OUTAGE, 0, outage_sentence(outage), "onward breakers")


def _work_needs(status: SystemStatus) -> Iterator[Need]:
    start, workers = status.worker, bool(status.workers)
    if not workers and (due := due_events(status)):
        text = f"{counted(due, 'event')} {be(due)} due, and no worker runs"
        yield Need(NeedKind.NO_WORKER, due, text, start)
        return
    unserved = [stage for stage in status.stages if stage.waiting and stage.next_due is None and not stage.served]
    for stage in unserved:
        events = f"{counted(stage.waiting, 'event')} of {stage.service} {be(stage.waiting)} due"
        text = f"{events}, and no worker runs it"
        if stage.of_pipeline:
            yield Need(NeedKind.NOT_SERVED, stage.waiting, text, start)
        else:
            text += " (it was stopped, renamed or removed)"
            yield Need(NeedKind.NOT_SERVED, stage.waiting, text, "onward services")
    if unserved:
        return
    if not workers and (late := status.overdue.total):
        yield Need(NeedKind.OVERDUE, late, overdue_sentence(late), start)
        return
    job = status.retry_job
    waiting = job.waiting + sum(batch["documents"] for batch in status.set_aside)
    if waiting and job.overdue and (job.last_run is not None or not workers):
        ran = "has never run here" if job.seconds_ago is None else f"has not run for {duration(job.seconds_ago)}"
        wait = "waits" if waiting == 1 else "wait"
        text = f"{counted(waiting, 'document')} {wait} for the retry job, which {ran}"
        command = start.replace("onward worker", "onward retry-job --once") if workers else start
        yield Need(NeedKind.RETRY_JOB, waiting, text, command)


def _failure_needs(status: SystemStatus) -> Iterator[Need]:
    listed = "onward documents list --status"
    if failed := status.count(Status.FAILED):
        yield Need(NeedKind.FAILED, failed, f"{counted(failed, 'document')} failed", "onward failures list")
    if given_up := status.count(Status.FAILED_MAX_RETRIES):
        were = "was" if given_up == 1 else "were"
        text = f"{counted(given_up, 'document')} {were} given up after all rounds"
        yield Need(NeedKind.GIVEN_UP, given_up, text, f"{listed} {Status.FAILED_MAX_RETRIES}")
    # Documents with dead letters of a service that finishes them are retried by the retry job, or counted above.
    letters = {stage.service: stage.dead_letters for stage in status.stages if not stage.finishes}
    if total := sum(letters.values()):
        services = ", ".join(f"{service} {number(count)}" for service, count in letters.items() if count)
        text = f"dead letters that only a person puts back: {services}"
        yield Need(NeedKind.DEAD_LETTERS, total, text, "onward failed list")
    if persistent := [batch["documents"] for batch in status.set_aside if batch["persistent"]]:
        count, keep = len(persistent), "keeps" if len(persistent) == 1 else "keep"
        text = f"{counted(count, 'failed batch')} ({counted(sum(persistent), 'document')}) {keep} failing"
        yield Need(NeedKind.FAILED_BATCHES, count, text, "onward batches list")
    if stuck := sum(status.stuck.values()):
        text = f"{counted(stuck, 'document')} {be(stuck)} stuck"
        yield Need(NeedKind.STUCK, stuck, text, f"{listed} {Status.PENDING}")


def overdue_sentence(count: int) -> str:
    """Say that documents are due for the retry job, which no worker runs."""
    return f"{counted(count, 'document')} {be(count)} due to be retried, and no worker runs"


def outage_sentence(outage: Outage) -> str:
    """Return what is wrong with a dependency, and for how long."""
    name, lasting = outage.dependency, whole_duration(outage.seconds)
    if outage.state == "unreached":
        text = f"{name} has not been reached for {lasting}"
    elif outage.openings > 1:
        works = "" if outage.state == "open" else ", and works at the moment"
        text = f"{name} has failed on and off for {lasting} ({outage.openings} times){works}"
    elif outage.state == "open":
        text = f"{name} has been down for {lasting}"
    else:
        text = f"{name} works again, after it was down"
    why = ". ".join(part for part in (outage.reason.rstrip("."), outage.remedy.rstrip(".")) if part)
    return f"{text}: {why}" if why else text
