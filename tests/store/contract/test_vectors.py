"""Documents are found by their vectors, whether these wait, are packed, or both."""

from __future__ import annotations

from typing import Any

import pytest

from onward.model.ledger import IndexedVector, NewDocument
from onward.search import fusion
from onward.search.vector_index import VectorSpace
from tests.store.library import Library, indexed, place, rank, vector, write
from tests.support.store_pages import Page, Word, word

SPACE = VectorSpace("m", "words")


@pytest.fixture
def library(indexed_library: Library) -> Library:
    return indexed_library


def nearest(library: Library, *numbers: float, model: str = "m", **more: Any) -> list[tuple[str, str, float]]:
    library.pack()
    hits = library.store.nearest(vector(*numbers), Word, model=model, parents=Page, **more)
    return [(hit.id, hit.parent, round(hit.score, 3)) for hit in hits]


def ids(library: Library, *numbers: float, **more: Any) -> list[str]:
    return [id for id, *_ in nearest(library, *numbers, **more)]


def move(library: Library, id: str, *numbers: float, model: str = "m", parent: str = "") -> None:
    """Give a word a new vector; with a parent, a new word."""
    adds = [word(id, parent=f"pages/{parent}")] if parent else []
    place(library, IndexedVector("words", id, model, vector(*numbers)), adds=adds)


def test_nearest_first_each_with_its_parent(library: Library) -> None:
    assert nearest(library, 1, 0) == [("of a", "a", 1.0), ("of c", "c", 0.6), ("of b", "b", 0.0)]
    assert ids(library, 0, 1) == ["of b", "of c", "of a"]


def test_the_nearest_alone(library: Library) -> None:
    assert nearest(library, 1, 0, limit=2) == [("of a", "a", 1.0), ("of c", "c", 0.6)]
    assert nearest(library, 1, 0, limit=9) == nearest(library, 1, 0)


def test_of_equally_near_ones_the_first_by_id(library: Library) -> None:
    for id in ("n", "m", "o"):
        move(library, id, 3, 0, parent="b")
    assert ids(library, 1, 0, limit=2) == ["m", "n"]


def test_how_near_those_of_some_parents_are(library: Library) -> None:
    assert nearest(library, 1, 0, among=["c", "b", "missing"]) == [("of c", "c", 0.6), ("of b", "b", 0.0)]
    assert nearest(library, 1, 0, among=[]) == []
    assert nearest(library, 1, 0, model="other", among=["a"]) == []
    move(library, "second of b", 0.8, 0.6, parent="b")
    assert ids(library, 1, 0, among=["b"]) == ["second of b", "of b"]


def test_models_and_sizes_never_mix(library: Library) -> None:
    assert nearest(library, 1, 0, model="other") == []
    assert nearest(library, 1, 0, 0) == [], "nor do vectors of another length"
    move(library, "of a", 0, 1, model="other")
    move(library, "of b", 1, 0, 0)
    assert nearest(library, 1, 0, model="other") == [("of a", "a", 0.0)]
    assert nearest(library, 1, 0) == [("of a", "a", 1.0), ("of c", "c", 0.6)]
    assert nearest(library, 1, 0, 0) == [("of b", "b", 1.0)]


def test_documents_without_a_vector_of_a_model_are_listed(library: Library) -> None:
    assert library.store.ids_without_vector(Word, "m") == []
    assert library.store.ids_without_vector(Word, "other", limit=2) == ["of a", "of b"]
    assert library.store.ids_without_vector(Word, "other", after="of b") == ["of c"]


def test_a_document_has_a_vector_of_each_model(library: Library) -> None:
    move(library, "of a", 0, 1, model="other")
    assert ids(library, 1, 0)[0] == "of a"
    assert nearest(library, 0, 1, model="other") == [("of a", "a", 1.0)]
    library.store.remove_documents([("words", "of a")])
    assert ids(library, 1, 0, model="other") == []
    assert ids(library, 1, 0) == ["of c", "of b"]


def test_a_new_vector_takes_the_place_of_the_old_one(library: Library) -> None:
    for numbers, order in (
        ((0.0, 1.0), ["of c", "of a", "of b"]),
        ((2.0, 0.0), ["of a", "of c", "of b"]),
        ((-1.0, 0.0), ["of c", "of b", "of a"]),
    ):
        move(library, "of a", *numbers)
        assert ids(library, 1, 0) == order
        assert ids(library, 1, 0) == order, "also when the index has not changed since"


def test_a_search_sees_what_has_changed_since_the_last_one(library: Library) -> None:
    assert ids(library, 1, 0) == ["of a", "of c", "of b"]
    move(library, "of b", 0.9, 0.1)
    assert ids(library, 1, 0) == ["of a", "of b", "of c"], "one has moved"
    move(library, "new", 2, 0, parent="c")
    assert ids(library, 1, 0) == ["new", "of a", "of b", "of c"]
    library.store.remove_documents([("words", "of a")])
    assert ids(library, 1, 0) == ["new", "of b", "of c"]
    library.store.forget("s")
    assert ids(library, 1, 0) == ["new", "of c"]


@pytest.mark.parametrize("reads_between", (True, False))
def test_what_was_not_committed_is_found_inside_of_its_transaction_only(
    library: Library, reads_between: bool
) -> None:
    assert len(nearest(library, 1, 0)) == 3
    inside: list[list[str]] = []

    def move_and_break() -> None:
        move(library, "of b", 5, 0)
        inside.append(ids(library, 1, 0))
        library.store.remove_documents([("words", "of a")])
        inside.append(ids(library, 1, 0))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        library.store.atomically(move_and_break)
    assert inside == [["of b", "of a", "of c"], ["of b", "of c"]]
    if not reads_between:
        move(library, "of b", 0.9, 0.1)
        library.pack()
        library.store.remove_documents([("words", "of c")])
        assert ids(library, 1, 0) == ["of a", "of b"], "nothing of what was rolled back is remembered"
        return
    assert ids(library, 1, 0) == ["of a", "of c", "of b"]
    move(library, "of c", 7, 0)
    assert ids(library, 1, 0) == ["of c", "of a", "of b"]


@pytest.fixture(autouse=True)
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text without any of the words is found if one of its vectors has at least the similarity 0.5."""
    monkeypatch.setattr(fusion, "GOOD_SIMILARITY", 0.0)
    monkeypatch.setattr(fusion, "MIN_SIMILARITY", 0.5)


def near_texts(library: Library, *numbers: float, **more: Any) -> list[str]:
    """The pages that a word that none of them has, and a vector, find."""
    library.pack()
    found = rank(library.store, "zeppelin", vector=vector(*numbers), space=SPACE, **more)
    assert found.total == found.every == len(found.hits)
    return [hit.id for hit in found.hits]


def test_texts_are_found_by_the_vectors_of_their_parts(library: Library) -> None:
    assert near_texts(library, 1, 0) == ["a", "c"], "b is not near at all"
    assert near_texts(library, 0, 1) == ["b", "c"]
    hit = rank(library.store, "house", vector=vector(1, 0), space=SPACE).hits[0]
    assert (hit.id, round(hit.similarity, 3), hit.text_score) == ("a", 1.0, 1.0)


def test_filters_and_conditions_hold_for_texts_found_by_vectors(library: Library) -> None:
    assert near_texts(library, 1, 0, filters=[("author", "=", "Ada"), ("date", ">=", 2.0)]) == ["c"]
    assert near_texts(library, 1, 0, filters=[("source", "=", "s")]) == ["a"]
    assert near_texts(library, 1, 0, unwanted=["red"]) == ["c"]
    assert near_texts(library, 1, 0, required=["boat"]) == ["c"]


def test_of_a_text_its_nearest_part_counts(library: Library) -> None:
    move(library, "second of b", 0.8, 0.6, parent="b")
    hits = rank(library.store, "zeppelin", vector=vector(1, 0), space=SPACE).hits
    assert {hit.id: round(hit.similarity, 3) for hit in hits} == {"a": 1.0, "b": 0.8, "c": 0.6}


def test_a_text_that_is_indexed_again_keeps_the_vectors_of_its_parts(library: Library) -> None:
    write(library, indexed("a", "another text", author="Ada"))
    assert near_texts(library, 1, 0) == ["a", "c"]
    assert near_texts(library, 1, 0, filters=[("author", "=", "Ada")]) == ["a", "c"]
    assert near_texts(library, 1, 0, filters=[("author", "=", "Bert")]) == []


def test_a_vector_counts_for_the_texts_of_its_own_collection_only(library: Library) -> None:
    """Texts of two collections have the same numbers."""
    library.store.add_documents([NewDocument("notes", id, "{}") for id in "xyz"])
    library.store.add_documents([word(f"of note {id}", parent=f"notes/{id}") for id in "xyz"])
    write(library, *(indexed(id, "a note", collection="notes") for id in "xyz"))
    place(library, *(IndexedVector("words", f"of note {id}", "m", vector(7, 7)) for id in "xyz"))
    hits = rank(library.store, "title", vector=vector(1, 0), space=SPACE).hits
    assert {hit.id: round(hit.similarity, 3) for hit in hits} == {"a": 1.0, "b": 0.0, "c": 0.6}
    library.pack()
    hits = rank(library.store, "title", vector=vector(1, 0), space=SPACE).hits
    assert {hit.id: round(hit.similarity, 3) for hit in hits} == {"a": 1.0, "b": 0.0, "c": 0.6}
    assert nearest(library, 1, 0)[0] == ("of note x", "notes/x", 7.0), "they are near all the same"


def test_a_part_that_comes_before_the_text_is_found_with_it(library: Library) -> None:
    library.store.add_documents([word("of d", parent="pages/d")])
    move(library, "of d", 1, 0)
    assert near_texts(library, 1, 0) == ["a", "c"], "it has no text yet"
    write(library, d="late")
    assert set(near_texts(library, 1, 0)) == {"a", "c", "d"}


def test_a_number_that_is_used_again_does_not_lead_to_the_old_text(library: Library) -> None:
    """SQLite gives the number of the last document, once that is gone, to the next one."""
    library.store.add_documents([word("last", parent="pages/a")])
    place(library, IndexedVector("words", "last", "m", vector(9, 1)))
    library.pack()
    if library.index_state != "waiting":
        library.store.pack_index(everything=True)
    library.store.remove_documents([("words", "last"), ("words", "of a")])
    library.store.add_documents([word("next", parent="pages/b")])
    place(library, IndexedVector("words", "next", "m", vector(8, 1)))
    hits = rank(library.store, "title", vector=vector(1, 0), space=SPACE).hits
    assert {hit.id: round(hit.similarity, 3) for hit in hits} == {"a": 0.0, "b": 8.0, "c": 0.6}
