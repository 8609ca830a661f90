"""What version 0.1 has indexed is found after the upgrade, before and after it is packed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import psycopg
import pytest

from onward.backend_urls import open_store
from onward.ledger.store import Store
from onward.model.search_query import Filter
from onward.search import fusion
from onward.search.vector_index import VectorSpace
from tests.store.library import Library, match, pack_everything, rank, vector
from tests.support.store_pages import Clock, Page, Word, page, word

OLD_SQLITE, OLD_POSTGRES = 9, 4  # The schema versions of 0.1
TEXTS = {
    # number: id, source, keys, title, text, quoted text, vector of its word
    1: ("a", "s", {"author": "Ada <ada@example.org>", "date": 1.0, "thread_id": "t1"},
        "Harbour", "The red house of Jörg", "", (1.0, 0.0)),
    2: ("b", "s", {"author": 'Bert "B." O\'Neil', "date": 2.5, "thread_id": "t1"},
        "Re: Harbour", "A red boat", "The red house of Jörg", (0.0, 1.0)),
    3: ("c", "t", {"author": "Ada <ada@example.org>", "date": 3.0, "thread_id": "t2"},
        "", "A blue boat", "", (0.6, 0.8)),
    4: ("d", None, {"date": "no number", "author": 7.0}, "Notes", "A tent", "", (-1.0, 0.0)),
}  # fmt: skip
ARCHIVE = [(50, "archives", "mailbox"), (51, "messages", "in it")]  # of the same origin
ARCHIVE_BODY = '{"kind": "mbox", "path": "lists/harbour.mbox"}'


def migrations(dialect: str, versions: int) -> list[str]:
    steps = files(f"onward.ledger.{dialect}").joinpath("migrations").iterdir()
    return [step.read_text() for step in sorted(steps, key=lambda one: one.name)][:versions]


def fill_sqlite(path: Path) -> None:
    """Write a store as 0.1 did."""
    database = sqlite3.connect(path)
    for script in migrations("sqlite", OLD_SQLITE):
        database.executescript(script)
    for number, (id, source, keys, title, text, quoted, numbers) in TEXTS.items():
        for doc, kind, name in ((number, "pages", id), (number + 10, "words", f"of {id}")):
            parent = f"pages/{id}" if kind == "words" else None
            made = page(id, text) if kind == "pages" else word(name)
            database.execute(
                "INSERT INTO documents (doc, collection, id, parent, source, status) VALUES (?, ?, ?, ?, ?, ?)",
                (doc, kind, name, parent, source, "processed"),
            )
            database.execute("INSERT INTO bodies (doc, body) VALUES (?, ?)", (doc, made.body))
        database.execute("INSERT INTO texts (rowid, title, text, quoted) VALUES (?, ?, ?, ?)",
                         (number, title, text, quoted))  # fmt: skip
        database.execute("INSERT INTO vectors (doc, model, vector) VALUES (?, 'm', ?)",
                         (number + 10, vector(*numbers)))  # fmt: skip
        for key, value in keys.items():
            database.execute("INSERT INTO keys (doc, name, value) VALUES (?, ?, ?)", (number, key, value))
    for doc, kind, name in ARCHIVE:
        database.execute("INSERT INTO documents (doc, collection, id) VALUES (?, ?, ?)", (doc, kind, name))
        database.execute("INSERT INTO bodies (doc, body) VALUES (?, ?)", (doc, ARCHIVE_BODY))
        database.execute("INSERT INTO keys (doc, name, value) VALUES (?, 'origin', 'o')", (doc,))
    # What was moved and removed has left its traces.
    database.execute(
        "INSERT OR REPLACE INTO vectors (doc, model, vector) VALUES (13, 'm', ?)", (vector(0.6, 0.8),)
    )
    database.execute("INSERT INTO vectors (doc, model, vector) VALUES (99, 'm', ?)", (vector(1, 0),))
    database.execute("DELETE FROM vectors WHERE doc = 99")
    database.execute(f"PRAGMA user_version = {OLD_SQLITE}")
    database.commit()
    database.close()


def fill_postgres(url: str) -> None:
    """Write a store as 0.1 did."""
    address, _, schema = url.partition("?schema=")
    with psycopg.connect(address) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
        connection.execute(f"SET search_path = {schema}".encode())
        for script in migrations("postgres", OLD_POSTGRES):
            connection.execute(script.encode())
        connection.execute(b"DELETE FROM schema_version")
        connection.execute(b"INSERT INTO schema_version (version, serves) VALUES (%s, 1)", [OLD_POSTGRES])
        for number, (id, source, keys, title, text, quoted, numbers) in TEXTS.items():
            for doc, kind, name in ((number, "pages", id), (number + 10, "words", f"of {id}")):
                parent = f"pages/{id}" if kind == "words" else None
                made = page(id, text) if kind == "pages" else word(name)
                connection.execute(
                    b"INSERT INTO documents (doc, collection, id, parent, source, status) "
                    b"VALUES (%s, %s, %s, %s, %s, 'processed')",
                    [doc, kind, name, parent, source],
                )
                connection.execute(b"INSERT INTO bodies (doc, body) VALUES (%s, %s)", [doc, made.body])
            connection.execute(
                b"INSERT INTO texts (doc, size, collection, source, title, text, quoted, stems) "
                b"VALUES (%s, 5, 'pages', %s, %s, %s, %s, to_tsvector('words', %s))",
                [number, source, title, text, quoted, text],
            )
            connection.execute(
                b"INSERT INTO vectors (doc, model, vector) VALUES (%s, 'm', %s)", [number + 10, vector(*numbers)]
            )
            for key, value in keys.items():
                connection.execute(
                    b"INSERT INTO keys (doc, name, value) VALUES (%s, %s, %s)", [number, key, json.dumps(value)]
                )
        for doc, kind, name in ARCHIVE:
            about = [doc, kind, name]
            connection.execute(b"INSERT INTO documents (doc, collection, id) VALUES (%s, %s, %s)", about)
            connection.execute(b"INSERT INTO bodies (doc, body) VALUES (%s, %s)", [doc, ARCHIVE_BODY])
            connection.execute(b"INSERT INTO keys (doc, name, value) VALUES (%s, 'origin', '\"o\"')", [doc])
        connection.execute(b"INSERT INTO removed_vectors (doc) VALUES (99)")


@pytest.fixture(params=["file", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Store]:
    if request.param == "file":
        url = f"sqlite:///{tmp_path / 'onward.db'}"
        fill_sqlite(tmp_path / "onward.db")
    else:
        url = request.getfixturevalue("postgres_url")
        fill_postgres(url)
    store = open_store(url, clock)
    yield store
    store.close()


@pytest.fixture(params=["waiting", "packed"])
def library(request: pytest.FixtureRequest, store: Store, clock: Clock) -> Library:
    if request.param == "packed":
        pack_everything(store)
    return Library(store, clock, request.param)


def test_archives_are_found_by_their_place(store: Store) -> None:
    assert [one.id for one in store.find("archives", "place", ["o"])] == ["mailbox"]
    assert store.find("messages", "place", ["o"]) == []


def test_words_are_found_as_before(library: Library) -> None:
    assert match(library, "houses") == ["a", "b"], "quoted words count less"
    assert sorted(match(library, "jorg", "tent")) == ["a", "b", "d"]
    assert match(library, "red boat") == ["b"]
    assert match(library, "boat", unwanted=["red"]) == ["c"]
    assert library.store.excerpts(Page, {"b": ""}, ["boat"]) == {"b": ("Re: Harbour", "A red \x02boat\x03")}


@pytest.mark.parametrize(
    ("filter", "found"),
    (
        (("author", "=", "Ada <ada@example.org>"), ["a", "c"]),
        (("author", "contains", "o'neil"), ["b"]),
        (("author", "=", "7.0"), ["d"]),
        (("thread", "=", "t1"), ["a", "b"]),
        (("source", "=", "s"), ["a", "b"]),
        (("date", ">=", 2.5), ["b", "c"]),
        (("date", "<", 3.0), ["a", "b"]),
    ),
    ids=str,
)
def test_authors_threads_sources_and_dates_filter(library: Library, filter: Filter, found: list[str]) -> None:
    assert sorted(match(library, filters=[filter])) == found


def test_they_are_counted_as_facets(library: Library) -> None:
    facets = rank(library.store, facets=["source", "thread", "author", "year"]).facets
    assert dict(facets["source"]) == {"s": 2, "t": 1}
    assert dict(facets["thread"]) == {"t1": 2, "t2": 1}
    assert facets["author"][0] == ("Ada <ada@example.org>", 2)
    assert facets["year"] == [("1970", 3)]


def test_vectors_are_found_as_before(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "GOOD_SIMILARITY", 0.0)
    found = library.store.nearest(vector(1, 0), Word, model="m", parents=Page)
    assert [(hit.id, hit.parent, round(hit.score, 3)) for hit in found] == [
        ("of a", "a", 1.0),
        ("of c", "c", 0.6),
        ("of b", "b", 0.0),
        ("of d", "d", -1.0),
    ]
    space = VectorSpace("m", "words")
    near = rank(library.store, "zeppelin", vector=vector(1, 0), space=space, filters=[("thread", "=", "t2")])
    assert [hit.id for hit in near.hits] == ["c"]
    assert library.store.ids_without_vector(Word, "m") == []


def test_what_was_indexed_before_can_be_removed_and_replaced(library: Library) -> None:
    library.store.remove_documents([("pages", "a")])
    library.store.replace_document(page("b", "new"))
    for _ in range(2):
        assert match(library, "red", "boat") == ["c"]
        assert [hit.id for hit in library.store.nearest(vector(1, 0), Word, model="m", parents=Page)] == [
            "of c",
            "of d",
        ]
        pack_everything(library.store)
