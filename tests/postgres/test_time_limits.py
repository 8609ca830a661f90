"""Time limits: neither a runaway statement nor a process that disappears holds up the others for long."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from onward.ledger.postgres import PostgresStore, connections
from onward.ledger.store_errors import StoreUnavailable
from tests.postgres.stage import Asker, Opener, eventually
from tests.postgres.test_online_migrations import release_migrations
from tests.support.servers import PostgresServer, Proxy
from tests.support.store_pages import page

SLEEPING = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"
FOREVER = "SELECT pg_sleep(3600)"


@pytest.fixture(params=["postgres_store_url", pytest.param("pooled_store_url", marks=pytest.mark.prove)])
def url(request: pytest.FixtureRequest) -> str:
    """A store on a server, and the same through a pooler."""
    found: str = request.getfixturevalue(request.param)
    return found


def test_a_runaway_statement_is_cancelled_by_the_server(
    opened: Opener, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "STATEMENT_SECONDS", 1)
    store = opened(url)
    with pytest.raises(StoreUnavailable, match="a statement took too long and was cancelled"):
        store.db._fetch(FOREVER)
    assert store.document_counts() == {}, "and the connection can still be used"


def test_a_runaway_statement_gives_up_the_locks_of_its_transaction(
    opened: Opener, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = opened(url)
    monkeypatch.setattr(connections, "STATEMENT_SECONDS", 1)
    store = opened(url)

    def lock_and_run_away() -> None:
        with store.transaction():
            store.db.lock("test")
            store.db._fetch(FOREVER)

    with pytest.raises(StoreUnavailable, match="took too long"):
        lock_and_run_away()
    with other.transaction():
        assert other.db.lock("test")


def test_a_caller_gives_up_before_the_server_would_report_a_commit_that_no_standby_has(
    opened: Opener, postgres_server: PostgresServer, postgres_store_url: str
) -> None:
    """Cancelled by its own limit, a commit that waits for a synchronous standby counts as made."""
    patient, store = opened(postgres_store_url), opened(postgres_store_url, patience=2.0)
    assert patient.db.connections._patience < connections.STATEMENT_SECONDS
    postgres_server.execute("ALTER SYSTEM SET synchronous_standby_names = 'missing'")
    try:
        postgres_server.execute("SELECT pg_reload_conf()")
        names = "SELECT current_setting('synchronous_standby_names')"
        eventually(lambda: patient.db._fetch(names) == [("missing",)], "the setting is known")
        with pytest.raises(StoreUnavailable, match="did not reply within 2 s"):
            store.add_documents([page("a")])
    finally:
        postgres_server.execute("ALTER SYSTEM RESET synchronous_standby_names")
        postgres_server.execute("SELECT pg_reload_conf()")
    assert patient.add_documents([page("b")]) == 1


def test_a_statement_whose_caller_is_gone_is_ended(
    opened: Opener,
    postgres_server: PostgresServer,
    postgres_store_url: str,
    ask: Asker,
    network: Callable[[int], Proxy],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if postgres_server.major_version < 14:
        pytest.skip("an older server notices it at the end of the statement")
    monkeypatch.setattr(connections, "CLIENT_CHECK_SECONDS", 1)
    monkeypatch.setattr(connections, "STATEMENT_SECONDS", 3600)
    proxy = network(postgres_server.port)
    store = opened(postgres_store_url.replace(f":{postgres_server.port}/", f":{proxy.port}/"))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(store.db._fetch, FOREVER)
        eventually(lambda: ask(SLEEPING), "it runs")
        proxy.refuse()  # as when the process is killed
        with pytest.raises(StoreUnavailable):
            running.result(60)
    eventually(lambda: not ask(SLEEPING), "the server has ended it")


def test_a_transaction_that_waits_for_its_process_loses_its_locks(
    opened: Opener, url: str, ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = opened(url)
    monkeypatch.setattr(connections, "IDLE_SECONDS", 1)
    store = opened(url)

    def wait_in_a_transaction() -> None:
        with store.transaction():
            store.db.lock("test")
            store.db._fetch("SELECT 1")  # from now on, the server waits
            idle = f"SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = {backend(store)}"
            eventually(lambda: not ask(idle), "the server has ended the transaction")
            with other.transaction():
                assert other.db.lock("test")

    with pytest.raises(StoreUnavailable):
        wait_in_a_transaction()


def backend(store: PostgresStore) -> int:
    ((pid,),) = store.db._fetch("SELECT pg_backend_pid()")
    return int(pid)


def test_a_migration_may_take_longer(opened: Opener, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STATEMENT_SECONDS", 1)
    opened(postgres_url)
    release_migrations(monkeypatch, ["SELECT pg_sleep(1.5);\n"])
    assert opened(postgres_url).add_documents([page("a")]) == 1
