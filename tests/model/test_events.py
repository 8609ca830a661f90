"""Events name documents, are cut to size, and say by their key what they ask for."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.model.documents import Document
from onward.model.events import (
    MAX_BYTES,
    MAX_IDS,
    Envelope,
    Event,
    EventTooLarge,
    data_text,
    decode,
    idempotency_key,
    names,
    new_id,
    read_event,
)
from onward.retry import Malformed


class Page(Document):
    text: str = ""


class PagesFound(Event):
    page_ids: list[str] = names(Page)
    found_by: str = ""


class PageSeen(Event, version=2):
    page_id: str = names("pages")


class HTTPFailed(Event, type="HTTPFailure", routing_key="http.gone"):
    pass


def test_type_routing_key_and_version_follow_from_the_class_or_are_given() -> None:
    assert (PagesFound.event_type, PagesFound.routing_key, PagesFound.version) == ("PagesFound", "pages.found", 1)
    assert PageSeen.version == 2
    assert (HTTPFailed.event_type, HTTPFailed.routing_key) == ("HTTPFailure", "http.gone")


@pytest.mark.parametrize(
    ("name", "key"),
    (
        ("JSONParsed", "json.parsed"),
        ("ArchiveIngested", "archive.ingested"),
        ("SummaryComplete", "summary.complete"),
    ),
)
def test_routing_keys_keep_abbreviations_together(name: str, key: str) -> None:
    assert type(name, (Event,), {}).routing_key == key  # type: ignore[attr-defined]  # made at run time


def test_a_routing_key_that_no_broker_takes_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 255 bytes"):
        type("Long", (Event,), {}, routing_key="ü" * 128)


def test_an_event_of_documents_fills_the_field_that_names_them() -> None:
    pages = [Page(id="a"), Page(id="b")]
    assert PagesFound.of(pages, found_by="me") == PagesFound(page_ids=["a", "b"], found_by="me")
    assert PageSeen.of(pages[0]) == PageSeen(page_id="a")
    assert PagesFound.of([]) == PagesFound(page_ids=[])
    with pytest.raises(TypeError, match="names no documents of collection 'pages'"):
        HTTPFailed.of(pages)


@given(st.lists(st.text("abc", min_size=1, max_size=600), max_size=1200))
def test_a_large_event_is_cut_into_several_that_name_the_same_documents(ids: list[str]) -> None:
    pieces = Envelope.of(PagesFound(page_ids=ids, found_by="me"), now=0.0)
    named = [json.loads(piece.data)["page_ids"] for piece in pieces]
    assert [id for some in named for id in some] == ids
    assert all(
        len(some) <= MAX_IDS and len(piece.data) <= MAX_BYTES for some, piece in zip(named, pieces, strict=True)
    )
    assert len({piece.event_id for piece in pieces}) == len(pieces)


def test_an_event_that_is_large_in_itself_is_refused() -> None:
    with pytest.raises(EventTooLarge, match="put what is large into a document"):
        Envelope.of(PagesFound(page_ids=[], found_by="x" * MAX_BYTES), now=0.0)


ids = st.lists(st.text(max_size=3), max_size=4, unique=True)


@given(ids, st.randoms(use_true_random=False))
def test_the_key_does_not_depend_on_the_order_of_ids(given: list[str], random: object) -> None:
    other = sorted(given, reverse=True)
    assert key(given) == key(other)


def key(ids: list[str], revision: int = 1, found_by: str = "") -> str:
    data = json.dumps({"page_ids": ids, "found_by": found_by})
    return idempotency_key("PagesFound", data, [(id, revision) for id in ids], ["page_ids"])


@given(ids, ids)
def test_no_two_requests_share_a_key(one: list[str], other: list[str]) -> None:
    assert (key(one) == key(other)) == (sorted(one) == sorted(other))


def test_revision_data_and_type_are_part_of_the_key() -> None:
    assert (
        len({key(["a"]), key(["a"], revision=2), key(["a"], found_by="me"), idempotency_key("Other", "{}")}) == 4
    )


def test_ids_sort_by_time_and_are_unique() -> None:
    made = [new_id() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert [one[:12] for one in made] == sorted(one[:12] for one in made)


@pytest.mark.parametrize(
    ("raw", "why"),
    (
        (b"\xff", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "is a JSON object"),
        (b"{}", "'event_type'"),
        (b'{"event_type": 7}', "'event_type'"),
        (b'{"event_type": "A", "data": []}', "'data'"),
        (b'{"event_type": "A\\u0000"}', "'event_type'"),
        (b'{"event_type": "A", "data": {"x": "\\u0000"}}', "NUL"),
        (b'{"event_type": "A", "data": {"x": "\\ud800"}}', "half a character"),
        (b'{"event_type": "A", "data": {"x": NaN}}', "a number that JSON has not"),
        (b'{"event_type": "A", "data": {"x": 1e999}}', "a number that JSON has not"),
        (b'"' + b"x" * 200_000 + b'"', "larger than"),
    ),
)
def test_what_cannot_be_read_is_malformed_and_says_why(raw: bytes, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        data_text(decode(raw))


@given(st.binary(max_size=200))
def test_whatever_is_sent_is_read_or_called_malformed(raw: bytes) -> None:
    try:
        envelope = decode(raw)
    except Malformed:
        return
    assert isinstance(envelope["event_type"], str)


def test_data_that_breaks_its_schema_names_the_fields_and_not_their_values() -> None:
    with pytest.raises(Malformed, match=r"PagesFound fails its schema: page_ids: .*array") as caught:
        read_event(PagesFound, '{"page_ids": "secret"}')
    assert "secret" not in str(caught.value)


def test_ids_are_cut_by_the_bytes_they_take() -> None:
    ids = [f"{number:03}" + "頁" * 400 for number in range(60)]
    pieces = Envelope.of(PagesFound(page_ids=ids), now=0.0)
    assert [id for piece in pieces for id in json.loads(piece.data)["page_ids"]] == ids
    assert all(len(piece.data.encode()) <= MAX_BYTES for piece in pieces)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
)


@given(st.dictionaries(st.text(st.characters()), JSON, max_size=4))
def test_data_is_kept_as_it_was_sent_or_refused(data: dict[str, object]) -> None:
    raw = json.dumps({"event_type": "A", "data": data}).encode()
    try:
        kept = data_text(decode(raw))
    except Malformed:
        sent = raw.decode()
        assert any(one in sent for one in ("NaN", "Infinity", r"\ud", r"\u0000")), "nothing else is refused"
        return
    assert kept.encode()
    assert json.loads(kept, parse_constant=pytest.fail) == data
