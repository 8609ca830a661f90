"""Terms of a text are packed into postings, and come out of them as they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onward.search import words
from onward.search.postings import (
    BLOCK_BITS,
    BLOCK_TEXTS,
    MAX_TENTHS,
    POSTING_BYTES,
    QUOTED_TENTHS,
    TEXT_TENTHS,
    TITLE_TENTHS,
    TextEntry,
    field_prefix,
    find_in_entry,
    length_code,
    lengths,
    merge_postings,
    pack_postings,
    storable_text,
    text_entry,
    unpack_postings,
)

a_term = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0"), min_size=1, max_size=6)
similar_terms = st.sampled_from(["a", "aa", "ab", "b", ":title:a", "a:b", "ü", "港口", "\U0001f6a2", "z"])
some_weights = st.dictionaries(a_term | similar_terms, st.integers(1, MAX_TENTHS), max_size=8)
a_text = st.tuples(some_weights, st.integers(0, 255))
some_texts = st.lists(a_text, max_size=8)
Text = tuple[Mapping[str, int], int]


def entry_of(weights: Mapping[str, int], length: int) -> TextEntry:
    ordered = sorted(weights)
    terms = "\n".join(["", *ordered, ""]) if ordered else ""
    return TextEntry(terms.encode(), bytes(weights[term] for term in ordered), length)


def expected(texts: Sequence[Text], start: int) -> dict[str, list[tuple[int, int, int]]]:
    """Number, weight and length of the texts that have each term."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for number, (weights, length) in enumerate(texts, start):
        for term, weight in weights.items():
            found.setdefault(term, []).append((number, weight, length))
    return found


def unpacked(rows: Sequence[tuple[int, bytes]]) -> list[tuple[int, int, int]]:
    posting = unpack_postings(rows)
    keys = posting.keys.astype(int)
    return list(zip(posting.numbers.tolist(), (keys >> 8).tolist(), (keys & 0xFF).tolist(), strict=True))


@given(some_texts, st.integers(0, BLOCK_TEXTS - 8), st.integers(0, 1_000))
def test_what_is_packed_comes_out_as_it_was(texts: list[Text], start: int, block: int) -> None:
    packed = pack_postings([entry_of(*text) for text in texts], start)
    assert [term.encode() for term, _ in packed] == sorted(term.encode() for term, _ in packed), "as in the table"
    assert all(len(data) % POSTING_BYTES == 0 for _, data in packed)
    first = block << BLOCK_BITS
    found = {term: unpacked([(block, data)]) for term, data in packed}
    assert found == {
        term: [(first + number, weight, length) for number, weight, length in rows]
        for term, rows in expected(texts, start).items()
    }


@given(st.lists(some_texts, min_size=1, max_size=4), st.data())
def test_parts_that_are_merged_are_the_same_postings_without_what_is_gone(
    parts: list[list[Text]], data: st.DataObject
) -> None:
    starts = [sum(map(len, parts[:place])) for place in range(len(parts))]
    packed = [
        dict(pack_postings([entry_of(*text) for text in texts], start))
        for start, texts in zip(starts, parts, strict=True)
    ]
    whole = [text for texts in parts for text in texts]
    kept = data.draw(st.lists(st.booleans(), min_size=len(whole), max_size=len(whole)))
    for term, rows in expected(whole, 0).items():
        pieces = [part[term] for part in packed if term in part]
        assert unpacked([(0, piece) for piece in pieces]) == rows, "parts are read as one"
        assert unpacked([(0, merge_postings(pieces))]) == rows
        some = merge_postings(pieces, np.array(kept, dtype=np.bool_))
        assert unpacked([(0, some)]) == [row for row in rows if kept[row[0]]]


def test_postings_of_several_blocks_follow_each_other() -> None:
    ((_, data),) = pack_postings([entry_of({"a": 7}, 3)] * 2, 5)
    assert unpacked([(0, data), (2, data)]) == [
        (5, 7, 3),
        (6, 7, 3),
        ((2 << BLOCK_BITS) + 5, 7, 3),
        ((2 << BLOCK_BITS) + 6, 7, 3),
    ]
    assert unpacked([]) == []


@given(some_weights, similar_terms | a_term)
def test_the_weight_of_a_term_is_found_without_unpacking(weights: dict[str, int], asked: str) -> None:
    entry = entry_of(weights, 1)
    for term in (*weights, asked):
        assert find_in_entry(entry.terms, entry.weights, f"\n{term}\n".encode()) == weights.get(term, 0)


# -- the terms of a text


def weights_of(entry: TextEntry) -> dict[str, int]:
    terms = entry.terms.decode().split("\n")[1:-1]
    assert terms == sorted(set(terms))
    return dict(zip(terms, entry.weights, strict=True))


def test_a_word_counts_by_where_it_is() -> None:
    entry = text_entry("Harbour", "boat boat tent", "boat house")
    assert weights_of(entry) == {
        "harbour": TITLE_TENTHS,
        ":title:harbour": TEXT_TENTHS,
        "boat": 2 * TEXT_TENTHS + QUOTED_TENTHS,
        "tent": TEXT_TENTHS,
        "hous": QUOTED_TENTHS,
    }
    length = (TITLE_TENTHS + 3 * TEXT_TENTHS + 2 * QUOTED_TENTHS) / TEXT_TENTHS
    assert entry.length == length_code(length)


def test_a_field_is_found_by_its_name_too() -> None:
    plain = weights_of(text_entry("", "boat"))
    found = weights_of(text_entry("", "boat", fields={"path": "src/boat.py", "to": "Dora"}))
    assert found[":to:dora"] == TEXT_TENTHS
    assert "dora" not in found, "who gets a message says nothing about it"
    assert found["boat"] > plain["boat"]
    assert {":path:boat", ":path:src", "src", "py"} <= found.keys()


def test_a_word_of_a_text_is_never_taken_for_a_field() -> None:
    """A prefix search reads all terms that begin so."""
    found = weights_of(text_entry("boat", "title:boat :title:boat title boat"))
    assert [term for term in found if ":" in term] == [field_prefix("title") + "boat"]


def test_the_words_of_one_language_are_those_of_its_texts() -> None:
    german = weights_of(text_entry("", "die Häuser", language="de"))
    assert set(german) == set(words.terms("die Häuser", "de"))


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60), st.sampled_from(["", "de", "ja", "xx"]))
def test_any_text_has_an_entry_that_can_be_packed(title: str, text: str, quoted: str, language: str) -> None:
    entry = text_entry(title, text, quoted, {"path": title}, language)
    weights = weights_of(entry)
    assert all(1 <= weight <= MAX_TENTHS for weight in weights.values())
    assert {term for term, _ in pack_postings([entry], 0)} == weights.keys()
    assert set(words.all_terms(title, language)) | set(words.terms(text, language)) <= weights.keys()
    assert 0 <= entry.length <= 255


def test_a_word_that_is_said_very_often_counts_as_often_as_can_be_stored() -> None:
    assert weights_of(text_entry("", "boat " * 1_000)) == {"boat": MAX_TENTHS}


@given(st.floats(0, 60_000))
def test_a_length_is_known_by_its_code_up_to_some_percent(length: float) -> None:
    code = length_code(length)
    assert float(lengths()[code]) + 1.0 == pytest.approx(length + 1.0, rel=0.025)


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_longer_text_has_no_smaller_code(one: float, other: float) -> None:
    assume(one <= other)
    assert length_code(one) <= length_code(other) <= 255


@given(st.text(st.characters() | st.sampled_from("\0\ud800\udfff")))
def test_a_storable_text_can_be_stored_and_keeps_its_places(text: str) -> None:
    stored = storable_text(text)
    assert "\0" not in stored
    assert stored.encode().decode() == stored
    assert len(stored) == len(text)
    changed = [before for before, after in zip(text, stored, strict=True) if before != after]
    assert changed == [one for one in text if one == "\0" or "\ud800" <= one <= "\udfff"]
    assert storable_text(stored) == stored
