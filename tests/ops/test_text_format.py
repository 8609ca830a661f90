"""Counts in words."""

from __future__ import annotations

import pytest

from onward.ops.text.format import counted, counted_in, interval, media_type


@pytest.mark.parametrize(
    ("count", "noun", "words"),
    (
        (1, "message", "1 message"),
        (3000, "message", "3 000 messages"),
        (0, "retry", "0 retries"),
        (2, "batch", "2 batches"),
        (1, "batch", "1 batch"),
    ),
)
def test_what_is_counted_is_named_as_often_as_it_is_there(count: int, noun: str, words: str) -> None:
    assert counted(count, noun) == words


@pytest.mark.parametrize(
    ("count", "collection", "words"),
    (
        (1, "threads", "1 thread"),
        (2, "threads", "2 threads"),
        (1, "summaries", "1 summary"),
        (1200, "summaries", "1 200 summaries"),
        (1, "mail", "1 mail"),
    ),
)
def test_documents_are_counted_by_the_name_of_their_collection(count: int, collection: str, words: str) -> None:
    assert counted_in(count, collection) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    (
        (10, "10 s"),
        (60, "1 min"),
        (90, "90 s"),
        (150, "2 min 30 s"),
        (900.0, "15 min"),
        (3600, "1 h"),
        (9000, "2 h 30 min"),
        (86_400, "1 day"),
        (216_000, "2 days 12 h"),
    ),
)
def test_an_interval_is_not_rounded(seconds: float, words: str) -> None:
    assert interval(seconds) == words


def test_office_files_are_named_by_their_format() -> None:
    word = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    assert [media_type(one) for one in (word, "application/pdf", "text/x\n")] == [
        "Word",
        "application/pdf",
        "text/x",
    ]
