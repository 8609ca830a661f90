"""How everything stands, and what of it needs a person."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onward.cli.opening import store_file
from onward.cli.output import counted, duration, iso, number
from onward.recovery.deciding import Rules
from onward.recovery.outlook import describe_error
from onward.recovery.verdicts import evidence_of, judge, waits
from onward.retry.presets import OTHER_ROUNDS
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App
    from onward.model.recovery import FailureGroup
    from onward.ports import Store

LONG_OUTAGE = 24 * 3600.0
MISSED_RUNS = 3
"""A retry job that has missed so many runs is not running."""
TOP_GROUPS = 3
EVER = 1e12
LAST_RUN = "retry_job_last_success_timestamp_seconds"
_PIPELINE = ("ingestion", "parsing", "chunking", "embedding", "orchestration", "summarization")


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
    stuck: dict[str, int] = field(default_factory=dict)
    outages: list[dict[str, Any]] = field(default_factory=list)
    set_aside: list[dict[str, Any]] = field(default_factory=list)
    retry_job: dict[str, Any] = field(default_factory=dict)
    workers: list[dict[str, Any]] = field(default_factory=list)

    def count(self, *statuses: str) -> int:
        """How many documents have one of these statuses."""
        return sum(counts.get(status, 0) for counts in self.documents.values() for status in statuses)


def look(app: App) -> Standing:
    """Read from the store how everything stands."""
    store, rules = app.store, Rules.of(app.settings)
    standing = Standing(redact(app.settings.store), _size(app))
    standing.documents = store.document_counts()
    standing.sources = [_source(app, source) for source in sorted(store.sources())]
    standing.stages = _stages(app)
    standing.failures = _groups(app)
    standing.outages = _outages(app)
    standing.set_aside = _batches(app, rules)
    standing.stuck = _without_event(store, rules, store.now() - rules.stuck_after)
    standing.retry_job = retry_job(store, rules)
    standing.workers = [
        {"worker": one["worker"], "version": one.get("version", ""), "last_seen": iso(one["last_seen"])}
        for one in store.workers()
    ]
    standing.needs = [*_outage_needs(standing), *_work_needs(standing), *_failure_needs(standing)]
    return standing


# -- facts


def _size(app: App) -> int:
    file = store_file(app.settings)
    if file is None:
        return 0
    parts = [file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))]
    return sum(part.stat().st_size for part in parts if part.exists())


def _source(app: App, source: str) -> dict[str, Any]:
    counts = app.store.document_counts(source)
    batches = app.store.failed_batches(source)
    set_aside = sum(len(one.items) for one in batches)
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
    names = [name for name in _PIPELINE if name in counts or name in finished]
    # A service that finishes nothing and has nothing to do only takes up space.
    others = counts.keys() | {name for name, collection in finished.items() if collection}
    names += sorted(others - set(_PIPELINE))
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
        "failed": rows.get("dead", 0),
        "unrouted": rows.get("unrouted", 0),
        "oldest_waits_seconds": round(max(0.0, waited), 3),
        "next_due": iso(due) if waited < 0 else None,
        "due_in_seconds": round(-waited, 3) if waited < 0 else None,
    }


def _groups(app: App) -> list[dict[str, Any]]:
    known = app.store.failure_groups()
    waiting = waits(app.store, known)
    groups = [one for one in known if one.affected or one.dead_letters or waiting.get(one.fingerprint)]
    groups.sort(key=lambda one: (one.affected, one.dead_letters, one.last_seen), reverse=True)
    return [_group(app, one) for one in groups[:TOP_GROUPS]]


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
            "needs_person": bool(one.remedy) or now - (one.opened_at or now) > LONG_OUTAGE,
            "asked_again": iso(one.next_probe),
            "asked_in_seconds": max(0.0, one.next_probe - now) if one.next_probe else None,
        }
        for one in app.store.breakers()
        if one.open
    ]


def _batches(app: App, rules: Rules) -> list[dict[str, Any]]:
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
        for one in app.store.failed_batches()
    ]


def _without_event(store: Store, rules: Rules, before: float) -> dict[str, int]:
    """Unfinished documents that no event is under way for, and that nothing was heard of since then."""
    rounds = {name: rules.ladder.max_rounds(name) for name in store.document_counts()}
    return store.stuck(before=before, max_rounds=rounds, others=OTHER_ROUNDS)


def retry_job(store: Store, rules: Rules) -> dict[str, Any]:
    """When the retry job last ran, and how many documents may wait for it."""
    last = store.totals().get(LAST_RUN, {}).get("")
    ago = store.now() - last if last else None
    return {
        "last_run": iso(last),
        "seconds_ago": ago,
        "interval_seconds": rules.interval,
        "overdue": ago is None or ago > MISSED_RUNS * rules.interval,
        "waiting": sum(_without_event(store, rules, EVER).values()),
    }


# -- what needs a person


def _outage_needs(standing: Standing) -> list[Need]:
    needs = []
    for one in standing.outages:
        if one["needs_person"]:
            since = f" for {duration(one['seconds'])}" if one["seconds"] > LONG_OUTAGE else ""
            why = ". ".join(part for part in (one["reason"].rstrip("."), one["remedy"].rstrip(".")) if part)
            needs.append(Need(f"{one['dependency']} is down{since}: {why}", "onward breakers"))
    return needs


def _work_needs(standing: Standing) -> list[Need]:
    due = sum(one["waiting"] for one in standing.stages if not one["next_due"])
    job = standing.retry_job
    if due and not standing.workers:
        verb = "is" if due == 1 else "are"
        return [Need(f"{counted(due, 'event')} {verb} due, and no worker runs", _worker(standing))]
    waiting = job["waiting"] + sum(one["documents"] for one in standing.set_aside)
    if not waiting or not job["overdue"] or (job["last_run"] is None and standing.workers):
        return []
    wait = "waits" if waiting == 1 else "wait"
    ran = f"has not run for {duration(job['seconds_ago'])}" if job["last_run"] else "has never run here"
    text = f"{counted(waiting, 'document')} {wait} for the retry job, which {ran}"
    return [Need(text, "onward retry-job --once" if standing.workers else _worker(standing))]


def _worker(standing: Standing) -> str:
    ours = all(one["service"].partition(".")[0] in _PIPELINE for one in standing.stages)
    return "onward worker" if ours else "onward worker --app MODULE:APP"


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
    letters = [one for one in standing.stages if one["failed"] and not one["finishes"]]
    if letters:
        told = ", ".join(f"{one['service']} {number(one['failed'])}" for one in letters)
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
