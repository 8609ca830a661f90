"""PgBouncer in transaction mode: every transaction may be on another connection of the server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random

import psycopg
import pytest

from onward import App, Settings, Work
from onward.blobs.postgres import PostgresBlobs
from onward.ledger.postgres import PostgresStore, schema_upgrade
from onward.ledger.postgres.error_messages import explained
from onward.ledger.postgres.store_url import read_url
from onward.ledger.store_errors import StoreError
from onward.torture.fault_injection import TortureHooks
from onward.torture.torture_run import TortureOptions, open_scratch, torture
from tests.postgres.stage import Asker, Opener, at_once
from tests.postgres.test_online_migrations import NEW_INDEX, index_state, release_migrations
from tests.support.command_runs import onward
from tests.support.servers import PgBouncer, PostgresServer
from tests.support.store_pages import Noticed, Page, PagesFound, Word, page

LISTENERS = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN onward_%'"


@pytest.fixture
def pooled(opened: Opener, pooled_store_url: str) -> PostgresStore:
    return opened(pooled_store_url)


@pytest.fixture
def new_url(pooler: PgBouncer, postgres_url: str) -> str:
    """A schema that is not there yet, through the pooler, with no way around it."""
    return pooler.url(schema=postgres_url.rpartition("=")[2])


def test_a_pooler_is_recognised(
    opened: Opener, postgres_store_url: str, pooled: PostgresStore, pooler: PgBouncer
) -> None:
    assert pooled.db.connections.pooled
    assert not opened(postgres_store_url).db.connections.pooled
    schema = postgres_store_url.rpartition("=")[2]
    assert not opened(f"{postgres_store_url}&pooler=none").db.connections.pooled
    assert opened(pooler.url(schema=schema, pooler="transaction")).db.connections.pooled


def test_a_pooler_of_sessions_can_be_told_from_one_of_transactions_by_the_url_only(
    opened: Opener, postgres_server: PostgresServer, postgres_store_url: str
) -> None:
    schema = postgres_store_url.rpartition("=")[2]
    with PgBouncer(postgres_server, mode="session") as sessions:
        as_is, told = sessions.url(schema=schema), sessions.url(schema=schema, pooler="session")
        for url, is_pooled in ((as_is, True), (told, False)):
            store = opened(url)
            assert store.db.connections.pooled is is_pooled
            for number in range(5):
                store.add_documents([page(f"page {is_pooled} {number}")])
            assert store.statuses("pages", [f"page {is_pooled} 4"]) != {}


def test_a_wrong_claim_about_the_pooler_is_explained() -> None:
    error = explained(psycopg.errors.DuplicatePreparedStatement("_pg3_0 already exists"), "postgresql://host/name")
    assert str(error).endswith("Say so at the end of the URL: ?pooler=transaction")


def test_nothing_is_left_behind_on_connections_of_the_server(pooled: PostgresStore, pooler: PgBouncer) -> None:
    at_once([partial(pooled.add_documents, [page(f"page {number}")]) for number in range(6)])
    for _ in range(3):
        assert pooled.document_counts() == {"pages": {"processed": 6}}
    with psycopg.connect(pooler.url(), autocommit=True, prepare_threshold=None) as connection:
        for _ in range(12):  # they are used in turn
            query = b"SELECT current_setting('search_path'), (SELECT count(*) FROM pg_prepared_statements)"
            assert connection.execute(query).fetchone() == ('"$user", public', 0)


def test_transactions_and_single_statements_have_their_limits(pooled: PostgresStore) -> None:
    query = "SELECT current_setting('statement_timeout'), current_setting('lock_timeout'), current_schema()"
    wanted = [("70s", "10s", pooled.db.schema)]
    assert pooled.db._fetch(query) == wanted
    with pooled.transaction():
        assert pooled.db._fetch(query) == wanted
    with pooled.transaction(alone=True):
        assert pooled.db._fetch(query) == wanted


def test_a_failed_statement_does_not_spoil_the_connection(pooled: PostgresStore) -> None:
    for _ in range(20):
        with pytest.raises(StoreError):
            pooled.db._fetch("SELECT 1 FROM missing")
        assert pooled.document_counts() == {}


def test_a_new_schema_is_made_and_upgraded_through_it(
    opened: Opener, new_url: str, postgres_url: str, ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = at_once([partial(opened, new_url)] * 4)
    at_once([partial(store.add_documents, [page(f"page {n}")]) for n, store in enumerate(stores)])
    assert [store.document_counts() for store in stores] == [{"pages": {"processed": 4}}] * 4
    release_migrations(monkeypatch, [NEW_INDEX, "ALTER TABLE ledger ADD COLUMN colour text;\n"])
    at_once([partial(opened, new_url)] * 3)
    assert index_state(ask, postgres_url) == [(True,)]
    found = ask(f"SELECT version FROM {stores[0].db.schema}.schema_version")
    assert found == [(len(schema_upgrade._migrations()),)]


def working_app(store: PostgresStore) -> App:
    app = App(store=store, settings=Settings())

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.emit(Noticed(what=page.id))

    @app.service("listening", on=Noticed)
    async def listen(event: Noticed, work: Work) -> None:
        work.add(Word(id=event.what))

    return app


def test_an_app_works_everything_off(pooled: PostgresStore) -> None:
    app = working_app(pooled)
    for number in range(20):
        app.publish(PagesFound.of([Page(id=f"{number}")]), documents=[Page(id=f"{number}")])
    app.work_until_idle()
    assert pooled.document_counts() == {"pages": {"processed": 20}, "words": {"processed": 20}}


@pytest.mark.parametrize("direct", (True, False))
def test_workers_listen_around_it_or_poll(
    opened: Opener, pooler: PgBouncer, postgres_store_url: str, ask: Asker, direct: bool
) -> None:
    schema = postgres_store_url.rpartition("=")[2]
    store = opened(pooler.url(schema=schema, direct=direct))
    before, bus = set(ask(LISTENERS)), store.bus()
    bus.wait(0.01)
    assert len(set(ask(LISTENERS)) - before) == (1 if direct else 0)
    bus.wake()
    bus.wait(60.0)  # returns at once
    bus.close()


def test_blobs_are_kept_through_it(new_url: str, tmp_path: Path) -> None:
    content = Random(1).randbytes(250_000)
    with closing(PostgresBlobs(new_url, tmp_path, part=100_000)) as blobs:
        blob = blobs.put(lambda file: file.write(content) and None)  # type: ignore[arg-type]
        for _ in range(3):
            with blobs.open(blob.digest) as file:
                assert file.read() == content
        assert blobs.delete(blob.digest, next(blobs.older_than(0.0)).put_mark)


def test_the_doctor_says_that_it_is_there(
    pooled: PostgresStore, pooled_store_url: str, pooler: PgBouncer, tmp_path: Path
) -> None:
    def doctor(url: str) -> dict[str, str]:
        found = json.loads(onward(tmp_path, "doctor", "--json", more={"ONWARD_STORE": url}).stdout)
        return {check["name"]: check["text"] for check in found["checks"]}

    assert doctor(pooled_store_url)["pooler"].endswith("workers listen around it")
    assert "look for events every second" in doctor(pooler.url(schema=pooled.db.schema))["pooler"]
    assert pooled.document_counts() == {}, "and it has changed nothing"


@pytest.mark.parametrize(
    ("options", "complaint"),
    (
        ("pooler=often", "pooler='often' in the store's URL cannot be; it is one of transaction, session, none"),
        ("direct=a/b", "direct='a/b' in the store's URL cannot be; it names the server behind the pooler"),
    ),
)
def test_wrong_options_are_named(options: str, complaint: str) -> None:
    with pytest.raises(StoreError, match=complaint):
        read_url(f"postgresql://app:secret@host/name?{options}")


def test_the_way_around_it_has_the_same_login_and_options() -> None:
    found = read_url("postgresql://app:pw@pool:6432/name?sslmode=require&direct=db1:5432,db2:5432")
    assert found.conninfo.startswith("postgresql://app:pw@pool:6432/name?")
    assert found.direct.startswith("postgresql://app:pw@db1:5432,db2:5432/name?target_session_attrs=read-write&")
    assert "sslmode=require" in found.direct
    assert "direct" not in found.conninfo


@pytest.fixture
def own_pooler(needs_postgres: None) -> Iterator[PgBouncer]:
    """A pooler that may be killed, with a server of its own that is as durable as in production."""
    with PostgresServer() as server, PgBouncer(server, pool=8) as pooler:
        yield pooler


@pytest.mark.prove
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("pooler")
def test_nothing_is_lost_or_doubled_when_workers_and_the_pooler_are_killed(
    own_pooler: PgBouncer, report: Callable[[str], None]
) -> None:
    def restart() -> None:
        own_pooler.kill()
        own_pooler.start()

    options = TortureOptions(documents=160, kills=6, seed=Random().randrange(10**9))
    with open_scratch(own_pooler.url()) as scratch:
        facts = torture(options, scratch, lambda _: None, TortureHooks([restart, restart])).as_dict()
    report(" ".join(f"{name} {value}" for name, value in facts.items() if isinstance(value, int | float)))
    assert (facts["lost"], facts["doubled"], facts["blamed"], facts["unfinished"]) == (0, 0, 0, 0)
    assert (facts["finished"], facts["kills"], facts["extra_faults"]) == (160, 6, 2)
    assert facts["clean"]
