"""The status of everything, and what of it needs a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from onward.app import App
from onward.ledger.store import Store
from onward.model.documents import Status
from onward.model.ledger import FailedBatch
from onward.ops.lookup import PIPELINE_SERVICES, store_file, worker_command
from onward.ops.queries.failure_groups import diagnosis_sentences
from onward.ops.queries.ingestion_report import SkippedFiles, read_skipped_files
from onward.ops.queries.workers import Outage, read_outages, runs
from onward.ops.text.format import be, counted, duration, iso, number, shell_command, whole_duration
from onward.recovery.diagnosis import diagnose, evidence_of, waiting_events
from onward.recovery.next_step import describe_error
from onward.recovery.retry_decision import RetryAction, RetryJobRules, decide
from onward.retry.policy import OTHER_ROUNDS
from onward.retry.redact import redact
from onward.runtime.process_identity import alive_workers

TOP_GROUPS = 3
MISSED_RUNS = 3  # a retry job that has missed this many runs counts as not running
MAX_DOCUMENTS_READ = 10_000  # at most this many documents are examined to count what is overdue


@dataclass(frozen=True, slots=True)
class StageStatus:
    """The events of one service."""

    service: str
    finishes: str | None
    waiting: int
    working: int
    done: int
    dead_letters: int
    unrouted: int
    oldest_waits_seconds: float
    next_due: float | None  # when the next event is due; None: now, or no event waits
    due_in_seconds: float | None
    served: bool  # a worker that is alive runs it

    @property
    def of_pipeline(self) -> bool:
        return self.service.partition(".")[0] in PIPELINE_SERVICES


@dataclass(frozen=True, slots=True)
class Overdue:
    """The documents that the retry job would put back if it ran now."""

    documents: int = 0
    in_batches: int = 0  # documents of failed batches that are due

    @property
    def total(self) -> int:
        return self.documents + self.in_batches


@dataclass(frozen=True, slots=True)
class RetryJobStatus:
    last_run: float | None = None
    seconds_ago: float | None = None
    interval_seconds: float = 0.0
    overdue: bool = True
    waiting: int = 0


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


@dataclass(slots=True)
class SystemStatus:
    """The problems that need an operator, and the status of sources, services, failures, outages and workers."""

    store: str
    size: int
    needs: list[Need] = field(default_factory=list)
    sources: list[dict[str, Any]] = field(default_factory=list)
    documents: dict[str, dict[str, int]] = field(default_factory=dict)
    stages: list[StageStatus] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)  # the groups that affect most documents now
    other_failures: int = 0  # how many more failure groups affect something
    stuck: dict[str, int] = field(default_factory=dict)
    outages: list[Outage] = field(default_factory=list)
    set_aside: list[dict[str, Any]] = field(default_factory=list)
    retry_job: RetryJobStatus = field(default_factory=RetryJobStatus)
    overdue: Overdue = field(default_factory=Overdue)
    worker: str = "onward worker"  # the command that starts a worker for this store
    workers: list[dict[str, Any]] = field(default_factory=list)

    def count(self, *statuses: str) -> int:
        return sum(counts.get(status, 0) for counts in self.documents.values() for status in statuses)

    def as_dict(self) -> dict[str, Any]:
        needs = [{"kind": str(need.kind), "text": need.text, "command": need.command} for need in self.needs]
        return asdict(self) | {
            "needs": needs,
            "stages": [asdict(stage) | {"next_due": iso(stage.next_due)} for stage in self.stages],
            "outages": [outage.as_dict() for outage in self.outages],
            "retry_job": asdict(self.retry_job) | {"last_run": iso(self.retry_job.last_run)},
        }


def read_status(
    app: App,
    sources: Sequence[str] | None = None,
    *,
    count_overdue: Callable[[SystemStatus], Overdue] | None = None,
) -> SystemStatus:
    """Read the status of everything; with `sources`, of only these sources, in this order.

    To count what is overdue, many documents are read. `count_overdue` replaces that, and is called only if a need
    depends on it.
    """
    store, rules = app.store, RetryJobRules.of(app.settings)
    file = store_file(app.settings.store)
    files = [file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))] if file is not None else []
    status = SystemStatus(redact(app.settings.store), sum(one.stat().st_size for one in files if one.exists()))
    status.documents = store.document_counts()
    batches = store.failed_batches()
    chosen = sorted(store.sources()) if sources is None else sources
    status.sources = [_source(app, source, batches) for source in chosen]
    alive = alive_workers(store)
    status.stages = _stages(store, alive)
    status.failures, status.other_failures = _failures(store)
    status.outages = read_outages(app)
    status.set_aside = _batches(store, rules, batches)
    status.stuck = _without_event(store, rules, store.now() - rules.stuck_after)
    status.retry_job = retry_job_status(store, rules)
    status.worker = worker_command(store)
    status.workers = [
        {"worker": one["worker"], "version": one.get("version", ""), "last_seen": iso(one["last_seen"])}
        for one in alive
    ]
    if count_overdue is None:
        status.overdue = overdue(store, rules)
    elif not status.workers and not due_events(status):
        status.overdue = count_overdue(status)
    status.needs = find_needs(status)
    return status


def _source(app: App, source: str, batches: Sequence[FailedBatch]) -> dict[str, Any]:
    counts = app.store.document_counts(source)
    set_aside = sum(len(batch.items) for batch in batches if batch.source == source)
    pending = sum(found.get("pending", 0) for found in counts.values()) - set_aside
    failed = sum(found.get(one, 0) for found in counts.values() for one in ("failed", "failed_max_retries"))
    status = "running" if pending else "partially_completed" if failed or set_aside else "completed"
    passed_over, blank = SkippedFiles(), 0
    if "archives" in counts:
        from onward.pipeline.sources import SourceStatus, without_text

        passed_over = read_skipped_files(app, source)
        blank = len(without_text(app, source))
        status = SourceStatus(source, counts, set_aside).status
    return {
        "source": redact(source),
        "status": status,
        **{name: sum(counts.get(name, {}).values()) for name in ("messages", "chunks", "threads")},
        "documents": {name: sum(found.values()) for name, found in counts.items()},
        "pending": pending,
        "failed": failed,
        "set_aside": set_aside,
        "without_text": blank,
        **passed_over.counts(),
    }


def _stages(store: Store, alive: Sequence[dict[str, Any]]) -> list[StageStatus]:
    """Return the services of the pipeline in its order, then those of other apps."""
    counts, documents = store.counts(), store.document_counts()
    finished = {subscription.service: subscription.finishes for subscription in store.subscriptions()}
    names = [name for name in PIPELINE_SERVICES if name in counts or name in finished]
    # A service that finishes no collection and has no events is left out.
    others = counts.keys() | {name for name, collection in finished.items() if collection}
    names += sorted(others - set(PIPELINE_SERVICES))
    done = {name: documents.get(finished.get(name) or "", {}).get("processed") for name in names}
    if finished.get("ingestion") == finished.get("parsing") == "archives":
        from onward.pipeline.documents import source_id

        # Both finish archives: ingestion those that stand for a source, parsing those that were fetched.
        requests = store.statuses("archives", [source_id(source) for source in store.sources()])
        fetched = sum(one == "processed" for one in requests.values())
        done |= {"ingestion": fetched, "parsing": (done["parsing"] or 0) - fetched}
    stages = []
    for name in names:
        rows, documents_done = counts.get(name, {}), done[name]
        due = store.next_due([name], suspects=True) if rows.get("waiting") else None
        waited = store.now() - due if due is not None else 0.0
        stages.append(
            StageStatus(
                name or "(no service)",
                finished.get(name),
                rows.get("waiting", 0),
                rows.get("claimed", 0),
                # Settled events are soon removed; the documents that they finished are not.
                rows.get("done", 0) if documents_done is None else documents_done,
                rows.get("dead", 0),
                rows.get("unrouted", 0),
                round(max(0.0, waited), 3),
                due if waited < 0 else None,
                round(-waited, 3) if waited < 0 else None,
                any(runs(one, name) for one in alive),
            )
        )
    return stages


def _failures(store: Store) -> tuple[list[dict[str, Any]], int]:
    """Return the failure groups that affect most documents now, and how many more affect any."""
    known = store.failure_groups()
    waiting = waiting_events(store, known)
    groups = [one for one in known if one.affected or one.dead_letters or waiting.get(one.fingerprint)]
    groups.sort(key=lambda one: (one.affected, one.dead_letters, one.last_seen), reverse=True)
    facts = []
    for group in groups[:TOP_GROUPS]:
        evidence = evidence_of(store, group)
        diagnosis = diagnose(evidence)
        facts.append(
            {
                "fingerprint": group.fingerprint,
                "service": group.service,
                "documents": group.affected,
                "waiting": evidence.waiting,
                "dead_letters": group.dead_letters,
                "error": describe_error({"error_type": group.error_type, "message": group.message}),
                "verdict": str(diagnosis.kind),
                "why": diagnosis_sentences(diagnosis),
                "last_seen": iso(group.last_seen),
            }
        )
    return facts, len(groups) - len(facts)


def _batches(store: Store, rules: RetryJobRules, batches: Sequence[FailedBatch]) -> list[dict[str, Any]]:
    now = store.now()
    return [
        {
            "batch": batch.id,
            "source": redact(batch.source or ""),
            "service": batch.service,
            "documents": len(batch.items),
            "retries": batch.retry_count,
            "persistent": rules.ladder.failed_batch.persistent(batch.retry_count),
            "tried_again": iso(batch.retry_after),
            "due_in_seconds": max(0.0, batch.retry_after - now),
            "error": redact(str(batch.errors[-1].get("error", ""))) if batch.errors else "",
        }
        for batch in batches
    ]


# -- the retry job


def retry_job_status(store: Store, rules: RetryJobRules) -> RetryJobStatus:
    """Return when the retry job last ran, and how many documents may wait for it."""
    last = store.totals().get("retry_job_last_success_timestamp_seconds", {}).get("")
    ago = store.now() - last if last else None
    late = ago is None or ago > MISSED_RUNS * rules.interval
    waiting = sum(_without_event(store, rules, 1e12).values())  # of any age
    return RetryJobStatus(last, ago, rules.interval, late, waiting)


def _without_event(store: Store, rules: RetryJobRules, before: float) -> dict[str, int]:
    """Count by collection the unfinished documents that have no event and have not changed since `before`."""
    rounds = {name: rules.ladder.max_rounds(name) for name in store.document_counts()}
    return store.stuck(before=before, max_rounds=rounds, others=OTHER_ROUNDS)


def overdue(store: Store, rules: RetryJobRules) -> Overdue:
    """Count what the retry job would put back now; documents that wait for a dependency do not count."""
    down = {breaker.dependency for breaker in store.breakers() if breaker.open}
    able = [subscription for subscription in store.subscriptions() if down.isdisjoint(subscription.needs)]
    collections = sorted({one.finishes for one in able if one.finishes is not None})
    keys = store.due_for_check(limit=MAX_DOCUMENTS_READ, collections=collections)
    now = store.now()
    decided = (decide(state, rules, now, live=state.row is not None) for state in store.states_of(keys))
    documents = sum(one.action in (RetryAction.DUE, RetryAction.EXHAUSTED) for one in decided)
    services, ids = {one.service for one in able}, set(store.due_batches())
    batches = [batch for batch in store.failed_batches() if batch.id in ids and batch.service in services]
    return Overdue(documents, sum(len(batch.items) for batch in batches))


# -- what needs a person


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
