"""Words, vectors, groups and dates make one order, the same on every page, with facets and a total."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onward.backend_urls import open_store
from onward.ledger.store import Store
from onward.model.ledger import IndexedVector
from onward.model.search_query import Term
from onward.search import feedback, fusion
from onward.search.fusion import Ranking, RankingQuery
from onward.search.phrases import NAME_WEIGHT
from onward.search.vector_index import VectorSpace
from tests.store.library import Library, indexed, pack_everything, place, rank, text_query, vector, write
from tests.support.store_pages import Clock, Page, word

SPACE = VectorSpace("m", "words")


def found(library: Library, *wanted: str | Term, **more: Any) -> list[str]:
    return [hit.id for hit in rank(library.store, *wanted, **more).hits]


def put(library: Library, **vectors: tuple[float, ...]) -> None:
    """Give each of these pages a word with a vector."""
    library.store.add_documents([word(f"of {id}", parent=f"pages/{id}") for id in vectors])
    place(library, *(IndexedVector("words", f"of {id}", "m", vector(*one)) for id, one in vectors.items()))


# -- pages

WORDS = ["boat", "tent", "house", "red"]


@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=6), min_size=1, max_size=20),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True),
    st.integers(1, 7),
    st.sampled_from(["relevance", "date"]),
    st.booleans(),
)
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
def test_pages_are_disjoint_complete_and_in_one_order(
    texts: list[list[str]], asked: list[str], size: int, sort: str, vectors: bool
) -> None:
    clock = Clock()
    store: Store = open_store("sqlite://:memory:", clock)
    library = Library(store, clock)
    named = {f"p{number}": words for number, words in enumerate(texts)}
    write(library, *(indexed(id, " ".join(words), thread=str(len(words)), date=len(words) / 3)
                     for id, words in named.items()))  # fmt: skip
    put(library, **{id: (np.cos(number), np.sin(number)) for number, id in enumerate(named)})
    more: dict[str, Any] = {"group": "thread", "sort": sort, "facets": ["thread"]}
    if vectors:
        more |= {"vector": vector(1, 0), "space": SPACE}
    whole = rank(store, *asked, **more)
    assert whole.total <= whole.every
    assert len(whole.hits) == (whole.total if sort == "date" else whole.every)
    assert len({hit.id for hit in whole.hits}) == len(whole.hits)
    if sort == "relevance":
        scores = [hit.score for hit in whole.hits]
        assert scores == sorted(scores, reverse=True)
        assert all(0.0 < score <= 1.0 for score in scores)
    for packed in (False, True):
        pages = [
            rank(store, *asked, limit=size, offset=start, **more)
            for start in range(0, len(whole.hits) + size, size)
        ]
        assert [hit for page in pages for hit in page.hits] == whole.hits
        assert {(page.total, page.every) for page in pages} == {(whole.total, whole.every)}
        assert all(page.facets == whole.facets for page in pages)
        if not packed:
            pack_everything(store)
    store.close()


def test_beyond_the_last_page_there_is_nothing(library: Library) -> None:
    write(library, a="boat", b="boat")
    beyond = rank(library.store, "boat", offset=5)
    assert (beyond.hits, beyond.total) == ([], 2)
    assert rank(library.store, "boat", limit=0).hits == []


# -- the best score is 1


def test_scores_are_shares_of_the_best(library: Library) -> None:
    write(library, a="boat boat", b="boat")
    first, second = rank(library.store, "boat").hits
    assert (first.id, first.score, first.text_score, first.similarity) == ("a", 1.0, 1.0, 0.0)
    assert 0.0 < second.score < 1.0
    assert second.score == pytest.approx((second.text_score + NAME_WEIGHT) / (1.0 + NAME_WEIGHT))


def test_vectors_order_texts_that_the_words_do_not(library: Library) -> None:
    write(library, a="boat", b="boat", c="boat")
    put(library, a=(0.6, 0.8), b=(1, 0), c=(0, 1))
    assert found(library, "boat") == ["c", "b", "a"]
    hits = rank(library.store, "boat", vector=vector(1, 0), space=SPACE).hits
    assert [(hit.id, round(hit.similarity, 3), hit.text_score) for hit in hits] == [
        ("b", 1.0, 1.0),
        ("a", 0.6, 1.0),
        ("c", 0.0, 1.0),
    ]


def test_a_higher_weight_lets_vectors_win_over_words(library: Library) -> None:
    write(library, words="boat boat boat boat", near="boat and much else that is not asked for")
    put(library, words=(0.1, 1), near=(1, 0))
    more = {"vector": vector(1, 0), "space": SPACE}
    assert found(library, "boat", vector_weights=(0.0, 0.0), **more) == ["words", "near"]
    assert found(library, "boat", vector_weights=(0.9, 0.9), **more) == ["near", "words"]


def test_a_text_without_the_words_is_found_if_its_vector_is_near(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fusion, "MIN_SIMILARITY", 0.5)
    monkeypatch.setattr(fusion, "GOOD_SIMILARITY", 0.7)
    write(library, near="tent", far="lamp", middle="house", words="boat")
    put(library, near=(0.9, 0.1), far=(0.4, 0.9), middle=(0.6, 0.8), words=(0, 1))
    ranking = rank(library.store, "boat", vector=vector(1, 0), space=SPACE)
    assert [hit.id for hit in ranking.hits] == ["words", "near"], "the middle is not near enough to the nearest"
    assert (ranking.total, ranking.every) == (2, 2)
    assert found(library, "boat", vector=vector(0, 1), space=SPACE)[0] == "words"
    put(library)
    assert found(library, "zebra", vector=vector(-1, 0), space=SPACE) == []


def test_vectors_of_another_model_do_not_count(library: Library) -> None:
    write(library, a="boat", b="tent")
    put(library, b=(1, 0))
    assert found(library, "boat", vector=vector(1, 0), space=VectorSpace("other", "words")) == ["a"]
    assert found(library, "boat", vector=vector(1, 0, 0), space=SPACE) == ["a"]


# -- groups


def test_the_texts_of_one_group_lift_each_other(library: Library) -> None:
    write(
        library,
        indexed("alone", "boat tent lamp", title="", thread="one"),
        indexed("first", "boat tent lamp", title="", thread="two"),
        indexed("second", "boat boat", title="", thread="two"),
        indexed("free", "boat tent lamp", title=""),
    )
    plain = rank(library.store, "boat").hits
    lifted = rank(library.store, "boat", group="thread").hits
    assert [hit.id for hit in plain] == ["second", "free", "first", "alone"]
    assert [hit.id for hit in lifted] == ["second", "first", "alone", "free"]
    by_id = {hit.id: hit for hit in lifted}
    assert by_id["first"].text_score == by_id["alone"].text_score, "only the order changes"


def test_texts_without_a_group_are_no_group(library: Library) -> None:
    write(library, a="boat", b="boat", c="boat tent")
    plain, lifted = rank(library.store, "boat"), rank(library.store, "boat", group="thread")
    assert lifted.hits == plain.hits


@given(st.lists(st.tuples(st.sampled_from([0, 1, 2, 0xFFFF_FFFF]), st.floats(0.125, 1, width=32)), max_size=12))
def test_a_group_lifts_by_the_mean_of_its_best(texts: list[tuple[int, float]]) -> None:
    scores = np.array([score for _, score in texts], dtype=np.float32)
    groups = np.array([group for group, _ in texts], dtype=np.uint32)
    lifted = scores.copy()
    fusion._lift_groups(lifted, groups, np.arange(len(texts)))
    for number, (group, score) in enumerate(texts):
        best = sorted((other for name, other in texts if name == group), reverse=True)[: fusion.GROUP_BEST]
        lift = fusion.GROUP_WEIGHT * sum(best) / fusion.GROUP_BEST if group else 0.0
        assert lifted[number] == pytest.approx(score + lift, rel=1e-5)


# -- dates, facets, totals


def at(year: int) -> float:
    return datetime(year, 7, 1, tzinfo=UTC).timestamp()


@pytest.fixture
def dated(library: Library) -> Library:
    write(
        library,
        indexed("old", "boat boat boat", title="", author="Ada", date=at(1999)),
        indexed("new", "boat tent", title="", author="Bert", date=at(2026)),
        indexed("ancient", "boat", title="", author="Ada", date=at(1965)),
        indexed("undated", "boat", title="", author="Carla"),
        indexed("other", "lamp", title="", author="Ada", date=at(2026)),
    )
    return library


@pytest.mark.parametrize("packed", (False, True))
def test_by_date_the_newest_come_first_and_those_without_a_date_last(dated: Library, packed: bool) -> None:
    if packed:
        pack_everything(dated.store)
    assert found(dated, "boat", sort="date") == ["new", "old", "ancient", "undated"]
    assert found(dated, filters=[("author", "=", "Ada")]) == ["other", "old", "ancient"]


@pytest.mark.parametrize("packed", (False, True))
def test_facets_count_the_texts_that_match_well(dated: Library, packed: bool) -> None:
    if packed:
        pack_everything(dated.store)
    facets = rank(dated.store, "boat", facets=["author", "year", "source"], limit=1).facets
    assert facets == {
        "author": [("Ada", 2), ("Bert", 1), ("Carla", 1)],
        "year": [("2026", 1), ("1999", 1), ("1965", 1)],
        "source": [],
    }
    assert rank(dated.store, "zebra", facets=["author", "year"]).facets == {"author": [], "year": []}
    filtered = rank(dated.store, "boat", facets=["author"], filters=[("author", "=", "Bert")])
    assert filtered.facets == {"author": [("Bert", 1)]}


def test_only_the_most_frequent_values_are_listed(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "MAX_FACET_VALUES", 2)
    write(library, *(indexed(f"{n}", "boat", author=f"author {n // 2}" if n < 4 else f"{n}") for n in range(9)))
    assert sorted(rank(library.store, "boat", facets=["author"]).facets["author"]) == [
        ("author 0", 2),
        ("author 1", 2),
    ]


def test_the_total_counts_what_matches_well(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that has one of many words is found, and not counted."""
    monkeypatch.setattr(fusion, "GOOD_COVERAGE", 0.4)
    monkeypatch.setattr(fusion, "GOOD_SCORE", 0.4)
    write(library, best="boat tent house", good="boat tent lamp", weak=" ".join(["boat", *["filler"] * 200]),
          **{f"filler {n}": "boat filler" for n in range(5)})  # fmt: skip
    ranking = rank(library.store, "boat", "tent", "house")
    assert [hit.id for hit in ranking.hits][:2] == ["best", "good"]
    assert ranking.every == 8
    assert ranking.total == 2


def test_unknown_words_are_told(library: Library) -> None:
    write(library, a="boat")
    ranking = rank(library.store, "boat", "zebra", "zebras", "boats")
    assert ranking.unknown == ("zebra", "zebras")
    assert rank(library.store).unknown == ()


# -- why


def test_reasons_name_the_words_and_what_they_add(library: Library) -> None:
    write(library, a="boat tent", b="boat", c="lamp")
    first, second = rank(library.store, "boat", "tent", explain=True).hits
    assert [reason.word for reason in first.reasons] == ["tent", "boat"], "the rarer word adds more"
    assert [reason.word for reason in second.reasons] == ["boat"]
    assert all(reason.score > 0 for reason in first.reasons)
    assert rank(library.store, "boat").hits[0].reasons == ()


# -- feedback


def test_words_that_the_best_texts_share_find_others_if_a_query_is_vague(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {f"p{n}": "boat sail mast" for n in range(4)}
    write(library, **texts, related="sail mast", unrelated="lamp chair")
    asked = ("boat", "zebra", "lamp")
    vague = rank(library.store, *asked)
    assert "related" in [hit.id for hit in vague.hits], "it has words of the best texts"
    assert "related" not in [hit.id for hit in rank(library.store, *asked, vague=False).hits]
    assert "related" not in found(library, "boat"), "a short query names what it wants"
    filtered = found(library, *asked, filters=[("author", "=", "Nobody")])
    assert filtered == []
    monkeypatch.setattr(feedback, "MAX_TEXTS", 4)
    assert "related" not in found(library, *asked), "words of so many texts say little"


# -- similar texts


def similar(library: Library, id: str, **more: Any) -> Ranking:
    return library.store.similar(library.store.texts(Page), id, space=SPACE, **more)


@pytest.mark.parametrize("packed", (False, True))
def test_similar_texts_have_the_telling_words_or_near_vectors(library: Library, packed: bool) -> None:
    write(library, a="the red boat", b="a boat, red", c="a lamp", d="a chair", e="")
    put(library, a=(1, 0), c=(0.99, 0.1), d=(0, 1))
    if packed:
        pack_everything(library.store)
    ranking = similar(library, "a")
    ids = [hit.id for hit in ranking.hits]
    assert ids[0] == "b"
    assert "c" in ids
    assert "a" not in ids
    assert [hit.id for hit in similar(library, "a", limit=1).hits] == ["b"]
    assert (similar(library, "missing").hits, similar(library, "missing").total) == ([], 0)


def test_a_query_needs_words_groups_or_filters(library: Library) -> None:
    write(library, a="boat", b="tent")
    snapshot = library.store.texts(Page)
    assert library.store.search(snapshot, RankingQuery(text_query([]))).total == 2, "everything is listed"


# -- names and phrases


@pytest.mark.parametrize("packed", (False, True))
@pytest.mark.parametrize(
    ("typed", "similar"),
    (
        ("builtin/fetch.c", "builtin fetch.c, lib/fetch.c"),
        ("read_message", "read a message, read_messages"),
        ("app.py", "app py, my-app.py"),
        ("red boat", "red boats, reddest boat"),
    ),
)
def test_texts_with_a_name_as_it_was_typed_come_first(
    library: Library, packed: bool, typed: str, similar: str
) -> None:
    write(library, similar=similar, exact=f"we know {typed} {'and much more ' * 50}")
    if packed:
        pack_everything(library.store)
    assert found(library, typed)[0] == "exact"


@pytest.mark.parametrize("word", ("boats", "7da15a56da"))
def test_texts_that_only_quote_a_word_come_after_those_that_have_it(library: Library, word: str) -> None:
    long = "and much more about other things " * 100
    write(library, indexed("own", text=f"{word} {long}"), indexed("quoting", text="yes", quoted=word))
    assert found(library, word) == ["own", "quoting"]


def test_a_name_counts_little_in_a_long_query(library: Library) -> None:
    write(library, topic="the harbour master wants lights on piers", name="a/b.c piers")
    assert found(library, "harbour", "master", "wants", "lights", "on", "piers", "a/b.c")[0] == "topic"
