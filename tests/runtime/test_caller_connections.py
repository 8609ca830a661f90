"""Each kind of connection that a caller may have publishes in its transaction, or is refused with the remedy."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
import django
import psycopg
import psycopg2
import pytest
import sqlalchemy
import sqlalchemy.ext.asyncio
import sqlalchemy.orm
from django.conf import settings as django_settings
from django.db.utils import ConnectionHandler

from onward import App, Settings, Work
from onward.runtime.publish_options import PublishRefused
from tests.support.caller_connections import Place, connected, place_of, waiting
from tests.support.page_app import Noticed

KEPT, UNDONE = Noticed(what="kept"), Noticed(what="undone")


@pytest.fixture
def noticed(app: App) -> list[str]:
    found: list[str] = []

    @app.service("listening", on=Noticed)
    def listen(event: Noticed, work: Work) -> None:
        found.append(event.what)

    _ = app.store
    return found


def check(app: App, noticed: list[str], store_url: str) -> None:
    """The transaction that was committed has published, the one that was rolled back has not."""
    assert waiting(store_url) == 1
    app.work_until_idle()
    assert noticed == ["kept"]


# -- one after the other: commits KEPT, rolls back UNDONE

Publish = Callable[[Any, Noticed], object]
APublish = Callable[[Any, Noticed], Awaitable[object]]


def by_sqlite3(place: Place, publish: Publish) -> None:
    connection = sqlite3.connect(place.file)
    connection.row_factory = lambda cursor, row: {"as": "a dictionary"}
    publish(connection, KEPT)
    connection.commit()
    publish(connection, UNDONE)
    connection.rollback()
    connection.close()


def by_psycopg(place: Place, publish: Publish) -> None:
    # With the placeholders of another class of cursors.
    with psycopg.connect(place.conninfo, cursor_factory=psycopg.RawCursor) as connection:
        publish(connection, KEPT)
        connection.commit()
        publish(connection, UNDONE)
        connection.rollback()


def by_psycopg2(place: Place, publish: Publish) -> None:
    with closing(psycopg2.connect(place.conninfo)) as connection:
        publish(connection, KEPT)
        connection.commit()
        publish(connection, UNDONE)
        connection.rollback()


@contextmanager
def engine_of(place: Place, driver: str = "psycopg") -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(place.url("pysqlite" if place.file else driver))
    try:
        yield engine
    finally:
        engine.dispose()


def by_sqlalchemy(place: Place, publish: Publish, driver: str = "psycopg") -> None:
    with engine_of(place, driver) as engine:
        with engine.begin() as connection:
            publish(connection, KEPT)
        with engine.connect() as connection:
            publish(connection, UNDONE)


def by_sqlalchemy_on_psycopg2(place: Place, publish: Publish) -> None:
    by_sqlalchemy(place, publish, "psycopg2")


def by_session(place: Place, publish: Publish) -> None:
    with engine_of(place) as engine, sqlalchemy.orm.Session(engine) as session:
        publish(session, KEPT)
        session.commit()
        publish(session, UNDONE)
        session.rollback()


def by_scoped_session(place: Place, publish: Publish) -> None:
    with engine_of(place) as engine:
        session = sqlalchemy.orm.scoped_session(sqlalchemy.orm.sessionmaker(engine))
        publish(session, KEPT)
        session.commit()
        publish(session, UNDONE)
        session.remove()


def by_django(place: Place, publish: Publish) -> None:
    if not django_settings.configured:
        django_settings.configure(USE_TZ=True)
        django.setup()
    from django.db import transaction

    if place.file:
        options: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": place.file}
    else:
        given = psycopg.conninfo.conninfo_to_dict(place.conninfo)
        options = {"ENGINE": "django.db.backends.postgresql", "NAME": given["dbname"], "HOST": given["host"]}
        options |= {"PORT": given["port"], "USER": given.get("user", "")}
    handler = ConnectionHandler({"default": options})
    connection = handler["default"]
    atomic = transaction.Atomic.__enter__.__globals__
    before = atomic["get_connection"]
    atomic["get_connection"] = lambda using=None: connection
    try:
        with transaction.atomic():
            publish(connection, KEPT)
        with transaction.atomic():
            publish(connection, UNDONE)
            connection.set_rollback(True)
    finally:
        atomic["get_connection"] = before
        connection.close()


async def by_aiosqlite(place: Place, publish: APublish) -> None:
    async with aiosqlite.connect(place.file) as connection:
        connection.row_factory = sqlite3.Row
        await publish(connection, KEPT)
        await connection.commit()
        await publish(connection, UNDONE)
        await connection.rollback()


async def by_async_psycopg(place: Place, publish: APublish) -> None:
    async with await psycopg.AsyncConnection.connect(place.conninfo) as connection:
        await publish(connection, KEPT)
        await connection.commit()
        await publish(connection, UNDONE)
        await connection.rollback()


async def by_asyncpg(place: Place, publish: APublish) -> None:
    given = psycopg.conninfo.conninfo_to_dict(place.conninfo)
    connection = await asyncpg.connect(
        host=given["host"], port=given["port"], user=given.get("user"), database=given["dbname"]
    )
    async with connection.transaction():
        await publish(connection, KEPT)
    undone = connection.transaction()
    await undone.start()
    await publish(connection, UNDONE)
    await undone.rollback()
    await connection.close()


async def by_async_sqlalchemy(place: Place, publish: APublish) -> None:
    for driver in ["aiosqlite"] if place.file else ["asyncpg"]:
        engine = sqlalchemy.ext.asyncio.create_async_engine(place.url(driver))
        async with engine.begin() as connection:
            await publish(connection, KEPT)
        async with engine.connect() as connection:
            await publish(connection, UNDONE)
        await engine.dispose()


async def by_async_session(place: Place, publish: APublish) -> None:
    engine = sqlalchemy.ext.asyncio.create_async_engine(place.url("aiosqlite" if place.file else "psycopg"))
    async with sqlalchemy.ext.asyncio.AsyncSession(engine) as session:
        await publish(session, KEPT)
        await session.commit()
        await publish(session, UNDONE)
        await session.rollback()
    await engine.dispose()


ONLY = {
    by_sqlite3: "sqlite",
    by_aiosqlite: "sqlite",
    by_psycopg: "postgres",
    by_psycopg2: "postgres",
    by_sqlalchemy_on_psycopg2: "postgres",
    by_async_psycopg: "postgres",
    by_asyncpg: "postgres",
}
BLOCKING = (
    by_sqlite3,
    by_psycopg,
    by_psycopg2,
    by_sqlalchemy,
    by_sqlalchemy_on_psycopg2,
    by_session,
    by_scoped_session,
    by_django,
)
ASYNC = (by_aiosqlite, by_async_psycopg, by_asyncpg, by_async_sqlalchemy, by_async_session)


def skip_elsewhere(use: Any, store_url: str) -> None:
    if not store_url.startswith(ONLY.get(use, "")):
        pytest.skip("a library for the other database")


@pytest.mark.parametrize("use", BLOCKING)
def test_a_blocking_connection_publishes_in_its_transaction(
    app: App, noticed: list[str], store_url: str, use: Callable[[Place, Publish], None]
) -> None:
    skip_elsewhere(use, store_url)
    use(place_of(store_url), lambda connection, event: app.publish(event, connection=connection))
    check(app, noticed, store_url)


@pytest.mark.parametrize("use", ASYNC)
def test_an_async_connection_publishes_in_its_transaction(
    app: App, noticed: list[str], store_url: str, use: Callable[[Place, APublish], Awaitable[None]]
) -> None:
    skip_elsewhere(use, store_url)

    async def run() -> None:
        await use(place_of(store_url), lambda connection, event: app.apublish(event, connection=connection))

    asyncio.run(run())
    check(app, noticed, store_url)


def test_a_blocking_connection_can_be_given_to_apublish(app: App, noticed: list[str], store_url: str) -> None:
    with connected(store_url) as connection:
        asyncio.run(app.apublish(KEPT, connection=connection))
        connection.commit()
    check(app, noticed, store_url)


def test_a_connection_in_autocommit_mode_publishes_at_once(app: App, noticed: list[str], store_url: str) -> None:
    with connected(store_url) as connection:
        if place_of(store_url).file:
            connection.isolation_level = None
        else:
            connection.autocommit = True
        app.publish(KEPT, connection=connection)
        check(app, noticed, store_url)


# -- refused


def test_an_async_connection_is_not_for_publish(app: App, noticed: list[str], store_url: str) -> None:
    async def run(connection: Any, event: Noticed) -> None:
        with pytest.raises(PublishRefused, match=r"await app\.apublish"):
            app.publish(event, connection=connection)

    asyncio.run((by_aiosqlite if place_of(store_url).file else by_async_psycopg)(place_of(store_url), run))


def test_something_else_is_refused(app: App, noticed: list[str]) -> None:
    with pytest.raises(PublishRefused, match=r"builtins\.str is no known connection; give one of sqlite3"):
        app.publish(KEPT, connection="postgresql://")


def test_an_engine_is_no_connection(app: App, noticed: list[str], store_url: str) -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with pytest.raises(PublishRefused, match="give the connection or the session"):
        app.publish(KEPT, connection=engine)
    engine.dispose()


def test_a_cursor_is_no_connection(app: App, noticed: list[str], store_url: str) -> None:
    refused = pytest.raises(PublishRefused, match=r"\.Cursor is no known connection; give one of sqlite3")
    with connected(store_url) as connection, refused:
        app.publish(KEPT, connection=connection.cursor())


def test_a_pool_is_no_connection(app: App, noticed: list[str], store_url: str) -> None:
    """That of asyncpg executes statements itself, on any connection, which would be committed at once."""

    async def run() -> None:
        pool = asyncpg.create_pool(dsn="postgresql://nobody@127.0.0.1/nowhere")
        with pytest.raises(PublishRefused, match=r"asyncpg\.pool\.Pool is no known connection"):
            await app.apublish(KEPT, connection=pool)

    asyncio.run(run())


def test_a_connection_to_another_kind_of_database_is_refused(
    app: App, noticed: list[str], store_url: str, tmp_path: Path
) -> None:
    if place_of(store_url).file:
        pytest.skip("see the next test")
    connection = sqlite3.connect(tmp_path / "other.db")
    with pytest.raises(PublishRefused, match="is connected to SQLite, and the store is on PostgreSQL"):
        app.publish(KEPT, connection=connection)
    connection.close()


@pytest.fixture
def file_app(tmp_path: Path) -> Iterator[App]:
    app = App(store=f"sqlite:///{tmp_path / 'onward.db'}", settings=Settings())
    yield app
    app.close()


@pytest.mark.parametrize("other", ("other.db", ":memory:"))
def test_a_connection_to_another_file_is_refused(file_app: App, tmp_path: Path, other: str) -> None:
    connection = sqlite3.connect(other if other == ":memory:" else tmp_path / other)
    with pytest.raises(PublishRefused, match="Keep your tables in the file of the store"):
        file_app.publish(KEPT, connection=connection)
    connection.close()


def test_a_file_is_the_same_by_another_name(file_app: App, tmp_path: Path) -> None:
    _ = file_app.store
    (tmp_path / "link.db").symlink_to(tmp_path / "onward.db")
    with connected(f"sqlite:///{tmp_path / 'link.db'}") as connection:
        file_app.publish(KEPT, connection=connection)
        connection.commit()
    assert file_app.store.incoming_count().waiting == 1


def test_a_store_in_memory_is_refused_with_the_remedy() -> None:
    app = App(store="sqlite://:memory:", settings=Settings())
    connection = sqlite3.connect(":memory:")
    with pytest.raises(PublishRefused, match="use a store in a file"):
        app.publish(KEPT, connection=connection)
    connection.close()
    app.close()


def use_other_schema(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.store.db, "incoming_table", '"elsewhere".incoming')


@pytest.mark.parametrize("use", (by_psycopg, by_psycopg2, by_sqlalchemy, by_django))
def test_a_database_without_the_schema_is_refused_with_the_remedy(
    app: App,
    noticed: list[str],
    store_url: str,
    monkeypatch: pytest.MonkeyPatch,
    use: Callable[[Place, Publish], None],
) -> None:
    if place_of(store_url).file:
        pytest.skip("a connection to the file of a store has its tables")
    use_other_schema(app, monkeypatch)

    def publish(connection: Any, event: Noticed) -> None:
        app.publish(event, connection=connection)

    with pytest.raises(PublishRefused, match=r'has no table "elsewhere"\.incoming; give a connection'):
        use(place_of(store_url), publish)


def test_a_user_without_the_right_is_told_how_to_get_it(app: App, noticed: list[str], store_url: str) -> None:
    if place_of(store_url).file:
        pytest.skip("a file has no users")
    with connected(store_url) as connection:
        connection.execute("CREATE ROLE onward_stranger")
        connection.execute("SET ROLE onward_stranger")
        with pytest.raises(PublishRefused, match="GRANT INSERT ON"):
            app.publish(KEPT, connection=connection)
        connection.rollback()
