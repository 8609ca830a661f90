"""Documents are found by keys, by parents, by words and by vectors, while they exist and as they are now."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from onward.model.ledger import Aside, Dead, Done, IndexedText, NewDocument, PlacedVector, Replacement, Standing
from onward.model.search import Filter
from tests.store.stage import Page, Stage, Word, failure, page, word


def _keyed(id: str, source: str | None = None, **keys: str | float) -> NewDocument:
    return page(id, keys=list(keys.items()), source=source)


def _texts(**texts: str) -> list[IndexedText]:
    return [IndexedText("pages", id, f"Title of {id}", text) for id, text in texts.items()]


def _vector(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


@pytest.fixture
def library(stage: Stage) -> Stage:
    """Three pages that can be found, of two sources, and a word made of each."""
    stage.store.add_documents(
        [
            _keyed("a", "s", author="Ada", date=1.0),
            _keyed("b", "s", author="Bert", date=2.0),
            _keyed("c", "t", author="Ada", date=3.0),
        ]
    )
    stage.publish("a", "b", "c")
    for delivery in stage.claim():
        ids = [one.id for one in delivery.inputs]
        vectors = {"a": _vector(1, 0), "b": _vector(0, 1), "c": _vector(0.6, 0.8)}
        texts = {"a": "a red house", "b": "a red boat", "c": "a blue boat"}
        stage.settle(
            delivery,
            Done(ids),
            adds=[word(f"of {id}", parent=f"pages/{id}") for id in ids],
            texts=_texts(**{id: texts[id] for id in ids}),
            vectors=[PlacedVector("words", f"of {id}", "m", vectors[id]) for id in ids],
        )
    return stage


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
    library.store.add_documents([_keyed("d", author="Ada", date=1.0)])
    found = library.store.related(Page, "author", ["Ada"], "date")
    assert sorted(found) == [("Ada", 1.0), ("Ada", 3.0)]


def test_all_values_of_a_key_are_told_once(library: Stage) -> None:
    assert sorted(map(str, library.store.key_values("author"))) == ["Ada", "Bert"]


def test_new_content_has_new_keys(library: Stage) -> None:
    library.store.replace_document(page("a", "new", keys=[("author", "Carla")]))
    assert [one.id for one in library.store.find(Page, "author", ["Ada"])] == ["c"]
    (found,) = library.store.find(Page, "author", ["Carla"])
    assert (found.id, found.revision, found.status) == ("a", 2, "pending")


def test_a_work_that_replaces_a_document_replaces_its_keys(library: Stage) -> None:
    library.bring("d")
    body = page("a", "new").body
    library.settle(
        library.take(), Done(["d"]), replaces=[Replacement("pages", "a", body, 1, [("author", "Dora")])]
    )
    assert [one.id for one in library.store.find(Page, "author", ["Dora"])] == ["a"]
    assert [one.id for one in library.store.find(Page, "author", ["Ada"])] == ["c"]


def test_the_same_content_keeps_its_keys(library: Stage) -> None:
    assert not library.store.replace_document(_keyed("a", "s", author="Ada", date=1.0))
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
    stage.settle(stage.take(), Done(["a"]), adds=[word("free", parent=None), word("child", parent="pages/a")])
    assert [one.id for one in stage.store.children(Word, Page, ["a"])] == ["child"]
    assert stage.state("free", "words").source == "s", "it belongs to the source it came from"
    stage.store.replace_document(page("a", "new"))
    assert stage.store.statuses(Word, ["free", "child"]) == {"free": "processed"}


def test_what_is_beyond_help_is_kept_as_failed(stage: Stage) -> None:
    stage.bring("a", source="s")
    stage.settle(stage.take(), Done(["a"]), adds=[page("bad", failure=failure("no such thing"))])
    state = stage.state("bad")
    assert (state.status, state.round, state.attempt_count, state.source) == ("failed", 0, 0, "s")
    assert state.last_error is not None
    assert state.last_error["message"] == "no such thing"
    assert state.attempts["total"] == 1
    stage.publish("bad")
    assert [one.standing for delivery in stage.claim() for one in delivery.inputs] == [Standing.FINAL]


# -- words


def _match(stage: Stage, *wanted: str, **more: object) -> list[str]:
    found = stage.store.match(wanted, more.pop("unwanted", ()), Page, **more)  # type: ignore[arg-type]
    assert found.total == len(found.hits) or "limit" in more
    return [hit.id for hit in found.hits]


def test_any_of_the_words_and_none_of_the_others(library: Stage) -> None:
    assert sorted(_match(library, "red", "blue")) == ["a", "b", "c"]
    assert sorted(_match(library, "boat", unwanted=["red"])) == ["c"]
    assert _match(library, "red house") == ["a"], "a term of two words is a phrase"
    assert _match(library, "house red") == []
    assert _match(library, "green") == []


def test_titles_count_unless_they_should_not(library: Stage) -> None:
    assert len(_match(library, "title")) == 3
    assert _match(library, "title", titles=False) == []


@pytest.mark.parametrize(
    ("filters", "found"),
    (
        ([], ["b", "c"]),
        ([("author", "=", "Ada")], ["c"]),
        ([("author", "like", "%er%")], ["b"]),
        ([("author", "like", "%\\%%")], []),
        ([("date", ">=", 2.0)], ["b", "c"]),
        ([("date", "<", 3.0)], ["b"]),
        ([("date", ">=", 2.0), ("author", "=", "Ada")], ["c"]),
        ([("unknown", "=", "x")], []),
    ),
)
def test_filters_ask_for_keys(library: Stage, filters: Sequence[Filter], found: list[str]) -> None:
    assert sorted(_match(library, "boat", filters=filters)) == found


def test_one_source_only(library: Stage) -> None:
    assert _match(library, "boat", source="s") == ["b"]


def test_excerpts_mark_what_matches(library: Stage) -> None:
    found = library.store.excerpts(["boat"], [], Page, ["b", "a"])
    assert found == {"b": ("Title of b", "a red \x02boat\x03")}


@pytest.mark.parametrize("term", ('"', "har\x00bour", "a\ud800b", "NEAR(", "*", "x" * 10_000, "'"))
def test_no_word_breaks_the_query(library: Stage, term: str) -> None:
    assert _match(library, term, unwanted=[term + "y"]) == []
    assert library.store.excerpts([term], [], Page, ["a"]) == {}


def _write(stage: Stage, **texts: str) -> None:
    """Let pages be found by these texts, which are new, or take the place of old ones."""
    stage.bring("writer")
    stage.settle(stage.take(), Done(["writer"]), adds=[page(id) for id in texts], texts=_texts(**texts))


def test_neither_case_nor_accents_nor_endings_matter(library: Stage) -> None:
    _write(library, d="Cafés in Zürich, naïve and open", e="the cafe\u0301 was closed")
    assert sorted(_match(library, "CAFÉ")) == sorted(_match(library, "cafe")) == ["d", "e"]
    assert _match(library, "zurich") == _match(library, "naive") == ["d"]
    assert sorted(_match(library, "Boats")) == ["b", "c"]


def test_the_most_common_words_are_found_too(library: Stage) -> None:
    _write(library, d="to be or not to be", e="x")
    assert _match(library, "not") == _match(library, "to be or") == ["d"]
    assert sorted(_match(library, "title")) == ["a", "b", "c", "d", "e"], "though all have it"
    hits, _ = library.store.match(["title", "not"], [], Page)
    assert (len(hits), hits[0].id) == (5, "d"), "what is rare comes first"
    assert all(hit.score > 0 for hit in hits)


def test_the_best_alone_and_how_many_there_are(library: Stage) -> None:
    _write(library, once="zebra " + "x " * 9, thrice="zebra " * 3 + "x " * 7, zebra="x " * 10)
    found = library.store.match(["zebra"], [], Page, limit=2)
    assert ([hit.id for hit in found.hits], found.total) == (["thrice", "zebra"], 3)
    assert library.store.match(["zebra"], [], Page, limit=9) == library.store.match(["zebra"], [], Page)
    assert library.store.match(["none"], [], Page, limit=2) == ([], 0)


def test_with_the_best_those_that_somebody_asks_for(library: Stage) -> None:
    _write(library, once="zebra " + "x " * 9, thrice="zebra " * 3 + "x " * 7, zebra="x " * 10)
    every = library.store.match(["zebra"], [], Page)
    found = library.store.match(["zebra"], [], Page, limit=1, besides=["once", "a", "missing", "thrice"])
    assert found == ([every.hits[0], every.hits[2]], 3), "with the scores that they have among all"
    assert _match(library, "zebra", unwanted=["x"], limit=1, besides=["once"]) == []


def test_a_filter_comes_before_the_limit(library: Stage) -> None:
    _write(library, once="boat " + "x " * 9, thrice="boat " * 3 + "x " * 7)
    found = library.store.match(["boat"], [], Page, filters=[("author", "=", "Bert")], limit=1)
    assert ([hit.id for hit in found.hits], found.total) == (["b"], 1)
    found = library.store.match(["boat"], [], Page, source="t", limit=1, besides=["b", "once"])
    assert ([hit.id for hit in found.hits], found.total) == (["c"], 1)


def test_what_is_found_by_common_words_alone_comes_last_the_newest_first(library: Stage) -> None:
    _write(library, d="a red tent", e="a tent")
    assert _match(library, "title", "house", limit=4) == ["a", "e", "d", "c"]
    found = library.store.match(["title", "house"], [], Page, limit=2, besides=["b"])
    assert ([hit.id for hit in found.hits], found.total) == (["a", "e", "b"], 5)
    scores = [hit.score for hit in found.hits]
    assert scores[0] > scores[1] == scores[2] > 0


def test_words_that_most_have_rank_only_the_newest(library: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(library, d="tent tent tent", e="tent", f="tent tent", g="nothing else")
    _write(library, a="tent " * 4, b="tent " * 4, c="tent " * 4)
    assert _match(library, "tent")[-2:] == ["f", "e"]
    for module in ("sqlite", "postgres"):
        monkeypatch.setattr(f"onward.backends.{module}.searching.NEWEST", 3)
    assert _match(library, "tent", limit=2) == ["d", "f"], "the three newest that have it, best first"
    assert _match(library, "tent", limit=4) == ["d", "f", "e", "c"], "and others behind them"
    assert _match(library, "tent") == ["d", "f", "e", "c", "b", "a"]
    ada = [("author", "=", "Ada")]
    assert _match(library, "tent", filters=ada, limit=1, besides=["a", "d"]) == ["c", "a"]


def test_a_phrase_is_within_the_title_or_within_the_text(library: Stage) -> None:
    assert _match(library, "of a") == ["a"]
    assert _match(library, "of a", titles=False) == []
    assert _match(library, "a a red") == []
    assert sorted(_match(library, "boat", unwanted=["red boat", "title of a"])) == ["c"]


def test_punctuation_separates_words(library: Stage) -> None:
    _write(library, d="see builtin/log.c:12, v2.43.0-rc1, snake_case and ada@example.org")
    for term in ("log", "builtin/log.c", "43.0 rc1", "snake case", "snake_case", "ada@example.org", "example"):
        assert _match(library, term) == ["d"], term
    assert _match(library, "log builtin") == []


def test_what_a_text_says_more_often_and_a_title_says_is_better(library: Stage) -> None:
    _write(library, once="zebra " + "x " * 9, thrice="zebra " * 3 + "x " * 7, zebra="x " * 10)
    assert _match(library, "zebra") == ["thrice", "zebra", "once"]
    assert _match(library, "zebra", titles=False) == ["thrice", "once"]


def test_a_new_text_takes_the_place_of_the_old_one(library: Stage) -> None:
    _write(library, a="a green tent")
    assert _match(library, "tent") == ["a"]
    assert _match(library, "house") == []
    assert library.store.excerpts(["house"], [], Page, ["a"]) == {}


@pytest.mark.parametrize(
    "text",
    (
        "first " + " ".join(f"w{n:x}" for n in range(150_000)),
        "first " + " ".join(map(chr, range(0x4E00, 0x9FFF))) * 10,
        "first " + "x" * 1_000_000,
        "first " + "again and " * 100_000,
        "first half\ud800 of a character, and nu\x00ll",
    ),
    ids=("many words", "wide characters", "a long word", "few words", "not storable"),
)
def test_a_text_of_any_kind_is_kept_and_found(library: Stage, text: str) -> None:
    _write(library, d=text)
    assert _match(library, "first") == ["d"]
    ((title, excerpt),) = library.store.excerpts(["first"], [], Page, ["d"]).values()
    assert title == "Title of d"
    assert excerpt.startswith("\x02first\x03 ")


def test_a_long_query_is_answered(library: Stage) -> None:
    assert sorted(_match(library, "house", "boat", *(f"w{n}" for n in range(5_000)))) == ["a", "b", "c"]
    assert _match(library, " ".join(f"w{n}" for n in range(5_000))) == []


def test_excerpts_show_forty_words_around_what_matches(library: Stage) -> None:
    before, after = (" ".join(f"{name}{n}" for n in range(100)) for name in ("b", "a"))
    _write(library, d=f"{before} The red, RED house! {after}")
    ((title, excerpt),) = library.store.excerpts(["red house", "title"], [], Page, ["d"]).values()
    assert title == "\x02Title\x03 of d"
    assert "\x02RED house\x03!" in excerpt
    assert "The red, " in excerpt, "which is no part of the phrase"
    assert excerpt.startswith("…b")
    assert excerpt.endswith("…")
    assert len(excerpt.replace("\x02", "").replace("\x03", "").split()) == 40


def test_excerpts_are_of_what_is_found(library: Stage) -> None:
    assert set(library.store.excerpts(["boat"], ["blue"], Page, ["a", "b", "c"])) == {"b"}
    assert library.store.excerpts(["title"], [], Page, ["a"]) == {"a": ("\x02Title\x03 of a", "a red house")}
    assert library.store.excerpts(["red"], [], Word, ["a"]) == {}


# -- vectors


def _nearest(stage: Stage, *numbers: float, model: str = "m", **more: object) -> list[tuple[str, str, float]]:
    hits = stage.store.nearest(_vector(*numbers), Word, model=model, parents=Page, **more)  # type: ignore[arg-type]
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
    assert library.store.not_placed(Word, "m") == []
    assert library.store.not_placed(Word, "other", limit=2) == ["of a", "of b"]
    assert library.store.not_placed(Word, "other", after="of b") == ["of c"]


def test_a_new_place_takes_the_old_one(library: Stage) -> None:
    library.bring("d")
    moved = PlacedVector("words", "of a", "other", _vector(0, 1))
    library.settle(library.take(), Done(["d"]), vectors=[moved])
    assert [id for id, *_ in _nearest(library, 1, 0)] == ["of c", "of b"]
    assert [id for id, *_ in _nearest(library, 1, 0, model="other")] == ["of a"]


def _place(stage: Stage, id: str, *numbers: float, **more: object) -> None:
    """Place a word, in a work of a page that is as good as any other."""
    stage.bring(f"for {id} at {numbers}")
    delivery = stage.take()
    vectors = [PlacedVector("words", id, "m", _vector(*numbers))]
    stage.settle(delivery, Done([delivery.inputs[0].id]), vectors=vectors, **more)


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
    library.settle(library.take(), Done(["d"]), removes=[("pages", "b")])
    assert library.store.find(Page, "author", ["Bert"]) == []
    assert _match(library, "boat") == ["c"]
    assert [id for id, *_ in _nearest(library, 0, 1)] == ["of c", "of a"], "its word went with it"


def test_what_is_forgotten_is_found_by_nothing(library: Stage) -> None:
    library.store.forget("s")
    assert [one.id for one in library.store.find(Page, "author", ["Ada", "Bert"])] == ["c"]
    assert _match(library, "red", "blue") == ["c"]
    assert [id for id, *_ in _nearest(library, 1, 0)] == ["of c"]
    assert library.store.key_values("date") == [3.0]


def test_new_content_is_not_found_by_what_the_old_one_said(library: Stage) -> None:
    library.store.replace_document(page("a", "new"))
    assert sorted(_match(library, "red")) == ["b"]


def test_a_number_that_is_free_again_brings_nothing_back(library: Stage) -> None:
    library.store.forget("t")
    library.store.forget("s")
    library.store.add_documents([page(id) for id in "xyz"])
    assert library.store.find(Page, "author", ["Ada", "Bert"]) == []
    assert _match(library, "red", "blue") == []


def test_a_refused_work_leaves_nothing_to_be_found(stage: Stage) -> None:
    stage.bring("a", source="s")
    delivery = stage.take()
    stage.store.forget("s")
    stage.bring("a", source="s")
    stage.settle(
        delivery, Done(["a"]), texts=_texts(a="a red house"), vectors=[PlacedVector("pages", "a", "m", b"")]
    )
    assert _match(stage, "red") == []
    assert stage.store.not_placed(Page, "m") == ["a"]


def test_set_aside_is_told_by_keys_and_parents(stage: Stage) -> None:
    stage.store.add_documents([_keyed("a", author="Ada"), _keyed("b", author="Ada")])
    stage.publish("a", "b")
    stage.settle(stage.take(), Aside(["a"], failure()), Dead(["b"], failure=failure(), final=True))
    found = {one.id: (one.status, one.set_aside) for one in stage.store.find(Page, "author", ["Ada"])}
    assert found == {"a": ("pending", True), "b": ("failed", False)}


def test_of_many_documents_the_ids_alone_can_be_had(stage: Stage) -> None:
    stage.store.add_documents(
        [page(id, keys=[("colour", colour)]) for id, colour in (("a", "red"), ("b", "blue"), ("c", "red"))]
    )
    assert sorted(stage.store.ids(Page, "colour", "red")) == ["a", "c"]
    assert stage.store.ids(Page, "colour", "green") == []
    assert stage.store.ids("words", "colour", "red") == [], "of this kind alone"
