"""Vectors kept in memory are those that are committed, whoever did so, in whichever order. Words are weighed."""

from __future__ import annotations

import struct

import pytest

from onward.ledger.postgres import PostgresStore
from onward.model.ledger import IndexedText, Processed
from onward.search.search_queries import MAX_AGE_SECONDS, VectorSpaces
from tests.postgres.stage import Asker, Opener
from tests.support.servers import PostgresServer
from tests.support.store_pages import Page, Stage, Word, page, word


@pytest.fixture
def other(opened: Opener, postgres_store_url: str) -> PostgresStore:
    """The same store, as another process has it."""
    return opened(postgres_store_url)


@pytest.fixture
def words(stage: Stage) -> Stage:
    """Three words that have no place yet."""
    stage.store.add_documents([page("a"), *(word(id, parent="pages/a") for id in "xyz")])
    return stage


def _near(store: PostgresStore) -> list[str]:
    hits = store.nearest(struct.pack("<2f", 1.0, 0.0), Word, model="m", parents=Page)
    return [hit.id for hit in hits]


def _place(store: PostgresStore, ask: Asker, id: str, *numbers: float) -> None:
    ((doc,),) = ask(f"SELECT doc FROM {store.db.schema}.documents WHERE id = '{id}'")
    with store.db.transaction():
        store.db.bulk("insert_vectors", [(doc, "m", struct.pack("<2f", *numbers))])


def test_what_was_begun_earlier_and_committed_later_is_heard_of(
    words: Stage, store: PostgresStore, other: PostgresStore, ask: Asker
) -> None:
    _place(store, ask, "x", 3, 0)
    assert _near(store) == ["x"]
    with other.db.transaction():
        _place(other, ask, "y", 2, 0)
        _place(store, ask, "z", 1, 0)
        assert _near(store) == ["x", "z"]
    assert _near(store) == ["x", "y", "z"]


def test_what_another_process_moves_or_removes_is_heard_of(
    words: Stage, store: PostgresStore, other: PostgresStore, ask: Asker
) -> None:
    for place, id in enumerate("xyz"):
        _place(store, ask, id, 3 - place, 0)
    assert _near(store) == _near(other) == ["x", "y", "z"]
    _place(other, ask, "y", 9, 0)
    other.remove_documents([("words", "x")])
    assert _near(store) == _near(other) == ["y", "z"]


def test_what_is_gone_is_known_for_a_day(words: Stage, store: PostgresStore, ask: Asker) -> None:
    for id in "xyz":
        _place(store, ask, id, 1, 0)
    gone = f"{store.db.schema}.removed_vectors"
    store.remove_documents([("words", "x"), ("words", "y")])
    assert ask(f"SELECT count(*) FROM {gone}") == [(2,)]
    ask(f"UPDATE {gone} SET at = now() - interval '25 hours' RETURNING doc")
    store.remove_documents([("words", "z")])
    assert ask(f"SELECT count(*) FROM {gone}") == [(1,)]


def test_who_has_not_asked_for_long_reads_everything_anew(words: Stage, store: PostgresStore, ask: Asker) -> None:
    now = 0.0
    store.__dict__["_vector_spaces"] = VectorSpaces(store.db, lambda: now)
    for id in "xy":
        _place(store, ask, id, 1, 0)
    assert _near(store) == ["x", "y"]
    store.remove_documents([("words", "x")])
    ask(f"DELETE FROM {store.db.schema}.removed_vectors RETURNING doc")  # as a day later
    now = MAX_AGE_SECONDS + 1.0
    assert _near(store) == ["y"]


def test_how_many_have_a_common_word_is_not_counted_where_there_are_many(
    stage: Stage, store: PostgresStore, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = f"{store.db.schema}.texts"

    def write(numbers: range, text: str) -> None:
        stage.bring(f"writer of {text}")
        delivery = stage.take()
        written = [IndexedText("pages", str(one), "", text) for one in numbers]
        stage.settle(
            delivery,
            Processed([one.id for one in delivery.inputs]),
            adds=[page(str(one)) for one in numbers],
            texts=written,
        )

    write(range(10), "tent")
    postgres_server.execute(f"ALTER TABLE {texts} SET (autovacuum_enabled = false)", "app")
    postgres_server.execute(f"ANALYZE {texts}", "app")
    write(range(10, 35), "house")
    write(range(35, 40), "tent")
    best = store.match(["tent"], [], Page, limit=1)
    assert (best.hits[0].score > 0.1, best.total) == (True, 15), "15 of 40: it tells something"
    monkeypatch.setattr("onward.ledger.postgres.fulltext.MAX_COUNTED_TEXTS", 0)
    best = store.match(["tent"], [], Page, limit=1)
    assert (best.hits[0].score < 0.1, best.total) == (True, 15), "as the server remembers, all have it"
