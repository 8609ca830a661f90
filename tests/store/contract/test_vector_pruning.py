"""The vectors of a model are removed while others search, write and pack."""

from __future__ import annotations

import pytest

from onward.ledger.store import Store
from onward.model.ledger import IndexedVector
from tests.store.library import Library, pack_everything, place, vector
from tests.support.store_pages import Page, Word, word


@pytest.fixture
def library(indexed_library: Library) -> Library:
    return indexed_library


@pytest.fixture
def other(store: Store) -> Store:
    """The same store, as another process has it: it keeps blocks of its own."""
    return Store(store.db, store.clock)


def near(store: Store, *numbers: float) -> list[tuple[str, float]]:
    hits = store.nearest(vector(*numbers), Word, model="m", parents=Page)
    return [(hit.id, round(hit.score, 3)) for hit in hits]


def move(library: Library, id: str, *numbers: float) -> None:
    place(library, IndexedVector("words", id, "m", vector(*numbers)))


def test_a_process_that_has_searched_finds_the_new_vectors_and_no_old_one(library: Library, other: Store) -> None:
    pack_everything(library.store)
    for _ in range(3):  # from the second search on, it keeps blocks
        assert near(other, 1, 0) == [("of a", 1.0), ("of c", 0.6), ("of b", 0.0)]
    assert sum(library.store.remove_vectors(Word, "m")) == 3
    library.store.add_documents([word("second of b", parent="pages/b")])
    move(library, "second of b", 0.8, 0.6)
    library.pack()
    assert near(other, 1, 0) == near(library.store, 1, 0) == [("second of b", 0.8)]
    pack_everything(library.store)
    for _ in range(3):
        assert near(other, 1, 0) == near(library.store, 1, 0) == [("second of b", 0.8)]


def test_a_vector_space_never_gets_the_number_of_another_one(library: Library) -> None:
    numbers = []
    for n in range(3):
        move(library, "of a", 1, n)
        pack_everything(library.store)
        ((number, *_),) = library.store.db.fetch("searched_vector_spaces", "m", "words", 8)
        numbers.append(number)
        list(library.store.remove_vectors(Word, "m"))
    assert len(set(numbers)) == 3


def test_a_vector_that_is_written_between_two_pages_stays_and_is_found(library: Library, other: Store) -> None:
    pack_everything(library.store)
    pages = library.store.remove_vectors(Word, "m", page=1)
    assert next(pages) == 1
    move(library, "of a", 0.8, 0.6)
    library.pack()
    assert list(pages) == [1, 1]
    for _ in range(2):
        assert near(other, 1, 0) == near(library.store, 1, 0) == [("of a", 0.8)]
        pack_everything(library.store)
    assert library.store.vector_counts(Word) == {"m": 1}, "each code has a vector"


def test_pruning_that_is_stopped_leaves_no_code_without_a_vector(library: Library) -> None:
    pack_everything(library.store)
    pages = library.store.remove_vectors(Word, "m", page=2)
    next(pages)
    pages.close()  # type: ignore[attr-defined]
    assert near(library.store, 1, 0) == [("of c", 0.6)]
    pack_everything(library.store)
    assert near(library.store, 1, 0) == [("of c", 0.6)]
    assert library.store.vector_counts(Word) == {"m": 1}
