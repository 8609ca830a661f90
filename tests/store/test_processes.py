"""Several processes on one file: each event is settled by exactly one of them."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from onward.backend_urls import open_store
from onward.ledger.store import Store
from onward.model.events import Envelope
from tests.support.store_pages import LISTENING, Noticed
from tests.support.store_processes import GROUP, open_at_the_same_time, settle_one_group_and_die, work_until_done

SPAWN = get_context("spawn")
EVENTS = 400


def filled_store(url: str) -> Store:
    store = open_store(url)
    store.subscribe([LISTENING])
    now = store.now()
    store.publish([one for n in range(EVENTS) for one in Envelope.of(Noticed(what=str(n)), now=now)])
    return store


def test_each_event_is_settled_exactly_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'onward.db'}"
    store = filled_store(url)
    with ProcessPoolExecutor(3, mp_context=SPAWN) as pool:
        shares = list(pool.map(work_until_done, [url] * 3, ["anna", "bert", "carl"]))
    settled = [row for share in shares for row in share]
    assert len(settled) == len(set(settled)) == EVENTS
    assert store.counts() == {"listening": {"done": EVENTS}}
    assert store.document_counts() == {"words": {"processed": EVENTS}}
    store.close()


def test_processes_that_die_while_they_settle_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'onward.db'}"
    store = filled_store(url)
    workers = [f"worker {n}" for n in range(3)]
    children = [SPAWN.Process(target=settle_one_group_and_die, args=(url, worker)) for worker in workers]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [9] * 3
    assert store.document_counts() == {"words": {"processed": 3 * GROUP}}, "half a settlement is none"
    assert sum(store.record_crash(worker, []) for worker in workers) == 3 * GROUP
    assert len(work_until_done(url, "heir")) == EVENTS - 3 * GROUP
    assert store.document_counts() == {"words": {"processed": EVENTS}}
    store.close()


def test_processes_that_open_a_new_file_at_the_same_time_all_succeed(tmp_path: Path) -> None:
    barrier = SPAWN.Barrier(3)
    url = f"sqlite:///{tmp_path / 'new' / 'onward.db'}"
    children = [SPAWN.Process(target=open_at_the_same_time, args=(barrier, url)) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 3
    store = open_store(url)
    assert store.counts() == {}
    store.close()
