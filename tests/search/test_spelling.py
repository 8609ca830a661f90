"""Corrections of misspelt query words."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.search.spelling import edits_between, first_letters, shown_word, suggest
from onward.search.words import all_terms

TEXTS = {
    "en": """The message is here. Message 1 of 2 messages in the repository; repositories have a branch, branches.
        Happy with the configuration, the internal solution. Git is in the Git repository.""",
    "de": "Eine Nachricht, zwei Nachrichten: ein Haus, in den Häusern",
}
COUNTS = {term: len(term) * 10 for text in TEXTS.items() for term in all_terms(text[1], text[0])}


def correction(
    word: str, counts: dict[str, int] = COUNTS, languages: Collection[str] = ("en", "de")
) -> str | None:
    def texts_of(term: str) -> list[tuple[str, str]]:
        return [(text, language) for language, text in TEXTS.items() if term in all_terms(text, language)]

    return suggest(word, counts.items(), languages, texts_of)


@pytest.mark.parametrize(
    ("typed", "meant"),
    (
        ("mesages", "messages"),  # a letter is missing
        ("messsage", "message"),  # too many
        ("messege", "message"),  # another one
        ("branhc", "branch"),  # two are swapped
        ("Mesasge", "message"),
        ("repostiories", "repositories"),
        ("internl", "internal"),  # in the ending
        ("soluton", "solution"),
        ("configuraton", "configuration"),
        ("hapy", "Happy"),  # its stem is happi, and no text has it in lower case
        ("gti", "Git"),
        ("nachrihct", "Nachricht"),
        ("häusenr", "Häusern"),
        ("hauesrn", "Häusern"),  # where stem and ending meet
    ),
)
def test_a_misspelt_word_is_corrected_to_a_word_and_not_to_a_stem(typed: str, meant: str) -> None:
    assert correction(typed) == meant


@pytest.mark.parametrize(
    "typed", ("xylophone", "git", "gut", "the", "2.40.2", "raed_message", "東京", "", "?", "a1b2c3")
)
def test_what_resembles_nothing_is_not_corrected(typed: str) -> None:
    assert correction(typed) is None


def test_of_similar_words_the_frequent_one_is_meant() -> None:
    both = [("branch brunch", "en")]
    for often, seldom in (("branch", "brunch"), ("brunch", "branch")):
        assert suggest("bronch", [(often, 100), (seldom, 1)], ["en"], lambda _: both) == often


def test_one_edit_is_likelier_than_two() -> None:
    assert correction("branhces", {"branch": 1, "brance": 20}) == "branches"


def test_a_word_that_texts_have_is_corrected_to_a_much_more_frequent_one_only() -> None:
    assert correction("mesage", {"mesag": 1, "messag": 51}) == "message"
    assert correction("mesage", {"mesag": 1, "messag": 50}) is None


def test_a_term_without_texts_is_not_suggested() -> None:
    assert suggest("mesage", [("messag", 50)], ["en"], lambda _: []) is None


def test_a_term_is_shown_as_the_most_frequent_word_if_nothing_was_typed() -> None:
    assert shown_word("messag", [("messages message Message MESSAGE", "en")]) == "message"
    assert shown_word("messag", [("messages message", "en")], like="mesages") == "messages"
    assert shown_word("berlin", [("Berlin, Berlin", "de")]) == "Berlin"
    assert shown_word("messag", []) == ""


def test_the_letters_with_which_candidates_begin() -> None:
    assert first_letters("Ébranch", ["fr"]) == ("e", "b")
    assert first_letters("eel", ["en"]) == ("e",)
    assert {first_letters(word, ["en"]) for word in ("read_message", "42", "東京", "")} == {()}


@given(st.text("abcd"), st.text("abcd"), st.text("abcd"))
def test_edits_are_a_distance(one: str, other: str, third: str) -> None:
    assert (edits_between(one, other) == 0) == (one == other)
    assert edits_between(one, other) == edits_between(other, one)
    assert abs(len(one) - len(other)) <= edits_between(one, other) <= max(len(one), len(other))
    assert edits_between(one + third, other + third) <= edits_between(one, other)


@given(st.text("abcd", min_size=2), st.data())
def test_one_change_is_one_edit(word: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(word) - 2))
    swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    for changed in (
        swapped,
        word[:at] + word[at + 1 :],
        word[:at] + "x" + word[at:],
        word[:at] + "x" + word[at + 1 :],
    ):
        assert edits_between(word, changed) <= 1


@given(st.text(), st.dictionaries(st.text(), st.integers(1, 1_000)))
def test_a_suggestion_is_a_word_of_the_store(word: str, counts: dict[str, int]) -> None:
    found = correction(word, COUNTS | counts)
    assert found is None or any(found in text for text in TEXTS.values())
