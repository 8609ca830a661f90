"""The status of everything, and what of it needs a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from onward.app import App
from onward.ledger.store import Store
from onward.model.ledger import FailedBatch
from onward.model.ledger_views import FailureGroup
from onward.ops.lookup import PIPELINE_SERVICES, store_file, worker_command
from onward.ops.queries.incoming import IncomingBacklog, read_incoming
from onward.ops.queries.ingestion_report import SkippedFiles, skipped_files_of_sources
from onward.ops.queries.models import read_upgrade_status
from onward.ops.queries.needs import Need, due_events, find_needs
from onward.ops.queries.outbox import OutboxBacklog, read_outbox
from onward.ops.queries.services import Outage, read_outages, runs
from onward.ops.text.diagnosis import diagnosis_sentences
from onward.ops.text.format import iso, utc_time
from onward.ops.text.needs import need_command, need_sentence
from onward.ops.text.outages import outage_text
from onward.recovery.diagnosis import diagnose
from onward.recovery.evidence import EvidenceReader, waiting_events
from onward.recovery.next_step import describe_error
from onward.recovery.retry_decision import RetryAction, RetryJobRules, decide
from onward.retry.errors import Malformed
from onward.retry.redact import redact
from onward.runtime.process_identity import alive_workers

if TYPE_CHECKING:
    from onward.pipeline.vector_upgrade import UpgradeProgress

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
    malformed: int  # dead letters that could not be read and belong to no document: no retry job puts them back
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
    regressions: int = 0  # failure groups that were closed, and came back
    stuck: dict[str, int] = field(default_factory=dict)
    outages: list[Outage] = field(default_factory=list)
    set_aside: list[dict[str, Any]] = field(default_factory=list)
    retry_job: RetryJobStatus = field(default_factory=RetryJobStatus)
    overdue: Overdue = field(default_factory=Overdue)
    outbox: OutboxBacklog = field(default_factory=OutboxBacklog)
    incoming: IncomingBacklog = field(default_factory=IncomingBacklog)
    joins: int = 0  # events that wait until documents are final
    upgrade: UpgradeProgress | None = None  # of the vectors, if the settings name a better model
    worker: str = "onward worker"  # the command that starts a worker for this store
    workers: list[dict[str, Any]] = field(default_factory=list)

    def count(self, *statuses: str) -> int:
        return sum(counts.get(status, 0) for counts in self.documents.values() for status in statuses)

    def as_dict(self) -> dict[str, Any]:
        needs = [
            {
                "kind": str(need.kind),
                "count": need.count,
                "text": need_sentence(need, utc_time),
                "command": need_command(need),
            }
            for need in self.needs
        ]
        return asdict(self) | {
            "needs": needs,
            "stages": [asdict(stage) | {"next_due": iso(stage.next_due)} for stage in self.stages],
            "outages": [outage.as_dict() | {"text": outage_text(outage, utc_time)} for outage in self.outages],
            "retry_job": asdict(self.retry_job) | {"last_run": iso(self.retry_job.last_run)},
            "upgrade": self.upgrade.as_dict() if self.upgrade is not None else None,
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
    store = app.store
    rules = RetryJobRules.of(app.settings, store.subscriptions())
    file = store_file(app.settings.store)
    files = [file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))] if file is not None else []
    status = SystemStatus(redact(app.settings.store), sum(one.stat().st_size for one in files if one.exists()))
    status.documents = store.document_counts()
    batches = store.failed_batches()
    chosen = sorted(store.sources()) if sources is None else sources
    status.sources = _sources(app, chosen, batches)
    alive = alive_workers(store)
    groups = store.failure_groups()
    status.stages = _stages(store, alive, groups)
    status.failures, status.other_failures = _failures(store, groups)
    status.regressions = sum(map(_came_back, groups))
    status.outages = read_outages(store)
    status.set_aside = _batches(store, rules, batches)
    status.stuck = rules.stuck(store)
    status.retry_job = retry_job_status(store, rules)
    status.outbox = read_outbox(store)
    status.incoming = read_incoming(store)
    status.joins = store.join_count()
    if app.settings.embedder_upgrade is not None and "chunks" in status.documents:
        status.upgrade = read_upgrade_status(app)
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


def _sources(app: App, sources: Sequence[str], batches: Sequence[FailedBatch]) -> list[dict[str, Any]]:
    """Return the status of each source; with a number of statements that does not depend on how many there are."""
    every = app.store.document_counts_by_source()
    fetched = [source for source in sources if "archives" in every.get(source, {})]
    skipped: dict[str, SkippedFiles] = {}
    blank: dict[str, int] = {}
    attached: dict[str, dict[str, Any]] = {}
    if fetched:
        from onward.pipeline.documents import source_id
        from onward.pipeline.sources import attachment_counts

        skipped = skipped_files_of_sources(app, fetched)
        ids = {source_id(source): source for source in fetched}
        counts = app.store.value_counts("messages", "without_text", list(ids))
        blank = {ids[str(id)]: sum(found.values()) for id, found in counts.items()}
        attached = {source: counts.as_dict() for source, counts in attachment_counts(app, fetched).items()}
    return [
        _source(
            source,
            every.get(source, {}),
            batches,
            skipped.get(source, SkippedFiles()),
            blank.get(source, 0),
            attached.get(source, {}),
        )
        for source in sources
    ]


def _source(
    source: str,
    counts: dict[str, dict[str, int]],
    batches: Sequence[FailedBatch],
    passed_over: SkippedFiles,
    blank: int,
    attachments: dict[str, Any],
) -> dict[str, Any]:
    set_aside = sum(len(batch.items) for batch in batches if batch.source == source)
    pending = sum(found.get("pending", 0) for found in counts.values()) - set_aside
    failed = sum(found.get(one, 0) for found in counts.values() for one in ("failed", "failed_max_retries"))
    status = "running" if pending else "partially_completed" if failed or set_aside else "completed"
    messages = sum(counts.get("messages", {}).values())
    if "archives" in counts:
        from onward.pipeline.sources import SourceStatus

        status = SourceStatus(source, counts, set_aside).status
    return {
        "source": redact(source),
        "status": status,
        **{name: sum(counts.get(name, {}).values()) for name in ("messages", "chunks", "threads")},
        # The text of an attachment is stored as a message, but it is none to people.
        **({"messages": messages - attachments["searchable"]} if attachments else {}),
        "attachments": attachments,
        "documents": {name: sum(found.values()) for name, found in counts.items()},
        "pending": pending,
        "failed": failed,
        "set_aside": set_aside,
        "without_text": blank,
        **passed_over.counts(),
    }


def _stages(store: Store, alive: Sequence[dict[str, Any]], groups: Sequence[FailureGroup]) -> list[StageStatus]:
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
    malformed = Counter[str]()
    for group in groups:
        if group.error_type == Malformed.__name__ and not group.affected:
            malformed[group.service] += group.dead_letters
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
                malformed[name],
                rows.get("unrouted", 0),
                round(max(0.0, waited), 3),
                due if waited < 0 else None,
                round(-waited, 3) if waited < 0 else None,
                any(runs(one, name) for one in alive),
            )
        )
    return stages


def _failures(store: Store, known: Sequence[FailureGroup]) -> tuple[list[dict[str, Any]], int]:
    """Return the failure groups that affect most documents now, and how many more affect any."""
    waiting = waiting_events(store, known)
    groups = [one for one in known if one.affected or one.dead_letters or waiting.get(one.fingerprint)]
    groups = [one for one in groups if not one.life.closed]
    groups.sort(key=lambda one: (_came_back(one), one.affected, one.dead_letters, one.last_seen), reverse=True)
    facts = []
    for evidence in EvidenceReader(store).of_all(groups[:TOP_GROUPS], known):
        group = evidence.group
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
                "why": diagnosis_sentences(diagnosis, group.versions),
                "last_seen": iso(group.last_seen),
                "regression": _came_back(group),
                "owner": redact(group.life.owner) or None,
            }
        )
    return facts, len(groups) - len(facts)


def _came_back(group: FailureGroup) -> bool:
    return group.life.regressed_at is not None


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
    waiting = sum(rules.stuck(store, 1e12).values())  # of any age
    return RetryJobStatus(last, ago, rules.interval, late, waiting)


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
