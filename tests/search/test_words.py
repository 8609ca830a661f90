"""The words of texts and queries: tokens, parts of compounds, folding, stems, stop words."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onward.search import words
from onward.search.languages import rules, stop_words
from onward.search.words import (
    LANGUAGES,
    MAX_TERM,
    add_weights,
    all_terms,
    is_stop_word,
    query_terms,
    spans,
    terms,
)

# Pieces of what people write, so that generated texts have words, compounds and several scripts.
PIECES = (
    *(
        "Häuser",
        "élèves",
        "naïve",
        "GRÖSSE",
        "straße",
        "Ελλάδα",
        "новый",
        "ёлка",
        "İstanbul",
        "한국어",
        "がくせい",
        "ｶﾞ",
    ),
    *(
        "東京",
        "読みました",
        "हिन्दी",
        "ภาษา",
        "don't",
        "C++",
        "HTTPServer2",
        "read_message",
        "v2.40.1",
        "ﬁ",
        "½",
        "⑴",
    ),
    *(
        "a",
        "the",
        "-",
        ".",
        "_",
        "@",
        "/",
        " ",
        "\n",
        "'",
        "’",
        "#",
        "+",
        "2",
        "ß",
        "\u0301",
        "\u00ad",
        "\u200d",
        "\0",
    ),
)
texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join))
languages = st.sampled_from(("", "xx", *LANGUAGES))


@pytest.mark.parametrize(
    ("text", "found"),
    (
        ("read_message", ["read", "messag", "read_message"]),
        ("readMessage", ["read", "messag", "readmessag"]),
        ("HTTPServer2", ["http", "server", "2", "httpserver2"]),
        ("src/onward/app.py", ["src", "onward", "app", "py", "app.py"]),
        ("__init__.py", ["init", "py", "init.py"]),
        ("v2.40.1", ["2", "40", "1", "2.40.1"]),
        ("2024-01-15", ["2024", "01", "15", "2024-01-15"]),
        ("jörg@example.org", ["jorg", "exampl", "org", "jorg@example.org"]),
        ("e-mails", ["e", "mail", "email"]),
        ("UTF-8", ["utf", "8", "utf8"]),
        ("python3", ["python", "3", "python3"]),
        ("PDFs", ["pdf"]),
        ("6b4cb31b", ["6b4cb31b"]),
        ("abcdef12", ["abcdef12"]),  # the id of a commit, not a name and a number
        ("東京都", ["東京", "京都"]),
        ("木", ["木"]),
        ("iPhone用", ["i", "phone", "iphon", "用"]),
    ),
)
def test_a_compound_has_its_parts_and_the_whole(text: str, found: list[str]) -> None:
    assert all_terms(text, "en") == found


@pytest.mark.parametrize(
    ("language", "forms"),
    (
        ("en", "message Messages MESSAGES message's"),
        ("en", "e-mail email emails E-Mails"),
        ("en", "readMessage readmessage ReadMessages"),
        ("en", "utf-8 utf8 UTF8"),
        ("de", "Haus Häuser Häusern Hauses Haeuser hauser"),
        ("de", "Straße Straßen Strasse STRASSEN"),
        ("de", "größer grösser groesser"),
        ("fr", "élève élèves eleve eleves ÉLÈVES"),
        ("fr", "passé passée passées"),
        ("es", "canción canciones cancion"),
        ("sv", "möte möten moten"),
        ("ru", "ёлка елка ёлки"),
        ("el", "δρόμος δρόμο ΔΡΟΜΟΣ"),
        ("el", "έτε ετε"),  # all ending, for its stemmer
        ("ja", "読む 読みました 読んで"),
        ("ja", "ｶﾞﾗｽ ガラス"),
        ("ko", "학교 학교에서 학교는"),
        ("zh", "数据库 数据"),
    ),
)
def test_forms_of_a_word_find_each_other(language: str, forms: str) -> None:
    for text in forms.split():
        for query in forms.split():
            alternatives = {term for part in query_terms(query, ["en", language]) for term in part}
            assert alternatives.intersection(terms(text, language)), (text, query)


@pytest.mark.parametrize(
    ("one", "other"), (("й", "и"), ("が", "か"), ("1.10", "11.0"), ("C++", "C#"), ("v2", "v3"))
)
def test_what_differs_stays_different(one: str, other: str) -> None:
    assert set(all_terms(one)).isdisjoint(all_terms(other)) or all_terms(one)[-1] != all_terms(other)[-1]


def test_stop_words_are_left_out_of_texts() -> None:
    assert terms("The message isn't there, but a message's id is", "en") == ["messag", "messag", "id"]
    assert terms("Der Preis ist für die Häuser", "de") == ["preis", "haus"]
    assert terms("C'est sûr", "fr") == ["sur"]  # "sur" is a stop word, "sûr" is not


def test_question_words_are_left_out_of_queries_only() -> None:
    question = "how much does the what who cost"
    assert [word for word in question.split() if not is_stop_word(word, ["en"])] == ["cost"]
    assert terms("who", "en") == ["who"]
    assert is_stop_word("wieviel", ["en", "de"])
    assert is_stop_word("Où", ["fr"])
    assert is_stop_word("什么", LANGUAGES)
    assert not is_stop_word("", ["en"])


def test_an_english_word_is_no_stop_word_because_another_language_has_it_as_one() -> None:
    assert is_stop_word("war", ["de"])
    assert not is_stop_word("war", ["de", "en"])


def test_a_query_word_has_alternatives_in_the_languages_of_the_store() -> None:
    assert query_terms("messages", ["en"]) == (("messag",),)
    assert query_terms("Häusern", ["de", "en"]) == (("haus", "hausern"),)
    assert query_terms("read_message", ["en"]) == (("read",), ("messag",), ("read_message",))
    assert query_terms("read_message", ["en"], whole=False) == (("read",), ("messag",))
    assert query_terms("is_valid", ["en"]) == (("valid",), ("is_valid",))  # texts have no term "is"
    assert query_terms("the", ["en"]) == (("the",),)  # but titles have
    assert query_terms("東京都", ["en", "ja"]) == (("東京",), ("京都",))
    assert query_terms("?!", ["en"]) == ()


def test_spans_are_places_in_the_text() -> None:
    text = "See readMessage, l’été, Gro\u0308ße and ｶﾞﾗｽ."
    assert [(text[start:end], *found) for start, end, found in spans(text, "de")] == [
        ("See", "see"),
        ("read", "read"),
        ("Message", "messag"),
        ("readMessage", "readmessag"),
        ("l", "l"),
        ("été", "ete"),
        ("Gro\u0308ße", "gross"),
        ("and", "and"),
        ("ｶﾞﾗ", "ガラ"),
        ("ﾗｽ", "ラス"),
    ]


def test_encoded_data_is_left_out() -> None:
    line = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6"
    assert terms(f"Image\n{line}\n{line}\n{line}\n{line[:30]}==\nText") == ["imag", "text"]
    assert terms(f"![](data:image/png;base64,{line * 9}) text") == [
        "data",
        "imag",
        "png",
        "base",
        "64",
        "base64",
        "text",
    ]
    assert terms("x" * (MAX_TERM + 1)) == []
    assert terms("x" * MAX_TERM) == ["x" * MAX_TERM]


def test_a_text_without_spaces_is_read_in_a_time_that_grows_with_its_length() -> None:
    assert len(terms("読" * 200_000, "ja")) == 199_999
    assert len(terms("x.y-" * 50_000)) == 100_000
    assert len(terms("aB" * 100_000)) == 0


@given(texts, languages)
@example("don't-\u0301x", "")
@example("00aA0\u0300", "")
def test_the_terms_of_a_text_are_those_of_its_spans(text: str, language: str) -> None:
    found = list(spans(text, language))
    assert all_terms(text, language) == [term for _, _, of_span in found for term in of_span]
    assert all(0 <= start < end <= len(text) and of_span for start, end, of_span in found)
    kept = terms(text, language)
    weights = {"known": 1}
    assert add_weights(weights, text, 3, language) == 3 * len(kept)
    assert weights == Counter({"known": 1}) + Counter({term: 3 * count for term, count in Counter(kept).items()})
    left_out = list(all_terms(text, language))
    for term in kept:
        left_out.remove(term)
    common = {term for word in stop_words(rules(language)) for term in all_terms(word, language)}
    assert common.issuperset(left_out)


@given(texts, languages)
def test_terms_are_never_empty_and_never_long(text: str, language: str) -> None:
    for term in all_terms(text, language):
        assert 0 < len(term) <= 3 * MAX_TERM
        term.encode()


@given(texts, st.sets(languages))
def test_a_query_finds_the_text_that_it_is(text: str, store: Collection[str]) -> None:
    for language in store:
        found = set(all_terms(text, language))
        for part in query_terms(text, store):
            assert found.intersection(part)


@given(texts, languages)
def test_unicode_forms_are_equal(text: str, language: str) -> None:
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert terms(composed, language) == terms(decomposed, language)
    assert all_terms(composed, language) == all_terms(decomposed, language)


def test_only_so_many_tokens_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "MAX_KNOWN_TOKENS", 10)
    monkeypatch.setattr(words, "MAX_KNOWN_SPANS", 10)
    known = (words._KnownTerms("en"), words._KnownSpans("en"))
    for table in known:
        for number in range(100):
            assert table[f"word{number}"] == table[f"word{number}"]
            assert 0 < len(table) <= 10
        assert table["x." * MAX_TERM + "y"]
        assert "x." * MAX_TERM + "y" not in table
