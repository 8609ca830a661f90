"""Problems that need an operator, as a sentence, a command and a page of the console."""

from __future__ import annotations

from typing import NamedTuple

from onward.model.documents import Status
from onward.ops.queries.needs import Need, NeedKind
from onward.ops.queries.outbox import OutboxBacklog
from onward.ops.text.format import (
    TimeFormat,
    be,
    counted,
    duration,
    local_time,
    number,
    shell_command,
    whole_duration,
)
from onward.ops.text.outages import outage_text


class PageLink(NamedTuple):
    """A page of the console."""

    path: str
    title: str


_WORKERS = PageLink("/workers", "Workers")
_LINKS = {
    NeedKind.OPENED_BY_HAND: PageLink("/workers#breakers", "Workers and breakers"),
    NeedKind.OUTAGE: PageLink("/workers#breakers", "Workers and breakers"),
    NeedKind.REGRESSION: PageLink("/failures?state=regression", "Regressions"),
    NeedKind.FAILED: PageLink("/failures", "Failures"),
    NeedKind.GIVEN_UP: PageLink(f"/documents?status={Status.FAILED_MAX_RETRIES}", "These documents"),
    NeedKind.DEAD_LETTERS: PageLink("/queues", "Failed queues"),
    NeedKind.FAILED_BATCHES: PageLink("/batches", "Failed batches"),
    NeedKind.STUCK: PageLink(f"/documents?status={Status.PENDING}", "These documents"),
}
_COMMANDS = {
    NeedKind.OUTAGE: "onward breakers",
    NeedKind.REGRESSION: "onward failures list --state regression",
    NeedKind.FAILED: "onward failures list",
    NeedKind.GIVEN_UP: f"onward documents list --status {Status.FAILED_MAX_RETRIES}",
    NeedKind.DEAD_LETTERS: "onward failed list",
    NeedKind.FAILED_BATCHES: "onward batches list",
    NeedKind.STUCK: f"onward documents list --status {Status.PENDING}",
}


def need_link(need: Need) -> PageLink:
    """Return the page where a need is met."""
    return _LINKS.get(need.kind, _WORKERS)


def need_command(need: Need) -> str:
    """Return the command that meets a need, or shows more of it."""
    match need.kind:
        case NeedKind.OPENED_BY_HAND if need.outage is not None:
            return shell_command("onward breakers close", need.outage.dependency)
        case NeedKind.OUTAGE if need.outage is not None and "onward breakers" in need.outage.remedy:
            return ""  # the sentence has it
        case NeedKind.NOT_SERVED:
            return need.start_worker or "onward services"
        case NeedKind.INCOMING if need.worker_runs:
            return "onward workers"
        case NeedKind.OUTBOX if need.outbox is not None and need.outbox.served:
            return "onward doctor"
        case NeedKind.RETRY_JOB if need.worker_runs:
            return need.start_worker.replace("onward worker", "onward retry-job --once")
    return _COMMANDS.get(need.kind, need.start_worker)


def need_sentence(need: Need, time_format: TimeFormat = local_time) -> str:
    """Return a need as a sentence."""
    count, documents = need.count, counted(need.count, "document")
    match need.kind:
        case NeedKind.OPENED_BY_HAND | NeedKind.OUTAGE if need.outage is not None:
            return outage_text(need.outage, time_format)
        case NeedKind.NO_WORKER:
            return f"{counted(count, 'event')} {be(count)} due, and no worker runs"
        case NeedKind.NOT_SERVED:
            text = f"{counted(count, 'event')} of {need.services[0][0]} {be(count)} due, and no worker runs it"
            remedy = f"start it, declare its new name with was={need.services[0][0]!r}, or retire it"
            return text if need.start_worker else f"{text}: {remedy}"
        case NeedKind.OVERDUE:
            return overdue_sentence(count)
        case NeedKind.RETRY_JOB:
            ago = need.retry_job_seconds_ago
            ran = "has never run here" if ago is None else f"has not run for {duration(ago)}"
            return f"{documents} {'waits' if count == 1 else 'wait'} for the retry job, which {ran}"
        case NeedKind.INCOMING:
            wait = "waits" if count == 1 else "wait"
            text = f"{counted(count, 'publication')} of callers' transactions {wait} to get to the ledger"
            return f"{text}: the workers are older" if need.worker_runs else f"{text}, and no worker runs"
        case NeedKind.OUTBOX if need.outbox is not None:
            return waiting_sentence(need.outbox)
        case NeedKind.REGRESSION:
            return f"{counted(count, 'failure group')} that {'was' if count == 1 else 'were'} closed came back"
        case NeedKind.FAILED:
            return f"{documents} failed"
        case NeedKind.GIVEN_UP:
            return f"{documents} {'was' if count == 1 else 'were'} given up after all rounds"
        case NeedKind.DEAD_LETTERS:
            services = ", ".join(f"{service} {number(letters)}" for service, letters in need.services)
            return f"dead letters that only a person puts back: {services}"
        case NeedKind.FAILED_BATCHES:
            keep = "keeps" if count == 1 else "keep"
            return f"{counted(count, 'failed batch')} ({counted(need.documents, 'document')}) {keep} failing"
        case _:
            return f"{documents} {be(count)} stuck"


def overdue_sentence(count: int) -> str:
    """Say that documents are due for the retry job, which no worker runs."""
    return f"{counted(count, 'document')} {be(count)} due to be retried, and no worker runs"


def waiting_sentence(outbox: OutboxBacklog) -> str:
    """Say how many events wait to leave for other programs, for how long, and why."""
    count, lasting = outbox.waiting, whole_duration(outbox.oldest_waits_seconds)
    whose = f"{counted(count, 'event')} {'waits' if count == 1 else 'wait'} to leave for other programs"
    text = f"{whose}, the oldest for {lasting}"
    if not outbox.served:
        return f"{text}: no worker with a gateway runs; start one with ONWARD_GATEWAY set"
    if outbox.trouble or outbox.late:
        return f"{text}: {outbox.trouble or 'perhaps a queue of the broker is full, and refuses them'}"
    return text


def outbox_sentences(outbox: OutboxBacklog) -> list[str]:
    """Say what is in the outbox, and what the gateway reports; return nothing if there is nothing to say."""
    sentences = []
    if outbox.waiting:
        sentences.append(waiting_sentence(outbox))
    elif outbox.trouble:
        sentences.append(f"no events arrive from other programs: {outbox.trouble}")
    if count := outbox.unroutable:
        kept = f"{counted(count, 'event')} for other programs {be(count)} kept, because no queue of the broker"
        sentences.append(f"{kept} takes {'it' if count == 1 else 'them'}")
    return sentences
