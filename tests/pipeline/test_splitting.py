"""Splitting a text into pieces: bounded, overlapping, on boundaries, and nothing is lost."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward.models.tokenizer import open_tokenizer
from onward.pipeline.stages.chunking import TextPiece, split

WORDS = st.sampled_from(
    ["word", "Is", "it", "done?", "Yes.", "(or not)", "x" * 90, "漢字。", "👩‍👩‍👧", "é", "\ud800", "`a_b`"]
)
SPACES = st.sampled_from([" ", " ", " ", "\n", "\n\n", "   ", "\t", "\r\n", "\n# ", "\n    ", "\x1c", "\n" * 99])
TEXTS = st.lists(st.one_of(WORDS, SPACES, st.text(max_size=8)), max_size=60).map("".join)
KINDS = st.sampled_from(["text", "markdown", "code"])


def count_tokens(text: str) -> int:
    return len(open_tokenizer().tokens(text))


def check(text: str, pieces: list[TextPiece], max_tokens: int = 256) -> None:
    """What is true of the pieces of every text."""
    covered = bytearray(len(text))
    for piece in pieces:
        assert piece.text == text[piece.start : piece.end]
        assert piece.text.strip() == piece.text != ""
        assert piece.tokens <= max_tokens
        covered[piece.start : piece.end] = b"\1" * (piece.end - piece.start)
    assert [piece.tokens for piece in pieces] == [count_tokens(piece.text) for piece in pieces]
    assert all(covered[place] or character.isspace() for place, character in enumerate(text))
    assert all(one.start < other.start and one.end < other.end for one, other in pairwise(pieces))


def prose(sentences: int, seed: int = 1) -> str:
    draw = random.Random(seed)
    names = ["archive", "message", "thread", "parser", "worker", "ledger", "summary"]
    lines = [
        f"The {draw.choice(names)} number {n} waits for the {draw.choice(names)}."
        + ("\n\n" if n % 7 == 6 else "\n" if n % 3 == 2 else " ")
        for n in range(sentences)
    ]
    return "".join(lines)


@settings(deadline=None)
@given(TEXTS, KINDS, st.integers(32, 80), st.integers(0, 16))
def test_nothing_is_lost_and_nothing_too_large(text: str, kind: str, max_tokens: int, overlap: int) -> None:
    check(text, split(text, kind=kind, max_tokens=max_tokens, overlap=overlap), max_tokens)


@settings(deadline=None)
@given(TEXTS)
def test_the_same_text_gives_the_same_pieces(text: str) -> None:
    assert split(text, max_tokens=32, overlap=8) == split(text, max_tokens=32, overlap=8)


def test_a_short_text_is_one_piece() -> None:
    assert split("  It is short.\n") == [TextPiece(2, 14, "It is short.", count_tokens("It is short."))]
    assert split("") == split(" \n\t ") == []


def test_pieces_end_with_a_sentence_and_are_well_filled() -> None:
    text = prose(300)
    pieces = split(text)
    check(text, pieces)
    assert all(piece.text.endswith(".") for piece in pieces)
    assert all(piece.text.startswith("The ") for piece in pieces)
    assert all(piece.tokens > 120 for piece in pieces[:-1])


def test_each_repeats_the_end_of_the_one_before() -> None:
    pieces = split(prose(300), overlap=32)
    shared = [one.text[other.start - one.start :] for one, other in pairwise(pieces)]
    assert all(0 < tokens <= 34 for tokens in map(count_tokens, shared))
    without = split(prose(300), overlap=0)
    assert all(one.end <= other.start for one, other in pairwise(without))


def test_a_paragraph_is_kept_together_where_it_can_be() -> None:
    first, second = "One thing is said here. " * 25, "Another is said there. " * 25
    pieces = split(f"{first}\n\n{second}", overlap=0)
    assert [piece.text for piece in pieces] == [first.strip(), second.strip()]


def test_markdown_is_cut_before_a_heading() -> None:
    text = "# One\n\n" + "It is about one. " * 25 + "\n\nAnd more of it.\n\n## Two\n\n" + "It is about two. " * 25
    first, second = split(text, kind="markdown", overlap=0)
    assert first.text.endswith("And more of it.")
    assert second.text.startswith("## Two")


def test_code_is_cut_between_functions_then_between_lines() -> None:
    function = (
        "def act(document):\n    if document.ready:\n        return document.text.strip()\n    return None\n\n\n"
    )
    pieces = split(function * 20, kind="code", overlap=0)
    check(function * 20, pieces)
    assert all(piece.text.startswith("def act") for piece in pieces)
    table = "".join(f"value_{number} = {number}\n" for number in range(200))
    assert all(piece.text.startswith("value_") for piece in split(table, kind="code"))


@pytest.mark.parametrize(
    "text",
    (
        "x" * 200_000,
        "0123456789abcdef" * 10_000,
        "👩‍👩‍👧" * 5_000,
        "漢字かな交じり文。" * 10_000,
        "word " * 100_000,
        "a" + " " * 200_000 + "b",
        "\n" * 200_000 + "end",
        prose(20_000),
    ),
    ids=("no space", "hex", "emoji", "no spaces but sentences", "one line", "spaces", "blank lines", "long"),
)
@pytest.mark.parametrize("kind", ("text", "code"))
def test_no_text_is_too_odd_or_too_long(text: str, kind: str) -> None:
    check(text, split(text, kind=kind))


def test_a_character_of_several_parts_is_not_cut() -> None:
    pieces = split("👩🏽" * 500, max_tokens=64, overlap=0)
    assert all(piece.text.startswith("👩") for piece in pieces)


def test_a_size_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="max_tokens=8 is too few; give at least 32"):
        split("text", max_tokens=8)
    with pytest.raises(ValueError, match="overlap=200 must be from 0 to half of max_tokens=256"):
        split("text", overlap=200)
