"""Documents have an id of their own choosing and are written as JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from onward.model.documents import Document, UnserialisableDocument


class WebPage(Document):
    url: str = ""


class Entry(Document, collection="entries"):
    thing: object = None


def test_the_collection_follows_from_the_class_or_is_given() -> None:
    assert (WebPage.collection, Entry.collection) == ("web_pages", "entries")


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_an_id_made_of_parts_tells_different_parts_apart(one: list[str], other: list[str]) -> None:
    assert (Document.make_id(*one) == Document.make_id(*other)) == (one == other)


@pytest.mark.parametrize("id", ("", "a\x00b", "x" * 513))
def test_an_id_that_no_database_keeps_is_refused(id: str) -> None:
    with pytest.raises(ValidationError):
        WebPage(id=id)


@given(st.text())
def test_a_document_is_read_as_it_was_written(url: str) -> None:
    page = WebPage(id="a", url=url)
    assert WebPage.from_json(page.to_json()) == page


def test_fields_of_a_newer_version_are_kept() -> None:
    page = WebPage.from_json('{"id": "a", "url": "u", "since": 7}')
    assert page.to_json() == '{"id":"a","url":"u","since":7}'


def test_what_cannot_be_written_is_named() -> None:
    with pytest.raises(UnserialisableDocument, match="entries/a cannot be written as JSON"):
        Entry(id="a", thing=object()).to_json()
