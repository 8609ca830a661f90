"""Claims of many workers at once keep to the rate and the concurrency of a dependency."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from onward.ledger.postgres import PostgresStore
from onward.model.dependency_limits import ClaimLimits, DependencyLimit, Rate
from onward.model.ledger import Delivery, Processed
from tests.postgres.stage import Meeting, Opener, at_once
from tests.support.store_pages import READING, Clock, Stage, settlement

MINUTELY = DependencyLimit("api", "60/min", Rate(60, 60.0))
QUICK = DependencyLimit("api", "100/s", Rate(100, 1.0))
TWO = DependencyLimit("api", concurrency=2)
WORKERS = 4


def bring(stage: Stage, count: int) -> None:
    stage.store.subscribe([replace(READING, needs=("api",))])
    for number in range(count):
        stage.bring(f"p{number}")


def claim(store: PostgresStore, limit: DependencyLimit, worker: str) -> list[Delivery]:
    limits = ClaimLimits((limit,), 1, free_slots=100)
    return store.claim(worker, "reading", limit=100, lease=60.0, needs=("api",), limits=limits)


@pytest.mark.parametrize(("limit", "together"), ((MINUTELY, 1), (TWO, 2)), ids=("rate", "concurrency"))
def test_the_second_waits_and_gets_what_is_left(
    stage: Stage, meeting: Meeting, store: PostgresStore, limit: DependencyLimit, together: int
) -> None:
    bring(stage, 9)
    claim(store, DependencyLimit("api", "1000/s", Rate(1000, 1.0)), "carl")  # so that the row exists
    stage.store.release("carl")
    stage.clock.advance(100)
    anna, bert = meeting(partial(claim, store, limit, "anna"), partial(claim, store, limit, "bert"))
    assert (len(anna), len(bert)) == (together, 0)
    assert meeting.waited


@pytest.mark.parametrize("limit", (MINUTELY, TWO), ids=("rate", "concurrency"))
def test_the_first_claims_of_all_meet(
    stage: Stage, meeting: Meeting, store: PostgresStore, limit: DependencyLimit
) -> None:
    bring(stage, 9)
    anna, bert = meeting(partial(claim, store, limit, "anna"), partial(claim, store, limit, "bert"))
    assert len(anna) + len(bert) == (1 if limit is MINUTELY else 2)
    assert meeting.waited


Claimed = tuple[list[Delivery], list[int]]


def claim_and_settle(store: PostgresStore, limit: DependencyLimit, worker: str) -> Claimed:
    """Claim and settle again and again; return what was claimed, and how many were claimed at a time by all."""
    claimed: list[Delivery] = []
    counts: list[int] = []
    for _ in range(40):
        deliveries = claim(store, limit, worker)
        counts.append(store.counts()["reading"].get("claimed", 0))
        store.settle([settlement(one, Processed([one.inputs[0].id])) for one in deliveries])
        claimed += deliveries
    return claimed, counts


def run_all(opened: Opener, url: str, limit: DependencyLimit) -> list[Claimed]:
    stores = [opened(url) for _ in range(WORKERS)]
    steps: list[Callable[[], Claimed]] = [
        partial(claim_and_settle, store, limit, f"worker {number}") for number, store in enumerate(stores)
    ]
    return at_once(steps)


def test_a_crowd_keeps_to_the_concurrency(opened: Opener, postgres_store_url: str) -> None:
    bring(Stage(opened(postgres_store_url), Clock()), 60)
    found = run_all(opened, postgres_store_url, TWO)
    assert max(count for _, counts in found for count in counts) <= 2
    assert sum(len(claimed) for claimed, _ in found) >= 20


def test_a_crowd_keeps_to_the_rate(opened: Opener, postgres_store_url: str) -> None:
    bring(Stage(opened(postgres_store_url), Clock()), 200)
    found = run_all(opened, postgres_store_url, QUICK)
    times = sorted(one.granted_at or 0.0 for claimed, _ in found for one in claimed)
    assert len(times) >= 10
    assert max(bisect.bisect_left(times, one + 1.0) - n for n, one in enumerate(times)) <= 100
