"""Words for people: counts, and commands that a shell takes as they are meant."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.model.failures import Outcome
from onward.ops.text.diagnosis import diagnosis_sentences
from onward.ops.text.format import counted, shell_command
from onward.ops.text.history import entry_text, outcome_text
from onward.recovery.diagnosis import Cause, Diagnosis
from onward.recovery.findings import Finding, FindingKind
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


def test_documents_that_wait_for_their_dependency_have_not_recovered() -> None:
    waits, recovered = Finding(FindingKind.EVENTS_WAIT, 120), Finding(FindingKind.RECOVERED, 4, 4)
    assert diagnosis_sentences(Diagnosis(Cause.DEPENDENCY, (waits, recovered))) == [
        "120 events wait, and lose no tries."
    ]
    assert diagnosis_sentences(Diagnosis(Cause.DEPENDENCY, (recovered,))) == [
        "4 of the 4 documents have recovered since."
    ]


def test_a_bug_that_came_back_names_every_version_that_fails() -> None:
    diagnosis = Diagnosis(Cause.BUG, (Finding(FindingKind.VERSION_FAILS, 220, 160, ("1.1",)),))
    assert diagnosis_sentences(diagnosis, {"1.1": 201, "1.3": 20}) == [
        "Under versions 1.1 and 1.3, 220 documents failed this way, and 160 others succeeded."
    ]
    assert diagnosis_sentences(diagnosis) == [
        "Under version 1.1, 220 documents failed this way, and 160 others succeeded."
    ]
