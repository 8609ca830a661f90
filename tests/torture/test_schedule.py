"""What goes in and what is done to it are drawn from a seed."""

from __future__ import annotations

from collections import Counter
from random import Random

from onward.torture.mischief import Act, draw
from onward.torture.plan import Plan

KILLS = (Act.KILL_WORKER, Act.KILL_SUPERVISOR, Act.KILL_CREW)


def test_the_same_seed_gives_the_same_parcels() -> None:
    one, same, other = Plan(200, seed=7), Plan(200, seed=7), Plan(200, seed=8)
    drawn = [one.parcel(number) for number in range(200)]
    assert drawn == [same.parcel(number) for number in range(200)]
    assert drawn != [other.parcel(number) for number in range(200)]


def test_every_kind_of_trouble_goes_in_even_into_a_small_run() -> None:
    troubles = {Plan(10, seed=seed).parcel(number).trouble for seed in range(3) for number in range(10)}
    assert troubles == {"", "deadly", "deadly piece", "torn", "stubborn", "shaky"}


def test_a_schedule_holds_all_that_was_asked_for() -> None:
    plan = Plan(1000, seed=7)
    acts = Counter(act for _, act in draw(Random(7), plan, kills=80, server_kills=4, stops=3))
    assert sum(acts[kill] for kill in KILLS) == 80
    assert all(acts[kill] for kill in KILLS)
    assert (acts[Act.KILL_SERVER], acts[Act.STOP_CREW], acts[Act.SEND_AGAIN]) == (4, 3, 20)


def test_a_schedule_goes_by_progress_and_ends_before_the_last_parcel() -> None:
    plan = Plan(1000, seed=7)
    moments = [at for at, _ in draw(Random(7), plan, kills=80, server_kills=4, stops=3)]
    assert moments == sorted(moments)
    assert moments[-1] < 1000 - len(plan.troubles)


def test_the_same_seed_gives_the_same_schedule() -> None:
    plan = Plan(1000, seed=7)
    one, same = (draw(Random(7), plan, kills=80, server_kills=0, stops=3) for _ in range(2))
    assert one == same
