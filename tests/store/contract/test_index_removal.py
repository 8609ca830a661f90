"""What is gone is found by nothing, however it went and whatever state the index was in."""

from __future__ import annotations

import pytest

from onward.model.ledger import IndexedVector, Processed, Replacement
from onward.search.fusion import RankingQuery
from tests.store.library import Library, indexed, match, place, text_query, texts, vector, write
from tests.support.store_pages import Page, Stage, Word, page, word


@pytest.fixture
def library(indexed_library: Library) -> Library:
    return indexed_library


def near(library: Library, *numbers: float) -> list[str]:
    library.pack()
    return [hit.id for hit in library.store.nearest(vector(*numbers), Word, model="m", parents=Page)]


def test_what_is_removed_is_found_by_nothing(library: Library) -> None:
    library.bring("d")
    library.settle(library.take(), Processed(["d"]), removes=[("pages", "b")])
    assert library.store.find(Page, "author", ["Bert"]) == []
    assert match(library, "boat") == ["c"]
    assert match(library) == ["c", "a"]
    assert near(library, 0, 1) == ["of c", "of a"], "its word went with it"
    assert library.store.excerpts(Page, {"b": ""}, ["boat"]) == {}


def test_what_is_forgotten_is_found_by_nothing(library: Library) -> None:
    library.store.forget("s")
    assert [one.id for one in library.store.find(Page, "author", ["Ada", "Bert"])] == ["c"]
    assert match(library, "red", "blue") == match(library) == ["c"]
    assert near(library, 1, 0) == ["of c"]
    assert library.store.key_values("date") == [3.0]


def test_new_content_is_not_found_by_what_the_old_one_said(library: Library) -> None:
    library.store.replace_document(page("a", "new"))
    assert match(library, "red") == ["b"]
    assert near(library, 1, 0) == ["of c", "of b"]
    library.bring("d")
    library.settle(
        library.take(), Processed(["d"]), replaces=[Replacement("pages", "b", page("b", "new").body, 1)]
    )
    assert match(library, "red") == []
    write(library, a="a tent")
    assert match(library, "tent") == ["a"]


def test_content_that_keeps_its_results_is_found_by_them(library: Library) -> None:
    library.bring("d")
    body = page("b", "new").body
    keeping = Replacement("pages", "b", body, 1, [("author", "Dora")], keeps_results=True)
    library.settle(library.take(), Processed(["d"]), replaces=[keeping])
    assert "b" in match(library, "boat")
    assert near(library, 0, 1)[0] == "of b"
    assert library.store.find(Page, "author", ["Bert"]) == []


def test_a_number_that_is_free_again_brings_nothing_back(library: Library) -> None:
    library.store.forget("t")
    library.store.forget("s")
    library.store.add_documents([page(id) for id in "xyz"])
    library.store.add_documents([word(f"of {id}", parent=f"pages/{id}") for id in "xyz"])
    assert library.store.find(Page, "author", ["Ada", "Bert"]) == []
    assert match(library, "red", "blue") == match(library) == []
    assert near(library, 1, 0) == []
    write(library, x="a tent")
    place(library, IndexedVector("words", "of y", "m", vector(0, 1)))
    assert match(library, "tent") == match(library) == ["x"]
    assert match(library, "red") == []
    assert near(library, 1, 0) == ["of y"]


def test_what_comes_back_under_its_old_id_is_found_as_it_is_now(library: Library) -> None:
    for n in range(3):
        library.store.forget("s")
        library.store.add_documents([page("a", source="s"), word("of a", source="s", parent="pages/a")])
        write(library, indexed("a", f"a tent of {n} poles"))
        place(library, IndexedVector("words", "of a", "m", vector(0.5, n)))
        assert match(library, "tent") == match(library, str(n)) == ["a"]
        assert match(library, "house") == match(library, str(n - 1)) == []
        assert sorted(near(library, 1, 0)) == ["of a", "of c"]


def test_a_refused_work_leaves_nothing_to_be_found(library: Library) -> None:
    library.bring("d", source="s")
    delivery = library.take()
    library.store.forget("s")
    library.bring("d", source="s")
    library.settle(
        delivery, Processed(["d"]), texts=texts(d="a red tent"), vectors=[IndexedVector("pages", "d", "m", b"")]
    )
    assert match(library, "red") == []
    assert library.store.ids_without_vector(Page, "m") == ["c", "d"]


def test_what_was_not_committed_is_found_inside_of_its_transaction_only(library: Library) -> None:
    assert sorted(match(library, "red")) == ["a", "b"]
    inside: list[list[str]] = []

    def write_and_break() -> None:
        write(library, indexed("a", "a tent", author="Zoe"))
        library.store.remove_documents([("pages", "b")])
        inside.extend([match(library, "tent"), match(library, "red"), match(library, "boat")])
        inside.append(match(library, filters=[("author", "=", "Zoe")]))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        library.store.atomically(write_and_break)
    assert inside == [["a"], [], ["c"], ["a"]]
    assert match(library, "tent") == match(library, filters=[("author", "=", "Zoe")]) == []
    assert sorted(match(library, "red")) == ["a", "b"]
    assert match(library, filters=[("author", "=", "Ada")]) == ["c", "a"]
    write(library, indexed("c", "a barn", author="Max"))
    assert match(library, "barn") == match(library, filters=[("author", "=", "Max")]) == ["c"]
    assert sorted(match(library, "red")) == ["a", "b"]


def test_a_snapshot_is_not_disturbed_by_what_happens_after_it(library: Library) -> None:
    library.pack()
    snapshot = library.store.texts(Page)
    write(library, indexed("d", "a red tent"))
    library.store.remove_documents([("pages", "b")])
    library.store.pack_index(everything=True)
    found = library.store.search(snapshot, RankingQuery(text_query(["red"])))
    assert [hit.id for hit in found.hits] == ["a"], "what is new is not seen, what is gone is left out"
    assert sorted(match(library, "red")) == ["a", "d"]


def test_an_empty_library_is_searched(stage: Stage) -> None:
    stage.store.pack_index(everything=True)
    assert match(stage, "red") == match(stage) == []
    assert stage.store.nearest(vector(1, 0), Word, model="m", parents=Page) == []
