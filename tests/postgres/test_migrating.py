"""Making the tables: once, whoever comes first, all or nothing."""

from __future__ import annotations

from functools import partial
from multiprocessing import get_context

import pytest

from onward.ledger.named_statements import load_scripts
from onward.ledger.postgres import PostgresStore
from onward.ledger.postgres.connections import OLDEST_COMPATIBLE_VERSION, SCHEMA_VERSION
from onward.ledger.store_errors import StoreError
from tests.postgres.stage import Asker, Opener, at_once
from tests.support.servers import PostgresServer
from tests.support.store_pages import failure, page
from tests.support.store_processes import open_at_the_same_time

SPAWN = get_context("spawn")


def test_eight_that_open_a_new_schema_at_once_make_it_once_and_all_work(
    opened: Opener, postgres_url: str, ask: Asker
) -> None:
    stores: list[PostgresStore] = at_once([partial(opened, postgres_url)] * 8)
    at_once([partial(store.add_documents, [page(f"page {n}")]) for n, store in enumerate(stores)])
    assert [store.document_counts() for store in stores] == [{"pages": {"processed": 8}}] * 8
    assert ask(f"SELECT count(*) FROM {postgres_url.rpartition('=')[2]}.schema_version") == [(1,)]


def test_processes_that_open_a_new_schema_at_once_all_succeed(opened: Opener, postgres_url: str) -> None:
    barrier = SPAWN.Barrier(2)
    children = [SPAWN.Process(target=open_at_the_same_time, args=(barrier, postgres_url)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0]
    assert opened(postgres_url).counts() == {}


def test_what_cannot_be_made_whole_is_not_made(
    opened: Opener, postgres_server: PostgresServer, postgres_url: str, ask: Asker
) -> None:
    schema = postgres_url.rpartition("=")[2]
    postgres_server.execute(f"CREATE SCHEMA {schema}", "app")
    postgres_server.execute(f"CREATE TABLE {schema}.ledger (of_somebody_else text)", "app")
    with pytest.raises(StoreError, match="has other tables"):
        opened(postgres_url)
    assert ask(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}'") == [("ledger",)]
    postgres_server.execute(f"DROP TABLE {schema}.ledger", "app")
    assert opened(postgres_url).counts() == {}, "nothing is in its way any more"


def test_two_schemas_of_one_database_know_nothing_of_each_other(
    opened: Opener, postgres_url: str, postgres_store_url: str
) -> None:
    one, other = opened(postgres_url), opened(postgres_store_url)
    one.add_documents([page("a")])
    assert (one.document_counts(), other.document_counts()) == ({"pages": {"processed": 1}}, {})
    with one.transaction(alone=True):
        other.add_documents([page("b")])  # whoever is alone there is not in the way here
    assert other.document_counts() == {"pages": {"processed": 1}}


def test_opening_again_finds_everything(opened: Opener, postgres_url: str) -> None:
    opened(postgres_url).add_documents([page("a")])
    assert opened(postgres_url).document_counts() == {"pages": {"processed": 1}}


def test_a_schema_of_the_first_version_is_brought_up_to_date(
    opened: Opener, postgres_server: PostgresServer, postgres_url: str, ask: Asker
) -> None:
    schema = postgres_url.rpartition("=")[2]
    first, *_ = load_scripts("onward.ledger.postgres", "migrations")
    postgres_server.execute(f"CREATE SCHEMA {schema}", "app")
    postgres_server.execute(f"SET search_path = {schema}; {first}", "app")
    postgres_server.execute(f"INSERT INTO {schema}.schema_version VALUES (1, 1)", "app")
    store = opened(postgres_url)
    store.keep_malformed(b"?", failure(), properties='{"routing_key": "noticed"}')
    (letter,) = store.dead_letters()
    assert letter.properties == {"routing_key": "noticed"}
    versions = ask(f"SELECT version, serves FROM {schema}.schema_version")
    assert versions == [(SCHEMA_VERSION, OLDEST_COMPATIBLE_VERSION)]
