"""Counts in words."""

from __future__ import annotations

import pytest

from onward.ops.text.format import counted, counted_in


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
