"""What the processes of a test do; they are spawned, so it is importable."""

from __future__ import annotations

import os
from multiprocessing.synchronize import Barrier

from onward.backend_urls import open_store
from onward.model.events import read_event
from onward.model.ledger import CommitStatus, Delivery, Processed, Settlement
from tests.support.store_pages import LEASE, Noticed, word

GROUP = 7


def settlement(delivery: Delivery) -> Settlement:
    event = read_event(Noticed, delivery.data)
    assert isinstance(event, Noticed)
    return Settlement(delivery.row, delivery.token, parts=[Processed()], adds=[word(event.what)])


def work_until_done(url: str, worker: str) -> list[int]:
    """Claim and settle in groups until nothing is due; answer which rows were settled."""
    store = open_store(url)
    settled: list[int] = []
    while deliveries := store.claim(worker, "listening", limit=GROUP, lease=LEASE):
        answers = store.settle([settlement(one) for one in deliveries])
        pairs = zip(deliveries, answers, strict=True)
        settled += [one.row for one, answer in pairs if answer.status is CommitStatus.COMMITTED]
    store.close()
    return settled


def settle_one_group_and_die(url: str, worker: str) -> None:
    """Settle a group, then die in the middle of settling another."""
    store = open_store(url)
    first = store.claim(worker, "listening", limit=GROUP, lease=LEASE)
    store.settle([settlement(one) for one in first])
    second = store.claim(worker, "listening", limit=GROUP, lease=LEASE)
    with store.transaction():
        store.settle([settlement(one) for one in second])
        os._exit(9)


def open_at_the_same_time(barrier: Barrier, url: str) -> None:
    barrier.wait()
    open_store(url).close()
