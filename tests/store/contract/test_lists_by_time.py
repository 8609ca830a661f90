"""Documents are listed by the time of their last change, page by page, and found by the beginning of a title."""

from __future__ import annotations

import pytest

from onward.ledger.reader import DocumentQueries
from onward.model.ledger import DeadLettered, NewDocument, Processed
from tests.support.store_pages import Page, Stage, failure, page, word

PAGES_ONLY = {"pages": ["pending", "processed", "failed"]}


@pytest.fixture
def changed(stage: Stage) -> Stage:
    """Pages a to f, changed one after the other, of two sources; c and d at the same moment."""
    for number, id in enumerate("abcdef"):
        if id != "d":
            stage.clock.advance(0.000_001)  # less than JSON would keep of it
        stage.bring(id, source="/one" if number % 2 else "/two")
    return stage


def listed(stage: Stage, **how: object) -> str:
    found = stage.store.changed_documents(PAGES_ONLY, **how)  # type: ignore[arg-type]
    return "".join(id for _, (_, id) in found)


def test_the_newest_change_comes_first_or_the_oldest(changed: Stage) -> None:
    assert listed(changed) == "fedcba"
    assert listed(changed, oldest=True) == "abcdef"
    changed.clock.advance(1)
    (delivery,) = [one for one in changed.claim() if one.inputs[0].id == "b"]
    changed.settle(delivery, DeadLettered(["b"], failure=failure(), final=True))
    assert listed(changed) == "bfedca"


@pytest.mark.parametrize("oldest", (False, True))
@pytest.mark.parametrize("limit", (1, 2, 4))
def test_pages_join_without_gap_or_repetition(changed: Stage, oldest: bool, limit: int) -> None:
    found, after = "", None
    while some := changed.store.changed_documents(PAGES_ONLY, oldest=oldest, after=after, limit=limit):
        found += "".join(id for _, (_, id) in some)
        after = some[-1][0]
    assert found == ("abcdef" if oldest else "fedcba")


def test_only_the_wanted_collections_and_statuses_are_listed(changed: Stage) -> None:
    changed.store.add_documents([word("w")])
    for delivery in changed.claim(2):
        changed.settle(delivery, Processed([one.id for one in delivery.inputs]))
    every = {"pages": ["pending", "processed"], "words": [changed.state("w", "words").status]}
    assert len(changed.store.changed_documents(every)) == 7
    assert len(changed.store.changed_documents({"pages": ["pending"]})) == 4
    assert changed.store.changed_documents({"nothing": ["pending"]}) == []


def test_a_source_is_listed_by_time(changed: Stage) -> None:
    assert listed(changed, source="/one") == "fdb"
    assert listed(changed, source="/two", oldest=True) == "ace"
    (place, _), *_ = changed.store.changed_documents(PAGES_ONLY, source="/one", limit=1)
    assert listed(changed, source="/one", after=place) == "db"
    (place, _), *_ = changed.store.changed_documents(PAGES_ONLY, source="/two", oldest=True, limit=1)
    assert listed(changed, source="/two", oldest=True, after=place) == "ce"
    assert listed(changed, source="/three") == ""


@pytest.mark.parametrize("sparse", (False, True))
@pytest.mark.parametrize("status", (None, "pending", "processed", "failed"))
def test_a_source_is_listed_by_id_alike_whether_its_own_are_sorted_or_all_are_looked_through(
    changed: Stage, sparse: bool, status: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DocumentQueries, "_is_sparse", lambda *_: sparse)
    done, failed = sorted(changed.claim(2), key=lambda one: one.inputs[0].id)
    changed.settle(done, Processed([done.inputs[0].id]))
    changed.settle(failed, DeadLettered([failed.inputs[0].id], failure=failure(), final=True))
    states = {id: str(changed.state(id).status) for id in "abcdef"}
    for source, ids in (("/one", "bdf"), ("/two", "ace"), ("/three", "")):
        wanted = [id for id in ids if status in (None, states[id])]
        found: list[str] = []
        # Fewer than match are asked for: only then is there a choice.
        while some := changed.store.states(
            "pages", status=status, source=source, after="".join(found[-1:]), limit=1
        ):
            found += [one.id for one in some]
        assert found == wanted
        kept = changed.store.find_states(source=source, status=status, before=changed.clock.now() - 3600.0)
        assert kept == []


def titled(id: str, *titles: str) -> NewDocument:
    return NewDocument("pages", id, Page(id=id).to_json(), keys=[("title", title) for title in titles])


def test_documents_are_found_by_the_beginning_of_a_title(stage: Stage) -> None:
    stage.store.add_documents(
        [titled("a", "docs/tide.pdf", "tide.pdf"), titled("b", "tide and wind"), titled("c", "Ölstand"), page("d")]
    )
    find: DocumentQueries = stage.store
    assert sorted(find.titled("tide")) == [("pages", "a"), ("pages", "b")]
    assert find.titled("docs/") == [("pages", "a")]
    assert find.titled("Öl") == [("pages", "c")]
    assert find.titled("ide") == []
    assert len(find.titled("", limit=2)) == 2


def test_the_value_of_a_key_is_read_for_many_documents(stage: Stage) -> None:
    stage.store.add_documents([titled("a", "one"), titled("b", "two"), page("d")])
    assert stage.store.keys_of("pages", "title", ["a", "b", "d", "gone"]) == {"a": "one", "b": "two"}
