"""Many rows at once: a column that holds one value is sent as that value, and nobody can tell."""

from __future__ import annotations

import re
from typing import Any

import pytest

from onward.ledger.postgres.dialect import PostgresDatabase
from onward.ledger.postgres.statements import MIN_ROWS_TO_SPREAD, Statement, statement, statements
from tests.postgres.stage import Opener

MANY = MIN_ROWS_TO_SPREAD + 8
AWKWARD: dict[str, Any] = {
    "text": """it's "one", \\ {NULL}, ü, $1""",
    "json": '{"a": ["\\"x\\\\", null, "$2"]}',
    "bytea": b"\x00\xff'\\",
    "bigint": 2**40,
    "int": -7,
    "integer": 7,
    "float8": 1e-300,
}
PAGES = [
    (number, "pending", 0, *[None] * 3, 0, 0, None, 1, None, None, f"{number}", None, "pages", None, None, None)
    for number in range(MANY)
]
DOCUMENTS = """
    INSERT INTO documents (doc, collection, id)
    SELECT n, 'pages', n FROM generate_series($1::bigint, $1::bigint + $2::bigint) n ON CONFLICT DO NOTHING"""
INSERTING = sorted(name for name, one in statements().items() if one.columns and "INSERT" in one.text())


@pytest.fixture
def database(opened: Opener, postgres_store_url: str) -> PostgresDatabase:
    return opened(postgres_store_url).db


def kinds(query: Statement) -> list[str]:
    return re.findall(r"::(\w+)\[\]", query.text())


def several(kind: str) -> list[Any]:
    """Different values of a kind."""
    awkward = AWKWARD[kind]
    match awkward:
        case str() if kind == "json":
            return [f"[{number}, {awkward}]" for number in range(MANY)]
        case str():
            return [f"{number} {awkward}" for number in range(MANY)]
        case bytes():
            return [awkward * (number + 1) for number in range(MANY)]
        case _:
            return [awkward + number for number in range(MANY)]


def written(database: PostgresDatabase, text: str, values: list[Any]) -> Any:
    table = re.search(r"INSERT INTO (\w+)", text)
    assert table is not None
    with database.connections.use() as connection:
        connection.execute(f"TRUNCATE {table[1]} RESTART IDENTITY".encode())
        if "JOIN documents" in text:
            connection.execute(DOCUMENTS.encode(), [AWKWARD["bigint"], MANY])
        connection.execute(text.encode(), values)
        return connection.execute(
            f"SELECT to_jsonb(t) - 'shard' - 'change' FROM {table[1]} t ORDER BY 1".encode()
        ).fetchall()


@pytest.mark.parametrize("constant", ("most", "every other", "all but keys"))
@pytest.mark.parametrize("name", INSERTING)
def test_what_is_sent_once_is_stored_with_every_row(name: str, constant: str, database: PostgresDatabase) -> None:
    query = statement(name)
    columns = []
    for number, kind in enumerate(kinds(query)):
        varies = {
            "most": number % 5 in (0, 2),
            "every other": number % 2 == 0,
            "all but keys": number in (0, 2, 12),
        }[constant]
        columns.append(several(kind) if varies else [AWKWARD[kind]] * MANY)
    text, values = query.spread(columns)
    assert text != query.text(), "it is spread"
    stored = written(database, text, values)
    assert len(stored) == MANY
    assert stored == written(database, query.text(), query.values(columns))


def test_what_is_not_there_is_sent_once_too(database: PostgresDatabase) -> None:
    with database.transaction():
        database.bulk("insert_documents", PAGES)
    with database.connections.use() as connection:
        found = connection.execute(
            b"SELECT count(*), count(last_error), count(source) FROM documents WHERE status = 'pending'"
        ).fetchall()
    assert found == [(MANY, 0, 0)]


@pytest.mark.parametrize(
    ("column", "is_constant"),
    (([1] * MANY, True), ([1, True] * MANY, False), ([1.0] * MANY + [1], False)),
)
def test_values_that_are_equal_and_of_one_kind_are_one_value(column: list[Any], is_constant: bool) -> None:
    varying = list(range(len(column)))
    _, values = statement("insert_bodies").spread([varying, column])
    assert (not str(values[1]).startswith("{")) is is_constant


def test_few_rows_are_sent_as_they_always_are() -> None:
    query = statement("insert_bodies")
    few = MIN_ROWS_TO_SPREAD - 1
    assert query.spread([list(range(few)), ["same"] * few])[0] == query.text()


def test_rows_are_changed_alike(database: PostgresDatabase) -> None:
    changed = [
        (number, "processed", 1, 2.5, None, "{}", 4, 6, None, 7, None, None, None, 5 + number % 2, None, None, 3.5)
        for number in range(MANY)
    ]
    with database.transaction():
        database.bulk("insert_documents", PAGES)
        database.bulk("update_documents", changed)
    with database.connections.use() as connection:
        found = connection.execute(
            b"SELECT status, attempt_count, last_attempt_time, updated_at, attempts, priority, revision, round, "
            b"size, count(*) FROM documents GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9 ORDER BY revision"
        ).fetchall()
    half = MANY // 2
    assert found == [("processed", 1, 2.5, 3.5, "{}", 4, revision, 6, 7, half) for revision in (5, 6)]
