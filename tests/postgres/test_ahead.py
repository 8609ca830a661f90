"""Statements are sent ahead of their answers: what fails is heard of all the same, and leaves nothing behind."""

from __future__ import annotations

import pytest

from onward.ledger.postgres.dialect import PostgresDatabase
from onward.ledger.store_errors import StoreConflict, StoreError, StoreUnavailable
from tests.postgres.stage import Asker, Opener, eventually

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


@pytest.fixture
def database(opened: Opener, postgres_store_url: str) -> PostgresDatabase:
    return opened(postgres_store_url).db


def count(database: PostgresDatabase) -> None:
    with database.transaction():
        database.send("count_total", "letters", "", 1.0)


def conflict(database: PostgresDatabase) -> None:
    """A statement fails while another is already on its way behind it."""
    with pytest.raises(StoreConflict), database.transaction():  # noqa: PT012
        database.bulk("insert_bodies", [(1, "once"), (1, "twice")])
        database.send("count_total", "letters", "", 1.0)


def test_what_was_prepared_behind_a_statement_that_failed_is_prepared_again(database: PostgresDatabase) -> None:
    """The driver takes it for prepared; the server has never seen it."""
    conflict(database)
    for _ in range(4):
        count(database)
    conflict(database)
    conflict(database)
    for _ in range(4):
        count(database)
    conflict(database)
    for _ in range(4):
        count(database)
    assert database.read("totals") == [("letters", "", 12.0)]


def test_whoever_swallows_a_failure_commits_nothing(database: PostgresDatabase) -> None:
    with pytest.raises(StoreError, match="nothing of it was written"), database.transaction():  # noqa: PT012
        database.send("count_total", "letters", "", 1.0)
        with pytest.raises(StoreConflict):
            database.run("insert_bodies", [1, 1], ["once", "twice"])
    assert database.read("totals") == []


def test_a_server_that_goes_away_before_the_commit_is_an_outage(database: PostgresDatabase, ask: Asker) -> None:
    with pytest.raises(StoreUnavailable), database.transaction():  # noqa: PT012
        database.send("count_total", "letters", "", 1.0)
        database.read("totals")
        ask(f"SELECT pg_terminate_backend(pid) {OTHERS}")
        eventually(lambda: not ask(f"SELECT 1 {OTHERS}"), "it is gone")
    assert database.read("totals") == []
    count(database)
    assert database.read("totals") == [("letters", "", 1.0)]


def test_the_server_knows_who_idles_in_a_transaction(database: PostgresDatabase, ask: Asker) -> None:
    """So that it can end one that holds locks and has fallen asleep."""
    with database.transaction():
        database.send("count_total", "letters", "", 1.0)
        database.read("totals")
        eventually(
            lambda: ("idle in transaction",) in ask(f"SELECT state {OTHERS}"), "it is known to be waiting for us"
        )
