"""A paused group: what it holds is settled by others, and its late commit is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from onward.ledger.sqlite import SQLiteStore
from onward.ledger.store import Store
from onward.model.ledger import Delivery, Processed, Settlement
from onward.runtime.outcomes import Dropped
from onward.settings import Settings
from onward.torture import worker_groups
from onward.torture.worker_groups import PausedGroup, PauseResult, WorkerGroup, WorkerProcess
from onward.torture.workload import REFUSAL_LOG, Parcel, ParcelArrived, build, record_refusal

LEASE = 3.0


@dataclass
class FixedClock:
    time: float = 1_800_000_000.0

    def now(self) -> float:
        return self.time


@dataclass
class OneWorkerGroup:
    """A group of one worker: this process."""

    pid: int
    alive: bool = True
    resumed: bool = False

    def workers(self, store: Store) -> list[WorkerProcess]:
        return [WorkerProcess(self.pid, "paused", False)] if self.alive else []

    def resume(self) -> None:
        self.resumed = True


@dataclass
class Trial:
    """A store, a group that holds some of its rows, and another worker."""

    store: SQLiteStore
    clock: FixedClock
    refusal_log: Path
    group: OneWorkerGroup
    paused: PausedGroup = field(init=False)
    held: list[Delivery] = field(init=False)

    def pause(self, holding: int) -> None:
        self.held = self.claim("paused", holding)
        group = cast(WorkerGroup, self.group)  # as much of one as is used here
        self.paused = PausedGroup(group, self.store, LEASE, self.refusal_log, self.clock.now)

    def claim(self, worker: str, limit: int) -> list[Delivery]:
        return self.store.claim(worker, "unpacking", limit=limit, lease=LEASE)

    def others_work(self) -> None:
        """Another worker does all there is to do."""
        self.settle(self.claim("other", 100))

    def settle(self, deliveries: list[Delivery]) -> None:
        parts = [(one, Processed([document.id for document in one.inputs])) for one in deliveries]
        self.store.settle([Settlement(one.row, one.token, "parcels", parts=[part]) for one, part in parts])

    def lapse(self) -> None:
        self.clock.time += LEASE + 1.0
        self.store.reclaim()

    def pause_until_others_are_done(self) -> None:
        """Others settle all that it held, and it is resumed."""
        self.pause(holding=1)
        self.others_work()
        assert self.paused.check() is None
        self.lapse()
        assert self.paused.check() is None, "what it held has to be done first"
        self.others_work()
        assert not self.group.resumed
        assert self.paused.check() is None, "it has not tried to commit yet"
        assert self.group.resumed

    def refuse(self, row: int) -> None:
        record_refusal(Dropped("unpacking", row, ("parcel-1",), "fenced"))


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trial]:
    refusal_log = tmp_path / "refused"
    monkeypatch.setenv(REFUSAL_LOG, str(refusal_log))
    clock = FixedClock()
    app = build(Settings(home=tmp_path))
    with closing(SQLiteStore(tmp_path / "paused.db", clock)) as store:
        app._store = store
        store.subscribe([one.subscription() for one in app.registry.services.values()])
        parcels = [Parcel(id=f"parcel-{n}", pieces=1) for n in range(3)]
        app.publish(*map(ParcelArrived.of, parcels), documents=parcels)
        yield Trial(store, clock, refusal_log, OneWorkerGroup(os.getpid()))


def test_a_late_commit_that_is_refused(trial: Trial) -> None:
    trial.pause_until_others_are_done()
    trial.refuse(trial.held[0].row)
    assert trial.paused.check() is PauseResult.REFUSED


def test_a_late_commit_that_is_not_refused(trial: Trial) -> None:
    trial.pause_until_others_are_done()
    trial.refuse(trial.held[0].row + 1)  # it did not hold that one
    assert trial.paused.check() is None
    trial.clock.time += worker_groups.LATE_COMMIT_SECONDS + 1.0
    assert trial.paused.check() is PauseResult.NOT_REFUSED


def test_a_refusal_before_the_resume_does_not_count(trial: Trial) -> None:
    trial.pause(holding=1)
    trial.refuse(trial.held[0].row)
    trial.others_work()
    trial.paused.check()
    trial.lapse()
    trial.others_work()
    trial.paused.check()
    assert trial.group.resumed
    assert trial.paused.check() is None


def test_a_group_that_dies_before_its_late_commit_was_paused_in_vain(trial: Trial) -> None:
    trial.pause_until_others_are_done()
    trial.group.alive = False
    assert trial.paused.check() is PauseResult.IN_VAIN


def test_a_refusal_that_was_recorded_before_a_death_counts(trial: Trial) -> None:
    trial.pause_until_others_are_done()
    trial.refuse(trial.held[0].row)
    trial.group.alive = False
    assert trial.paused.check() is PauseResult.REFUSED


def test_a_group_that_was_cut_off_may_have_lost_its_claims(trial: Trial) -> None:
    trial.pause(holding=1)
    trial.paused.cut_off = True
    trial.others_work()
    trial.paused.check()
    trial.lapse()
    trial.others_work()
    assert trial.paused.check() is None
    trial.clock.time += worker_groups.LATE_COMMIT_SECONDS
    assert trial.paused.check() is PauseResult.IN_VAIN


def test_a_group_that_holds_nothing_was_paused_in_vain(trial: Trial) -> None:
    trial.pause(holding=0)
    trial.others_work()
    assert trial.paused.check() is PauseResult.IN_VAIN


def test_a_commit_that_was_under_way_is_not_late(trial: Trial) -> None:
    """The server finishes what it was sent, even if whoever sent it was stopped meanwhile."""
    trial.pause(holding=2)
    trial.others_work()
    assert trial.paused.check() is None
    mine, late = trial.held
    trial.settle([mine])
    assert trial.paused.check() is None
    trial.lapse()
    assert trial.paused.check() is None
    assert not trial.group.resumed, "nobody has done yet what it holds"
    trial.others_work()
    assert trial.paused.check() is None
    assert trial.group.resumed
    trial.refuse(late.row)
    assert trial.paused.check() is PauseResult.REFUSED


def test_a_locked_store_ends_the_pause_soon(trial: Trial) -> None:
    trial.pause(holding=1)
    assert trial.paused.check() is None
    trial.clock.time += worker_groups.OTHERS_SECONDS + 0.1
    assert trial.paused.check() is PauseResult.IN_VAIN
