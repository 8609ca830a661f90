"""A crew that sleeps while others do its work is a zombie if it lives to come late, refused or not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from onward.backends.sqlite import SQLiteStore
from onward.model.ledger import Delivery, Done, Settlement
from onward.ports import Store
from onward.runtime.signals import Dropped
from onward.settings import Settings
from onward.torture import sleeping
from onward.torture.fleet import AtWork, Crew
from onward.torture.sleeping import Sleeper, Slept
from onward.torture.workload import DIARY, Parcel, ParcelArrived, build, note_refused

LEASE = 3.0


@dataclass
class StandingClock:
    time: float = 1_800_000_000.0

    def now(self) -> float:
        return self.time


@dataclass
class Stopped:
    """A crew of one worker: this process."""

    pid: int
    alive: bool = True
    woken: bool = False

    def members(self, store: Store) -> list[AtWork]:
        return [AtWork(self.pid, "sleeper", False, store.now())] if self.alive else []

    def go_on(self) -> None:
        self.woken = True


@dataclass
class Dormitory:
    """A store, a crew that holds some of its rows, and somebody else who goes on."""

    store: SQLiteStore
    clock: StandingClock
    diary: Path
    crew: Stopped
    sleeper: Sleeper = field(init=False)
    held: list[Delivery] = field(init=False)

    def fall_asleep(self, holding: int) -> None:
        self.held = self.claim("sleeper", holding)
        crew = cast(Crew, self.crew)  # as much of one as a sleeper knows
        self.sleeper = Sleeper(crew, self.store, LEASE, self.diary, clock=self.clock.now)

    def claim(self, worker: str, limit: int) -> list[Delivery]:
        return self.store.claim(worker, "unpacking", limit=limit, lease=LEASE)

    def others_work(self) -> None:
        """Somebody else does all there is to do."""
        self.settle(self.claim("other", 100))

    def settle(self, deliveries: list[Delivery]) -> None:
        parts = [(one, Done([document.id for document in one.inputs])) for one in deliveries]
        self.store.settle([Settlement(one.row, one.token, "parcels", parts=[part]) for one, part in parts])

    def lapse(self) -> None:
        self.clock.time += LEASE + 1.0
        self.store.reap()

    def sleep_too_long(self) -> None:
        """All that it held is done by others, and it is woken."""
        self.fall_asleep(holding=1)
        self.others_work()
        assert self.sleeper.look() is None
        self.lapse()
        assert self.sleeper.look() is None, "what it held has to be done first"
        self.others_work()
        assert not self.crew.woken
        assert self.sleeper.look() is None, "it has not come forward yet"
        assert self.crew.woken

    def is_refused(self, row: int) -> None:
        note_refused(Dropped("unpacking", row, ("parcel-1",), "fenced"))


@pytest.fixture
def dormitory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dormitory]:
    diary = tmp_path / "refused"
    monkeypatch.setenv(DIARY, str(diary))
    clock = StandingClock()
    app = build(Settings(home=tmp_path))
    with closing(SQLiteStore(tmp_path / "sleep.db", clock)) as store:
        app._store = store
        store.subscribe([one.subscription() for one in app.registry.services.values()])
        parcels = [Parcel(id=f"parcel-{n}", pieces=1) for n in range(3)]
        app.publish(*map(ParcelArrived.of, parcels), documents=parcels)
        yield Dormitory(store, clock, diary, Stopped(os.getpid()))


def test_who_comes_late_and_is_refused_is_a_zombie(dormitory: Dormitory) -> None:
    dormitory.sleep_too_long()
    dormitory.is_refused(dormitory.held[0].row)
    assert dormitory.sleeper.look() is Slept.REFUSED


def test_who_lives_and_is_not_refused_is_a_zombie_all_the_same(dormitory: Dormitory) -> None:
    dormitory.sleep_too_long()
    dormitory.is_refused(dormitory.held[0].row + 1)  # of no concern: it did not hold that one
    assert dormitory.sleeper.look() is None
    dormitory.clock.time += sleeping.PATIENCE + 1.0
    assert dormitory.sleeper.look() is Slept.UNREFUSED


def test_what_was_refused_before_it_woke_says_nothing(dormitory: Dormitory) -> None:
    dormitory.fall_asleep(holding=1)
    dormitory.is_refused(dormitory.held[0].row)
    dormitory.others_work()
    dormitory.sleeper.look()
    dormitory.lapse()
    dormitory.others_work()
    dormitory.sleeper.look()
    assert dormitory.crew.woken
    assert dormitory.sleeper.look() is None


def test_who_dies_before_it_comes_forward_was_stopped_in_vain(dormitory: Dormitory) -> None:
    dormitory.sleep_too_long()
    dormitory.crew.alive = False
    assert dormitory.sleeper.look() is Slept.IN_VAIN


def test_what_it_has_noted_before_it_died_counts(dormitory: Dormitory) -> None:
    dormitory.sleep_too_long()
    dormitory.is_refused(dormitory.held[0].row)
    dormitory.crew.alive = False
    assert dormitory.sleeper.look() is Slept.REFUSED


def test_who_was_cut_off_may_not_know_what_it_holds(dormitory: Dormitory) -> None:
    dormitory.fall_asleep(holding=1)
    dormitory.sleeper.cut_off = True
    dormitory.others_work()
    dormitory.sleeper.look()
    dormitory.lapse()
    dormitory.others_work()
    assert dormitory.sleeper.look() is None
    dormitory.clock.time += sleeping.PATIENCE
    assert dormitory.sleeper.look() is Slept.IN_VAIN


def test_who_holds_nothing_was_stopped_in_vain(dormitory: Dormitory) -> None:
    dormitory.fall_asleep(holding=0)
    dormitory.others_work()
    assert dormitory.sleeper.look() is Slept.IN_VAIN


def test_a_commit_that_was_under_way_makes_no_zombie(dormitory: Dormitory) -> None:
    """The server finishes what it was sent, even if whoever sent it was stopped meanwhile."""
    dormitory.fall_asleep(holding=2)
    dormitory.others_work()
    assert dormitory.sleeper.look() is None
    mine, late = dormitory.held
    dormitory.settle([mine])
    assert dormitory.sleeper.look() is None
    dormitory.lapse()
    assert dormitory.sleeper.look() is None
    assert not dormitory.crew.woken, "nobody has done yet what it holds"
    dormitory.others_work()
    assert dormitory.sleeper.look() is None
    assert dormitory.crew.woken
    dormitory.is_refused(late.row)
    assert dormitory.sleeper.look() is Slept.REFUSED


def test_with_the_store_locked_nobody_waits_for_long(dormitory: Dormitory) -> None:
    dormitory.fall_asleep(holding=1)
    assert dormitory.sleeper.look() is None
    dormitory.clock.time += sleeping.LOOK_AROUND + 0.1
    assert dormitory.sleeper.look() is Slept.IN_VAIN
