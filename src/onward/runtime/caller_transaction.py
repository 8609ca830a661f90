"""Publishing in a transaction of the caller's: one INSERT on the caller's own connection.

Connections of sqlite3, aiosqlite, psycopg, psycopg2, asyncpg, SQLAlchemy (also its sessions) and Django are known,
and those of other DB-API modules by their `paramstyle`. They are recognised by their class, so that none of these
libraries is imported here.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from onward.ledger.dialect import Database
from onward.ledger.incoming import PUBLICATION
from onward.model.documents import Document
from onward.model.events import Event
from onward.model.ledger import MAX_COMMIT_BYTES, MAX_COMMIT_DOCUMENTS, Published
from onward.runtime.incoming_publications import Publication
from onward.runtime.publish_items import unique_key
from onward.runtime.publish_options import PublishOptions, PublishRefused
from onward.runtime.publisher import new_documents, new_envelopes

if TYPE_CHECKING:
    from onward.ledger.store import Store

KNOWN = "sqlite3, aiosqlite, psycopg, psycopg2, asyncpg, SQLAlchemy or Django"
_PLACEHOLDERS = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric": ":1", "numeric_dollar": "$1"}
_DATABASES = {
    "sqlite3": "sqlite",
    "aiosqlite": "sqlite",
    "psycopg": "postgresql",
    "psycopg2": "postgresql",
    "asyncpg": "postgresql",
}
_NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
# PostgreSQL's codes of errors: the table or its schema does not exist, or this user may not use it.
_MISSING, _FORBIDDEN = ("42P01", "3F000"), "42501"


@dataclass(frozen=True, slots=True)
class CallerConnection:
    """How statements are executed on a connection of the caller's."""

    database: str  # `sqlite`, `postgresql` or that of another database; empty: it is not known
    placeholder: str
    execute: Callable[..., Any]  # Takes a statement and its values; returns rows, or an awaitable of them


def publish(
    store: Store,
    connection: object,
    events: Sequence[Event],
    documents: Sequence[Document],
    options: PublishOptions,
) -> list[Published]:
    """Publish in the transaction of a connection; see `onward.App.publish`."""
    if _is_async(connection):
        raise PublishRefused(
            f"{_named(connection)} is an async connection; use `await app.apublish(…, connection=…)`"
        )
    return _finished(apublish(store, connection, events, documents, options))


def _finished(coroutine: Coroutine[Any, Any, list[Published]]) -> list[Published]:
    """Return the result of a coroutine that never waits, because its connection is not async."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        published: list[Published] = ended.value
        return published
    raise RuntimeError("a connection that is not async has returned an awaitable")


async def apublish(
    store: Store,
    connection: object,
    events: Sequence[Event],
    documents: Sequence[Document],
    options: PublishOptions,
) -> list[Published]:
    """Publish in the transaction of a connection, async or not; see `onward.App.apublish`."""
    now = store.now()
    envelopes = new_envelopes(events, options, now=now)
    new = new_documents(documents, options)
    if options.source is not None and "\x00" in options.source:
        raise PublishRefused("a source must not contain NUL characters")
    if new or envelopes:
        unique = unique_key(events[0], envelopes, options.unique) if options.unique_seconds is not None else ""
        publication = Publication.of(new, envelopes, options, at=now, unique=unique)
        await _insert(store.db, connection, _body(publication))
    return [Published(envelope.event_id, awaits_commit=True) for envelope in envelopes]


def _body(publication: Publication) -> str:
    text = publication.model_dump_json()
    size = sum(len(one.body) for one in publication.documents)
    if len(publication.documents) > MAX_COMMIT_DOCUMENTS or size > MAX_COMMIT_BYTES:
        raise PublishRefused(
            f"{len(publication.documents):,} documents with {size:,} characters are more than "
            f"{MAX_COMMIT_DOCUMENTS:,} documents or {MAX_COMMIT_BYTES // 1_000_000} MB; publish them by several "
            "calls with the same connection: they are committed together all the same"
        )
    return text


async def _insert(db: Database, connection: object, body: str) -> None:
    caller = await _recognised(connection)
    if caller.database not in ("", db.kind):
        theirs, ours = (_NAMES.get(name, name) for name in (caller.database, db.kind))
        raise PublishRefused(
            f"{_named(connection)} is connected to {theirs}, and the store is on {ours}; give a connection to the "
            "database of the store, or publish without connection="
        )
    if db.kind == "sqlite":
        found = await _result(caller.execute("PRAGMA database_list"))
        _check_file(db, [row[2] for row in found if row[1] == "main"])
    table = db.incoming_table if caller.placeholder != "%s" else db.incoming_table.replace("%", "%%")
    with _explained(db):
        statement = f"INSERT INTO {table} (format, body) VALUES ({PUBLICATION}, {caller.placeholder})"
        await _result(caller.execute(statement, body))


async def _result(given: Any) -> Any:
    return await given if inspect.isawaitable(given) else given


def _check_file(db: Database, files: Sequence[Any]) -> None:
    """Refuse a connection to another file: two files are not committed together."""
    if db.file is None:
        raise PublishRefused(
            "the store is in memory, which no other connection can write to; use a store in a file "
            "(in tests: Simulation(app, store='sqlite:///test.db')), and open your connection on that file"
        )
    try:
        if files and files[0] and os.path.samefile(os.fsdecode(files[0]), db.file):  # noqa: PTH121
            return
    except OSError:
        pass
    theirs = os.fsdecode(files[0]) if files and files[0] else "memory"
    raise PublishRefused(
        f"the connection is open on {theirs}, and the store is {db.file}: two files are not committed together. "
        "Keep your tables in the file of the store, and open your connection on that"
    )


@contextmanager
def _explained(db: Database) -> Iterator[None]:
    """Explain errors of PostgreSQL whose remedy is known."""
    try:
        yield
    except Exception as error:
        state = _sqlstate(error)
        if state in _MISSING:
            raise PublishRefused(
                f"the database of this connection has no table {db.incoming_table}; give a connection to the "
                "database that ONWARD_STORE names. If it is that one, run `onward upgrade`"
            ) from error
        if state == _FORBIDDEN:
            schema = db.incoming_table.rpartition(".")[0]
            raise PublishRefused(
                f"the user of this connection may not publish; as the owner of the tables: GRANT USAGE ON SCHEMA "
                f"{schema} TO …; GRANT INSERT ON {db.incoming_table} TO …"
            ) from error
        raise


def _sqlstate(error: BaseException | None) -> str:
    """Return PostgreSQL's code of an error, however its library carries it."""
    while error is not None:
        for name in ("sqlstate", "pgcode"):
            if isinstance(code := getattr(error, name, None), str):
                return code
        error = getattr(error, "orig", None) or error.__cause__
    return ""


# -- recognising connections


def _modules(connection: object) -> list[str]:
    return [kind.__module__ for kind in type(connection).__mro__]


def _packages(connection: object) -> list[str]:
    return [module.partition(".")[0] for module in _modules(connection)]


def _named(connection: object) -> str:
    return f"{type(connection).__module__}.{type(connection).__qualname__}"


def _is_async(connection: object) -> bool:
    if any(module.startswith("sqlalchemy.ext.asyncio") for module in _modules(connection)):
        return True
    packages = _packages(connection)
    if "psycopg" in packages:
        return any(kind.__name__ == "AsyncConnection" for kind in type(connection).__mro__)
    return "asyncpg" in packages or "aiosqlite" in packages


async def _recognised(connection: Any) -> CallerConnection:
    """Return how statements are executed on a connection, or raise `PublishRefused`."""
    packages, is_async = _packages(connection), _is_async(connection)
    if "sqlalchemy" in packages:
        if not hasattr(connection, "exec_driver_sql"):
            if not hasattr(connection, "connection"):
                raise PublishRefused(
                    f"{_named(connection)} is no connection; give the connection or the session whose transaction "
                    "this belongs to"
                )
            connection = await _result(connection.connection())  # that of a session
        dialect = connection.dialect
        execute = _execute_by_async_sqlalchemy if is_async else _execute_by_sqlalchemy
        return CallerConnection(dialect.name, _PLACEHOLDERS[dialect.paramstyle], partial(execute, connection))
    if "django" in packages:
        return CallerConnection(connection.vendor, "%s", partial(_execute_by_cursor, connection))
    # A cursor has no method of this name, nor has a pool of asyncpg, which executes on any of its connections.
    for package in packages if hasattr(connection, "cursor") else ():
        database = _DATABASES.get(package, "")
        if package == "psycopg":
            execute = _execute_by_async_psycopg if is_async else _execute_by_psycopg
            return CallerConnection(database, "%s", partial(execute, connection))
        if package == "asyncpg":
            return CallerConnection(database, "$1", connection.execute)
        if package == "aiosqlite":
            return CallerConnection(database, "?", partial(_execute_by_aiosqlite, connection))
        paramstyle = getattr(sys.modules.get(package), "paramstyle", None)
        if paramstyle in _PLACEHOLDERS:
            return CallerConnection(database, _PLACEHOLDERS[paramstyle], partial(_execute_by_cursor, connection))
    raise PublishRefused(f"{_named(connection)} is no known connection; give one of {KNOWN}")


def _execute_by_cursor(connection: Any, statement: str, *values: str) -> Any:
    cursor = connection.cursor()
    try:
        if hasattr(cursor, "row_factory"):
            cursor.row_factory = None  # rows as tuples
        cursor.execute(statement, values) if values else cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []
    finally:
        cursor.close()


def _execute_by_psycopg(connection: Any, statement: str, *values: str) -> None:
    # Not a cursor of the connection's own class, which may take other placeholders.
    with sys.modules["psycopg"].Cursor(connection) as cursor:
        cursor.execute(statement, values)


async def _execute_by_async_psycopg(connection: Any, statement: str, *values: str) -> None:
    async with sys.modules["psycopg"].AsyncCursor(connection) as cursor:
        await cursor.execute(statement, values)


async def _execute_by_aiosqlite(connection: Any, statement: str, *values: str) -> Any:
    async with await connection.cursor() as cursor:
        cursor.row_factory = None  # rows as tuples
        await cursor.execute(statement, values)
        return await cursor.fetchall()


def _execute_by_sqlalchemy(connection: Any, statement: str, *values: str) -> Any:
    result = connection.exec_driver_sql(statement, values)
    return result.fetchall() if result.returns_rows else []


async def _execute_by_async_sqlalchemy(connection: Any, statement: str, *values: str) -> Any:
    result = await connection.exec_driver_sql(statement, values)
    return result.fetchall() if result.returns_rows else []
