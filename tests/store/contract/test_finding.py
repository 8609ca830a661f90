"""Documents are found by keys and by parents, while they exist and as they are now."""

from __future__ import annotations

import pytest

from onward.ledger import reader
from onward.model.ledger import DeadLettered, InFailedBatch, InputStatus, Processed, Replacement
from tests.store.library import keyed
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


def test_values_of_documents_without_another_key(library: Stage) -> None:
    library.store.add_documents([keyed("d", author="Cleo"), keyed("e", author="Ada")])
    assert sorted(map(str, library.store.key_values("author", without=["date"]))) == ["Ada", "Cleo"]
    assert sorted(map(str, library.store.key_values("author", without=["nothing", "date"]))) == ["Ada", "Cleo"]
    assert library.store.key_values("author", without=["author"]) == []


def test_numbers_of_a_key_are_read_from_the_highest_down(stage: Stage) -> None:
    dates = (1.5, 3.0, 3.0, 1_700_000_000.123_456_7, 2.0)
    stage.store.add_documents([keyed(f"d{number}", author="Ada", date=date) for number, date in enumerate(dates)])
    stage.store.add_documents([keyed("e", date=9.0), keyed("f", date="no number")])
    found: list[float] = []
    below = 1e300
    while some := stage.store.key_values_below("date", below, limit=2):
        found += some
        below = some[-1]
    assert found == [1_700_000_000.123_456_7, 9.0, 3.0, 2.0, 1.5]
    assert stage.store.key_values_below("date", 10.0, without=["author"]) == [9.0]
    assert stage.store.key_values_below("date", 10.0, without=["nothing"], limit=1) == [9.0]


def test_documents_with_a_value_are_counted(library: Stage) -> None:
    counts = [len(library.store.find(Page, "author", [name])) for name in ("Ada", "Bert")]
    assert [library.store.keyed_count("author", [name]) for name in ("Ada", "Bert")] == counts
    assert library.store.keyed_count("author", ["Ada", "Bert", "nobody"]) == sum(counts) > 0
    assert library.store.keyed_count("author", []) == 0


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


def test_values_are_counted_by_what_goes_with_them(library: Stage) -> None:
    library.store.add_documents([keyed("d", author="Ada", date=1.0)])
    library.store.add_documents([keyed("e", author="Ada", date=1.0), keyed("f", author="Ada")])
    counts = library.store.counts_beside(Page, "author", ["Ada", "Nobody"], "date")
    assert counts == {"Ada": {1.0: 3, 3.0: 1}}
    assert library.store.counts_beside(Word, "author", ["Ada"], "date") == {}


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
