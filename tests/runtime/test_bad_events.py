"""Bad input: what cannot be read is kept with its bytes, and the queue goes on."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pydantic import field_validator

from onward import App, Event, Status, Work, names
from onward.ledger.store_errors import StoreUnavailable
from onward.model.ledger import MAX_RAW_BYTES
from onward.testing import Simulation
from tests.support.page_app import Noticed, Page, PagesFound, new_app, pages, raw_event, statuses

HUGE = b'{"event_type": "PagesFound", "data": {"page_ids": ["' + b"x" * 50_000_000 + b'"]}}'

UNREADABLE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "not JSON: Expecting value"),
    "not JSON": (b"<xml/>", "not JSON: Expecting value"),
    "half an event": (b'{"event_type": "PagesFound", "data": {"page_', "not JSON: Unterminated string"),
    "not text": (b"\xff\xfe\x00", "not JSON: 'utf-8' codec"),
    "far too deep": (b"[" * 100_000, "not JSON: "),
    "a list": (b"[1, 2]", "an event is a JSON object, not an array"),
    "a string": (b'"PagesFound"', "an event is a JSON object, not a string"),
    "null": (b"null", "an event is a JSON object, not null"),
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
        assert letter.raw == raw[:MAX_RAW_BYTES]
        assert re.search(complaint, letter.last_error)
        assert ("bytes are kept" in letter.last_error) == (len(raw) > MAX_RAW_BYTES), "what is lost is said"


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


class Shipped(Event):
    """An event whose own validator has a bug."""

    page_ids: list[str] = names(Page)
    carrier: str = ""

    @field_validator("carrier")
    @classmethod
    def _known(cls, carrier: str) -> str:
        if carrier:
            BROKEN_VALIDATORS[carrier]()
        return carrier


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def look_up() -> None:
    raise KeyError("\ud800 and a NUL \x00")


def recurse() -> None:
    recurse()


def leave() -> None:
    raise SystemExit(3)


def say_nothing() -> None:
    raise Unspeakable


def find_store_away() -> None:
    raise StoreUnavailable("it only says so")


BROKEN_VALIDATORS = {one.__name__: one for one in (look_up, recurse, leave, say_nothing, find_store_away)}


def publish_shipped(app: App, *ids: str, carrier: str) -> None:
    """Announce pages with an event that the validator above cannot read."""
    found = pages(*ids)
    app.publish(Shipped.model_construct(page_ids=list(ids), carrier=carrier), documents=found)


@pytest.mark.parametrize("is_async", (False, True), ids=("def", "async def"))
@pytest.mark.parametrize("bug", BROKEN_VALIDATORS)
def test_whatever_a_validator_raises_is_the_failure_of_its_event_alone(app: App, bug: str, is_async: bool) -> None:
    def read(page: Page, work: Work) -> None: ...

    async def read_async(page: Page, work: Work) -> None: ...

    app.service("shipping", on=Shipped, finishes=Page)(read_async if is_async else read)
    app.service("reading", on=PagesFound, finishes=Page)(read)
    publish_shipped(app, "before", carrier="")
    publish_shipped(app, "bad", carrier=bug)
    publish_shipped(app, "after", carrier="")
    other = pages("other")
    app.publish(PagesFound.of(other), documents=other)
    app.work_until_idle()

    statuses = app.store.statuses(Page, ["before", "bad", "after", "other"])
    assert statuses == {"before": "processed", "bad": "pending", "after": "processed", "other": "processed"}
    (letter,) = app.store.dead_letters()
    assert (letter.service_name, letter.abandoned_reason) == ("shipping", "malformed")
    assert json.loads(letter.raw or b"") == {"page_ids": ["bad"], "carrier": bug}
    assert letter.documents == (("pages", "bad"),)


@pytest.mark.parametrize("batch", (None, 2))
def test_an_unreadable_event_of_many_documents_is_one_dead_letter(app: App, batch: int | None) -> None:
    ran: list[object] = []

    @app.service("shipping", on=Shipped, finishes=Page, batch=batch)
    def ship(pages: Page | list[Page], work: Work) -> None:
        ran.append(pages)

    publish_shipped(app, *"abcdefgh", carrier="look_up")
    app.work_until_idle()
    (letter,) = app.store.dead_letters()
    assert (letter.abandoned_reason, len(letter.documents), ran) == ("malformed", 8, [])
    assert app.store.counts()["shipping"].get("waiting", 0) == 0
    assert app.store.claimed_count(["shipping"]) == 0


@pytest.mark.parametrize("bug", BROKEN_VALIDATORS)
def test_an_event_of_others_whose_validator_has_a_bug_is_kept_with_its_bytes(app: App, bug: str) -> None:
    app.service("shipping", on=Shipped, finishes=Page)(lambda page, work: None)
    raw = raw_event("Shipped", data={"page_ids": ["a"], "carrier": bug})
    assert app.publish_raw(raw) is None
    (letter,) = app.store.dead_letters("shipping")
    assert (letter.abandoned_reason, letter.raw) == ("malformed", raw)
