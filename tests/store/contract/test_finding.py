"""Documents are found by keys, by parents and by vectors, while they exist and as they are now."""

from __future__ import annotations

import pytest

from onward.ledger import reader
from onward.model.ledger import DeadLettered, IndexedVector, InFailedBatch, InputStatus, Processed, Replacement
from tests.store.library import keyed, match, texts, vector
from tests.support.store_pages import Page, Stage, Word, failure, page, word

# -- keys


def test_by_one_or_many_values_of_a_key(library: Stage) -> None:
    store = library.store
    assert sorted(one.id for one in store.find(Page, "author", ["Ada"])) == ["a", "c"]
    assert sorted(one.id for one in store.find(Page, "author", ["Ada", "Bert", "Nobody"])) == ["a", "b", "c"]
    assert [one.id for one in store.find("pages", "date", [2.0])] == ["b"]
    assert store.find(Page, "author", []) == store.find(Word, "author", ["Ada"]) == []


def test_with_their_status_and_revision(library: Stage) -> None:
    (found,) = library.store.find(Page, "author", ["Bert"])
    assert (found.value, found.status, found.revision, found.set_aside) == ("Bert", "processed", 1, False)


def test_what_goes_with_a_value_is_told_once(library: Stage) -> None:
    library.store.add_documents([keyed("d", author="Ada", date=1.0)])
    found = library.store.related(Page, "author", ["Ada"], "date")
    assert sorted(found) == [("Ada", 1.0), ("Ada", 3.0)]


def test_all_values_of_a_key_are_told_once(library: Stage) -> None:
    assert sorted(map(str, library.store.key_values("author"))) == ["Ada", "Bert"]


def test_many_with_one_value_come_in_pages_with_another_key(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PAGE_DOCUMENTS", 2)
    dated = (("e", 3.0), ("a", 1.5), ("d", 2.0), ("b", 3.0))
    stage.store.add_documents(
        [
            *(keyed(id, author="Ada", date=date) for id, date in dated),
            keyed("c", author="Ada"),
            keyed("z", author="Bert", date=1.0),
        ]
    )
    pages = list(stage.store.find_pages(Page, "author", "Ada", beside="date"))
    assert [[(one.id, one.status, date) for one, date in some] for some in pages] == [
        [("e", "pending", 3.0), ("a", "pending", 1.5)],
        [("d", "pending", 2.0), ("b", "pending", 3.0)],
        [("c", "pending", None)],
    ]
    assert list(stage.store.find_pages(Word, "author", "Ada", beside="date")) == []
    assert next(stage.store.find_pages(Page, "date", 3.0, beside="author"))[0][1] == "Ada"


def test_values_are_counted_by_status(library: Stage) -> None:
    library.store.discard("pages", "c")
    counts = library.store.value_counts(Page, "author", ["Ada", "Bert", "Nobody"])
    assert counts == {"Ada": {"processed": 1, "discarded": 1}, "Bert": {"processed": 1}}
    assert library.store.value_counts(Page, "author", []) == {}


def test_ids_are_ordered_by_another_key_then_as_they_were_stored(stage: Stage) -> None:
    dated = (("e", 3.0), ("a", 10.5), ("d", 2.0), ("b", 3.0))
    stage.store.add_documents(
        [*(keyed(id, author="Ada", date=date) for id, date in dated), keyed("c", author="Ada")]
    )
    store = stage.store
    assert store.ordered_ids(Page, "author", "Ada", by="date") == ["c", "d", "e", "b", "a"]
    assert store.ordered_ids(Page, "author", "Ada", by="date", start=1, limit=2) == ["d", "e"]
    assert [store.ids_before(Page, "author", "Ada", id, by="date") for id in "cdeba"] == [0, 1, 2, 3, 4]
    assert store.ids_before(Page, "author", "Ada", "nobody", by="date") == 0


def test_the_highest_number_beside_each_value(library: Stage) -> None:
    found = library.store.highest_beside(Page, "author", ["Ada", "Bert", "Nobody"], beside="date")
    assert found == {"Ada": 3.0, "Bert": 2.0}


def test_new_content_has_new_keys(library: Stage) -> None:
    library.store.replace_document(page("a", "new", keys=[("author", "Carla")]))
    assert [one.id for one in library.store.find(Page, "author", ["Ada"])] == ["c"]
    (found,) = library.store.find(Page, "author", ["Carla"])
    assert (found.id, found.revision, found.status) == ("a", 2, "pending")


def test_a_work_that_replaces_a_document_replaces_its_keys(library: Stage) -> None:
    library.bring("d")
    body = page("a", "new").body
    library.settle(
        library.take(), Processed(["d"]), replaces=[Replacement("pages", "a", body, 1, [("author", "Dora")])]
    )
    assert [one.id for one in library.store.find(Page, "author", ["Dora"])] == ["a"]
    assert [one.id for one in library.store.find(Page, "author", ["Ada"])] == ["c"]


def test_the_same_content_keeps_its_keys(library: Stage) -> None:
    assert not library.store.replace_document(keyed("a", "s", author="Ada", date=1.0))
    assert len(library.store.find(Page, "author", ["Ada"])) == 2


# -- states, sources, children


def test_statuses_of_those_that_exist(library: Stage) -> None:
    library.bring("new")
    assert library.store.statuses(Page, ["a", "new", "missing"]) == {"a": "processed", "new": "pending"}


def test_states_are_listed_by_id_page_by_page(library: Stage) -> None:
    store = library.store
    assert [one.id for one in store.states(Page, limit=2)] == ["a", "b"]
    assert [one.id for one in store.states(Page, limit=2, after="b")] == ["c"]
    assert [one.id for one in store.states(Page, source="t")] == ["c"]
    assert store.states(Page, status="failed") == []
    assert store.states("pages", after="a", limit=1)[0] == store.state(Page, "b")


def test_sources_are_those_that_have_documents(library: Stage) -> None:
    assert sorted(library.store.sources()) == ["s", "t"]
    library.store.forget("s")
    assert library.store.sources() == ["t"]


def test_children_are_found_by_their_parents(library: Stage) -> None:
    found = library.store.children(Word, Page, ["a", "c", "missing"])
    assert sorted((one.value, one.id, one.status) for one in found) == [
        ("a", "of a", "processed"),
        ("c", "of c", "processed"),
    ]
    assert library.store.children(Page, Page, ["a"]) == []


def test_a_document_with_a_life_of_its_own_has_no_parent(stage: Stage) -> None:
    stage.bring("a", source="s")
    stage.settle(stage.take(), Processed(["a"]), adds=[word("free", parent=None), word("child", parent="pages/a")])
    assert [one.id for one in stage.store.children(Word, Page, ["a"])] == ["child"]
    assert stage.state("free", "words").source == "s", "it belongs to the source it came from"
    stage.store.replace_document(page("a", "new"))
    assert stage.store.statuses(Word, ["free", "child"]) == {"free": "processed"}


def test_what_is_beyond_help_is_kept_as_failed(stage: Stage) -> None:
    stage.bring("a", source="s")
    stage.settle(stage.take(), Processed(["a"]), adds=[page("bad", failure=failure("no such thing"))])
    state = stage.state("bad")
    assert (state.status, state.round, state.attempt_count, state.source) == ("failed", 0, 0, "s")
    assert state.last_error is not None
    assert state.last_error["message"] == "no such thing"
    assert state.attempts["total"] == 1
    stage.publish("bad")
    assert [one.status for delivery in stage.claim() for one in delivery.inputs] == [InputStatus.FINAL]


# -- vectors


def _nearest(stage: Stage, *numbers: float, model: str = "m", **more: object) -> list[tuple[str, str, float]]:
    hits = stage.store.nearest(vector(*numbers), Word, model=model, parents=Page, **more)  # type: ignore[arg-type]
    return [(hit.id, hit.parent, round(hit.score, 3)) for hit in hits]


def test_nearest_first_each_with_its_parent(library: Stage) -> None:
    assert _nearest(library, 1, 0) == [("of a", "a", 1.0), ("of c", "c", 0.6), ("of b", "b", 0.0)]


def test_filters_ask_for_the_keys_of_the_parent(library: Stage) -> None:
    assert [id for id, *_ in _nearest(library, 1, 0, filters=[("author", "=", "Ada")])] == ["of a", "of c"]
    assert [id for id, *_ in _nearest(library, 1, 0, source="t")] == ["of c"]


def test_the_nearest_alone(library: Stage) -> None:
    assert _nearest(library, 1, 0, limit=2) == [("of a", "a", 1.0), ("of c", "c", 0.6)]
    assert _nearest(library, 1, 0, limit=9) == _nearest(library, 1, 0)
    assert [id for id, *_ in _nearest(library, 1, 0, limit=1, filters=[("author", "=", "Bert")])] == ["of b"]
    assert [id for id, *_ in _nearest(library, 1, 0, limit=1, source="t", each_parent=True)] == ["of c"]


def test_of_equally_near_ones_the_first_by_id(library: Stage) -> None:
    for id in ("n", "m", "o"):
        _place(library, id, 3, 0, adds=[word(id, parent="pages/b")])
    assert [id for id, *_ in _nearest(library, 1, 0, limit=2)] == ["m", "n"]
    assert [id for id, *_ in _nearest(library, 1, 0, limit=1, each_parent=True)] == ["m"]


def test_how_near_those_of_some_parents_are(library: Stage) -> None:
    assert _nearest(library, 1, 0, among=["c", "b", "missing"]) == [("of c", "c", 0.6), ("of b", "b", 0.0)]
    assert _nearest(library, 1, 0, among=[]) == []
    assert _nearest(library, 1, 0, model="other", among=["a"]) == []
    _place(library, "second of b", 0.8, 0.6, adds=[word("second of b", parent="pages/b")])
    assert [id for id, *_ in _nearest(library, 1, 0, among=["b"], each_parent=True)] == ["second of b"]


def test_models_never_mix(library: Stage) -> None:
    assert _nearest(library, 1, 0, model="other") == []
    assert _nearest(library, 1, 0, 0) == [], "nor do vectors of another length"
    assert library.store.ids_without_vector(Word, "m") == []
    assert library.store.ids_without_vector(Word, "other", limit=2) == ["of a", "of b"]
    assert library.store.ids_without_vector(Word, "other", after="of b") == ["of c"]


def test_a_new_place_takes_the_old_one(library: Stage) -> None:
    library.bring("d")
    moved = IndexedVector("words", "of a", "other", vector(0, 1))
    library.settle(library.take(), Processed(["d"]), vectors=[moved])
    assert [id for id, *_ in _nearest(library, 1, 0)] == ["of c", "of b"]
    assert [id for id, *_ in _nearest(library, 1, 0, model="other")] == ["of a"]


def _place(stage: Stage, id: str, *numbers: float, **more: object) -> None:
    """Place a word, in a work of a page that is as good as any other."""
    stage.bring(f"for {id} at {numbers}")
    delivery = stage.take()
    vectors = [IndexedVector("words", id, "m", vector(*numbers))]
    stage.settle(delivery, Processed([delivery.inputs[0].id]), vectors=vectors, **more)


def test_of_each_parent_only_the_nearest(library: Stage) -> None:
    _place(library, "second of b", 0.8, 0.6, adds=[word("second of b", parent="pages/b")])
    assert [id for id, *_ in _nearest(library, 1, 0)] == ["of a", "second of b", "of c", "of b"]
    each = _nearest(library, 1, 0, each_parent=True)
    assert [(id, parent) for id, parent, _ in each] == [("of a", "a"), ("second of b", "b"), ("of c", "c")]
    ada = _nearest(library, 0, 1, each_parent=True, filters=[("author", "=", "Ada"), ("date", ">=", 1.0)])
    assert [id for id, *_ in ada] == ["of c", "of a"]


def test_who_has_asked_before_hears_what_has_changed_since(library: Stage) -> None:
    assert [id for id, *_ in _nearest(library, 1, 0)] == ["of a", "of c", "of b"]
    _place(library, "of b", 0.9, 0.1)
    assert [id for id, *_ in _nearest(library, 1, 0)] == ["of a", "of b", "of c"], "one has moved"
    _place(library, "new", 2, 0, adds=[word("new", parent="pages/c")])
    assert [id for id, *_ in _nearest(library, 1, 0)] == ["new", "of a", "of b", "of c"]
    assert [id for id, *_ in _nearest(library, 1, 0, source="t")] == ["new", "of c"]
    library.store.remove_documents([("words", "of a")])
    assert [id for id, *_ in _nearest(library, 1, 0)] == ["new", "of b", "of c"]
    library.store.forget("s")
    assert [id for id, *_ in _nearest(library, 1, 0)] == ["new", "of c"]


def test_what_was_never_committed_is_near_to_nothing(library: Stage) -> None:
    assert len(_nearest(library, 1, 0)) == 3
    inside: list[str] = []

    def move_and_break() -> None:
        _place(library, "of b", 5, 0)
        inside.extend(id for id, *_ in _nearest(library, 1, 0))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        library.store.atomically(move_and_break)
    assert inside == ["of b", "of a", "of c"]
    assert [id for id, *_ in _nearest(library, 1, 0)] == ["of a", "of c", "of b"]


# -- going


def test_what_is_removed_is_found_by_nothing(library: Stage) -> None:
    library.bring("d")
    library.settle(library.take(), Processed(["d"]), removes=[("pages", "b")])
    assert library.store.find(Page, "author", ["Bert"]) == []
    assert match(library, "boat") == ["c"]
    assert [id for id, *_ in _nearest(library, 0, 1)] == ["of c", "of a"], "its word went with it"


def test_what_is_forgotten_is_found_by_nothing(library: Stage) -> None:
    library.store.forget("s")
    assert [one.id for one in library.store.find(Page, "author", ["Ada", "Bert"])] == ["c"]
    assert match(library, "red", "blue") == ["c"]
    assert [id for id, *_ in _nearest(library, 1, 0)] == ["of c"]
    assert library.store.key_values("date") == [3.0]


def test_new_content_is_not_found_by_what_the_old_one_said(library: Stage) -> None:
    library.store.replace_document(page("a", "new"))
    assert sorted(match(library, "red")) == ["b"]


def test_a_number_that_is_free_again_brings_nothing_back(library: Stage) -> None:
    library.store.forget("t")
    library.store.forget("s")
    library.store.add_documents([page(id) for id in "xyz"])
    assert library.store.find(Page, "author", ["Ada", "Bert"]) == []
    assert match(library, "red", "blue") == []


def test_a_refused_work_leaves_nothing_to_be_found(stage: Stage) -> None:
    stage.bring("a", source="s")
    delivery = stage.take()
    stage.store.forget("s")
    stage.bring("a", source="s")
    stage.settle(
        delivery, Processed(["a"]), texts=texts(a="a red house"), vectors=[IndexedVector("pages", "a", "m", b"")]
    )
    assert match(stage, "red") == []
    assert stage.store.ids_without_vector(Page, "m") == ["a"]


def test_set_aside_is_told_by_keys_and_parents(stage: Stage) -> None:
    stage.store.add_documents([keyed("a", author="Ada"), keyed("b", author="Ada")])
    stage.publish("a", "b")
    stage.settle(stage.take(), InFailedBatch(["a"], failure()), DeadLettered(["b"], failure=failure(), final=True))
    found = {one.id: (one.status, one.set_aside) for one in stage.store.find(Page, "author", ["Ada"])}
    assert found == {"a": ("pending", True), "b": ("failed", False)}


def test_of_many_documents_the_ids_alone_can_be_had(stage: Stage) -> None:
    stage.store.add_documents(
        [page(id, keys=[("colour", colour)]) for id, colour in (("a", "red"), ("b", "blue"), ("c", "red"))]
    )
    assert sorted(stage.store.ids(Page, "colour", "red")) == ["a", "c"]
    assert stage.store.ids(Page, "colour", "green") == []
    assert stage.store.ids("words", "colour", "red") == [], "of this kind alone"
