"""Two retry jobs at once, one of them killed between its steps: no round is begun twice, no event is lost."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from onward.ledger.store import Store
from onward.model.events import Envelope
from onward.model.failures import Failure
from onward.model.ledger import (
    Charge,
    DeadLettered,
    InFailedBatch,
    NewDocument,
    Processed,
    Settlement,
    SettlementPart,
)
from onward.recovery.requeue_documents import DocumentRequeue
from tests.recovery.processes import children
from tests.recovery.processes.children import (
    SLICE,
    SURVIVED,
    Leaf,
    LeavesFound,
    job_on,
    open_file,
    run_and_die,
    run_beside,
    statements_of_a_run,
)

pytestmark = pytest.mark.prove

KILLS = int(os.environ.get("TWO_JOBS_KILLS", "100"))
SEED = int(os.environ.get("TWO_JOBS_SEED", "0")) or Random().randrange(1, 10**9)
MEMORY = Path("/dev/shm")
START = 1_800_000_000.0
HOUR = 3600.0
FAILED, ASIDE, NEVER_BEGUN, EXHAUSTED = 9, 6, 5, 2
"""Of each round: leaves whose last round failed, set aside, never begun, and without a round left."""
# Forked from a server that has read all modules and has no threads: a process costs milliseconds.
FORKING = get_context("forkserver")
FORKING.set_forkserver_preload(["__main__", children.__name__])


@dataclass
class Garden:
    """One file, and what became of the leaves in it."""

    file: Path
    now: float = START
    counts: Counter[str] = field(default_factory=Counter)

    # -- what is due

    def grow(self, name: str) -> None:
        """Bring leaves that have failed, long ago; an hour later all of them are due."""
        with closing(open_file(self.file, self.now - 2 * HOUR)) as store:
            store.subscribe([one.subscription() for one in children.app.registry.services.values()])
            store.add_documents([_leaf(f"{name}-new-{n}", None) for n in range(NEVER_BEGUN)])
            failed = [f"{name}-failed-{n}" for n in range(FAILED)]
            self._fail(store, failed, DeadLettered(failed, failure=_failure(store.now()), charge=Charge.TRY))
            aside = [f"{name}-aside-{n}" for n in range(ASIDE)]
            self._fail(store, aside, InFailedBatch(aside, _failure(store.now())), source=name)
            done = [f"{name}-done-{n}" for n in range(EXHAUSTED)]
            for number in range(5):
                self._fail(store, done, DeadLettered(done, failure=_failure(store.now()), charge=Charge.TRY))
                if number == 0:  # something succeeds meanwhile: what fails is their own fault
                    good = [f"{name}-good"]
                    self._fail(store, good, Processed(good))

    def _fail(self, store: Store, ids: list[str], part: SettlementPart, source: str | None = None) -> None:
        store.add_documents([_leaf(id, source) for id in ids])
        store.publish(Envelope.of(LeavesFound(leaf_ids=ids), now=store.now()))
        (delivery,) = store.claim("nobody", "pressing", limit=1, lease=60.0)
        assert [one.id for one in delivery.inputs] == ids
        store.settle([Settlement(delivery.row, delivery.token, "leaves", parts=[part])])

    # -- what happens

    def run_two(self, *, led: bool, meets_at: int, ends_at: int) -> bool:
        """Run two jobs, of which one is killed; False: the other was faster, and left it nothing to do."""
        barrier = FORKING.Barrier(2)
        at = (barrier, self.file, self.now)
        fate = {"led": led, "meets_at": meets_at, "ends_at": ends_at}
        doomed = FORKING.Process(target=run_and_die, args=at, kwargs=fate)
        other = FORKING.Process(target=run_beside, args=at, kwargs={"led": led})
        for job in (doomed, other):
            job.start()
        for job in (doomed, other):
            job.join()
        assert doomed.exitcode in (SURVIVED, -signal.SIGKILL)
        assert other.exitcode == 0, "what happens to one is nothing to the other"
        return doomed.exitcode == -signal.SIGKILL

    def run_heir(self) -> None:
        """Once the lease of the one that was killed has lapsed, another one does what is left."""
        self.now += 61.0
        with closing(open_file(self.file, self.now)) as store:
            assert job_on(store, "heir").run(full=True).led

    # -- what there is

    def check(self, name: str) -> None:
        with closing(sqlite3.connect(self.file)) as eye:
            docs = eye.execute(
                "SELECT id, status, attempt_count, round, row FROM documents WHERE id LIKE ?", (f"{name}-%",)
            ).fetchall()
            rows = eye.execute("SELECT id, ids FROM ledger WHERE state IN ('waiting', 'claimed')").fetchall()
            retried = eye.execute("SELECT retry_count FROM failed_batches WHERE source = ?", (name,)).fetchall()
        named: dict[tuple[str, int], list[int]] = {}
        for row, pairs in rows:
            for id, round in json.loads(pairs):
                named.setdefault((id, round), []).append(row)
        for id, status, attempts, round, row in docs:
            kind = id.split("-")[1]
            self.counts[kind] += 1
            if kind == "good":
                assert (status, round) == ("processed", 1), id
                continue
            if kind == "done":
                assert (status, attempts, round, row) == ("failed_max_retries", 5, 5, None), id
                continue
            rounds = 1 if kind == "new" else 2
            assert (status, attempts, round) == ("pending", rounds, rounds), f"{id}: its next round, once"
            assert named.pop((id, round)) == [row], f"{id}: one live row, at this round"
        assert not [key for key in named if key[0].startswith(f"{name}-")], "and none at an older one"
        assert len(docs) == FAILED + ASIDE + NEVER_BEGUN + EXHAUSTED + 1  # the good one
        assert retried == [(1,)], "the failed batch is retried once"

    def totals(self) -> dict[str, float]:
        with closing(open_file(self.file, self.now)) as store:
            totals = store.totals()
        names = (
            "retry_job_documents_requeued_total",
            "retry_job_documents_max_retries_exceeded_total",
            "failed_batches_retried_total",
        )
        return {name: sum(totals.get(name, {}).values()) for name in names}


def _leaf(id: str, source: str | None) -> NewDocument:
    return NewDocument("leaves", id, Leaf(id=id).to_json(), source=source)


def _failure(at: float) -> Failure:
    return Failure(at=at, error_type="ValueError", message="it broke", fingerprint="f00d")


@pytest.fixture
def garden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Garden]:
    monkeypatch.setattr(DocumentRequeue, "at_once", SLICE)
    # Where it exists, a folder that is never synced: processes are killed here, not the power.
    with TemporaryDirectory(prefix="onward-", dir=MEMORY if MEMORY.is_dir() else tmp_path) as folder:
        yield Garden(Path(folder) / "garden.db")


@pytest.mark.timeout(600)
def test_no_round_is_begun_twice_and_no_event_is_lost(garden: Garden, report: Callable[[str], None]) -> None:
    report(f"seed {SEED} (set TWO_JOBS_SEED to repeat it)")
    random = Random(SEED)
    garden.grow("first")
    whole, run = statements_of_a_run(garden.file, garden.now)
    assert run.touched == FAILED + NEVER_BEGUN + EXHAUSTED + 1
    garden.check("first")
    rounds = kills = 0
    while kills < KILLS:
        # In half of the rounds nobody minds who leads: it must not depend on that.
        led = rounds % 2 == 0
        name, rounds = f"round{rounds}", rounds + 1
        garden.grow(name)
        ends_at = random.randrange(1, whole)
        kills += garden.run_two(led=led, meets_at=random.randrange(ends_at), ends_at=ends_at)
        garden.run_heir()
        garden.check(name)
    counts = garden.counts
    report(
        f"kills {kills} in {rounds} rounds, at any of the {whole} statements of a run; put back "
        f"{counts['failed']} failed, {counts['new']} never begun, {counts['aside']} set aside; "
        f"given up {counts['done']}"
    )
    assert garden.totals() == {
        "retry_job_documents_requeued_total": counts["failed"] + counts["new"],
        "retry_job_documents_max_retries_exceeded_total": counts["done"],
        "failed_batches_retried_total": rounds + 1,
    }, "what was counted is what happened"
