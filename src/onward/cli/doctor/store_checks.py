"""The checks of a store's content: times, rows, workers, outages and the retry job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from onward.cli.doctor.checks import Check, ok, warning
from onward.ops.lookup import worker_command
from onward.ops.queries.workers import service_facts
from onward.ops.text.format import counted, duration, moment, worker_process
from onward.recovery.retry_decision import RetryJobRules
from onward.runtime.process_identity import alive_workers, is_gone

if TYPE_CHECKING:
    from onward.ledger.postgres.inspection import ServerInspection
    from onward.ledger.sqlite.inspection import FileInspection
    from onward.ledger.store import Store
    from onward.settings import Settings

ALIVE = 90.0
LATELY = 86_400.0
"""Workers that disappeared earlier are not reported."""
NAMED = 3


def check_contents(settings: Settings, examined: FileInspection | ServerInspection) -> Iterator[Check]:
    """Check the content of a store whose schema is current."""
    from onward.backend_urls import open_store

    # Not through an app, which would take the write lock to say what services it has.
    store = open_store(settings.store)
    try:
        yield from _examined(examined, worker_command(store))
        yield from _workers(store)
        yield from _services(store)
        yield from _outages(store)
        yield from _retry_job(store, RetryJobRules.of(settings))
    finally:
        store.close()


def _examined(found: FileInspection | ServerInspection, worker: str) -> Iterator[Check]:
    if found.astray:
        verb = "points" if found.astray == 1 else "point"
        text = f"{counted(found.astray, 'document')} {verb} to ledger rows that do not exist"
        yield warning("ledger", text, f"the retry job frees them, beside a worker: {worker}")
    elif found.astray is not None:
        yield ok("ledger", "every document's row exists")
    if found.future:
        verb = "was" if found.future == 1 else "were"
        text = f"{counted(found.future, 'document')} {verb} changed in the future, up to {moment(found.latest)}"
        yield warning("times", text, "the clock was wrong, here or there: let NTP keep it right")
    elif found.future is not None:
        yield ok("times", "nothing was changed in the future")


def _workers(store: Store) -> Iterator[Check]:
    now = store.now()
    known = store.workers(alive_within=LATELY)
    gone = [one for one in known if one["last_seen"] < now - ALIVE or is_gone(one)]
    alive = [one for one in known if one not in gone]
    yield ok("workers", f"{counted(len(alive), 'worker')} alive" if alive else "none runs just now")
    if gone:
        text = f"{counted(len(gone), 'worker')} vanished: {_named(gone, now)}"
        remedy = "what they had goes on when another worker runs; see its log for why it died"
        yield warning("workers", text, remedy)


def _services(store: Store) -> Iterator[Check]:
    found = [service for service in service_facts(store) if service["due"] and not service["workers"]]
    for one in found:
        wait = "waits" if one["waiting"] == 1 else "wait"
        text = f"{counted(one['waiting'], 'event')} {wait} for {one['service']}, and no worker runs it"
        yield warning("services", text, "onward services")
    if not found:
        yield ok("services", "no event waits for a service that no worker runs")


def _named(workers: list[dict[str, Any]], now: float) -> str:
    shown = [
        f"{worker_process(worker['worker'])}, last heard of {duration(round(now - worker['last_seen']))} ago"
        for worker in workers[:NAMED]
    ]
    return "; ".join([*shown, *(["…"] if len(workers) > NAMED else [])])


def _outages(store: Store) -> Iterator[Check]:
    failing = [breaker for breaker in store.breakers() if breaker.failing_since is not None]
    for one in failing:
        since = f" since {moment(one.failing_since)}" if one.failing_since is not None else ""
        if one.by_hand:
            what = f"is out of service by hand{since}"
        elif not one.open and one.unreached_since is not None:
            what = f"has not been reached{since}"
        elif one.openings > 1:
            what = f"fails on and off{since} ({one.openings} times)"
        else:
            what = f"is down{since}" if one.open else f"was down{since}, and works again"
        yield warning("dependencies", f"{one.dependency} {what}: {one.reason}", one.remedy or "onward breakers")
    if not failing:
        yield ok("dependencies", "none is known to be down")


def _retry_job(store: Store, rules: RetryJobRules) -> Iterator[Check]:
    from onward.ops.queries.status import overdue, retry_job_status
    from onward.ops.text.needs import overdue_sentence

    job, late = retry_job_status(store, rules), overdue(store, rules)
    worker = worker_command(store)
    if late.total and not alive_workers(store):
        yield warning("retry job", overdue_sentence(late.total), worker)
        return
    waiting = counted(job.waiting, "document")
    if job.waiting and job.overdue:
        ran = (
            f"has not run for {duration(job.seconds_ago)}" if job.seconds_ago is not None else "has never run here"
        )
        yield warning("retry job", f"{waiting} may wait for it, and it {ran}", worker)
    elif job.seconds_ago is not None:
        yield ok("retry job", f"ran {duration(max(0, round(job.seconds_ago)))} ago")
    else:
        yield ok("retry job", "has not run yet; nothing waits for it")
