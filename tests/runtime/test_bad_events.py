"""Bad input: what cannot be read is kept with its bytes, and the queue goes on."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from onward import Event, Status, names
from onward.testing import Simulation
from tests.runtime.cast import Noticed, Page, PagesFound, new_app, pages, raw_event, statuses

HUGE = b'{"event_type": "PagesFound", "data": {"page_ids": ["' + b"x" * 50_000_000 + b'"]}}'

UNREADABLE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "not JSON: Expecting value"),
    "not JSON": (b"<xml/>", "not JSON: Expecting value"),
    "half an event": (b'{"event_type": "PagesFound", "data": {"page_', "not JSON: Unterminated string"),
    "not text": (b"\xff\xfe\x00", "not JSON: 'utf-8' codec"),
    "far too deep": (b"[" * 100_000, "not JSON: "),
    "a list": (b"[1, 2]", "an event is a JSON object, this is a list"),
    "a string": (b'"PagesFound"', "an event is a JSON object, this is a str"),
    "null": (b"null", "an event is a JSON object, this is a NoneType"),
    "no type": (b'{"data": {}}', "the field 'event_type' is missing or not a string"),
    "a wrong type": (b'{"event_type": 7}', "the field 'event_type' is missing or not a string"),
    "an unknown type": (
        raw_event("PagesLost", data={}),
        "the event type 'PagesLost' is unknown; known are: Noticed, PagesFound",
    ),
    "data that is a list": (raw_event(data=[1]), "the field 'data' is not an object"),
    "a missing field": (raw_event(data={}), "PagesFound fails its schema: page_ids: Field required"),
    "a wrong field": (raw_event(data={"page_ids": "a"}), "PagesFound fails its schema: page_ids: "),
    "a wrong id": (raw_event(data={"page_ids": [1]}), "PagesFound fails its schema: page_ids.0: "),
    "a field too many": (raw_event(data={"page_ids": [], "colour": 1}), "PagesFound fails its schema: colour: "),
    "a wrong version": (raw_event(version="two", data={"page_ids": []}), "the field 'version' is 'two', not a"),
    "a NUL": (raw_event(data={"page_ids": ["a\x00b"]}), "it contains a NUL character"),
    "a NUL as it is": (b'{"event_type": "Noticed", "data": {"what": "\x00"}}', "not JSON: |contains a NUL"),
    "50 MB": (HUGE, "an event of 50,000,0.. bytes is larger than 128,000"),
}


@pytest.mark.parametrize(("raw", "complaint"), UNREADABLE.values(), ids=UNREADABLE)
def test_it_becomes_a_dead_letter_with_its_bytes(raw: bytes, complaint: str) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    app.service("listening", on=Noticed)(lambda event, work: None)
    with Simulation(app) as world:
        assert app.publish_raw(raw) is None
        app.add(*pages("a"))
        app.publish_raw(raw_event(data={"page_ids": ["a"]}))
        world.drain()
        assert statuses(world, "a") == {"a": Status.PROCESSED}, "the queue goes on"
        (letter,) = world.dead_letters()
        assert letter.abandoned_reason == "malformed"
        assert letter.raw == raw, "not a byte is lost"
        assert re.search(complaint, letter.last_error)


def test_it_lies_in_the_failed_queue_of_whom_it_was_for() -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with Simulation(app) as world:
        app.publish_raw(raw_event(data={"page_ids": 7}))
        app.publish_raw(b"who knows")
        assert {(letter.service_name, letter.failed_queue) for letter in world.dead_letters()} == {
            ("reading", "reading.failed"),
            ("", "events.failed"),
        }
        (stray,) = world.dead_letters("")
        assert not world.store.requeue(stray.row), "there is nobody to give it to"


@pytest.mark.parametrize(
    "envelope",
    (
        {"event_id": "\ud800"},
        {"event_id": ""},
        {"event_id": 7},
        {"event_id": "x" * 10_000},
        {"version": 1, "timestamp": "yesterday", "colour": "blue"},
    ),
    ids=("a surrogate", "empty", "a number", "far too long", "more than we know"),
)
def test_an_odd_envelope_is_no_reason_to_refuse_a_good_event(envelope: dict[str, Any]) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with Simulation(app) as world:
        app.add(*pages("a"))
        app.publish_raw(raw_event(data={"page_ids": ["a"]}, **envelope))
        world.drain()
        assert statuses(world, "a") == {"a": Status.PROCESSED}


@pytest.mark.parametrize(
    "raw",
    (raw_event(version=10**30, data={"page_ids": ["a"]}), b'{"event_type": "\\ud800"}'),
    ids=("a version beyond all bounds", "a type that is no text"),
)
def test_what_no_database_could_write_is_a_dead_letter_too(raw: bytes) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with Simulation(app) as world:
        app.publish_raw(raw)
        world.drain()
        assert [letter.abandoned_reason for letter in world.dead_letters()] == ["malformed"]


def test_what_was_good_when_it_came_may_be_unreadable_for_a_new_release() -> None:
    class Scanned(Event):
        page_ids: list[str] = names(Page)

    class StricterScanned(Event, type="Scanned"):
        page_ids: list[str] = names(Page)
        dpi: int

    old, new = new_app(), new_app()
    old.service("scanning", on=Scanned, finishes=Page)(lambda page, work: None)
    new.service("scanning", on=StricterScanned, finishes=Page)(lambda page, work: None)
    with Simulation(old) as world:
        found = pages("a")
        old.publish(Scanned.of(found), documents=found)
        world.app = new
        world.drain()
        (letter,) = world.dead_letters("scanning")
        assert letter.abandoned_reason == "malformed"
        assert letter.last_error == "Scanned fails its schema: dpi: Field required"
        assert json.loads(letter.raw or b"") == {"page_ids": ["a"]}
        assert statuses(world, "a") == {"a": Status.PENDING}, "the page itself is not to blame"
