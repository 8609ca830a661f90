"""The status of everything, and what of it needs a person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from onward.ops.lookup import PIPELINE_SERVICES, store_file, worker_command
from onward.ops.queries.breakers import Outage, read_outages
from onward.ops.queries.needs import Need, due_events, find_needs
from onward.ops.queries.retry_job import Overdue, RetryJobStatus, overdue, retry_job_status, without_event
from onward.ops.queries.skipped_files import SkippedFiles, read_skipped_files
from onward.ops.queries.workers import runs
from onward.ops.text.diagnosis import diagnosis_sentences
from onward.ops.text.format import iso
from onward.ops.text.needs import need_command, need_sentence
from onward.recovery.diagnosis import diagnose, evidence_of, waiting_events
from onward.recovery.next_step import describe_error
from onward.recovery.retry_decision import RetryJobRules
from onward.retry.redact import redact
from onward.runtime.process_identity import alive_workers

if TYPE_CHECKING:
    from onward import App
    from onward.model.ledger import FailedBatch
    from onward.model.ledger_views import FailureGroup

TOP_GROUPS = 3


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
    next_due: float | None
    """When the next event is due; None: now, or no event waits."""
    due_in_seconds: float | None
    served: bool
    """A worker that is alive runs it."""

    @property
    def of_pipeline(self) -> bool:
        return self.service.partition(".")[0] in PIPELINE_SERVICES


@dataclass(slots=True)
class SystemStatus:
    """The problems that need an operator, and the status of sources, services, failures, outages and workers."""

    store: str
    size: int
    needs: list[Need] = field(default_factory=list)
    sources: list[dict[str, Any]] = field(default_factory=list)
    documents: dict[str, dict[str, int]] = field(default_factory=dict)
    stages: list[StageStatus] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    """The failure groups that affect most documents now."""
    other_failures: int = 0
    """How many more failure groups affect something."""
    stuck: dict[str, int] = field(default_factory=dict)
    outages: list[Outage] = field(default_factory=list)
    set_aside: list[dict[str, Any]] = field(default_factory=list)
    retry_job: RetryJobStatus = field(default_factory=RetryJobStatus)
    overdue: Overdue = field(default_factory=Overdue)
    worker: str = "onward worker"
    """The command that starts a worker for this store."""
    workers: list[dict[str, Any]] = field(default_factory=list)

    def count(self, *statuses: str) -> int:
        """Count the documents with one of these statuses."""
        return sum(counts.get(status, 0) for counts in self.documents.values() for status in statuses)

    def as_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "needs": [
                {"kind": str(need.kind), "text": need_sentence(need), "command": need_command(need)}
                for need in self.needs
            ],
            "stages": [asdict(stage) | {"next_due": iso(stage.next_due)} for stage in self.stages],
            "outages": [outage.as_dict() for outage in self.outages],
            "retry_job": self.retry_job.as_dict(),
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
    status = SystemStatus(redact(app.settings.store), _size(app))
    status.documents = store.document_counts()
    batches = store.failed_batches()
    chosen = sorted(store.sources()) if sources is None else sources
    status.sources = [_source(app, source, batches) for source in chosen]
    alive = alive_workers(store)
    status.stages = _stages(app, alive)
    status.failures, status.other_failures = _groups(app)
    status.outages = read_outages(app)
    status.set_aside = _batches(app, rules, batches)
    status.stuck = without_event(store, rules, store.now() - rules.stuck_after)
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


def _size(app: App) -> int:
    file = store_file(app.settings)
    if file is None:
        return 0
    parts = [file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))]
    return sum(part.stat().st_size for part in parts if part.exists())


def _source(app: App, source: str, batches: Sequence[FailedBatch]) -> dict[str, Any]:
    counts = app.store.document_counts(source)
    set_aside = sum(len(batch.items) for batch in batches if batch.source == source)
    pending = sum(found.get("pending", 0) for found in counts.values()) - set_aside
    failed = sum(found.get(one, 0) for found in counts.values() for one in ("failed", "failed_max_retries"))
    passed_over, blank = SkippedFiles(), 0
    if "archives" in counts:
        from onward.pipeline.sources import SourceStatus, without_text

        passed_over = read_skipped_files(app, source)
        blank = len(without_text(app, source))
        status = SourceStatus(source, counts, set_aside).status
    elif pending:
        status = "running"
    else:
        status = "partially_completed" if failed or set_aside else "completed"
    known = {name: sum(counts.get(name, {}).values()) for name in ("messages", "chunks", "threads")}
    return {
        "source": redact(source),
        "status": status,
        **known,
        "documents": {name: sum(found.values()) for name, found in counts.items()},
        "pending": pending,
        "failed": failed,
        "set_aside": set_aside,
        "without_text": blank,
        **passed_over.counts(),
    }


def _stages(app: App, alive: Sequence[dict[str, Any]]) -> list[StageStatus]:
    """Return the services of the pipeline in its order, then those of other apps."""
    counts = app.store.counts()
    documents = app.store.document_counts()
    finished = {subscription.service: subscription.finishes for subscription in app.store.subscriptions()}
    names = [name for name in PIPELINE_SERVICES if name in counts or name in finished]
    # A service that finishes no collection and has no events is left out.
    others = counts.keys() | {name for name, collection in finished.items() if collection}
    names += sorted(others - set(PIPELINE_SERVICES))
    done = {name: documents.get(finished.get(name) or "", {}).get("processed") for name in names}
    if finished.get("ingestion") == finished.get("parsing") == "archives":
        # Both finish archives: ingestion those that stand for a source, parsing those that were fetched.
        requests = app.store.statuses("archives", [_request(source) for source in app.store.sources()])
        fetched = sum(one == "processed" for one in requests.values())
        done |= {"ingestion": fetched, "parsing": (done["parsing"] or 0) - fetched}
    served = {name for name in names if any(runs(one, name) for one in alive)}
    return [
        _stage(app, name, counts.get(name, {}), done[name], finished.get(name), served=name in served)
        for name in names
    ]


def _request(source: str) -> str:
    from onward.pipeline.documents import source_id

    return source_id(source)


def _stage(
    app: App, name: str, rows: dict[str, int], done: int | None, finishes: str | None, *, served: bool
) -> StageStatus:
    due = app.store.next_due([name], suspects=True) if rows.get("waiting") else None
    waited = app.store.now() - due if due is not None else 0.0
    return StageStatus(
        name or "(no service)",
        finishes,
        rows.get("waiting", 0),
        rows.get("claimed", 0),
        # Settled events are soon removed; the documents that they finished are not.
        rows.get("done", 0) if done is None else done,
        rows.get("dead", 0),
        rows.get("unrouted", 0),
        round(max(0.0, waited), 3),
        due if waited < 0 else None,
        round(-waited, 3) if waited < 0 else None,
        served,
    )


def _groups(app: App) -> tuple[list[dict[str, Any]], int]:
    known = app.store.failure_groups()
    waiting = waiting_events(app.store, known)
    groups = [one for one in known if one.affected or one.dead_letters or waiting.get(one.fingerprint)]
    groups.sort(key=lambda one: (one.affected, one.dead_letters, one.last_seen), reverse=True)
    return [_group(app, group) for group in groups[:TOP_GROUPS]], max(0, len(groups) - TOP_GROUPS)


def _group(app: App, one: FailureGroup) -> dict[str, Any]:
    evidence = evidence_of(app.store, one)
    diagnosis = diagnose(evidence)
    return {
        "fingerprint": one.fingerprint,
        "service": one.service,
        "documents": one.affected,
        "waiting": evidence.waiting,
        "dead_letters": one.dead_letters,
        "error": describe_error({"error_type": one.error_type, "message": one.message}),
        "verdict": str(diagnosis.kind),
        "why": diagnosis_sentences(diagnosis),
        "last_seen": iso(one.last_seen),
    }


def _batches(app: App, rules: RetryJobRules, batches: Sequence[FailedBatch]) -> list[dict[str, Any]]:
    now = app.store.now()
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
