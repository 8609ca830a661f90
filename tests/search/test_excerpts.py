"""An excerpt shows the part of a text that matches best, and marks what matches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.search import excerpts, words
from onward.search.excerpts import EXCERPT_CHARACTERS, excerpt, marked

VOCABULARY = [
    "harbour", "harbours", "readMessage", "read_message", "message", "app.py", "python3", "3", "Boat's", "don't",
    "cities", "e-mail", "mail", "ada@example.org", "v2.43.0-rc1", "x", "7", "C++", "naïve", "港口", "the", "\n",
    ",", "(", "…", "skies", "HTTPServer", "server", "example",
]  # fmt: skip
ASCII = [word for word in VOCABULARY if word.isascii()]
some_text = st.lists(st.sampled_from(VOCABULARY) | st.text(max_size=4), max_size=30).map(" ".join)


def plain(text: str) -> str:
    return text.replace("\x02", "").replace("\x03", "")


def test_words_are_marked_whatever_their_form() -> None:
    assert marked("Two Harbours, one harbour", ["harbour"]) == "Two \x02Harbours\x03, one \x02harbour\x03"
    assert marked("nothing", ["harbour"]) == "nothing"
    assert marked("", ["harbour"]) == ""
    assert marked("Die Häuser", words.terms("haus häuser", "de"), "de") == "Die \x02Häuser\x03"
    assert marked("Die Straße", words.terms("strasse", "de"), "de") == "Die \x02Straße\x03"
    assert marked("nai\u0308ve boat", words.terms("naive boat")) == "\x02nai\u0308ve\x03 \x02boat\x03"


def test_a_compound_is_marked_as_a_whole_if_it_was_asked_for_and_by_parts_otherwise() -> None:
    assert marked("see read_message", ["read_message", "read", "messag"]) == "see \x02read_message\x03"
    assert marked("see read_message", ["messag"]) == "see read_\x02message\x03"
    assert marked("see readMessage()", ["messag"]) == "see read\x02Message\x03()"
    assert marked("python3", ["3"]) == "python\x023\x03"


def test_scripts_without_spaces_are_marked_where_pairs_overlap() -> None:
    assert marked("港口已经结冰了", words.all_terms("已经结冰", "zh"), "zh") == "港口\x02已经结冰\x03了"


def test_the_part_with_the_most_different_words_is_shown() -> None:
    filler = "nothing of interest here. " * 30
    text = f"A boat. {filler}A boat boat boat. {filler}A boat in the harbour. {filler}"
    found = excerpt(text, "", ["boat", "harbour"])
    assert "\x02boat\x03 in the \x02harbour\x03" in found
    assert found.startswith("…")
    assert found.endswith("…")
    assert len(plain(found)) <= EXCERPT_CHARACTERS + 40


def test_a_short_text_is_shown_as_a_whole() -> None:
    assert excerpt("A boat.", "", ["boat"]) == "A \x02boat\x03."
    assert excerpt("A boat.", "", ["tent"]) == excerpt("A boat.", "A tent", []) == "A boat."


def test_quoted_text_is_shown_only_if_nothing_else_matches() -> None:
    assert excerpt("A boat", "A tent", ["tent"]) == "A \x02tent\x03"
    assert excerpt("A boat", "A tent", ["tent", "boat"]) == "A \x02boat\x03"
    assert excerpt(" ", "A tent", ["boat"]) == "A tent"


def test_without_a_match_the_beginning_is_shown() -> None:
    found = excerpt("word " * 1_000, "", ["tent"])
    assert found.startswith("word word")
    assert found.endswith("word…")
    assert len(found) <= EXCERPT_CHARACTERS + 1


def test_words_are_not_cut() -> None:
    text = "alphabet " * 100 + "boat " + "alphabet " * 100
    found = plain(excerpt(text, "", ["boat"])).strip("…")
    assert set(found.split()) == {"alphabet", "boat"}


@pytest.mark.parametrize("text", ("x" * 100_000 + " boat", "boat" + "x" * 100_000, "boat " * 50_000), ids=len)
def test_a_text_of_any_length_has_a_short_excerpt(text: str) -> None:
    assert len(plain(excerpt(text, text, ["boat", "x" * 64]))) <= EXCERPT_CHARACTERS + 100


@given(some_text, some_text, st.lists(st.sampled_from(VOCABULARY)), st.sampled_from(["", "en", "de", "zh"]))
def test_an_excerpt_is_a_part_of_the_text_with_marks_around_words_that_match(
    text: str, quoted: str, asked: list[str], language: str
) -> None:
    terms = {term for word in asked for term in words.all_terms(word, language)}
    found = excerpt(text, quoted, terms, language)
    inside = plain(found).removeprefix("…").removesuffix("…").strip("… ")
    assert any(inside in body.replace("\x02", " ").replace("\x03", " ") for body in (text, quoted))
    title = marked(text, terms, language)
    assert plain(title) == text.replace("\x02", " ").replace("\x03", " ")
    for shown in (found, title):
        parts = shown.split("\x02")
        for part in parts[1:]:
            word, end, _ = part.partition("\x03")
            assert end, "each mark is closed"
            assert terms & set(words.all_terms(word, language)), "what is marked was asked for"


@given(st.lists(st.sampled_from(ASCII), max_size=8).map(" ".join), st.lists(st.sampled_from(ASCII), max_size=3))
def test_every_word_that_matches_is_marked(text: str, asked: list[str]) -> None:
    """Of long texts only the words that begin like a term are looked at."""
    terms = frozenset(term for word in asked for term in words.all_terms(word))
    quick = marked(text, terms)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(excerpts, "MAX_PATTERN_TERMS", 0)
        excerpts._beginnings.cache_clear()
        assert quick == marked(text, terms)
    excerpts._beginnings.cache_clear()


@pytest.mark.parametrize("text", ("a \x02boat\x03 \x03\x02", "\x02", "\x03boat"))
def test_marks_that_a_text_has_itself_are_not_taken_for_marks(text: str) -> None:
    for shown in (excerpt(text, "", ["boat"]), marked(text, ["boat"])):
        assert shown.count("\x02") == shown.count("\x03") == ("boat" in text)
        assert shown.partition("\x02")[2].partition("\x03")[0] in ("", "boat")
