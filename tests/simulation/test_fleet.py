"""A fleet under everything at once: whatever happens, nothing is lost, doubled, stuck or blamed wrongly."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from onward.ledger import applied_settlement, claim, publish, requeue, settle
from onward.ledger.applied_settlement import AppliedSettlement
from onward.ledger.store import Store
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.ledger import CommitResult, RowState, Settlement
from onward.runtime.engine import Engine
from onward.runtime.handler_call import Call
from tests.simulation.fleet import Fleet

STEPS = 600
WORKER_HOURS = 2000.0
"""What the long proof simulates."""
MOST_SEEDS = 60
"""Seeds after which a deliberate fault must have been found."""


def live(seed: int, steps: int = STEPS) -> tuple[str, float, Counter[str]]:
    """Let a fleet live; return the digest of all that happened, its worker-hours, and what went wrong in it."""
    fleet = Fleet(seed)
    try:
        fleet.run(steps)
        fleet.finish()
        return fleet.digest(), fleet.worker_seconds / 3600, fleet.truth.happened
    finally:
        fleet.close()


def test_a_seed_replays_exactly() -> None:
    assert live(7, 300)[0] == live(7, 300)[0]


@pytest.mark.prove
def test_two_thousand_worker_hours(capsys: pytest.CaptureFixture[str]) -> None:
    """Set `FLEET_SEED` to begin with another seed, or to replay one."""
    first = int(os.environ.get("FLEET_SEED", "0"))
    seed, hours, happened = first, 0.0, Counter[str]()
    while hours < WORKER_HOURS:
        _, more, what = live(seed)
        hours += more
        happened += what
        seed += 1
    with capsys.disabled():
        print(f"\nseeds {first} to {seed - 1}: {hours:,.0f} simulated worker-hours, {dict(happened)}")


# -- deliberate faults

Fault = Callable[[pytest.MonkeyPatch], None]


def no_fencing(patch: pytest.MonkeyPatch) -> None:
    """A work is committed whoever holds its row."""
    settle_one = settle._settle_one

    def unfenced(unit: UnitOfWork, settlement: Settlement) -> CommitResult:
        if (row := unit.rows[settlement.row]) is not None:
            settlement.token, row.state = row.token, RowState.CLAIMED
        return settle_one(unit, settlement)

    patch.setattr(settle, "_settle_one", unfenced)


def unknown_claims_are_kept(patch: pytest.MonkeyPatch) -> None:
    """Rows that a commit without a reply has claimed are not given back."""
    patch.setattr(Engine, "give_back_unknown", lambda self: setattr(self, "uncertain", False))


def leases_are_not_renewed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Store, "renew", lambda self, worker, lease: None)


def deaths_are_charged_to_all_claims(patch: pytest.MonkeyPatch) -> None:
    """A crash is charged to events that had not started, too."""
    record_crash = Store.record_crash

    def charge_all(self: Store, worker: str, running: Sequence[int], finished: Sequence[int] = ()) -> int:
        return record_crash(self, worker, self.db.read("claims_of", worker), finished)

    patch.setattr(Store, "record_crash", charge_all)


def rounds_are_counted_twice(patch: pytest.MonkeyPatch) -> None:
    begin = publish.begin_round

    def begin_twice(doc: Any, row: int, now: float, expires: float | None) -> None:
        begin(doc, row, now, expires)
        doc.attempt_count += 1

    for module in (publish, claim, requeue, applied_settlement):
        patch.setattr(module, "begin_round", begin_twice)


def duplicates_are_not_recognised(patch: pytest.MonkeyPatch) -> None:
    keys = random.Random(0)
    patch.setattr(publish, "idempotency_key", lambda *given, **more: f"{keys.random()}")


def checkpoints_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A redelivery begins from the start, although a part of it is committed."""
    patch.setattr(Call, "cursor", None)


def lapsed_leases_are_ignored(patch: pytest.MonkeyPatch) -> None:
    reclaim = Store.reclaim
    patch.setattr(Store, "reclaim", lambda self, gone=None: reclaim(self, gone) if gone is not None else 0)


def statuses_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    """A document that becomes `failed` still counts as `pending`."""
    count_status = UnitOfWork.count_status

    def count_some(self: Any, source: str | None, collection: str, before: str, after: str) -> None:
        if after != "failed":
            count_status(self, source, collection, before, after)

    patch.setattr(UnitOfWork, "count_status", count_some)


def failures_are_charged_twice(patch: pytest.MonkeyPatch) -> None:
    wait = AppliedSettlement._wait

    def charge_twice(self: Any, part: Any) -> None:
        wait(self, part)
        if part.charge == "try":
            self.row.tries += 1
            self.unit.save(self.row)

    patch.setattr(AppliedSettlement, "_wait", charge_twice)


def effects_are_dropped(patch: pytest.MonkeyPatch) -> None:
    """A document is processed, and what its work added is not written."""
    commit = Store.settle

    def drop(self: Store, settlements: Sequence[Settlement]) -> list[CommitResult]:
        for settlement in settlements:
            if settlement.row % 7 == 0:
                settlement.adds = ()
        return commit(self, settlements)

    patch.setattr(Store, "settle", drop)


def rows_stay_claimed(patch: pytest.MonkeyPatch) -> None:
    """The row of a finished delivery is not settled."""
    commit = Store.settle

    def keep(self: Store, settlements: Sequence[Settlement]) -> list[CommitResult]:
        for settlement in settlements:
            settlement.closes = settlement.closes and settlement.row % 11 != 0
        return commit(self, settlements)

    patch.setattr(Store, "settle", keep)


FAULTS: tuple[Fault, ...] = (
    no_fencing,
    unknown_claims_are_kept,
    leases_are_not_renewed,
    deaths_are_charged_to_all_claims,
    rounds_are_counted_twice,
    duplicates_are_not_recognised,
    checkpoints_are_forgotten,
    lapsed_leases_are_ignored,
    statuses_are_not_counted,
    failures_are_charged_twice,
    effects_are_dropped,
    rows_stay_claimed,
)


@pytest.mark.prove
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_deliberate_fault_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    for seed in range(MOST_SEEDS):
        try:
            live(seed)
        except AssertionError as found:
            print(f"{fault.__name__}: found with seed {seed}: {found}")
            return
    raise AssertionError(f"{fault.__name__} was not found with {MOST_SEEDS} seeds")
