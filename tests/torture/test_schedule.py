"""What goes in and what is done to it are drawn from a seed."""

from __future__ import annotations

from collections import Counter
from random import Random

from onward.torture.fault_injection import Fault, draw_schedule
from onward.torture.workload import WorkloadPlan

KILLS = (Fault.KILL_WORKER, Fault.KILL_SUPERVISOR, Fault.KILL_GROUP)


def test_the_same_seed_gives_the_same_parcels() -> None:
    one, same, other = WorkloadPlan(200, seed=7), WorkloadPlan(200, seed=7), WorkloadPlan(200, seed=8)
    drawn = [one.parcel(number) for number in range(200)]
    assert drawn == [same.parcel(number) for number in range(200)]
    assert drawn != [other.parcel(number) for number in range(200)]


def test_every_kind_of_fault_goes_in_even_into_a_small_run() -> None:
    faults = {WorkloadPlan(10, seed=seed).parcel(number).fault for seed in range(3) for number in range(10)}
    assert faults == {
        "",
        "kills worker",
        "piece kills worker",
        "permanent error",
        "fails always",
        "fails once",
    }


def test_a_schedule_holds_all_that_was_asked_for() -> None:
    plan = WorkloadPlan(1000, seed=7)
    acts = Counter(act for _, act in draw_schedule(Random(7), plan, kills=80, pauses=3, extra=4))
    assert sum(acts[kill] for kill in KILLS) == 80
    assert all(acts[kill] for kill in KILLS)
    assert (acts[Fault.EXTRA], acts[Fault.PAUSE_GROUP], acts[Fault.SEND_AGAIN]) == (4, 3, 20)


def test_a_schedule_goes_by_progress_and_ends_before_the_last_parcel() -> None:
    plan = WorkloadPlan(1000, seed=7)
    moments = [at for at, _ in draw_schedule(Random(7), plan, kills=80, pauses=3, extra=4)]
    assert moments == sorted(moments)
    assert moments[-1] < 1000 - len(plan.faults)


def test_the_same_seed_gives_the_same_schedule() -> None:
    plan = WorkloadPlan(1000, seed=7)
    one, same = (draw_schedule(Random(7), plan, kills=80, pauses=3) for _ in range(2))
    assert one == same
