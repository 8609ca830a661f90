"""Documents are found by the words of their titles, texts and quotes, ranked alike on every store."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from onward.model.ledger import IndexedText, Processed
from onward.model.search_query import Filter
from tests.store.library import match, texts
from tests.support.store_pages import Page, Stage, Word, page


def test_any_of_the_words_and_none_of_the_others(library: Stage) -> None:
    assert sorted(match(library, "red", "blue")) == ["a", "b", "c"]
    assert sorted(match(library, "boat", unwanted=["red"])) == ["c"]
    assert match(library, "red house") == ["a"], "a term of two words is a phrase"
    assert match(library, "house red") == []
    assert match(library, "green") == []


def test_titles_count_unless_they_should_not(library: Stage) -> None:
    assert len(match(library, "title")) == 3
    assert match(library, "title", titles=False) == []


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
    assert sorted(match(library, "boat", filters=filters)) == found


def test_one_source_only(library: Stage) -> None:
    assert match(library, "boat", source="s") == ["b"]


def test_excerpts_mark_what_matches(library: Stage) -> None:
    found = library.store.excerpts(["boat"], [], Page, ["b", "a"])
    assert found == {"b": ("Title of b", "a red \x02boat\x03")}


@pytest.mark.parametrize("term", ('"', "har\x00bour", "a\ud800b", "NEAR(", "*", "x" * 10_000, "'"))
def test_no_word_breaks_the_query(library: Stage, term: str) -> None:
    assert match(library, term, unwanted=[term + "y"]) == []
    assert library.store.excerpts([term], [], Page, ["a"]) == {}


def _write(stage: Stage, **written: str) -> None:
    """Let pages be found by these texts, which are new, or take the place of old ones."""
    stage.bring("writer")
    stage.settle(stage.take(), Processed(["writer"]), adds=[page(id) for id in written], texts=texts(**written))


def test_neither_case_nor_accents_nor_endings_matter(library: Stage) -> None:
    _write(library, d="Cafés in Zürich, naïve and open", e="the cafe\u0301 was closed")
    assert sorted(match(library, "CAFÉ")) == sorted(match(library, "cafe")) == ["d", "e"]
    assert match(library, "zurich") == match(library, "naive") == ["d"]
    assert sorted(match(library, "Boats")) == ["b", "c"]


@pytest.mark.parametrize(
    "forms",
    (
        "drift drifts drifted drifting",
        "boat boats",
        "city cities",
        "agree agrees agreed agreeing",
        "run runs running",
        "connect connected connection connections",
        "glass glasses",
    ),
)
def test_english_endings_do_not_matter(library: Stage, forms: str) -> None:
    words = forms.split()
    _write(library, **{f"the {form}": f"one {form} here" for form in words})
    for asked in words:
        assert {f"the {form}" for form in words} <= set(match(library, asked)), asked


@pytest.mark.parametrize("forms", ("Fenster Fensters", "maison maisons", "ciudad ciudades", "окно окна"))
def test_words_of_other_languages_are_found_as_they_are_written(library: Stage, forms: str) -> None:
    """Some of their endings look like English ones, so nothing is promised about other forms."""
    words = forms.split()
    _write(library, **{f"the {form}": f"un {form} hier" for form in words})
    for asked in words:
        assert f"the {asked}" in match(library, asked)
        assert f"the {asked}" in match(library, asked.upper())


def test_the_most_common_words_are_found_too(library: Stage) -> None:
    _write(library, d="to be or not to be", e="x")
    assert match(library, "not") == match(library, "to be or") == ["d"]
    assert sorted(match(library, "title")) == ["a", "b", "c", "d", "e"], "though all have it"
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
    assert match(library, "zebra", unwanted=["x"], limit=1, besides=["once"]) == []


def test_a_filter_comes_before_the_limit(library: Stage) -> None:
    _write(library, once="boat " + "x " * 9, thrice="boat " * 3 + "x " * 7)
    found = library.store.match(["boat"], [], Page, filters=[("author", "=", "Bert")], limit=1)
    assert ([hit.id for hit in found.hits], found.total) == (["b"], 1)
    found = library.store.match(["boat"], [], Page, source="t", limit=1, besides=["b", "once"])
    assert ([hit.id for hit in found.hits], found.total) == (["c"], 1)


def test_what_is_found_by_common_words_alone_comes_last_the_newest_first(library: Stage) -> None:
    _write(library, d="a red tent", e="a tent")
    assert match(library, "title", "house", limit=4) == ["a", "e", "d", "c"]
    found = library.store.match(["title", "house"], [], Page, limit=2, besides=["b"])
    assert ([hit.id for hit in found.hits], found.total) == (["a", "e", "b"], 5)
    scores = [hit.score for hit in found.hits]
    assert scores[0] > scores[1] == scores[2] > 0


def test_words_that_most_have_rank_only_the_newest(library: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(library, d="tent tent tent", e="tent", f="tent tent", g="nothing else")
    _write(library, a="tent " * 4, b="tent " * 4, c="tent " * 4)
    assert match(library, "tent")[-2:] == ["f", "e"]
    for module in ("sqlite", "postgres"):
        monkeypatch.setattr(f"onward.ledger.{module}.fulltext.MAX_RANKED_BY_COMMON_WORDS", 3)
    assert match(library, "tent", limit=2) == ["d", "f"], "the three newest that have it, best first"
    assert match(library, "tent", limit=4) == ["d", "f", "e", "c"], "and others behind them"
    assert match(library, "tent") == ["d", "f", "e", "c", "b", "a"]
    ada = [("author", "=", "Ada")]
    assert match(library, "tent", filters=ada, limit=1, besides=["a", "d"]) == ["c", "a"]


def test_a_phrase_is_within_the_title_or_within_the_text(library: Stage) -> None:
    assert match(library, "of a") == ["a"]
    assert match(library, "of a", titles=False) == []
    assert match(library, "a a red") == []
    assert sorted(match(library, "boat", unwanted=["red boat", "title of a"])) == ["c"]


def test_punctuation_separates_words(library: Stage) -> None:
    _write(library, d="see builtin/log.c:12, v2.43.0-rc1, snake_case and ada@example.org")
    for term in ("log", "builtin/log.c", "43.0 rc1", "snake case", "snake_case", "ada@example.org", "example"):
        assert match(library, term) == ["d"], term
    assert match(library, "log builtin") == []


def test_what_a_text_says_more_often_and_a_title_says_is_better(library: Stage) -> None:
    _write(library, once="zebra " + "x " * 9, thrice="zebra " * 3 + "x " * 7, zebra="x " * 10)
    assert match(library, "zebra") == ["thrice", "zebra", "once"]
    assert match(library, "zebra", titles=False) == ["thrice", "once"]


def _write_quoted(stage: Stage, **texts: tuple[str, str]) -> None:
    """Let new pages be found by a text and by a quoted text."""
    stage.bring("writer of quotes")
    written = [IndexedText("pages", id, f"Title of {id}", text, quoted) for id, (text, quoted) in texts.items()]
    stage.settle(stage.take(), Processed(["writer of quotes"]), adds=[page(id) for id in texts], texts=written)


def test_quoted_words_are_found_and_count_less(library: Stage) -> None:
    said, other = "zebra x x x", "y y y y"
    _write_quoted(library, said=(said, other), quotes=(other, said), both=("zebra", "zebra"))
    assert match(library, "zebra") == ["both", "said", "quotes"]
    assert match(library, "zebra", titles=False) == ["both", "said", "quotes"]
    assert match(library, "zebra x") == ["said", "quotes"]
    assert match(library, "zebra y") == match(library, "y zebra") == [], "a phrase does not reach into a quote"
    assert match(library, "zebra", unwanted=["y"]) == ["both"]


def test_excerpts_show_a_quote_where_nothing_else_matches(library: Stage) -> None:
    _write_quoted(library, d=("a tent and a zebra", "a red zebra"), e=("a tent", "a red zebra"))
    found = library.store.excerpts(["zebra"], [], Page, ["d", "e"])
    assert {id: text for id, (_, text) in found.items()} == {
        "d": "a tent and a \x02zebra\x03",
        "e": "a red \x02zebra\x03",
    }
    assert library.store.excerpts(["tent"], ["red"], Page, ["d", "e"]) == {}


@pytest.mark.parametrize("words", (20_000, 150_000))
def test_a_long_text_and_a_long_quote_are_kept_and_found(library: Stage, words: int) -> None:
    text, quoted = (" ".join(f"{name}{n:x}" for n in range(words)) for name in ("t", "q"))
    _write_quoted(library, d=(f"first {text}", quoted), e=("x", f"other {quoted} " + "again " * words))
    assert match(library, "first") == ["d"]
    assert match(library, "other") == ["e"]


def test_a_new_text_takes_the_place_of_the_old_one(library: Stage) -> None:
    _write(library, a="a green tent")
    assert match(library, "tent") == ["a"]
    assert match(library, "house") == []
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
    assert match(library, "first") == ["d"]
    ((title, excerpt),) = library.store.excerpts(["first"], [], Page, ["d"]).values()
    assert title == "Title of d"
    assert excerpt.startswith("\x02first\x03 ")


def test_a_long_query_is_answered(library: Stage) -> None:
    assert sorted(match(library, "house", "boat", *(f"w{n}" for n in range(5_000)))) == ["a", "b", "c"]
    assert match(library, " ".join(f"w{n}" for n in range(5_000))) == []


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
