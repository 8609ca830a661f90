"""What a person types into a search is understood as words, phrases, operators and filters, or refused clearly."""

from __future__ import annotations

from datetime import datetime
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.pipeline.documents import Kind
from onward.pipeline.query_language import (
    EmptyQuery,
    ParsedQuery,
    QueryError,
    describe,
    parse,
    replace_words,
    unparse,
)
from onward.search import Filter, Term

NOON = datetime.fromisoformat("2026-03-09T12:00:00").astimezone().timestamp()


def day(text: str) -> float:
    return datetime.fromisoformat(text).astimezone().timestamp()


def phrase(text: str, field: str = "") -> Term:
    return Term(text, field, phrase=True)


def word(text: str, field: str = "") -> Term:
    return Term(text, field)


def words(query: ParsedQuery) -> list[str]:
    assert (*query.required, *query.unwanted, *query.filters) == ()
    assert all(term == Term(term.text) for term in query.wanted)
    return [term.text for term in query.wanted]


@pytest.mark.parametrize(
    ("text", "found"),
    (
        ("tide gauge", ["tide", "gauge"]),
        ("  tide\tgauge\u3000drift\n", ["tide", "gauge", "drift"]),
        ("tide tide gauge", ["tide", "gauge"]),
        ("who's there?", ["who's", "there?"]),
        ("std::string http://x foo:bar", ["std::string", "http://x", "foo:bar"]),
        ("C++ C# .NET", ["C++", "C#", ".NET"]),
        ("-1 --option a-b", ["-1", "--option", "a-b"]),
        ("-1.5 -10,000", ["-1.5", "-10,000"]),
        ("a - b", ["a", "b"]),
        ("from: subject: me", ["from:", "subject:", "me"]),
        ("reply-from:me xfrom:me", ["reply-from:me", "xfrom:me"]),
        ("*.py **bold** a*b", ["*.py", "**bold**", "a*b"]),
        ("ｔｉｄｅ　ｇａｕｇｅ", ["tide", "gauge"]),
        ("東京タワー", ["東京タワー"]),
        ("!! tide & ??", ["tide"]),
        ('"" tide "!!"', ["tide"]),
    ),
)
def test_words(text: str, found: list[str]) -> None:
    assert words(parse(text)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    (
        ('"tide gauge', ["tide", "gauge"]),
        ('tide gauge"', ["tide", "gauge"]),
        ('tide "', ["tide"]),
        ('5" disk', ["5", "disk"]),
        ('19" rack, 24" screen', ["19", "rack,", "24", "screen"]),
        ("「tide gauge", ["tide", "gauge"]),
        ("潮位「計", ["潮位", "計"]),
        ("«tide “gauge", ["tide", "gauge"]),
    ),
)
def test_a_quote_without_its_pair_is_ignored(text: str, found: list[str]) -> None:
    assert words(parse(text)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    (
        ('"vent tube"', ["vent tube"]),
        ('"vent   \n tube"', ["vent tube"]),
        ('"tide"', ["tide"]),
        ("“vent tube”", ["vent tube"]),
        ('„vent tube“ „a b" ”c d”', ["vent tube", "a b", "c d"]),
        ("«vent tube» »a b«", ["vent tube", "a b"]),
        ("＂ｖｅｎｔ　tube＂", ["vent tube"]),
        ("「東京 タワー」『大阪 城』", ["東京 タワー", "大阪 城"]),
        ('"from:me -tide"', ["from:me -tide"]),
        ("「say \"hello\"」", ['say "hello"']),
    ),
)  # fmt: skip
def test_a_phrase_is_wanted_and_must_be_there(text: str, found: list[str]) -> None:
    query = parse(text)
    assert query.wanted == query.required == tuple(map(phrase, found))


def test_a_phrase_ends_where_its_quote_does() -> None:
    assert parse('"vent tube"-like').wanted == (phrase("vent tube"), word("like"))
    assert parse("日本「東京」大阪").wanted == (word("日本"), phrase("東京"), word("大阪"))


@pytest.mark.parametrize(
    ("text", "unwanted"),
    (
        ("tide -storm", word("storm")),
        ("tide －storm", word("storm")),
        ("tide -a-b", word("a-b")),
        ('tide -"vent tube"', phrase("vent tube")),
        ('tide -"storm', word("storm")),
        ('tide -"2024"', phrase("2024")),
        ("tide -from:ada", word("ada", "from")),
        ("tide -subject:storm", word("storm", "title")),
        ('tide -path:"a b"', phrase("a b", "path")),
        ("tide -har*", Term("har", prefix=True)),
    ),
)
def test_what_must_not_be_there(text: str, unwanted: Term) -> None:
    query = parse(text)
    assert (query.wanted, query.unwanted) == ((word("tide"),), (unwanted,))


@pytest.mark.parametrize("text", ("har*", "har＊", 'har"*'))
def test_a_star_stands_for_any_end_of_a_word(text: str) -> None:
    assert parse(text).wanted == (Term("har", prefix=True),)


@pytest.mark.parametrize(
    ("text", "required"),
    (
        ("from:jörg", word("jörg", "from")),
        ("FROM:jörg", word("jörg", "from")),
        ("ｆｒｏｍ：jörg", word("jörg", "from")),
        ("from:ada@example.org", word("ada@example.org", "from")),
        ('from:"Ada Byron"', phrase("Ada Byron", "from")),
        ('from:"Ada', word("Ada", "from")),
        ("to:-x", word("-x", "to")),
        ("path:src/tide.py", word("src/tide.py", "path")),
        ("path:C:\\tide", word("C:\\tide", "path")),
        ("path:src/*", Term("src/", "path", prefix=True)),
    ),
)
def test_a_sender_or_path_must_match_and_says_nothing_about_the_subject(text: str, required: Term) -> None:
    query = parse(text)
    assert (query.wanted, query.required) == ((), (required,))


def test_words_of_the_subject_are_wanted_and_must_be_there() -> None:
    query = parse('subject:drift subject:"vent tube" gauge')
    assert query.required == (word("drift", "title"), phrase("vent tube", "title"))
    assert query.wanted == (*query.required, word("gauge"))


@pytest.mark.parametrize(
    ("text", "filters"),
    (
        ("source:harbour-list", [("source", "contains", "harbour-list")]),
        ('source:"my folder"', [("source", "contains", "my folder")]),
        ("kind:pdf", [("kind", "=", "pdf")]),
        ("kind:PDF kind:html", [("kind", "=", "pdf"), ("kind", "=", "html")]),
        ("kind:mail", [("kind", "=", "eml"), ("kind", "=", "mbox")]),
        ("lang:DE", [("language", "=", "de")]),
        ("language:python", [("language", "=", "python")]),
        ("has:attachment", [("attachment", "=", "yes")]),
        ("after:2026", [("date", ">=", day("2026-01-01"))]),
        ("after:２０２６", [("date", ">=", day("2026-01-01"))]),
        ("before:2026-03", [("date", "<", day("2026-03-01"))]),
        ("after:2026-03-02T14:30 before:today", [
            ("date", ">=", day("2026-03-02T14:30")), ("date", "<", day("2026-03-09")),
        ]),
        ('after:"2026-03-02 14:30"', [("date", ">=", day("2026-03-02T14:30"))]),
        ("after:2h", [("date", ">=", NOON - 7200)]),
        ("after:YESTERDAY", [("date", ">=", day("2026-03-08"))]),
        ("-after:2026", [("date", "<", day("2026-01-01"))]),
        ("-before:2026", [("date", ">=", day("2026-01-01"))]),
    ),
)  # fmt: skip
def test_filters(text: str, filters: list[Filter]) -> None:
    query = parse(text, now=NOON)
    assert (query.wanted, query.unwanted_filters, query.filters) == ((), (), tuple(filters))


@pytest.mark.parametrize(
    ("text", "unwanted"),
    (
        ("-kind:code", ("kind", "=", "code")),
        ("-lang:en", ("language", "=", "en")),
        ("-source:old", ("source", "contains", "old")),
        ("-has:attachment", ("attachment", "=", "yes")),
    ),
)
def test_filters_are_turned_around_by_a_minus(text: str, unwanted: Filter) -> None:
    query = parse(text)
    assert (query.filters, query.unwanted_filters) == ((), (unwanted,))


def test_every_kind_of_message_can_be_asked_for() -> None:
    for kind in set(get_args(Kind)) - {"source"}:
        assert parse(f"kind:{kind}").filters == (("kind", "=", kind),)


@pytest.mark.parametrize(
    "text", ("", "  ", "!!", '"', '""', "-storm", '-"vent tube" -from:ada', "🚢", "*", "-", "_")
)
def test_a_query_with_nothing_to_look_for_says_what_to_give(text: str) -> None:
    with pytest.raises(EmptyQuery, match="give at least one word, or a filter such as from:jörg") as refused:
        parse(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    (
        ("kind:source", "kind: cannot be 'source'; give one of calendar, code, contacts, ebook, eml, html,"),
        ("tide kind:co*", "kind: cannot be 'co*'; give one of calendar,"),
        ("-kind:docx", "kind: cannot be 'docx'; give one of calendar,"),
        ("has:wings", "has: cannot be 'wings'; give one of attachment"),
        ("before:soon", "before: cannot be 'soon'; give a date such as 2026-03-09"),
        ("after:2026-02-30", "after: cannot be '2026-02-30'; give a date such as 2026-03-09"),
        ("after:99999999w", "after: cannot be '99999999w'; give a date such as 2026-03-09"),
        ('tide from:""', "from: cannot be ''; give a part of a name or an address, for example from:jörg"),
        ("subject:???", "subject: cannot be '???'; give a word of the subject"),
        ("path:*", "path: cannot be '*'; give a part of a path"),
        ("language:-", "lang: cannot be '-'; give a language, for example lang:de"),
    ),
)  # fmt: skip
def test_a_wrong_value_is_named_with_its_operator_and_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(QueryError) as refused:
        parse(text)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "sentence"),
    (
        ("tide", "Messages with tide."),
        ("tide gauge har*", "Messages with tide, gauge or har*."),
        ('from:jörg tide "a b" -c -d', 'Messages with tide, with "a b", from jörg, without c or d.'),
        ("subject:drift -subject:storm", "Messages with drift in the subject, without storm in the subject."),
        ("from:jörg after:2026-03", "Messages from jörg, dated 2026-03 or later, the newest first."),
        ("-after:2026 -from:ada to:list", "Messages dated before 2026, not from ada, to list, the newest first."),
        ("a kind:pdf kind:html -lang:de", "Messages with a, of the kind pdf or html, not in the language de."),
        ("tide path:src source:old", "Messages with tide, with src in the path, of the source old."),
        ("tide has:attachment", "Messages with tide, with an attachment."),
        ("tide -has:attachment", "Messages with tide, without an attachment."),
    ),
)  # fmt: skip
def test_a_query_is_described_as_it_was_understood(text: str, sentence: str) -> None:
    assert describe(parse(text)) == sentence


def test_one_word_is_replaced_and_the_rest_stays() -> None:
    query = parse('Tied -tied "high tied" from:tied source:tied after:2h lang:de')
    assert replace_words(query, {"tied": "tide"}) == (
        'tide -tide "high tide" from:tide source:tied after:2h lang:de'
    )


SYNTAX = [
    '"',
    "“",
    "”",
    "„",
    "«",
    "»",
    "「",
    "」",
    "『",
    "』",
    "-",
    "*",
    ":",
    " ",
    "\u3000",
    "：",
    "－",
    "＂",
    "1",
    "a",
]
OPERATORS = ["from:", "to:", "subject:", "path:", "source:", "kind:", "lang:", "language:", "has:", "after:"]
OPERATORS += ["before:", "pdf", "attachment", "2026-03", "2h", "today"]
QUERIES = st.lists(st.sampled_from(SYNTAX + OPERATORS) | st.text(max_size=3), max_size=12).map("".join)


@given(QUERIES)
def test_a_query_survives_being_written_and_read_again(text: str) -> None:
    try:
        query = parse(text, now=NOON)
    except QueryError:
        return
    assert parse(unparse(query), now=NOON) == query
    assert describe(query).endswith(".")


@given(QUERIES)
def test_every_term_has_a_letter_or_digit(text: str) -> None:
    try:
        query = parse(text)
    except QueryError:
        return
    for term in (*query.wanted, *query.required, *query.unwanted):
        assert any(character.isalnum() for character in term.text)
        assert not term.text.startswith('"')
