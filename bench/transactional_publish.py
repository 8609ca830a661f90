"""What it costs to publish in one's own transaction: a plain INSERT, beside the same with an event and a document.

Each transaction stores a row of the program's own and is committed to disk. In the third way the event is
published by a transaction of its own after the commit, as a program does that can lose it. The last row says how
fast what was published is moved to the ledger. No worker runs meanwhile.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from bench.table import Row, medians
from onward import App, Document, Event, Settings, Work, names
from onward.runtime.incoming_publications import move_incoming
from tests.support.servers import PostgresServer

TRANSACTIONS = 1_000
REPEATS = 5


class Welcome(Document):
    address: str


class UserSignedUp(Event):
    welcome_id: str = names(Welcome)


Use = Callable[[App, Any, str, str], None]  # One transaction, with app, connection, statement and address


def run() -> list[Row]:
    """Take turns with each way, on each database."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as server:
        number = iter(range(1_000_000))
        opens = {
            "SQLite": lambda: _on_sqlite(Path(folder) / f"{next(number)}.db"),
            "PostgreSQL": lambda: _on_postgres(server.url(), f"s{next(number)}"),
        }
        for database, fresh in opens.items():
            ways = {
                "a plain INSERT": partial(_measure, fresh, _insert),
                "INSERT and publish in its transaction": partial(_measure, fresh, _insert_and_publish),
                "INSERT, then publish": partial(_measure, fresh, _insert_then_publish),
                "moving to the ledger": partial(_measure_moving, fresh),
            }
            rates = medians(ways, REPEATS)
            title = f"{TRANSACTIONS:,} transactions on {database}, each with an event and a document"
            notes = {
                "a plain INSERT": "without event and document",
                "INSERT, then publish": "a crash loses events",
            }
            ours = "INSERT and publish in its transaction"
            rows += [Row(name, name == ours, rate, notes.get(name, ""), title) for name, rate in rates.items()]
    return rows


Opened = tuple[App, Any, str]


@contextmanager
def _on_sqlite(file: Path) -> Iterator[Opened]:
    app = _app(f"sqlite:///{file}")
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE users (address TEXT PRIMARY KEY)")
    connection.commit()
    yield app, connection, "INSERT INTO users VALUES (?)"
    connection.close()
    app.close()


@contextmanager
def _on_postgres(url: str, schema: str) -> Iterator[Opened]:
    app = _app(f"{url}{'&' if '?' in url else '?'}schema={schema}")
    with psycopg.connect(url) as connection:
        connection.execute(f"CREATE TABLE {schema}.users (address text PRIMARY KEY)".encode())
        connection.commit()
        yield app, connection, f"INSERT INTO {schema}.users VALUES (%s)"
    app.close()


def _app(url: str) -> App:
    app = App(store=url, settings=Settings())

    @app.service("welcoming", on=UserSignedUp, finishes=Welcome)
    def send(welcome: Welcome, work: Work) -> None: ...

    _ = app.store
    return app


def _measure(fresh: Callable[[], Any], use: Use) -> float:
    with fresh() as (app, connection, statement):
        began = time.perf_counter()
        for number in range(TRANSACTIONS):
            use(app, connection, statement, f"user-{number}@example.org")
        return TRANSACTIONS / (time.perf_counter() - began)


def _measure_moving(fresh: Callable[[], Any]) -> float:
    with fresh() as (app, connection, _):
        for number in range(TRANSACTIONS):
            _publish(app, f"user-{number}@example.org", connection)
        connection.commit()
        began = time.perf_counter()
        while move_incoming(app.store, [UserSignedUp]):
            pass
        return TRANSACTIONS / (time.perf_counter() - began)


def _insert(app: App, connection: Any, statement: str, address: str) -> None:
    connection.execute(statement, (address,))
    connection.commit()


def _insert_and_publish(app: App, connection: Any, statement: str, address: str) -> None:
    connection.execute(statement, (address,))
    _publish(app, address, connection)
    connection.commit()


def _insert_then_publish(app: App, connection: Any, statement: str, address: str) -> None:
    _insert(app, connection, statement, address)
    _publish(app, address)


def _publish(app: App, address: str, connection: object = None) -> None:
    welcome = Welcome(id=address, address=address)
    app.publish(UserSignedUp.of(welcome), documents=[welcome], connection=connection)
