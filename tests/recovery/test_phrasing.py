"""Words for people: counts, and commands that a shell takes as they are meant."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.model.failures import Outcome
from onward.ops.text.format import counted, shell_command
from onward.ops.text.history import entry_text, outcome_text
from onward.recovery.history import FAILED_FOR_GOOD, HistoryEntry


@given(st.lists(st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1)))
def test_a_shell_reads_every_word_as_it_was_given(words: list[str]) -> None:
    read = shlex.split(shell_command("onward show", *words))
    if "--" in read and "--" not in words:
        read.remove("--")
    assert [one for one in read if one != "--"] == ["onward", "show", *(one for one in words if one != "--")]


@pytest.mark.parametrize(
    ("word", "typed"),
    (
        ("note-1", "onward show note-1"),
        ("my note", "onward show 'my note'"),
        ("a;rm *", "onward show 'a;rm *'"),
        ("-rf", "onward show -- -rf"),
        ("", "onward show ''"),
    ),
)
def test_words_are_quoted_where_that_is_needed(word: str, typed: str) -> None:
    assert shell_command("onward show", word) == typed


@pytest.mark.parametrize("word", ("two\nlines", "\x1b[2J", "\u202egpj", "half \udcff"))
def test_what_nobody_can_type_is_not_suggested(word: str) -> None:
    assert shell_command("onward show", word) == ""


def test_counts_have_their_thousands_set_apart() -> None:
    assert [counted(one, "round") for one in (1, 2, 12_000)] == ["1 round", "2 rounds", "12 000 rounds"]


@pytest.mark.parametrize("outcome", (*Outcome, FAILED_FOR_GOOD))
def test_every_outcome_has_words(outcome: str) -> None:
    """`processed` is a word; a code with an underscore is none."""
    assert outcome_text(outcome) != outcome or outcome == Outcome.PROCESSED
    assert "_" not in entry_text(HistoryEntry("outcome", outcome=outcome)).text
