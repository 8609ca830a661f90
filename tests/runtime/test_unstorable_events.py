"""Events that not every store can hold are refused at every entrance, with their bytes; no list breaks by them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from onward import App, Event, OnwardError, Work
from tests.support.command_runs import onward
from tests.support.console_client import serving
from tests.support.page_app import Noticed, Page, PagesFound, raw_event

DEEP = 200


class Measured(Event):
    value: float = 0.0
    more: Any = None


def measured(value: str, *, version: int = 1) -> bytes:
    """A measurement as another program would send it; the value is JSON, or nearly."""
    return f'{{"event_type": "Measured", "version": {version}, "data": {{"value": 1, "more": {value}}}}}'.encode()


VALUES = {
    "half a character": r'"\ud800"',
    "half a character as a name": r'{"\udfff": 1}',
    "the other half": r'["a\udc00b"]',
    "not a number": "NaN",
    "infinity": "[-Infinity]",
    "a number beyond all bounds": "1e999",
    "a small number beyond all bounds": '{"a": -1e999}',
    "a NUL": r'"a\u0000b"',
    "a NUL as a name": r'{"\u0000": 1}',
    "nested too deeply": "[" * DEEP + "]" * DEEP,
}
RAW = {
    f"{name}, version {version}": measured(value, version=version)
    for name, value in VALUES.items()
    for version in (1, 2)
}
RAW["a type of a thousand letters"] = raw_event("M" * 10_000, data={})


def listening(app: App) -> App:
    app.service("measuring", on=Measured)(lambda event, work: None)
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    return app


@pytest.mark.parametrize("raw", RAW.values(), ids=RAW)
def test_an_event_of_others_becomes_a_dead_letter_with_its_exact_bytes(app: App, raw: bytes) -> None:
    listening(app)
    assert app.publish_raw(raw) is None
    (letter,) = app.store.dead_letters()
    assert (letter.abandoned_reason, letter.raw) == ("malformed", raw)


def test_what_only_looks_like_that_is_taken(app: App) -> None:
    heard: list[Any] = []

    @app.service("measuring", on=Measured)
    def listen(event: Measured, work: Work) -> None:
        heard.append(event.more)

    values = [r"\u0000", "NaN", "Infinity", "1e999", "\U0001f600", 1e300, 10**30, [[[[]]]], "\\ud800"]
    for value in values:
        assert app.publish_raw(raw_event("Measured", data={"more": value})) is not None
    app.publish(*(Measured(more=value) for value in values))
    app.work_until_idle()
    assert app.store.dead_letters() == []
    # No order is promised: the handler runs in several threads. Events that are published twice merge.
    assert sorted(json.dumps(value) for value in heard) == sorted(json.dumps(value) for value in values)


def test_a_newer_version_may_name_documents_as_it_likes(app: App) -> None:
    listening(app)
    raw = raw_event(version=2, data={"page_ids": [1, "a", None, {"id": "b"}]})
    published = app.publish_raw(raw)
    assert published is not None
    assert published.rows == 1
    assert app.publish_raw(raw) is not None
    app.work_until_idle()
    assert {letter.abandoned_reason for letter in app.store.dead_letters()} == {"malformed"}


OWN: dict[str, Any] = {
    "half a character": "\ud800",
    "half a character as a name": {"\ud800": 1},
    "not a number": math.nan,
    "infinity": {"a": [math.inf]},
    "a NUL": "a\x00b",
    "nested too deeply": json.loads("[" * DEEP + "]" * DEEP),
}


@pytest.mark.parametrize("value", OWN.values(), ids=OWN)
def test_what_an_app_publishes_is_refused_at_once(app: App, value: Any) -> None:
    listening(app)
    with pytest.raises(ValueError, match="Measured cannot be stored") as refused:
        app.publish(Measured(more=value), documents=[Page(id="a")])
    assert isinstance(refused.value, OnwardError)
    assert app.store.counts() == app.store.document_counts() == {}


def test_a_number_that_is_none_is_not_published_as_null(app: App) -> None:
    with pytest.raises(ValueError, match=r"Measured cannot be stored: .*NaN"):
        app.publish(Measured(value=math.nan))


@pytest.mark.parametrize("value", OWN.values(), ids=OWN)
def test_a_handler_that_emits_it_fails_alone(app: App, value: Any) -> None:
    listening(app)

    @app.service("noticing", on=Noticed)
    def notice(event: Noticed, work: Work) -> None:
        work.emit(Measured(more=value if event.what == "bad" else 1))

    app.publish(Noticed(what="good"), Noticed(what="bad"))
    app.work_until_idle()
    (letter,) = app.store.dead_letters()
    assert (letter.service_name, letter.abandoned_reason, letter.error_type) == (
        "noticing",
        "non_retryable",
        "WorkMisused",
    )
    assert app.store.counts()["measuring"] == {"done": 1}


def test_no_list_breaks(app: App, store_url: str, tmp_path: Path) -> None:
    listening(app)
    for raw in RAW.values():
        app.publish_raw(raw)
    app.publish_raw(measured("7", version=3))
    app.publish_raw(raw_event(version=2, data={"page_ids": [1, "a", None]}))
    app.work_until_idle()
    count = len(app.store.dead_letters(limit=1000))
    assert count == len(RAW) + 2
    assert len(app.store.find_dead_letters(limit=1000)) == count

    more = {"ONWARD_STORE": store_url}
    listed = onward(tmp_path, "failed", "list", "--json", more=more)
    assert listed.exit_code == 0, listed.output
    assert sum(one["dead_letters"] for one in json.loads(listed.stdout)) == count
    exported = onward(tmp_path, "failed", "export", "--all", more=more)
    assert exported.exit_code == 0, exported.output
    assert len([json.loads(line) for line in exported.stdout.splitlines()]) == count
    with serving(app) as site:
        for letter in app.store.dead_letters(limit=1000):
            site.page(f"/letters/{letter.row}")
        for queue in ("measuring.failed", "reading.failed", "events.failed"):
            site.page(f"/queues/{queue}")
            answer = site.client.get(f"/v3/failed-queues/{queue}")
            assert answer.status_code == 200, answer.text
            assert json.loads(answer.content)["dead_letters"]
