"""Events of other programs, as their envelopes and data really look: what is read, what is kept, and once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from onward import App, Event, Work, names
from onward.model.events import read_event
from onward.model.ledger import DeadLetter, DeadLettered, Published, Settlement
from onward.pipeline.documents import Archive, Message
from onward.pipeline.events import ArchiveIngested, EmbeddingGenerationFailed, JSONParsed
from onward.runtime.publisher import ForeignMessage, enter_foreign_events
from tests.support.page_app import Noticed, Page, PagesFound, pages, raw_event
from tests.support.store_pages import failure

GIVEN_UP = {
    "event_type": "EmbeddingGenerationFailed",
    "data": {
        "chunk_ids": ["chunk-123", "chunk-456"],
        "error_message": "Connection to vectorstore timed out",
        "error_type": "TimeoutError",
        "retry_count": 3,
        "failed_at": "2024-01-15T10:30:00Z",
    },
}
PARSED = {
    "event_type": "JSONParsed",
    "event_id": "6f2f9f0e-8a36-4d5e-9d0c-1c6a5a1f0b77",
    "timestamp": "2024-01-15T10:30:00Z",
    "version": "1.0",
    "data": {
        "archive_id": "archive-1",
        "message_doc_ids": ["message-1"],
        "message_count": 1,
        "thread_ids": ["thread-1"],
        "parsing_duration_seconds": 0.4,
    },
}
INGESTED = {
    "event_type": "ArchiveIngested",
    "event_id": "0d2c1f6e-54ac-44c1-8d3e-6ff1f1b3c001",
    "timestamp": "2024-01-15T10:30:00Z",
    "version": "1.0",
    "correlation_id": "run-7",
    "data": {
        "archive_id": "archive-1",
        "source_name": "ietf-quic",
        "source_type": "imap",
        "file_path": "/data/raw_archives/quic.mbox",
        "file_size_bytes": 4096,
        "file_hash_sha256": "ab" * 32,
    },
}
HALF_PAST_TEN = 1_705_314_600.0
PROPERTIES = {"content_type": "application/json", "headers": {"x-try": 2}, "routing_key": "json.parsed"}


def enter(app: App, *events: Any, properties: dict[str, Any] | None = None) -> list[Published | None]:
    """Enter events in one batch, as the gateway does; bytes stay as they are."""
    messages = [
        ForeignMessage(one if isinstance(one, bytes) else json.dumps(one).encode(), properties=properties)
        for one in events
    ]
    return enter_foreign_events(app.store, app.registry.events(), messages)


def listening(app: App, kind: type[Event]) -> list[Event]:
    """A service that takes an event type; return the list of what it gets."""
    heard: list[Event] = []

    @app.service("listening", on=kind)
    def listen(event: Event, work: Work) -> None:
        heard.append(event)

    return heard


# -- what the events of a seed system look like


def test_a_failure_notice_of_another_pipeline_is_read(app: App) -> None:
    heard = listening(app, EmbeddingGenerationFailed)
    (published,) = enter(app, GIVEN_UP)
    assert published is not None
    app.work_until_idle()
    (event,) = heard
    assert isinstance(event, EmbeddingGenerationFailed)
    assert (event.chunk_ids, event.retry_count) == (["chunk-123", "chunk-456"], 3)
    assert event.failed_at.timestamp() == HALF_PAST_TEN
    assert json.loads(event.model_dump_json()) == GIVEN_UP["data"], "it leaves as it came"


@pytest.mark.parametrize("failed_at", ("1705314600.0", '"2024-01-15T10:30:00"', '"2024-01-15T11:30:00+01:00"'))
def test_a_notice_that_was_stored_with_another_form_of_time_is_read(failed_at: str) -> None:
    notice = read_event(EmbeddingGenerationFailed, f'{{"chunk_ids": [], "failed_at": {failed_at}}}')
    assert json.loads(notice.model_dump_json())["failed_at"] == "2024-01-15T10:30:00Z"


def test_a_parsed_message_of_another_pipeline_is_processed(app: App) -> None:
    read: list[str] = []

    @app.service("chunking", on=JSONParsed, finishes=Message)
    def chunk(message: Message, work: Work) -> None:
        read.append(message.id)

    app.add(Message(id="message-1", archive_id="archive-1", thread_id="t", source="s", origin="o", kind="mbox"))
    assert enter(app, PARSED) == [Published(str(PARSED["event_id"]), rows=1)]
    app.work_until_idle()
    assert read == ["message-1"]


def test_an_ingested_archive_of_another_pipeline_keeps_the_fields_that_are_unknown_here(app: App) -> None:
    app.service("parsing", on=ArchiveIngested, finishes=Archive)(lambda archive, work: None)
    enter(app, INGESTED, properties=PROPERTIES)
    (delivery,) = app.store.claim("anna", "parsing", limit=1, lease=60.0)
    assert json.loads(delivery.data) == INGESTED["data"]
    assert delivery.timestamp == HALF_PAST_TEN
    letter = given_up(app)
    assert letter.raw == json.dumps(INGESTED).encode(), "the envelope has a field that no column has"
    assert letter.properties == PROPERTIES


def given_up(app: App) -> DeadLetter:
    """Return the dead letter of the claimed event, after it has failed for good."""
    (delivery,) = app.store.claimed("anna")
    parts = [DeadLettered([given.id for given in delivery.inputs], failure=failure())]
    app.store.settle([Settlement(delivery.row, delivery.token, delivery.collection, parts=parts)])
    (letter,) = app.store.dead_letters()
    return letter


# -- versions and times


class Scanned(Event, version=2):
    what: str = ""


@pytest.mark.parametrize("version", ("2.3", "2", "1.0", "1", 2, 1, 2.0, " v2.0.1 ", None))
def test_the_major_number_of_a_version_counts(app: App, version: object) -> None:
    heard = listening(app, Scanned)
    assert enter(app, {"event_type": "Scanned", "version": version, "data": {"what": "x"}}) != [None]
    app.work_until_idle()
    assert heard == [Scanned(what="x")]


@pytest.mark.parametrize("version", ("", "two", "0.9", 0, -1, 1.5, True, [], "99999999999999999999", 10**30))
def test_what_is_no_version_is_malformed(app: App, version: object) -> None:
    listening(app, Scanned)
    assert enter(app, {"event_type": "Scanned", "version": version, "data": {}}) == [None]
    (letter,) = app.store.dead_letters("listening")
    assert letter.last_error.startswith("the field 'version' is ")


def test_a_newer_version_has_its_bytes_and_properties_when_nobody_can_read_it(app: App) -> None:
    listening(app, Scanned)
    raw = b'{"event_type":"Scanned", "version": "3.1", "data": {"where": "here"}}'
    assert enter(app, raw, properties=PROPERTIES) != [None]
    app.work_until_idle()
    (letter,) = app.store.dead_letters("listening")
    assert (letter.raw, letter.properties, letter.abandoned_reason) == (raw, PROPERTIES, "malformed")
    assert letter.original_event is not None
    assert letter.original_event["data"] == {"where": "here"}


@pytest.mark.parametrize(
    "written", ("2024-01-15T10:30:00Z", "2024-01-15T11:30:00+01:00", 1705314600, 1705314600000)
)
def test_the_time_of_the_event_is_the_senders(app: App, written: object) -> None:
    listening(app, Noticed)
    enter(app, {"event_type": "Noticed", "timestamp": written, "data": {}})
    (delivery,) = app.store.claim("anna", "listening", limit=1, lease=60.0)
    assert delivery.timestamp == HALF_PAST_TEN


@pytest.mark.parametrize("written", ("yesterday", -5, [], 1e300))
def test_a_time_that_cannot_be_read_is_no_reason_to_refuse_the_event(app: App, written: object) -> None:
    listening(app, Noticed)
    before = app.store.now()
    assert enter(app, {"event_type": "Noticed", "timestamp": written, "data": {}}) != [None]
    (delivery,) = app.store.claim("anna", "listening", limit=1, lease=60.0)
    assert delivery.timestamp >= before - 1


# -- fields that are unknown


class Scanner(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str = ""


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = ""


class Detailed(Event):
    scanner: Scanner = Scanner()
    inner: Inner = Inner()


def test_a_class_that_allows_more_fields_inside_keeps_them(app: App) -> None:
    heard = listening(app, Detailed)
    enter(app, {"event_type": "Detailed", "data": {"scanner": {"name": "a", "dpi": 300}, "more": 1}})
    app.work_until_idle()
    (event,) = heard
    assert isinstance(event, Detailed)
    assert event.scanner.model_extra == {"dpi": 300}


def test_a_class_that_forbids_more_fields_inside_ignores_them_too(app: App) -> None:
    heard = listening(app, Detailed)
    raw = json.dumps({"event_type": "Detailed", "data": {"inner": {"name": "a", "new": 1}}}).encode()
    enter(app, raw)
    app.work_until_idle()
    assert heard == [Detailed(inner=Inner(name="a"))]


def test_data_that_the_class_would_lose_is_kept_as_bytes(app: App) -> None:
    listening(app, Detailed)
    raw = json.dumps({"event_type": "Detailed", "data": {"inner": {"name": "a", "new": 1}}}).encode()
    enter(app, raw)
    app.store.claim("anna", "listening", limit=1, lease=60.0)
    assert given_up(app).raw == raw


def test_an_event_of_our_own_still_refuses_fields_that_it_does_not_have() -> None:
    with pytest.raises(ValueError, match="colour"):
        PagesFound(page_ids=[], colour="red")  # type: ignore[call-arg]


def test_an_event_without_unknown_fields_is_the_same_as_our_own(app: App) -> None:
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    found = pages("a")
    app.publish(PagesFound.of(found), documents=found)
    (published,) = enter(app, {"event_type": "PagesFound", "data": {"page_ids": ["a"]}})
    assert published is not None
    assert (published.rows, published.duplicates) == (0, 1)


# -- a batch


def test_a_batch_has_a_result_for_each_message_in_order(app: App) -> None:
    listening(app, Noticed)
    results = enter(
        app,
        raw_event("Noticed", event_id="one", data={"what": "1"}),
        b"\xff not JSON",
        raw_event("Noticed", event_id="one", data={"what": "again"}),
        raw_event("Noticed", data={"what": "2"}),
        raw_event("Unheard", data={}),
    )
    assert [one and (one.rows, one.duplicates) for one in results] == [(1, 0), None, (0, 1), (1, 0), None]
    assert app.store.counts() == {"listening": {"waiting": 2}, "": {"dead": 2}}


def test_of_a_batch_that_cannot_be_stored_only_the_culprit_is_a_dead_letter(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    listening(app, Noticed)
    whole = app.store.publish

    def fragile(envelopes: Any) -> list[Published]:
        published = whole(envelopes)
        if any('"bad"' in one.data for one in envelopes):
            with app.store.transaction():
                raise RuntimeError("the database has a bad day")
        return published

    monkeypatch.setattr(app.store, "publish", fragile)
    events = [raw_event("Noticed", event_id=what, data={"what": what}) for what in ("a", "bad", "b")]
    results = enter(app, *events, properties=PROPERTIES)
    assert [one and one.rows for one in results] == [1, None, 1]
    (letter,) = app.store.dead_letters()
    assert (letter.raw, letter.properties, letter.error_type) == (events[1], PROPERTIES, "RuntimeError")


def test_properties_that_json_has_not_are_written_as_text(app: App) -> None:
    listening(app, Noticed)
    enter(app, b"?", properties={"headers": {"blob": b"\xff", "at": pytest, 7: "a number as a name"}})
    enter(app, b"?", properties={"headers": {"ratio": float("nan")}})
    first, second = (letter.properties for letter in app.store.dead_letters())
    assert first is not None
    assert first["headers"]["blob"] == "\\xff"
    assert second == {"properties": "{'headers': {'ratio': nan}}"}


def test_what_could_be_decoded_of_a_message_is_its_original_event(app: App) -> None:
    listening(app, Noticed)
    enter(app, b'{"event_type": "Noticed", "colour": "red", "data": {"what": NaN}}', b"[1]", b"\xff")
    decoded = [letter.original_event for letter in app.store.dead_letters()]
    assert decoded == [{"event_type": "Noticed", "colour": "red", "data": {"what": "NaN"}}, None, None]


# -- events that name documents


def test_a_document_that_an_unknown_field_names_is_nobodys_business(app: App) -> None:
    class Seen(Event):
        page_id: str = names(Page)

    app.service("seeing", on=Seen, finishes=Page)(lambda page, work: None)
    app.add(*pages("a", "b"))
    enter(app, {"event_type": "Seen", "data": {"page_id": "a", "page_ids": ["b"]}})
    app.work_until_idle()
    assert app.store.statuses(Page, ["a", "b"]) == {"a": "processed", "b": "pending"}
