"""Documents over HTTP: listed, looked at, followed, tried again, cancelled, forgotten."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from onward import Work
from onward.console.api import documents
from onward.ops.queries.document_details import ProgressReader
from onward.ops.queries.titles import find_titles
from onward.pipeline.documents import Archive, source_id
from onward.pipeline.sources import submit
from onward.recovery.retry_decision import RetryJobRules
from onward.recovery.retry_job import RetryJob
from tests.console.shop import ODD, open_shop
from tests.console.test_api_submitting import assert_problem
from tests.support.command_runs import SAMPLE
from tests.support.console_client import Site, pipeline, serving

PRIVATE = {"url": "http://127.0.0.1:9/secret"}
"""It is refused when it is fetched."""


def get(site: Site, path: str) -> dict[str, Any]:
    answer = site.client.get(path)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def submit_text(site: Site, text: str) -> str:
    id: str = site.client.post("/v3/documents", json={"content": text}).json()["id"]
    return id


def pages(site: Site, path: str) -> Iterator[list[dict[str, Any]]]:
    """All pages of a list."""
    after = ""
    while after is not None:
        told = get(site, f"{path}&after={quote(after)}")
        yield told["documents"]
        after = told["next"]


# -- lists


def test_submitted_documents_are_listed_page_by_page(site: Site) -> None:
    ids = {submit_text(site, f"Note {n}.") for n in range(7)}
    submit(site.app, f"http://example.org/{'x'}")
    submit(site.app, f"http://example.org/{'x'}")  # once more: it stays one document
    listed = list(pages(site, "/v3/documents?limit=3"))
    assert [len(one) for one in listed] == [3, 3, 2]
    assert {one["id"] for page in listed for one in page} == ids | {source_id("http://example.org/x")}


def test_pages_stay_the_same_while_others_come(site: Site) -> None:
    before = {submit_text(site, f"Note {n}.") for n in range(6)}
    seen: list[str] = []
    for page in pages(site, "/v3/documents?limit=2"):
        seen += [one["id"] for one in page]
        submit_text(site, f"Another {len(seen)}.")
    assert before <= set(seen)
    assert len(seen) == len(set(seen))


def test_lists_are_filtered(site: Site) -> None:
    note, secret = submit_text(site, "A note."), site.client.post("/v3/documents", json=PRIVATE).json()["id"]
    site.app.work_until_idle()
    waiting = submit_text(site, "Another note.")

    def listed(**filters: str) -> set[str]:
        return {one["id"] for one in get_list(site, **filters)}

    assert listed(status="done") == {note}
    assert listed(status="failed") == {secret}
    assert listed(status="queued") == {waiting}
    assert listed(source=PRIVATE["url"]) == listed(source=secret) == listed(source="secret") == {secret}
    (message,) = get_list(site, collection="messages")
    assert (message["status"], message["collection"]) == ("done", "messages")
    assert get_list(site, collection="messages", source=secret) == []
    assert {one["id"] for one in get_list(site, collection="archives", status="failed")} == {secret}
    assert get_list(site, collection="nothing") == []
    assert_problem(site.client.get("/v3/documents?status=odd"), 422, "status", "'odd'", "'queued'")
    assert_problem(site.client.get("/v3/documents?limit=0"), 422, "limit", "'0'", "greater")
    assert_problem(site.client.get("/v3/documents?source=/etc/passwd"), 404, "'/etc/passwd'")


def get_list(site: Site, **filters: str) -> list[dict[str, Any]]:
    answer = site.client.get("/v3/documents", params=filters)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["documents"]
    return found


def test_a_page_costs_a_bounded_look(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where little matches, a page may be empty, and leads on."""
    monkeypatch.setattr(documents, "LOOKED_THROUGH", 2)
    ids = [submit_text(site, f"Note {n}.") for n in range(5)]
    site.app.store.discard("archives", ids[3])
    found = list(pages(site, "/v3/documents?status=failed"))
    assert len(found) == 3
    assert [one["id"] for page in found for one in page] == [ids[3]]


# -- one of them


def test_a_source_tells_all_that_came_from_it(library: Site) -> None:
    told = get(library, f"/v3/documents/{source_id(str(SAMPLE))}")
    assert (told["status"], told["collection"]) == ("done", "archives")
    assert told["documents"]["messages"]["processed"] > 10
    assert told["processing_metadata"]["failed_documents"] == 1
    assert told["next"]["kind"] == "processed"
    assert told["content"]["source"] == str(SAMPLE)


@pytest.mark.parametrize("collection", ("messages", "chunks", "threads", "summaries"))
def test_any_other_document_is_told_by_its_id(library: Site, collection: str) -> None:
    id = library.app.store.states(collection, limit=1)[0].id
    named = get(library, f"/v3/documents/{collection}/{id}")
    assert (named["collection"], named["id"], named["content"]["id"]) == (collection, id, id)
    if collection != "summaries":  # its thread has the same id, and comes first
        assert get(library, f"/v3/documents/{id}") == named
    assert get(library, f"/v3/documents/{collection}/{id}/status")["status"] in ("done", "failed")


def test_an_id_may_hold_anything(tmp_path: Path) -> None:
    with open_shop(tmp_path) as shop:
        shop.on.bring(ODD)
        for path in (quote(ODD, safe=""), f"pages/{quote(ODD, safe='')}"):
            assert get(shop.site, f"/v3/documents/{path}")["id"] == ODD
            assert get(shop.site, f"/v3/documents/{path}/status")["status"] == "queued"
        shop.on.take()
        assert get(shop.site, f"/v3/documents/{quote(ODD, safe='')}/status")["status"] == "processing"


@pytest.mark.parametrize("id", ("nothing", "messages/nothing", "%00", "..%2F..%2Fetc%2Fpasswd", "x" * 3000))
def test_an_unknown_id_is_not_found(library: Site, id: str) -> None:
    for answer in (
        library.client.get(f"/v3/documents/{id}"),
        library.client.get(f"/v3/documents/{id}/status"),
        library.client.get(f"/v3/documents/{id}/events"),
        library.client.post(f"/v3/documents/{id}/retry"),
        library.client.post(f"/v3/documents/{id}/cancel"),
        library.client.delete(f"/v3/documents/{id}"),
    ):
        assert_problem(answer, 404, "there is no document", "GET /v3/documents lists them")


# -- following


def events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith("data:"):
            yield json.loads(line.removeprefix("data:"))


def test_a_document_is_followed_to_its_end(site: Site) -> None:
    id = submit_text(site, "A note.")
    with site.client.stream("GET", f"/v3/documents/{id}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        told = events(stream.iter_lines())
        assert next(told)["status"] == "queued"
        site.app.work_until_idle()
        assert [*told][-1]["status"] == "done", "and then the stream ends"


def test_all_who_follow_a_document_share_one_look(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    id = submit_text(site, "A note.")
    looks: list[str] = []

    def counted(app: Any) -> Any:
        looks.append(id)
        return ProgressReader(app)

    with site.client.stream("GET", f"/v3/documents/{id}/events") as one:
        first = events(one.iter_lines())
        assert next(first)["status"] == "queued"
        monkeypatch.setattr(documents, "ProgressReader", counted)
        others = [site.client.stream("GET", f"/v3/documents/{id}/events") for _ in range(5)]
        for each in others:
            assert next(events(each.__enter__().iter_lines()))["status"] == "queued"
        assert len(looks) <= 5, "who comes later is told what is known"
        site.client.post(f"/v3/documents/{id}/cancel")
        assert next(first)["status"] == "failed"
        for each in others:
            each.__exit__(None, None, None)


def test_who_follows_a_document_that_is_forgotten_is_told(site: Site) -> None:
    id = submit_text(site, "A note.")
    with site.client.stream("GET", f"/v3/documents/{id}/events") as stream:
        told = events(stream.iter_lines())
        next(told)
        site.client.delete(f"/v3/documents/{id}")
        (last,) = told
        assert (last["status"], last["processing_metadata"]["error"]) == ("failed", "it was forgotten")


# -- changing


def actions(site: Site) -> list[tuple[str, str, int]]:
    return [(one.via, one.action, one.touched) for one in reversed(site.app.store.actions())]


def test_a_failed_document_is_tried_again(tmp_path: Path) -> None:
    app = pipeline(tmp_path / "home", ONWARD_FETCH_ALLOW_PRIVATE="false")
    with serving(app) as site:
        id = site.client.post("/v3/documents", json=PRIVATE).json()["id"]
        app.work_until_idle()
        assert get(site, f"/v3/documents/{id}/status")["status"] == "failed"
        answer = site.client.post(f"/v3/documents/{id}/retry")
        assert (answer.status_code, answer.json()["touches"]) == (200, 1)
        told = get(site, f"/v3/documents/{id}/status")
        assert (told["status"], told["tries"]) == ("queued", 1)
        assert actions(site) == [("api", "retry", 1)]
    app.close()


def test_the_tries_of_a_fetch_are_counted_until_the_third_fails_the_round(site: Site) -> None:
    def fetch(archive: Archive, work: Work) -> None:
        raise ConnectionError("getaddrinfo ENOTFOUND this-domain-does-not-exist-12345.invalid")

    services = site.app.registry.services
    services["ingestion"] = replace(services["ingestion"], handler=fetch)
    url = "https://this-domain-does-not-exist-12345.invalid"
    id = site.client.post("/v3/documents", json={"url": url, "type": "url"}).json()["id"]
    path = f"/v3/documents/{id}"
    told = get(site, f"{path}/status")
    assert (told["status"], told["attemptsMade"], told["failedReason"]) == ("queued", 0, None)
    for number in (1, 2, 3):
        site.app.work_until_idle()
        told = get(site, f"{path}/status")
        assert (told["status"], told["attemptsMade"], told["rounds"]) == ("queued", number, 1)
        assert told["failedReason"].startswith("ConnectionError: getaddrinfo ENOTFOUND")
        assert told["failedReason"] == told["processing_metadata"]["error"]
        assert told["next_retry"] is not None
        site.client.post(f"{path}/retry")  # do not wait for that
    RetryJob(site.app.store, site.app.registry, RetryJobRules(), holder="a test").run()
    site.app.work_until_idle()
    told = get(site, path)
    assert (told["tries"], told["attemptsMade"]) == (4, 1), "a new round counts anew"
    assert (told["attemptCount"], told["lastError"]["error_type"]) == (2, "ConnectionError")
    assert all(datetime.fromisoformat(told[name]) for name in ("lastAttemptTime", "createdAt", "updatedAt"))


def test_a_chunk_says_whether_it_is_embedded(library: Site) -> None:
    chunks, messages = (get_list(library, collection=name) for name in ("chunks", "messages"))
    assert {one["embedding_generated"] for one in chunks} == {True}
    assert {one["embedding_generated"] for one in messages} == {None}


def test_what_is_done_is_not_tried_again(site: Site) -> None:
    id = submit_text(site, "A note.")
    site.app.work_until_idle()
    assert_problem(site.client.post(f"/v3/documents/{id}/retry"), 409, "Nothing of it failed", "reset it")
    assert "The source is fetched anew" in site.page(f"/confirm/retry-submitted?id={id}&reset=yes")
    answer = site.client.post(f"/v3/documents/{id}/retry", json={"reset": True})
    assert answer.json()["touches"] == 1
    assert_problem(site.client.post(f"/v3/documents/{id}/retry", json={"reset": "x"}), 422, "reset", "'x'")


def test_cancelling_gives_up_what_is_not_finished(site: Site) -> None:
    id = submit_text(site, "A note.")
    answer = site.client.post(f"/v3/documents/{id}/cancel")
    assert (answer.status_code, answer.json()["touches"], answer.json()["final"]) == (200, 1, False)
    told = get(site, f"/v3/documents/{id}/status")
    assert (told["status"], told["processing_metadata"]["error"]) == ("failed", "cancelled by an operator")
    site.app.work_until_idle()
    assert site.app.store.states("messages") == []
    assert_problem(site.client.post(f"/v3/documents/{id}/cancel"), 409, "nothing to cancel")
    site.client.post(f"/v3/documents/{id}/retry")
    assert get(site, f"/v3/documents/{id}/status")["status"] == "queued", "retrying undoes it"
    site.client.post(f"/v3/documents/{id}/cancel")
    assert get(site, f"/v3/documents/{id}/status")["status"] == "failed", "and cancelling that"


def test_cancelling_halfway_keeps_what_is_finished(site: Site) -> None:
    id = submit_text(site, "A note.")
    site.app.work_until_idle(["ingestion", "parsing"])
    assert site.client.post(f"/v3/documents/{id}/cancel").json()["touches"] == 2  # its message and its thread
    site.app.work_until_idle()
    assert site.app.store.document_counts()["archives"] == {"processed": 2}
    assert "chunks" not in site.app.store.document_counts()


def test_forgetting_removes_all_that_came_from_a_document(site: Site) -> None:
    id, other = submit_text(site, "A note."), submit_text(site, "Another note.")
    site.app.work_until_idle()
    told = site.client.delete(f"/v3/documents/{id}?dry_run=true")
    assert (told.status_code, told.json()["documents"], told.json()["dry_run"]) == (200, 9, True)
    assert get(site, f"/v3/documents/{id}")
    assert site.client.delete(f"/v3/documents/{id}").status_code == 204
    assert_problem(site.client.get(f"/v3/documents/{id}"), 404)
    assert get(site, f"/v3/documents/{other}")["status"] == "done"
    assert actions(site) == [("api", "forget", 9)]


def test_forgetting_much_takes_a_while(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    id = submit_text(site, "A note.")
    monkeypatch.setattr("onward.ops.actions.sources.MAX_QUICK_CHANGE", 0)
    answer = site.client.delete(f"/v3/documents/{id}")
    where = answer.json()["operation"]
    assert (answer.status_code, answer.headers["location"]) == (202, where)
    operation = site.client.get("/v3/operations").json()[0]["id"]
    found = site.app.store  # the operation ends by itself; whoever asks sees when
    while get(site, where)["running"]:
        pass
    assert found.document_counts() == {}
    told = get(site, f"/v3/operations/{operation}")
    assert (told["problem"], told["text"].endswith("2 documents removed.")) == (None, True)


def test_only_a_source_can_be_forgotten(library: Site) -> None:
    id = library.app.store.states("messages", limit=1)[0].id
    assert_problem(library.client.delete(f"/v3/documents/{id}"), 409, f"messages/{id}", "forget its source")


def test_one_document_of_a_source_is_given_up_and_put_back(site: Site) -> None:
    submit_text(site, "A note.")
    site.app.work_until_idle(["ingestion", "parsing"])
    id = site.app.store.states("messages")[0].id
    assert site.client.post(f"/v3/documents/{id}/cancel").status_code == 200
    assert get(site, f"/v3/documents/{id}/status")["status"] == "failed"
    assert site.client.post(f"/v3/documents/{id}/retry").json()["touches"] == 1
    assert get(site, f"/v3/documents/{id}/status")["status"] == "queued"


# -- tasks


def test_tasks_tell_how_they_go(site: Site) -> None:
    submit(site.app, str(SAMPLE))
    (task,) = get(site, "/v3/tasks")["tasks"]
    assert (task["status"], task["document_id"], task["current"]) == ("running", source_id(str(SAMPLE)), True)
    before = get(site, f"/v3/tasks/{task['id']}")
    assert (before["pending"], before["done"]) == (1, 1)
    site.app.work_until_idle()
    after = get(site, f"/v3/tasks/{task['id']}")
    assert (after["status"], after["pending"], after["failed"]) == ("partially_completed", 0, 1)
    assert after["done"] == after["total"]
    assert after["failures"][0]["collection"] == "messages"
    assert after["messages"]["parsed"] > 10
    submit(site.app, str(SAMPLE))
    first = get(site, "/v3/tasks?limit=1")
    second = get(site, f"/v3/tasks?limit=1&after={first['next']}")
    assert {one["tasks"][0]["current"] for one in (first, second)} == {True, False}
    assert second["next"] is None
    assert_problem(site.client.get("/v3/tasks/nothing"), 404, "'nothing'", "GET /v3/tasks")


def test_the_request_of_a_source_is_what_is_listed(library: Site) -> None:
    (found,) = get_list(library)
    assert found["id"] == source_id(str(SAMPLE))
    assert library.app.get(Archive, found["id"]) is not None


def test_documents_are_listed_with_their_titles_and_found_by_them(library: Site) -> None:
    (chunk,) = library.app.store.states("chunks", limit=1)  # not of any message: some have no text
    id = (chunk.parent or "").partition("/")[2]
    message = {"id": id, "title": find_titles(library.app, [("messages", id)])["messages", id]}
    assert message["title"]
    words = urlencode({"title": message["title"], "limit": 100})
    found = get(library, f"/v3/documents?{words}")["documents"]
    assert message["id"] in {one["id"] for one in found}
    assert {"messages", "threads"} <= {one["collection"] for one in found}
    chunks = get(library, f"/v3/documents?{words}&collection=chunks")["documents"]
    assert {one["title"].partition(" of ")[0].split()[0] for one in chunks} == {"chunk"}
    first = get(library, f"/v3/documents?{words.replace('limit=100', 'limit=1')}")
    second = get(library, f"/v3/documents?{words}&{urlencode({'after': first['next']})}")
    assert len(first["documents"]) + len(second["documents"]) == len(found)
    assert get(library, "/v3/documents?title=zzzz-nothing")["documents"] == []
