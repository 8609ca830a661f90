"""Upgrades beside workers: indexes are built while they write, locks are waited for briefly, old workers stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any

import psycopg
import pytest

from onward import App, Settings, Work
from onward.ledger.named_statements import load_scripts
from onward.ledger.postgres import inspection, schema_upgrade
from onward.ledger.postgres.connections import SCHEMA_VERSION, gate_number
from onward.ledger.store_errors import StoreOutdated, StoreUnavailable
from tests.postgres.stage import Asker, Opener, at_once, eventually
from tests.support.servers import PostgresServer
from tests.support.store_pages import Page, PagesFound, page

NEW_INDEX = """-- online
-- Found by their size.
CREATE INDEX CONCURRENTLY documents_by_row ON documents ("row", doc) WHERE "row" IS NOT NULL;
"""
DROPPED_INDEX = "-- online\nDROP INDEX CONCURRENTLY documents_by_row;\n"
NEW_COLUMN = "ALTER TABLE ledger ADD COLUMN colour text;\n"
BUILDING = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND state = 'active'"
SPAWN = get_context("spawn")

Release = Callable[..., None]


def release_migrations(patch: pytest.MonkeyPatch, more: Sequence[str]) -> None:
    """From now on, this process is a newer Onward, with more migrations."""
    scripts = [*load_scripts("onward.ledger.postgres", "migrations"), *more]
    patch.setattr(schema_upgrade, "_migrations", lambda: scripts)
    patch.setattr(schema_upgrade, "SCHEMA_VERSION", len(scripts))


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Release:
    """A newer Onward is installed: `release(NEW_INDEX, NEW_COLUMN)`."""
    return lambda *more: release_migrations(monkeypatch, more)


@contextmanager
def held_open(url: str, *statements: str) -> Iterator[psycopg.Connection[Any]]:
    """Another program's transaction, which stays open; its snapshot is older than all that comes now."""
    with psycopg.connect(url.partition("?")[0]) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        for statement in statements or ("SELECT 1",):
            connection.execute(statement.encode())
        yield connection


def schema_of(url: str) -> str:
    return url.rpartition("=")[2]


def index_state(ask: Asker, url: str) -> list[tuple[Any, ...]]:
    return ask(
        "SELECT indisvalid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_namespace n "
        f"ON n.oid = relnamespace WHERE nspname = '{schema_of(url)}' AND relname = 'documents_by_row'"
    )


def version(ask: Asker, url: str) -> int:
    return int(ask(f"SELECT version FROM {schema_of(url)}.schema_version")[0][0])


@pytest.mark.parametrize("fresh", (True, False))
def test_online_migrations_and_others_run_in_their_order(
    opened: Opener, postgres_url: str, ask: Asker, release: Release, fresh: bool
) -> None:
    if not fresh:
        opened(postgres_url).add_documents([page("a")])
    release(NEW_INDEX, NEW_COLUMN)
    store = opened(postgres_url)
    assert index_state(ask, postgres_url) == [(True,)]
    assert version(ask, postgres_url) == SCHEMA_VERSION + 2
    assert store.db._fetch("SELECT colour FROM ledger") == []
    release(NEW_INDEX, NEW_COLUMN, DROPPED_INDEX)
    opened(postgres_url)
    assert index_state(ask, postgres_url) == []
    assert version(ask, postgres_url) == SCHEMA_VERSION + 3


def test_workers_write_while_an_index_is_built_and_all_that_open_wait_for_it(
    opened: Opener, postgres_url: str, ask: Asker, release: Release
) -> None:
    worker = opened(postgres_url)
    release(NEW_INDEX)
    with ThreadPoolExecutor(1) as pool:
        with held_open(postgres_url):
            opening = pool.submit(at_once, [partial(opened, postgres_url)] * 3)
            (builder,) = eventually(lambda: ask(BUILDING), "the index is being built")
            worker.add_documents([page("a")])
            assert ask(BUILDING) == [builder], "by one of the three"
            assert not opening.done()
        stores = opening.result(60)
    assert [store.document_counts() for store in stores] == [{"pages": {"processed": 1}}] * 3
    assert index_state(ask, postgres_url) == [(True,)]


def test_a_half_made_index_is_made_again(
    opened: Opener, postgres_server: PostgresServer, postgres_url: str, ask: Asker, release: Release
) -> None:
    opened(postgres_url)
    release(NEW_INDEX)
    with held_open(postgres_url), ThreadPoolExecutor(1) as pool:
        failing = pool.submit(opened, postgres_url)
        eventually(lambda: index_state(ask, postgres_url) == [(False,)], "the index is half made")
        ((builder,),) = ask(BUILDING)
        ask(f"SELECT pg_cancel_backend({builder})")
        with pytest.raises(StoreUnavailable):
            failing.result(60)
    assert index_state(ask, postgres_url) == [(False,)]
    assert version(ask, postgres_url) == SCHEMA_VERSION
    opened(postgres_url)
    assert index_state(ask, postgres_url) == [(True,)]
    assert version(ask, postgres_url) == SCHEMA_VERSION + 1


def open_newer(url: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        release_migrations(patch, [NEW_INDEX])
        schema_upgrade.open_schema(url, 60.0).close()


@pytest.mark.prove
def test_a_process_that_is_killed_while_it_builds_an_index_leaves_it_to_the_next(
    opened: Opener, postgres_url: str, ask: Asker, release: Release
) -> None:
    opened(postgres_url)
    release(NEW_INDEX)
    with ThreadPoolExecutor(1) as pool:
        with held_open(postgres_url):
            killed = SPAWN.Process(target=open_newer, args=(postgres_url,))
            killed.start()
            eventually(lambda: ask(BUILDING), "the index is being built")
            os.kill(killed.pid or 0, signal.SIGKILL)
            killed.join()
            next_one = pool.submit(opened, postgres_url)
            waits = "query LIKE 'LOCK TABLE%' AND wait_event_type = 'Lock'"  # for what the server goes on building
            eventually(lambda: ask(f"SELECT 1 FROM pg_stat_activity WHERE {waits}"), "the next one waits")
        next_one.result(60)
    assert index_state(ask, postgres_url) == [(True,)]
    assert version(ask, postgres_url) == SCHEMA_VERSION + 1


def test_a_locked_table_is_waited_for_briefly_again_and_again_and_workers_go_on(
    opened: Opener, postgres_url: str, ask: Asker, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = opened(postgres_url)
    release(NEW_COLUMN)
    attempts: list[str] = []
    pause = schema_upgrade._Waits.pause

    def counted(waits: schema_upgrade._Waits, reason: str) -> None:
        attempts.append(reason)
        pause(waits, reason)

    monkeypatch.setattr(schema_upgrade, "LOCK_SECONDS", 1)
    monkeypatch.setattr(schema_upgrade._Waits, "pause", counted)
    with ThreadPoolExecutor(1) as pool:
        with held_open(postgres_url, f"SELECT count(*) FROM {schema_of(postgres_url)}.ledger"):  # a backup
            opening = pool.submit(opened, postgres_url)
            for number in range(2):
                eventually(lambda: len(attempts) > number, "the migration has given up its locks")  # noqa: B023
                worker.add_documents([page(f"page {number}")])
            assert not opening.done()
        opening.result(60)
    assert set(attempts) == {"transactions of other programs have locked them"}
    assert worker.document_counts() == {"pages": {"processed": 2}}
    assert version(ask, postgres_url) == SCHEMA_VERSION + 1


def test_tables_that_stay_locked_are_reported(
    opened: Opener, postgres_url: str, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(postgres_url)
    release(NEW_COLUMN)
    monkeypatch.setattr(schema_upgrade, "LOCK_SECONDS", 1)
    monkeypatch.setattr(schema_upgrade, "MAX_WAIT_SECONDS", 0.0)
    with (
        held_open(postgres_url, f"SELECT count(*) FROM {schema_of(postgres_url)}.ledger"),
        pytest.raises(StoreUnavailable, match=r"could not be upgraded .*: transactions of other programs"),
    ):
        opened(postgres_url)


def test_the_doctor_knows_indexes_of_online_migrations(
    opened: Opener, postgres_server: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(postgres_url)
    scripts = [*load_scripts("onward.ledger.postgres", "migrations"), NEW_INDEX]
    monkeypatch.setattr(inspection, "load_scripts", lambda *_: scripts)
    (lacking,) = inspection.examine(postgres_url, future=0.0).lacking
    assert lacking.what == "the index documents_by_row"
    postgres_server.execute(lacking.statement, "app")
    assert inspection.examine(postgres_url, future=0.0).lacking == []


# -- workers that are too old


def raise_oldest_version(connection: psycopg.Connection[Any], url: str) -> None:
    """As a migration does that old workers must not work with."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", [gate_number(schema_of(url))])
    number = SCHEMA_VERSION + 1
    connection.execute(
        f"UPDATE {schema_of(url)}.schema_version SET version = {number}, serves = {number}".encode()
    )


def test_a_process_that_is_too_old_for_new_tables_writes_nothing_from_their_commit_on(
    opened: Opener, postgres_url: str, ask: Asker
) -> None:
    store = opened(postgres_url)
    store.add_documents([page("before")])
    waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with ThreadPoolExecutor(1) as pool, psycopg.connect(postgres_url.partition("?")[0]) as migration:
        raise_oldest_version(migration, postgres_url)
        adding = pool.submit(store.add_documents, [page("during")])
        eventually(lambda: ask(waiting), "it waits for the migration")
        migration.commit()
        with pytest.raises(StoreOutdated, match=f"upgraded to schema version {SCHEMA_VERSION + 1} by a newer"):
            adding.result(60)
    with pytest.raises(StoreOutdated, match="pip install --upgrade onward"):
        store.add_documents([page("after")])
    with pytest.raises(StoreOutdated), store.transaction(alone=True):
        pass
    assert store.document_counts() == {"pages": {"processed": 1}}


def test_a_worker_that_is_too_old_stops_with_a_message_and_charges_nothing(
    opened: Opener, postgres_url: str
) -> None:
    store = opened(postgres_url)
    app = App(store=store, settings=Settings())

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        with psycopg.connect(postgres_url.partition("?")[0]) as migration:
            raise_oldest_version(migration, postgres_url)

    app.publish(PagesFound.of([Page(id="a")]), documents=[Page(id="a")])
    with pytest.raises(StoreOutdated, match="by a newer Onward while this process had it open"):
        app.work_until_idle()
    state = store.state(Page, "a")
    assert state is not None
    assert (state.status, state.last_error) == ("pending", None)
    assert store.counts() == {"reading": {"claimed": 1}}, "another worker does it when its lease has lapsed"
