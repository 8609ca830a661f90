"""Many at once, for a while, in any order: each document is finished once, and every count is exact."""

from __future__ import annotations

import threading
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import pytest

from onward.ledger.postgres import PostgresStore
from onward.model.events import Envelope
from tests.postgres.children import Clumsy, Witness
from tests.postgres.stage import Asker, Opener, at_once
from tests.support.store_pages import LISTENING, READING, Noticed, Stage, page
from tests.support.store_processes import GROUP, settle_one_group_and_die, work_until_done

SPAWN = get_context("spawn")
EVENTS = 200
WORKERS = 4
STEPS = 120


def schema_of(url: str) -> str:
    return url.rpartition("=")[2]


@pytest.mark.parametrize("seed", (1, 2, 3))
def test_a_crowd_of_clumsy_workers_finishes_each_document_once(
    opened: Opener, postgres_store_url: str, ask: Asker, seed: int
) -> None:
    pages = [f"page {n}" for n in range(40)]
    stores = [opened(postgres_store_url) for _ in range(2)]  # as if on two machines
    stores[0].subscribe([READING])
    stores[0].add_documents([page(id, source=f"source {n % 3}") for n, id in enumerate(pages)])
    witness = Witness()
    crowd = [Clumsy(f"worker {n}", stores[n % 2], pages, witness, seed) for n in range(WORKERS)]
    at_once([partial(one.work, STEPS) for one in crowd])
    crowd[0].finish()

    store, schema = stores[0], schema_of(postgres_store_url)
    finished = [parent for (parent,) in ask(f"SELECT parent FROM {schema}.documents WHERE collection = 'words'")]
    assert sorted(finished) == sorted(f"pages/{id}" for id in pages), "one receipt for each page"
    left = store.counts().get("reading", {})  # what is done may be pruned already
    assert [state for state in left if state != "done"] == []
    assert store.failed_batches() == []
    assert store.dead_letters() == []
    (group,) = store.failure_groups()
    assert (group.failures, group.affected) == (witness.failures, 0)
    assert_exact_counts(store, ask, schema)


def assert_exact_counts(store: PostgresStore, ask: Asker, schema: str) -> None:
    """What is kept up to date by every commit is what counting finds."""
    counted = f"SELECT source, collection, status, count(*) FROM {schema}.documents GROUP BY 1, 2, 3"
    by_source: dict[str | None, dict[str, dict[str, int]]] = {}
    for source, collection, status, n in ask(counted):
        by_source.setdefault(source, {}).setdefault(collection, {})[status] = n
    for source, counts in by_source.items():
        assert store.document_counts(source or "") == counts, source
    assert store.sources() == sorted(source for source in by_source if source)


def test_two_that_lock_in_opposite_order_both_succeed(stage: Stage, ask: Asker) -> None:
    stage.bring("a")
    stage.bring("b")
    both_hold_one = threading.Barrier(2)
    conflicts = threading.Event()
    before = deadlocks(ask)

    def reset_both(first: str, second: str) -> None:
        def steps() -> None:
            stage.store.reset("pages", first)
            if not conflicts.is_set():
                both_hold_one.wait(60)
                conflicts.set()
            stage.store.reset("pages", second)

        stage.store.atomically(steps)

    at_once([partial(reset_both, "a", "b"), partial(reset_both, "b", "a")])
    assert deadlocks(ask) > before, "they have met"
    assert (stage.state("a").round, stage.state("b").round) == (3, 3), "both were reset twice"


def deadlocks(ask: Asker) -> int:
    ask("SELECT pg_stat_force_next_flush()")
    return int(ask("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")[0][0])


def filled_store(opened: Opener, url: str) -> PostgresStore:
    store = opened(url)
    store.subscribe([LISTENING])
    now = store.now()
    store.publish([one for n in range(EVENTS) for one in Envelope.of(Noticed(what=str(n)), now=now)])
    return store


def test_each_event_is_settled_by_one_process(opened: Opener, postgres_store_url: str) -> None:
    store = filled_store(opened, postgres_store_url)
    with ProcessPoolExecutor(3, mp_context=SPAWN) as pool:
        shares = list(pool.map(work_until_done, [postgres_store_url] * 3, ["anna", "bert", "carl"]))
    settled = [row for share in shares for row in share]
    assert len(settled) == len(set(settled)) == EVENTS
    assert store.counts() == {"listening": {"done": EVENTS}}
    assert store.document_counts() == {"words": {"processed": EVENTS}}


def test_processes_that_die_while_they_settle_lose_nothing_and_double_nothing(
    opened: Opener, postgres_store_url: str
) -> None:
    store = filled_store(opened, postgres_store_url)
    workers = [f"worker {n}" for n in range(3)]
    children = [
        SPAWN.Process(target=settle_one_group_and_die, args=(postgres_store_url, worker)) for worker in workers
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [9] * 3
    assert store.document_counts() == {"words": {"processed": 3 * GROUP}}, "half a settlement is none"
    assert sum(store.record_crash(worker, []) for worker in workers) == 3 * GROUP
    assert len(work_until_done(postgres_store_url, "heir")) == EVENTS - 3 * GROUP
    assert store.document_counts() == {"words": {"processed": EVENTS}}
