"""What the processes of a test do: run the retry job on one file, one of them only for a while."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import cast

from onward import App, Document, Event, Settings, Work, names
from onward.ledger.dialect import Database
from onward.ledger.sqlite import SQLiteStore
from onward.ledger.sqlite.dialect import SQLiteDatabase
from onward.recovery.requeue_documents import DocumentRequeue
from onward.recovery.retry_decision import RetryJobRules
from onward.recovery.retry_job import RetryJob, RetryJobRun
from tests.support.killed_worker import Fragile

SURVIVED = 7
"""The exit code of one that had nothing left to do."""
PATIENCE = 60.0
"""A net for what hangs."""
SLICE = 4
"""Documents in one transaction: few, so that there are many moments between two."""


class Leaf(Document, collection="leaves"): ...


class LeavesFound(Event):
    leaf_ids: list[str] = names(Leaf)


app = App(settings=Settings())


@app.service("pressing", on=LeavesFound, finishes=Leaf, sets_aside=True)
def press(leaf: Leaf, work: Work) -> None:
    """Nobody is at work: what is put back stays where it is."""


class StandingClock:
    """All processes of a round live in the same moment."""

    def __init__(self, now: float) -> None:
        self.time = now

    def now(self) -> float:
        return self.time


class Anarchy(SQLiteStore):
    """A store in which everybody leads, so that the jobs meet."""

    def acquire_role(self, role: str, holder: str, seconds: float) -> bool:
        return True


class Doomed(Fragile):
    """A database whose process lets another one begin at a chosen statement, and is killed at a later one."""

    def __init__(self, database: Database, meets: Callable[[], object] = lambda: None) -> None:
        super().__init__(database)
        self.statements = 0
        self.meets_at = self.ends_at = -1
        self._meets = meets

    def _burn(self) -> None:
        if self.statements == self.meets_at:
            self._meets()
        if self.statements == self.ends_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.statements += 1


def open_file(file: Path, now: float, *, led: bool = True) -> SQLiteStore:
    return (SQLiteStore if led else Anarchy)(file, StandingClock(now))


def job_on(store: SQLiteStore, holder: str) -> RetryJob:
    return RetryJob(
        store, app.registry, RetryJobRules.of(app.settings, app.registry.subscriptions()), holder=holder
    )


def doom(store: SQLiteStore, meets: Callable[[], object] = lambda: None) -> Doomed:
    doomed = Doomed(store.db, meets)
    store.db = cast(SQLiteDatabase, doomed)
    return doomed


def run_and_die(barrier: Barrier, file: Path, now: float, *, led: bool, meets_at: int, ends_at: int) -> None:
    """Run the retry job, from some statement on at the same time as another process, until it is killed."""
    DocumentRequeue.at_once = SLICE
    store = open_file(file, now, led=led)
    doomed = doom(store, lambda: barrier.wait(PATIENCE))
    doomed.meets_at, doomed.ends_at = meets_at, ends_at
    job_on(store, "doomed").run(full=True)
    if doomed.statements <= meets_at:
        barrier.wait(PATIENCE)
    os._exit(SURVIVED)


def run_beside(barrier: Barrier, file: Path, now: float, *, led: bool) -> None:
    """Run the retry job as soon as the other one is under way."""
    DocumentRequeue.at_once = SLICE
    store = open_file(file, now, led=led)
    job = job_on(store, "other")
    barrier.wait(PATIENCE)
    job.run(full=True)
    store.close()


def statements_of_a_run(file: Path, now: float) -> tuple[int, RetryJobRun]:
    """How many statements a whole run takes."""
    store = open_file(file, now)
    doomed = doom(store)
    run = job_on(store, "first").run(full=True)
    store.close()
    return doomed.statements, run
