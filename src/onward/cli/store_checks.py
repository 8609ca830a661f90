"""What `onward doctor` checks inside of a store: times, rows, workers, outages and the retry job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from onward.cli.checks import Check, ok, warning
from onward.facts.finding import worker_command
from onward.facts.wording import counted, duration, moment
from onward.recovery.deciding import Rules
from onward.recovery.outlook import process_of

if TYPE_CHECKING:
    from onward.backends.postgres.examining import ExaminedServer
    from onward.backends.sqlite.examining import Examined
    from onward.ports import Store
    from onward.settings import Settings

ALIVE = 90.0
LATELY = 86_400.0
"""A worker that vanished longer ago than this is forgotten."""
NAMED = 3


def check_contents(settings: Settings, examined: Examined | ExaminedServer) -> Iterator[Check]:
    """Look into the store as a store; it is one of this version."""
    from onward.backends import open_store

    # Not through an app, which would take the write lock to say what services it has.
    store = open_store(settings.store)
    try:
        yield from _examined(examined, worker_command(store))
        yield from _workers(store)
        yield from _outages(store)
        yield from _retry_job(store, Rules.of(settings))
    finally:
        store.close()


def _examined(found: Examined | ExaminedServer, worker: str) -> Iterator[Check]:
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
    alive = [one for one in known if one["last_seen"] >= now - ALIVE]
    gone = [one for one in known if one["last_seen"] < now - ALIVE]
    yield ok("workers", f"{counted(len(alive), 'worker')} alive" if alive else "none runs just now")
    if gone:
        text = f"{counted(len(gone), 'worker')} vanished: {_named(gone, now)}"
        remedy = "what they had goes on when another worker runs; see its log for why it died"
        yield warning("workers", text, remedy)


def _named(workers: list[dict[str, Any]], now: float) -> str:
    shown = [
        f"{process_of(one['worker'])}, last heard of {duration(round(now - one['last_seen']))} ago"
        for one in workers[:NAMED]
    ]
    return "; ".join([*shown, *(["…"] if len(workers) > NAMED else [])])


def _outages(store: Store) -> Iterator[Check]:
    down = [one for one in store.breakers() if one.open]
    for one in down:
        since = f" since {moment(one.opened_at)}" if one.opened_at else ""
        what = "is out of service by hand" if one.by_hand else "is down"
        text = f"{one.dependency} {what}{since}: {one.reason}"
        yield warning("dependencies", text, one.remedy or "onward breakers")
    if not down:
        yield ok("dependencies", "none is known to be down")


def _retry_job(store: Store, rules: Rules) -> Iterator[Check]:
    from onward.facts.overdue import overdue, retry_job, say_overdue

    job, late = retry_job(store, rules), overdue(store, rules)
    worker = worker_command(store)
    if late.total and not store.workers():
        yield warning("retry job", say_overdue(late), worker)
        return
    waiting = counted(job["waiting"], "document")
    if job["waiting"] and job["overdue"]:
        ran = f"has not run for {duration(job['seconds_ago'])}" if job["last_run"] else "has never run here"
        yield warning("retry job", f"{waiting} may wait for it, and it {ran}", worker)
    elif job["last_run"]:
        yield ok("retry job", f"ran {duration(max(0, round(job['seconds_ago'])))} ago")
    else:
        yield ok("retry job", "has not run yet; nothing waits for it")
