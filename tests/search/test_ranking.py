"""Texts are scored by BM25 of their words; conditions say which texts may be found at all."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onward.backend_urls import open_store
from onward.ledger.store import Store
from onward.model.search_query import Term
from onward.search import ranking
from onward.search.postings import QUOTED_TENTHS, TEXT_TENTHS, TITLE_TENTHS, length_code, lengths
from onward.search.ranking import K1, B, Group, TextQuery, TextScores, highest, score_texts
from tests.store.library import Library, indexed, pack_everything, text_query, write
from tests.support.store_pages import Clock, Page

WORDS = ["boat", "tent", "hous", "red", "blue", "lamp"]  # each is its own stem
some_words = st.lists(st.sampled_from(WORDS), max_size=12)
Parts = tuple[Sequence[str], Sequence[str], Sequence[str]]  # the words of title, text and quoted text


def scores_of(library: Library, query: TextQuery) -> tuple[TextScores, dict[str, float]]:
    """The scores of all texts, and those of the texts that match by id."""
    snapshot = library.store.texts(Page)
    found = score_texts(snapshot, query)
    numbers = np.flatnonzero(found.scores).tolist()
    return found, {id: float(found.scores[number]) for number, id in snapshot.ids(numbers).items()}


def bm25(texts: Mapping[str, Parts], asked: Sequence[str]) -> dict[str, float]:
    """The formula, written as plainly as can be."""
    frequencies: dict[str, Counter[str]] = {}
    sizes: dict[str, float] = {}
    for id, parts in texts.items():
        frequencies[id] = Counter()
        total = 0.0
        for words, tenths in zip(parts, (TITLE_TENTHS, TEXT_TENTHS, QUOTED_TENTHS), strict=True):
            total += len(words) * tenths / 10
            for word in words:
                frequencies[id][word] += tenths
        sizes[id] = float(lengths()[length_code(total)])
    average = max(1.0, round(sum(sizes.values()) / max(1, len(sizes)), 1))
    scores: defaultdict[str, float] = defaultdict(float)
    for word in asked:
        having = [id for id in texts if frequencies[id][word]]
        rarity = math.log(1 + (len(texts) - len(having) + 0.5) / (len(having) + 0.5))
        for id in having:
            often = min(frequencies[id][word], 255) / 10
            scores[id] += rarity * often * (K1 + 1) / (often + K1 * (1 - B + B * sizes[id] / average))
    return dict(scores)


@given(
    st.lists(st.tuples(some_words, some_words, some_words), min_size=1, max_size=12),
    st.lists(st.sampled_from([*WORDS, "zebra"]), min_size=1, max_size=4, unique=True),
    st.integers(0, 12),
)
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
def test_scores_are_those_of_the_formula(texts: list[Parts], asked: list[str], packed: int) -> None:
    """Some of the texts are packed, the others wait."""
    clock = Clock()
    store: Store = open_store("sqlite://:memory:", clock)
    library = Library(store, clock)
    named = {f"{number}": parts for number, parts in enumerate(texts)}
    some = [
        indexed(id, " ".join(text), title=" ".join(title), quoted=" ".join(quoted))
        for id, (title, text, quoted) in named.items()
    ]
    for part in (some[:packed], some[packed:]):
        if part:
            write(library, *part)
        if part is not some[packed:]:
            pack_everything(store)
    found, scores = scores_of(library, text_query(asked))
    assert scores == pytest.approx(bm25(named, asked), rel=1e-5)
    assert set(found.unknown) == {word for word in asked if not any(word in part for one in texts for part in one)}
    store.close()


def test_a_word_counts_more_the_fewer_texts_have_it(library: Library) -> None:
    write(library, a="boat tent", b="boat lamp", c="boat lamp")
    found, scores = scores_of(library, text_query(["boat", "tent", "lamp"]))
    by_word = {one.text: float(one.scores.max()) for one in found.contributions}
    assert by_word["tent"] > by_word["lamp"] > by_word["boat"]
    assert max(scores, key=lambda id: scores[id]) == "a"
    assert found.asked == [(one.text, one.rarity) for one in found.contributions]


def test_coverage_is_the_share_of_the_words_that_a_text_has(library: Library) -> None:
    write(library, all="boat tent", half="boat", none="lamp")
    found, _ = scores_of(library, text_query(["boat", "tent", "zebra"]))
    coverage = dict(zip(["all", "half", "none"], found.coverage.tolist(), strict=True))
    assert (coverage["all"], coverage["none"]) == (pytest.approx(1.0), 0.0)
    assert 0.0 < coverage["half"] < 0.5, "the rarer word counts more, the unknown one not at all"


def test_a_long_text_counts_less_than_a_short_one(library: Library) -> None:
    write(library, short="boat tent", long="boat " + "tent " * 50)
    _, scores = scores_of(library, text_query(["boat"]))
    assert scores["short"] > scores["long"]


# -- forms of a word


def test_of_several_forms_of_one_word_the_best_counts(library: Library) -> None:
    write(
        library,
        indexed("german", "Häuser", title="", language="de"),
        indexed("english", "hauser", title="", language="en"),
        indexed("other", "boat", title="", language="en"),
    )
    found, scores = scores_of(library, text_query(["Häuser"]))
    assert set(scores) == {"german", "english"}
    assert len(found.contributions) == 1, "one word, whatever its terms are"
    both = Group("both", ("boat", "hous"))
    write(library, indexed("houses", "boat house house house", title=""))
    twice, scores = scores_of(library, TextQuery((), [both]))
    assert set(scores) == {"other", "houses"}
    (one,) = twice.contributions
    assert one.numbers.tolist() == sorted(one.numbers.tolist())


def test_a_word_is_looked_up_in_the_languages_of_the_store_only(library: Library) -> None:
    write(library, indexed("a", "boat", title=""))
    alone, _ = scores_of(library, text_query(["maisons"]))
    assert alone.terms == {"maison"}, "as an English word"
    write(library, indexed("b", "les maisons", title="", language="fr"))
    found, scores = scores_of(library, text_query(["maisons"]))
    assert set(scores) == {"b"}
    assert found.terms >= alone.terms


def test_a_prefix_stands_for_the_most_frequent_words_that_begin_so(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.search.text_snapshot.PREFIX_TERMS", 2)
    snapshot_of = library.store.texts
    write(library, a="lamb lamp lama", b="lamp lama", c="lamp")
    for _ in range(2):
        assert snapshot_of(Page).terms_with_prefix("lam", 2) == [("lamp", 3), ("lama", 2)]
        assert snapshot_of(Page).terms_with_prefix("lamb", 2) == [("lamb", 1)]
        assert snapshot_of(Page).terms_with_prefix("lan", 2) == []
        pack_everything(library.store)


@pytest.mark.parametrize("last", ("z", "\ud7ff", "\uffff", "\U0010ffff"))
def test_terms_of_any_script_begin_with_a_prefix(library: Library, last: str) -> None:
    snapshot = library.store.texts(Page)
    assert snapshot.terms_with_prefix("a" + last) == []
    write(library, a="xyz")
    pack_everything(library.store)
    assert library.store.texts(Page).terms_with_prefix("a" + last) == []


# -- conditions


def matching(library: Library, *wanted: str | Term, **more: Sequence[str | Term]) -> set[str]:
    return set(scores_of(library, text_query(wanted, **more))[1])


def test_a_required_compound_needs_all_of_its_parts_and_an_unwanted_one_too(library: Library) -> None:
    write(library, whole="boat read_message", parts="boat message read", one="boat read")
    assert matching(library, "boat", required=["read_message"]) == {"whole", "parts"}
    assert matching(library, "boat", unwanted=["read_message"]) == {"one"}


def test_a_phrase_is_looked_for_in_the_best_texts_only(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    write(library, first="boat red " * 4, second="red boat " * 3, third="red boat")
    assert matching(library, "red boat") == {"first", "second", "third"}, "the first has it across its words"
    monkeypatch.setattr(ranking, "MAX_CHECKED_TEXTS", 1)
    assert len(matching(library, "red boat")) == 1


def test_only_some_words_of_a_long_query_rank(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "MAX_GROUPS", 2)
    write(library, a="boat", b="tent", c="lamp")
    assert matching(library, "boat", "tent", "lamp") == {"a", "b"}
    assert matching(library, "boat", "tent", "lamp", unwanted=["boat"]) == {"b"}


def test_a_compound_that_is_known_counts_more_than_its_parts(library: Library) -> None:
    write(library, whole="read_message", parts="message read message read")
    _, scores = scores_of(library, text_query(["read_message"]))
    assert scores["whole"] > scores["parts"]
    write(library, other="read")
    found, _ = scores_of(library, text_query(["read_mail"]))
    assert found.unknown == [], "a part of it is known"


# -- order


@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0]), max_size=30),
    st.integers(0, 40),
)
def test_the_highest_are_ordered_by_score_then_the_newest_first(scores: list[float], limit: int) -> None:
    array = np.array(scores, dtype=np.float32)
    numbers = np.flatnonzero(array)
    ordered = sorted(numbers.tolist(), key=lambda number: (-scores[number], -number))
    assert highest(array, max(limit, 1)).tolist() == ordered[: max(limit, 1)]
