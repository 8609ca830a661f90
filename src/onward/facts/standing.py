"""How everything stands, and what of it needs a person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onward.facts.finding import PIPELINE_SERVICES, store_file, worker_command
from onward.facts.overdue import Overdue, overdue, retry_job, say_overdue, without_event
from onward.facts.wording import counted, duration, iso, number
from onward.recovery.deciding import Rules
from onward.recovery.outlook import describe_error
from onward.recovery.phrasing import command
from onward.recovery.verdicts import evidence_of, judge, waits
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App
    from onward.model.ledger import FailedBatch
    from onward.model.recovery import FailureGroup

LONG_OUTAGE = 24 * 3600.0
TOP_GROUPS = 3


@dataclass(frozen=True, slots=True)
class Need:
    """Something that a person should look at, and the command that does."""

    text: str
    command: str = ""


@dataclass(slots=True)
class Standing:
    """How everything stands."""

    store: str
    size: int
    needs: list[Need] = field(default_factory=list)
    sources: list[dict[str, Any]] = field(default_factory=list)
    documents: dict[str, dict[str, int]] = field(default_factory=dict)
    stages: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    """The failure groups that most documents are in now."""
    other_failures: int = 0
    """Groups that affect something, and are not among these."""
    stuck: dict[str, int] = field(default_factory=dict)
    outages: list[dict[str, Any]] = field(default_factory=list)
    set_aside: list[dict[str, Any]] = field(default_factory=list)
    retry_job: dict[str, Any] = field(default_factory=dict)
    overdue: Overdue = field(default_factory=Overdue)
    worker: str = "onward worker"
    """What starts a worker for this store."""
    workers: list[dict[str, Any]] = field(default_factory=list)

    def count(self, *statuses: str) -> int:
        """How many documents have one of these statuses."""
        return sum(counts.get(status, 0) for counts in self.documents.values() for status in statuses)


def look(
    app: App, sources: Sequence[str] | None = None, *, late: Callable[[Standing], Overdue] | None = None
) -> Standing:
    """Read from the store how everything stands; of many sources only these are told, in this order.

    Counting what is overdue takes a look at many documents. With `late` that is asked instead, and only if a need
    speaks of it.
    """
    store, rules = app.store, Rules.of(app.settings)
    standing = Standing(redact(app.settings.store), _size(app))
    standing.documents = store.document_counts()
    told = sorted(store.sources()) if sources is None else sources
    batches = store.failed_batches()
    standing.sources = [_source(app, source, batches) for source in told]
    standing.stages = _stages(app)
    standing.failures, standing.other_failures = _groups(app)
    standing.outages = _outages(app)
    standing.set_aside = _batches(app, rules, batches)
    standing.stuck = without_event(store, rules, store.now() - rules.stuck_after)
    standing.retry_job = retry_job(store, rules)
    standing.worker = worker_command(store)
    standing.workers = [
        {"worker": one["worker"], "version": one.get("version", ""), "last_seen": iso(one["last_seen"])}
        for one in store.workers()
    ]
    if late is None:
        standing.overdue = overdue(store, rules)
    elif not standing.workers and not _due(standing):
        standing.overdue = late(standing)
    standing.needs = [*_outage_needs(standing), *_work_needs(standing), *_failure_needs(standing)]
    return standing


# -- facts


def _size(app: App) -> int:
    file = store_file(app.settings)
    if file is None:
        return 0
    parts = [file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))]
    return sum(part.stat().st_size for part in parts if part.exists())


def _source(app: App, source: str, batches: Sequence[FailedBatch]) -> dict[str, Any]:
    counts = app.store.document_counts(source)
    set_aside = sum(len(one.items) for one in batches if one.source == source)
    pending = sum(found.get("pending", 0) for found in counts.values()) - set_aside
    failed = sum(found.get(one, 0) for found in counts.values() for one in ("failed", "failed_max_retries"))
    if "archives" in counts:
        from onward.pipeline.sources import SourceStatus

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
    }


def _stages(app: App) -> list[dict[str, Any]]:
    """Each service's events, in the order of the pipeline; those of others behind."""
    counts = app.store.counts()
    documents = app.store.document_counts()
    finished = {one.service: one.finishes for one in app.store.subscriptions()}
    names = [name for name in PIPELINE_SERVICES if name in counts or name in finished]
    # A service that finishes nothing and has nothing to do only takes up space.
    others = counts.keys() | {name for name, collection in finished.items() if collection}
    names += sorted(others - set(PIPELINE_SERVICES))
    done = {name: documents.get(finished.get(name) or "", {}).get("processed") for name in names}
    if finished.get("ingestion") == finished.get("parsing") == "archives":
        # Both finish archives: the one those that stand for a source, the other what was fetched.
        requests = app.store.statuses("archives", [_request(source) for source in app.store.sources()])
        fetched = sum(one == "processed" for one in requests.values())
        done |= {"ingestion": fetched, "parsing": (done["parsing"] or 0) - fetched}
    return [_stage(app, name, counts.get(name, {}), done[name], finished.get(name)) for name in names]


def _request(source: str) -> str:
    from onward.pipeline.documents import source_id

    return source_id(source)


def _stage(app: App, name: str, rows: dict[str, int], done: int | None, finishes: str | None) -> dict[str, Any]:
    due = app.store.next_due([name], suspects=True) if rows.get("waiting") else None
    waited = app.store.now() - due if due is not None else 0.0
    return {
        "service": name or "(no service)",
        "finishes": finishes,
        "waiting": rows.get("waiting", 0),
        "working": rows.get("claimed", 0),
        # Events that are done are soon forgotten; what they finished is not.
        "done": rows.get("done", 0) if done is None else done,
        "dead_letters": rows.get("dead", 0),
        "unrouted": rows.get("unrouted", 0),
        "oldest_waits_seconds": round(max(0.0, waited), 3),
        "next_due": iso(due) if waited < 0 else None,
        "due_in_seconds": round(-waited, 3) if waited < 0 else None,
        "served": any(name in one.get("services", ()) for one in app.store.workers()),
    }


def _groups(app: App) -> tuple[list[dict[str, Any]], int]:
    known = app.store.failure_groups()
    waiting = waits(app.store, known)
    groups = [one for one in known if one.affected or one.dead_letters or waiting.get(one.fingerprint)]
    groups.sort(key=lambda one: (one.affected, one.dead_letters, one.last_seen), reverse=True)
    return [_group(app, one) for one in groups[:TOP_GROUPS]], max(0, len(groups) - TOP_GROUPS)


def _group(app: App, one: FailureGroup) -> dict[str, Any]:
    evidence = evidence_of(app.store, one)
    verdict = judge(evidence)
    return {
        "fingerprint": one.fingerprint,
        "service": one.service,
        "documents": one.affected,
        "waiting": evidence.waiting,
        "dead_letters": one.dead_letters,
        "error": describe_error({"error_type": one.error_type, "message": one.message}),
        "verdict": str(verdict.kind),
        "why": list(verdict.sentences),
        "last_seen": iso(one.last_seen),
    }


def _outages(app: App) -> list[dict[str, Any]]:
    now = app.store.now()
    return [
        {
            "dependency": one.dependency,
            "since": iso(one.opened_at),
            "seconds": now - one.opened_at if one.opened_at else 0.0,
            "reason": one.reason,
            "remedy": one.remedy,
            "by_hand": one.by_hand,
            "needs_person": one.by_hand or bool(one.remedy) or now - (one.opened_at or now) > LONG_OUTAGE,
            "asked_again": iso(one.next_probe),
            "asked_in_seconds": max(0.0, one.next_probe - now) if one.next_probe else None,
        }
        for one in app.store.breakers()
        if one.open
    ]


def _batches(app: App, rules: Rules, batches: Sequence[FailedBatch]) -> list[dict[str, Any]]:
    now = app.store.now()
    return [
        {
            "batch": one.id,
            "source": redact(one.source or ""),
            "service": one.service,
            "documents": len(one.items),
            "retries": one.retry_count,
            "persistent": rules.ladder.failed_batch.persistent(one.retry_count),
            "tried_again": iso(one.retry_after),
            "due_in_seconds": max(0.0, one.retry_after - now),
            "error": redact(str(one.errors[-1].get("error", ""))) if one.errors else "",
        }
        for one in batches
    ]


# -- what needs a person


def _outage_needs(standing: Standing) -> list[Need]:
    needs = []
    for one in standing.outages:
        if one["by_hand"]:
            why = one["reason"].rstrip(".")
            text = f"{one['dependency']} was taken out of service by hand ({why}); bring it back when it works"
            needs.append(Need(text, command("onward breakers close", one["dependency"])))
        elif one["needs_person"]:
            since = f" for {duration(one['seconds'])}" if one["seconds"] > LONG_OUTAGE else ""
            why = ". ".join(part for part in (one["reason"].rstrip("."), one["remedy"].rstrip(".")) if part)
            needs.append(Need(f"{one['dependency']} is down{since}: {why}", "onward breakers"))
    return needs


def _work_needs(standing: Standing) -> list[Need]:
    due, job = _due(standing), standing.retry_job
    if due and not standing.workers:
        verb = "is" if due == 1 else "are"
        return [Need(f"{counted(due, 'event')} {verb} due, and no worker runs", standing.worker)]
    unserved = [one for one in standing.stages if one["waiting"] and not one["next_due"] and not one["served"]]
    if unserved:
        return [
            Need(
                f"{counted(one['waiting'], 'event')} of {one['service']} {'is' if one['waiting'] == 1 else 'are'} "
                "due, and no worker runs it",
                standing.worker,
            )
            for one in unserved
        ]
    if standing.overdue.total and not standing.workers:
        return [Need(say_overdue(standing.overdue), standing.worker)]
    waiting = job["waiting"] + sum(one["documents"] for one in standing.set_aside)
    if not waiting or not job["overdue"] or (job["last_run"] is None and standing.workers):
        return []
    wait = "waits" if waiting == 1 else "wait"
    ran = f"has not run for {duration(job['seconds_ago'])}" if job["last_run"] else "has never run here"
    text = f"{counted(waiting, 'document')} {wait} for the retry job, which {ran}"
    once = standing.worker.replace("onward worker", "onward retry-job --once")
    return [Need(text, once if standing.workers else standing.worker)]


def _due(standing: Standing) -> int:
    """How many events somebody could work at now."""
    return sum(one["waiting"] for one in standing.stages if not one["next_due"])


def _failure_needs(standing: Standing) -> list[Need]:
    needs = []
    failed, given_up = standing.count("failed"), standing.count("failed_max_retries")
    if failed:
        needs.append(Need(f"{counted(failed, 'document')} failed", "onward failures list"))
    if given_up:
        verb = "was" if given_up == 1 else "were"
        text = f"{counted(given_up, 'document')} {verb} given up after all rounds"
        needs.append(Need(text, "onward documents list --status failed_max_retries"))
    # Of a service that finishes documents, the retry job brings them back, or they are counted above.
    letters = [one for one in standing.stages if one["dead_letters"] and not one["finishes"]]
    if letters:
        told = ", ".join(f"{one['service']} {number(one['dead_letters'])}" for one in letters)
        needs.append(Need(f"dead letters that only a person puts back: {told}", "onward failed list"))
    persistent = [one for one in standing.set_aside if one["persistent"]]
    if persistent:
        batches = f"{number(len(persistent))} failed batch{'' if len(persistent) == 1 else 'es'}"
        verb = "keeps" if len(persistent) == 1 else "keep"
        items = sum(one["documents"] for one in persistent)
        text = f"{batches} ({counted(items, 'document')}) {verb} failing"
        needs.append(Need(text, "onward batches list"))
    if stuck := sum(standing.stuck.values()):
        verb = "is" if stuck == 1 else "are"
        where = "onward documents list --status pending"
        needs.append(Need(f"{counted(stuck, 'document')} {verb} stuck", where))
    return needs
