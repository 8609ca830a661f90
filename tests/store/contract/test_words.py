"""Documents are found by the words of their titles, texts and quotes, ranked alike on every store.

Each test runs with an index that waits, one that is packed, and one of which a part is packed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from onward.model.search_query import Filter, Term
from tests.store.library import Library, indexed, match, rank, write
from tests.support.store_pages import Page, Word


@pytest.fixture
def library(indexed_library: Library) -> Library:
    return indexed_library


def test_any_of_the_words_and_none_of_the_others(library: Library) -> None:
    assert sorted(match(library, "red", "blue")) == ["a", "b", "c"]
    assert match(library, "boat", unwanted=["red"]) == ["c"]
    assert match(library, "red house") == ["a"], "a term of two words is a phrase"
    assert match(library, "house red") == []
    assert match(library, "green") == []


def test_what_is_required_is_in_every_hit(library: Library) -> None:
    assert match(library, "boat", required=["red"]) == ["b"]
    assert match(library, "boat", required=["red", "house"]) == []
    assert match(library, "boat", required=["green"]) == []
    assert match(library, "red", required=["boat"], unwanted=["blue"]) == ["b"]


def test_without_a_wanted_word_texts_are_listed_the_newest_first(library: Library) -> None:
    assert match(library) == ["c", "b", "a"]
    assert match(library, required=["red"]) == ["b", "a"]
    assert match(library, unwanted=["red"]) == ["c"]
    assert match(library, filters=[("author", "=", "Ada")]) == ["c", "a"]


def test_a_word_can_be_looked_for_in_a_field_only(library: Library) -> None:
    write(library, indexed("boat", "x", fields={"from": "Carla Boatwright", "to": "Dora"}))
    assert match(library, Term("boat", field="title")) == ["boat"]
    assert sorted(match(library, "boat")) == ["b", "boat", "c"]
    assert match(library, Term("carla", field="from")) == ["boat"]
    assert match(library, "carla") == ["boat"], "a field is searched along with the text"
    assert match(library, Term("dora", field="to")) == ["boat"]
    assert match(library, "dora") == [], "except for those who got a message"
    assert match(library, Term("carla", field="to")) == []
    assert match(library, "boat", unwanted=[Term("boat", field="title")]) in (["b", "c"], ["c", "b"])


def test_a_prefix_finds_every_word_that_begins_so(library: Library) -> None:
    write(library, d="boatman, boathouse", e="a bolt")
    assert sorted(match(library, Term("boat", prefix=True))) == ["b", "c", "d"]
    assert sorted(match(library, Term("BO", prefix=True))) == ["b", "c", "d", "e"]
    assert match(library, Term("boath", prefix=True)) == ["d"]
    assert match(library, Term("boatx", prefix=True)) == []
    assert sorted(match(library, Term("tit", field="title", prefix=True), unwanted=["boat"])) == ["a", "d", "e"]


@pytest.mark.parametrize(
    ("filters", "found"),
    (
        ([], ["b", "c"]),
        ([("author", "=", "Ada")], ["c"]),
        ([("author", "=", "ada")], []),
        ([("author", "contains", "ER")], ["b"]),
        ([("author", "contains", "%")], []),
        ([("author", "=", "Ada"), ("author", "=", "Bert")], ["b", "c"]),
        ([("author", "=", "Nobody")], []),
        ([("date", ">=", 2.0)], ["b", "c"]),
        ([("date", "<", 3.0)], ["b"]),
        ([("date", ">=", 2.0), ("date", "<", 3.0)], ["b"]),
        ([("date", ">=", 2.0), ("author", "=", "Ada")], ["c"]),
        ([("source", "=", "s")], ["b"]),
        ([("source", "=", "nowhere")], []),
        ([("unknown", "=", "x")], []),
        ([("unknown", "contains", "x")], []),
    ),
)
def test_filters_ask_for_facets_and_dates(library: Library, filters: Sequence[Filter], found: list[str]) -> None:
    assert sorted(match(library, "boat", filters=filters)) == found
    every = set(match(library, "boat"))
    if len(filters) == 1:
        assert sorted(match(library, "boat", unwanted_filters=filters)) == sorted(every - set(found))


def test_what_has_no_date_and_no_facet_passes_no_filter(library: Library) -> None:
    write(library, d="a boat")
    for filter in (("date", ">=", 0.0), ("date", "<", 9.0), ("author", "contains", "")):
        assert "d" not in match(library, "boat", filters=[filter])
    assert "d" in match(library, "boat", unwanted_filters=[("author", "=", "Ada")])


def test_excerpts_mark_what_matches(library: Library) -> None:
    library.pack()
    terms = rank(library.store, "boat").terms
    found = library.store.excerpts(Page, {"b": "", "a": "", "missing": ""}, terms)
    assert found == {"b": ("Title of b", "a red \x02boat\x03"), "a": ("Title of a", "a red house")}
    assert library.store.excerpts(Word, {"of a": ""}, terms) == {}, "a word has no text"
    assert library.store.excerpts(Page, {}, terms) == {}


def test_excerpts_show_a_quote_where_nothing_else_matches(library: Library) -> None:
    write(
        library,
        indexed("d", "a tent and a zebra", quoted="a red zebra"),
        indexed("e", "a tent", quoted="a red zebra"),
    )
    library.pack()
    found = library.store.excerpts(Page, {"d": "", "e": ""}, rank(library.store, "zebra").terms)
    assert {id: text for id, (_, text) in found.items()} == {
        "d": "a tent and a \x02zebra\x03",
        "e": "a red \x02zebra\x03",
    }


HOSTILE = ('"', "har\x00bour", "q\ud800z", "NEAR(", "*", "x" * 10_000, "'", "\n", "\x02", "🚢", "", "\U0010ffff")


@pytest.mark.parametrize("more", ({}, {"phrase": True}, {"prefix": True}, {"field": "title"}), ids=str)
def test_no_word_breaks_the_query(library: Library, more: dict[str, Any]) -> None:
    for text in HOSTILE:
        asked = Term(text, **more)
        assert match(library, asked) == match(library, asked, required=[asked]) == [], ascii(text)
        assert match(library, "red", required=[asked]) == match(library, "red", unwanted=[asked, "red"]) == []
        assert sorted(match(library, "red", unwanted=[asked])) == ["a", "b"]
        library.store.excerpts(Page, {"a": text}, [text])


@pytest.mark.parametrize("relation", ("=", "contains"))
def test_no_value_breaks_a_filter(library: Library, relation: str) -> None:
    for value in HOSTILE[:-2]:
        assert match(library, "red", filters=[("author", relation, f"{value}q")]) == [], ascii(value)
        assert sorted(match(library, "red", unwanted_filters=[("author", relation, f"{value}q")])) == ["a", "b"]


def test_neither_case_nor_accents_nor_endings_matter(library: Library) -> None:
    write(library, d="Cafés in Zürich, naïve and open", e="the cafe\u0301 was closed")
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
def test_english_endings_do_not_matter(library: Library, forms: str) -> None:
    words = forms.split()
    write(library, **{f"the {form}": f"one {form} here" for form in words})
    for asked in words:
        assert {f"the {form}" for form in words} <= set(match(library, asked)), asked


@pytest.mark.parametrize(
    ("language", "forms"),
    (
        ("de", "Fenster Fensters"),
        ("fr", "maison maisons"),
        ("es", "casa casas"),
        ("ru", "окно окна"),
        ("", "Fenster Fensters"),
    ),
)
def test_texts_are_found_by_the_endings_of_their_own_language(library: Library, language: str, forms: str) -> None:
    words = forms.split()
    write(library, *(indexed(f"the {form}", f"un {form} hier", title="x", language=language) for form in words))
    for asked in words:
        assert f"the {asked}" in match(library, asked)
        assert f"the {asked}" in match(library, asked.upper())
        if language:
            assert sorted(match(library, asked)) == sorted(f"the {form}" for form in words)


def test_scripts_without_spaces_are_found_by_any_part(library: Library) -> None:
    write(
        library,
        indexed("ja", "港は凍っている", title="x", language="ja"),
        indexed("zh", "港口已经结冰了", title="x", language="zh"),
    )
    assert match(library, "凍って") == ["ja"]
    assert match(library, "结冰") == ["zh"]
    assert sorted(match(library, "港")) == ["ja", "zh"], "one character is found inside of words"
    assert match(library, Term("港口", phrase=True)) == ["zh"]
    assert match(library, Term("口港", phrase=True)) == []


def test_the_most_common_words_do_not_count_beside_others(library: Library) -> None:
    write(library, indexed("d", "the the the", title="not"), indexed("e", "it is not to be or to be"))
    assert match(library, "not") == ["d"], "a title keeps them"
    assert match(library, "the", "house") == ["a"]
    assert match(library, "a red") in (["a", "b"], ["b", "a"])
    assert match(library, "the red") == [], "in a phrase they count"
    assert sorted(match(library, "title")) == ["a", "b", "c", "e"], "though nearly all have it"


def test_what_is_rare_comes_first(library: Library) -> None:
    assert match(library, "title", "house")[0] == "a"
    assert all(hit.score > 0 for hit in rank(library.store, "title", "house").hits)


def test_the_best_alone_and_how_many_there_are(library: Library) -> None:
    write(library, once="zebra " + "x " * 9, often="zebra " * 9 + "x ", zebra="x " * 10)
    library.pack()
    every = rank(library.store, "zebra")
    assert [hit.id for hit in every.hits][-1] == "once"
    for limit in (1, 2, 3, 9):
        found = rank(library.store, "zebra", limit=limit)
        assert (found.hits, found.total, found.every) == (every.hits[:limit], every.total, 3)
        found = rank(library.store, "zebra", limit=limit, offset=1)
        assert (found.hits, found.total, found.every) == (every.hits[1 : 1 + limit], every.total, 3)
    found = rank(library.store, "none", limit=2)
    assert (found.hits, found.total, found.unknown) == ([], 0, ("none",))


def test_a_filter_comes_before_the_limit(library: Library) -> None:
    write(library, once="boat " + "x " * 9, often="boat " * 9)
    library.pack()
    for filter, id in ((("author", "=", "Bert"), "b"), (("source", "=", "t"), "c")):
        found = rank(library.store, "boat", filters=[filter], limit=1)
        assert ([hit.id for hit in found.hits], found.total) == ([id], 1)


def test_of_equal_texts_the_newest_comes_first(library: Library) -> None:
    write(library, d="a tent", e="a tent", f="a tent")
    assert match(library, "tent") == ["f", "e", "d"]
    assert match(library, "tent", limit=2) == ["f", "e"]


def test_a_phrase_is_within_the_title_or_within_the_text(library: Library) -> None:
    assert match(library, "title of a") == ["a"]
    assert match(library, Term("title of a", field="title", phrase=True)) == ["a"]
    assert match(library, Term("red house", field="title", phrase=True)) == []
    assert match(library, "a a red") == []
    assert match(library, "boat", unwanted=["red boat", "title of a"]) == ["c"]


def test_a_phrase_is_found_by_other_endings_and_without_accents(library: Library) -> None:
    write(library, d="Two red CAFÉS, closed")
    assert match(library, "red cafe") == match(library, "café closed") == match(library, "two reds") == ["d"]
    assert match(library, "cafe red") == match(library, "two cafe") == []


def test_compounds_are_found_by_their_parts_and_as_a_whole(library: Library) -> None:
    write(library, d="see builtin/log.c:12, v2.43.0-rc1, snake_case and ada@example.org; readMessage()")
    for term in ("log", "log.c", "builtin/log.c", "43.0 rc1", "snake case", "snake_case", "example",
                 "ada@example.org", "example.org", "readmessage", "read"):  # fmt: skip
        assert match(library, term)[0] == "d", term
        assert match(library, Term(term, phrase=True)) == ["d"], term
    assert match(library, "log builtin") == []


def test_a_name_as_a_whole_comes_before_its_parts(library: Library) -> None:
    write(library, parts="read, then message, and read a message", whole="see read_message there")
    assert match(library, "read_message")[0] == "whole"


def test_what_a_text_says_more_often_and_a_title_says_is_better(library: Library) -> None:
    write(library, once="zebra " + "x " * 9, often="zebra " * 9 + "x ", zebra="x " * 10)
    found = match(library, "zebra")
    assert (found[-1], sorted(found)) == ("once", ["often", "once", "zebra"])


def test_quoted_words_are_found_and_count_less(library: Library) -> None:
    said, other = "zebra x x x", "y y y y"
    write(
        library,
        indexed("said", said, quoted=other),
        indexed("quotes", other, quoted=said),
        indexed("both", "zebra", quoted="zebra"),
    )
    assert match(library, "zebra") == ["both", "said", "quotes"]
    assert match(library, "zebra x") == ["said", "quotes"]
    assert match(library, "zebra y") == match(library, "y zebra") == [], "a phrase does not reach into a quote"
    assert match(library, "zebra", unwanted=["y"]) == ["both"]


def test_a_new_text_takes_the_place_of_the_old_one(library: Library) -> None:
    write(library, a="a green tent")
    assert match(library, "tent") == ["a"]
    assert match(library, "house") == []
    assert match(library, filters=[("author", "=", "Ada")]) == ["c"], "nor has it the facets of the old one"
    assert library.store.excerpts(Page, {"a": ""}, ["tent"]) == {"a": ("Title of a", "a green \x02tent\x03")}
    write(library, indexed("a", "a red house again", author="Ada"))
    assert match(library, "tent") == []
    assert match(library, "house") == ["a"]


def test_a_text_that_is_written_many_times_is_found_once(library: Library) -> None:
    for n in range(5):
        write(library, a=f"a tent of {n} poles")
        assert match(library, "tent") == ["a"]
    assert match(library, "3") == []
    assert match(library, "4") == ["a"]


def test_an_empty_text_is_found_by_its_title_and_one_without_words_by_nothing(library: Library) -> None:
    write(library, indexed("d", ""), indexed("e", "…", title=""))
    assert sorted(match(library, "title")) == ["a", "b", "c", "d"]
    assert set(match(library)) == {"a", "b", "c", "d", "e"}, "but it is listed"


@pytest.mark.parametrize(
    "text",
    (
        "first " + " ".join(f"w{n:x}" for n in range(30_000)),
        "first " + " ".join(map(chr, range(0x4E00, 0x9FFF))),
        "first " + "x" * 1_000_000,
        "first " + "again and " * 100_000,
        "first half\ud800 of a character, and nu\x00ll",
    ),
    ids=("many words", "wide characters", "a long word", "few words", "not storable"),
)
def test_a_text_of_any_kind_is_kept_and_found(library: Library, text: str) -> None:
    write(library, indexed("d", text), indexed("e", "x", quoted=f"zeppelin {text}"))
    assert match(library, "zeppelin") == ["e"]
    assert match(library, "first")[0] == "d"
    ((title, excerpt),) = library.store.excerpts(Page, {"d": ""}, ["first"]).values()
    assert title == "Title of d"
    assert excerpt.startswith("\x02first\x03 ")


def test_facets_of_any_kind_are_kept_and_found(library: Library) -> None:
    values = {"quote": 'a "b" \\ {c}', "accent": "Zürich 🚢", "long": "x" * 10_000, "line": "two\nlines"}
    write(library, *(indexed(id, "a tent", author=value) for id, value in values.items()))
    for id, value in values.items():
        assert match(library, "tent", filters=[("author", "=", value)]) == [id]
    found = rank(library.store, "tent", facets=["author"])
    assert dict(found.facets["author"]) == dict.fromkeys(values.values(), 1)


def test_a_long_query_is_answered(library: Library) -> None:
    assert sorted(match(library, "house", "boat", *(f"w{n}" for n in range(5_000)))) == ["a", "b", "c"]
    assert match(library, " ".join(f"w{n}" for n in range(5_000))) == []


def test_collections_do_not_mix(library: Library) -> None:
    library.pack()
    assert rank(library.store, "red", document=Word).hits == []
    assert library.store.texts("nothing").size == 0
