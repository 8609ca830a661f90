"""While a transaction stays open, old versions of rows pile up, and no frequent statement walks them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from onward.ledger.postgres import PostgresStore
from onward.ledger.postgres.statements import statement
from onward.model.events import Envelope
from tests.postgres.stage import Opener
from tests.support.store_pages import LEASE, LISTENING, Noticed, page, settlement

SETTLED = 600
FEW_PAGES = 12


@pytest.fixture
def store(opened: Opener, postgres_store_url: str) -> PostgresStore:
    store = opened(postgres_store_url)
    store.subscribe([LISTENING])
    with store.db.connections.use() as connection:
        connection.execute("ALTER TABLE ledger SET (autovacuum_enabled = false)")
    return store


@pytest.fixture
def open_transaction(postgres_store_url: str) -> Iterator[None]:
    """A transaction that keeps every row version from its beginning on."""
    with closing(psycopg.connect(postgres_store_url.partition("?")[0])) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT 1")
        yield


def publish(store: PostgresStore, *what: str, priority: int = 0) -> None:
    now = store.now()
    store.publish([one for name in what for one in Envelope.of(Noticed(what=name), now=now, priority=priority)])


def settle_all(store: PostgresStore, worker: str = "anna") -> list[str]:
    """Settle what can be claimed; return the data of the events, in the order of their claims."""
    done: list[str] = []
    while deliveries := store.claim(worker, "listening", limit=100, lease=LEASE):
        store.settle([settlement(one) for one in deliveries])
        done += [one.data for one in deliveries]
    return done


def pages_read(store: PostgresStore, name: str, *values: Any) -> int:
    """Return how many pages a statement reads."""
    query = statement(name)
    with store.db.connections.use() as connection:
        text = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query.text(lock=False)}"
        ((found,),) = connection.execute(text.encode(), query.values(values)).fetchall()
    plan = found[0]["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


@pytest.mark.usefixtures("open_transaction")
def test_a_claim_does_not_walk_what_was_claimed_before(store: PostgresStore) -> None:
    publish(store, *map(str, range(SETTLED)))
    assert len(settle_all(store)) == SETTLED
    walked = pages_read(store, "due_rows", "listening", 0, float("-inf"), store.now(), 10)
    assert walked > 2 * FEW_PAGES, "all of them are still there"
    scan = store._scans["listening"]
    scan.found(0, store.now() + 10)  # what was claimed in the last second would be walked once more
    assert pages_read(store, "due_rows", "listening", 0, scan.floors[0], store.now() + 10, 10) < FEW_PAGES


@pytest.mark.usefixtures("open_transaction")
def test_a_lapsed_lease_is_found_without_walking_claims(store: PostgresStore) -> None:
    publish(store, *map(str, range(SETTLED)))
    settle_all(store)
    assert pages_read(store, "claims_of", "anna") > 2 * FEW_PAGES, "its claims of the past are all there"
    assert pages_read(store, "pulse", [], [], [], [], store.now()) < FEW_PAGES, "its lease has not ended"


def test_commits_append_their_changes_of_counts_which_are_added_up_later(store: PostgresStore) -> None:
    for n in range(20):
        store.add_documents([page(str(n))])
    with store.db.connections.use() as connection:
        changes = b"SELECT count(*) FROM status_changes"
        assert connection.execute(changes).fetchone() == (20,)
        store.prune(keep_seconds=3600, keep_count=1000)
        assert connection.execute(changes).fetchone() == (0,)
        assert connection.execute(b"SELECT n FROM status_counts").fetchall() == [(20,)]
    assert sum(store.document_counts()["pages"].values()) == 20


def test_a_row_that_returns_to_the_queue_is_found_below_the_floor(store: PostgresStore) -> None:
    publish(store, "returned")
    store.claim("anna", "listening", limit=1, lease=LEASE)
    scan = store._scans["listening"]
    scan.full_from = float("inf")  # a scan without floors would take long
    scan.found(0, store.now() + 60)  # as if others were claimed for a minute
    assert store.release("anna") == 1
    assert settle_all(store, "bert") == ['{"what":"returned"}']


def test_a_priority_that_nobody_knew_is_found_by_the_next_scan_without_floors(store: PostgresStore) -> None:
    publish(store, "usual")
    assert settle_all(store) == ['{"what":"usual"}']
    publish(store, "urgent", priority=7)
    store._scans["listening"].full_from = float("inf")
    assert settle_all(store) == [], "a scan with floors knows the priorities of the last scan without"
    store._scans["listening"].full_from = float("-inf")
    assert settle_all(store) == ['{"what":"urgent"}']


def test_scans_without_floors_are_rare_if_they_take_long(store: PostgresStore) -> None:
    scan = store.scan("listening")
    scan.took(3.0)
    assert store.scan("listening") is scan
    assert scan.full_from > 0
