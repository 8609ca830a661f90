"""Submitting documents over HTTP: URLs, texts and files; each once, however often it is sent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import httpx2
import pytest

from onward.blobs import Blob
from onward.console.api import submissions
from onward.pipeline.documents import Archive, Message
from tests.console.shop import open_shop
from tests.support.console_client import Site, pipeline, serving
from tests.support.web_server import serve

Answer = httpx2.Response


def submit(site: Site, body: Any, key: str | None = None) -> Answer:
    headers = {} if key is None else {"idempotency-key": key}
    return site.client.post("/v3/documents", json=body, headers=headers)


def assert_problem(answer: Answer, status: int, *words: str) -> None:
    """It is a problem, and names the thing, the value and the remedy."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    told = answer.json()
    assert told["status"] == status
    assert told["title"]
    for word in words:
        assert word in told["detail"], told


def status(site: Site, id: str) -> dict[str, Any]:
    told: dict[str, Any] = site.client.get(f"/v3/documents/{id}/status").json()
    return told


# -- URLs


def test_a_url_is_fetched_and_done(tmp_path: Path) -> None:
    app = pipeline(tmp_path / "home", ONWARD_FETCH_ALLOW_PRIVATE="true")
    with serve() as web, serving(app) as site:
        web.answers["/note.txt"] = lambda asked: asked.give(b"The tide gauge drifted.", Content_Type="text/plain")
        answer = submit(site, {"url": f"http://127.0.0.1:{web.port}/note.txt", "type": "url"})
        assert answer.status_code == 202
        told = answer.json()
        assert (told["status"], told["duplicate"]) == ("queued", False)
        assert answer.headers["location"] == f"/v3/documents/{told['id']}"
        app.work_until_idle()
        assert status(site, told["id"])["status"] == "done"
    app.close()


def test_the_same_url_is_the_same_document(site: Site) -> None:
    first = submit(site, {"url": "http://example.org/list"})
    again = submit(site, {"url": "HTTP://EXAMPLE.org:80/list#part"})
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json() == first.json() | {"duplicate": True}
    assert len(site.app.store.states("tasks")) == 1, "nothing was submitted again"


def test_a_private_address_is_not_fetched(site: Site) -> None:
    id = submit(site, {"url": "http://127.0.0.1:9/secret"}).json()["id"]
    site.app.work_until_idle()
    told = status(site, id)
    assert told["status"] == "failed"
    assert "ONWARD_FETCH_ALLOW_PRIVATE" in told["processing_metadata"]["error"]


@pytest.mark.parametrize(
    "url",
    (
        "/etc/passwd",
        "file:///etc/passwd",
        "FILE:/etc/passwd",
        "../x",
        "C:\\x",
        "ftp://h/x",
        "upload://" + "0" * 64 + "/x",
    ),
)
def test_no_path_from_outside_reaches_the_file_system(site: Site, url: str) -> None:
    assert_problem(submit(site, {"url": url}), 422, "url is", "must begin with http:// or https://")
    assert site.app.store.document_counts() == {}


def test_a_password_in_a_url_is_not_told(site: Site) -> None:
    answer = submit(site, {"url": "http://me:hunter2@example.org/list"})
    assert answer.status_code == 202
    found = [answer.text] + [
        site.client.get(path).text
        for path in ("/v3/documents", f"/v3/documents/{answer.json()['id']}", "/v3/tasks")
    ]
    assert not [one for one in found if "hunter2" in one]


# -- texts and files


def test_a_text_is_read_under_its_title(site: Site) -> None:
    answer = submit(site, {"content": "The gauge drifted.", "type": "text", "title": "Tides, 2026/03"})
    assert answer.status_code == 202
    site.app.work_until_idle()
    (message,) = site.app.store.get_many(Message, [one.id for one in site.app.store.states("messages")])
    assert (message.body, message.subject) == ("The gauge drifted.", "03.txt")
    assert submit(site, {"content": "The gauge drifted.", "title": "Tides, 2026/03"}).status_code == 200
    assert submit(site, {"content": "The gauge drifted.", "title": "Other"}).status_code == 202
    assert submit(site, {"content": "It did not.", "title": "Tides, 2026/03"}).status_code == 202


def send_file(site: Site, name: str, data: bytes, key: str | None = None) -> Answer:
    headers = {} if key is None else {"idempotency-key": key}
    return site.client.post("/v3/documents", files={"file": (name, data)}, headers=headers)


def test_a_file_is_kept_before_it_is_answered(site: Site) -> None:
    answer = send_file(site, "../../notes.md", b"# Boats\n\nThe key is under the mat.")
    assert answer.status_code == 202
    assert answer.json()["source"].endswith("/notes.md")
    site.app.work_until_idle()
    assert status(site, answer.json()["id"])["status"] == "done"
    assert send_file(site, "notes.md", b"# Boats\n\nThe key is under the mat.").status_code == 200
    assert send_file(site, "other.md", b"# Boats\n\nThe key is under the mat.").status_code == 202
    found = site.client.get("/v3/search", params={"q": "key mat"}).json()
    assert {one["subject"] for one in found["results"]} == {"Boats"}


def test_a_file_is_never_whole_in_memory(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large it is, it goes to the blobs in pieces."""
    sizes: list[int] = []
    keep = site.app.blobs.put

    class Weighing:
        def __init__(self, target: BinaryIO) -> None:
            self._target = target

        def write(self, data: bytes) -> int:
            sizes.append(len(data))
            return self._target.write(data)

    def put(write: Callable[[BinaryIO], None]) -> Blob:
        return keep(lambda target: write(cast(BinaryIO, Weighing(target))))

    monkeypatch.setattr(site.app.blobs, "put", put)
    answer = send_file(site, "big.txt", b"a line of text\n" * 400_000)
    assert answer.status_code == 202
    assert sum(sizes) == 6_000_000
    assert max(sizes) <= 1 << 20


def test_bad_submissions_are_told_what_to_do(site: Site) -> None:
    assert_problem(submit(site, {"url": 5}), 422, "url", "'5'", "string")
    assert_problem(submit(site, {"url": ""}), 422, "url", "''", "at least 1")
    assert_problem(submit(site, {"url": "http://"}), 422, "http://", "names no host", "give")
    assert_problem(submit(site, {"url": "http://h/" + "x" * 3000}), 422, "url", "at most 2000")
    assert_problem(submit(site, {}), 422, "url is missing")
    assert_problem(submit(site, []), 422, "list", "give an object")
    assert_problem(submit(site, {"type": "fax", "url": "http://h/"}), 422, "type is 'fax'", "give url or text")
    assert_problem(submit(site, {"url": "http://h/", "prority": 1}), 422, "prority is not known", "check its name")
    assert_problem(submit(site, {"content": " \n"}), 422, "content is empty", "give some text")
    assert_problem(submit(site, {"content": ["a"]}), 422, "content", "string")
    assert_problem(send_file(site, "empty.txt", b""), 422, "'empty.txt' is empty", "send a file")
    post = site.client.post
    assert_problem(post("/v3/documents", files={"other": ("a", b"a")}), 422, "no file", "`file`")
    assert_problem(
        post("/v3/documents", content=b"{", headers={"content-type": "application/json"}), 422, "no JSON"
    )
    deep = b"[" * 100_000
    assert_problem(
        post("/v3/documents", content=deep, headers={"content-type": "application/json"}), 422, "no JSON"
    )
    assert_problem(post("/v3/documents", content=b"<a/>", headers={"content-type": "text/xml"}), 415, "'text/xml'")
    assert_problem(
        site.client.put("/v3/documents", json={}),
        405,
        "PUT is not allowed",
        "Allowed: GET, POST",
        "See /docs",
    )
    assert site.client.put("/v3/documents", json={}).headers["allow"] == "GET, POST"
    assert site.app.store.document_counts() == {}


@pytest.mark.parametrize(
    "body",
    (
        rb'{"content": "\ud800"}',
        rb'{"content": "a", "title": "\udfff"}',
        rb'{"content": NaN}',
        rb'{"url": 1e999}',
        rb'{"url": "https://example.org/\u0000"}',
        b'{"content": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    ),
    ids=("half a character", "half a title", "not a number", "infinity", "a NUL", "too deep"),
)
@pytest.mark.parametrize("store", ("sqlite", "postgres"))
def test_what_cannot_be_stored_is_refused_and_breaks_no_list(
    request: pytest.FixtureRequest, tmp_path: Path, store: str, body: bytes
) -> None:
    more = {"ONWARD_STORE": request.getfixturevalue("postgres_store_url")} if store == "postgres" else {}
    app = pipeline(tmp_path / "home", **more)
    with serving(app) as site:
        json = {"content-type": "application/json"}
        assert_problem(site.client.post("/v3/documents", content=body, headers=json), 422)
        assert site.client.get("/v3/documents").json()["documents"] == []
    app.close()


def test_huge_json_is_refused_before_it_is_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submissions, "MAX_JSON_BYTES", 1_000)
    assert_problem(submit(site, {"content": "x" * 2_000}), 413, "1,000 bytes", "as a file")


def test_an_app_without_ingestion_takes_no_sources(tmp_path: Path) -> None:
    with open_shop(tmp_path) as shop:
        assert_problem(submit(shop.site, {"url": "http://example.org/"}), 409, "no ingestion service")
        assert_problem(send_file(shop.site, "a.txt", b"a"), 409, "no ingestion service")


# -- many at once


def test_a_batch_is_answered_one_by_one(site: Site) -> None:
    known = submit(site, {"url": "http://example.org/known"}).json()["id"]
    body = [
        {"url": "http://example.org/new"},
        {"url": "http://example.org/known"},
        {"url": "/etc/passwd"},
        {"content": "A note.", "title": "note.md"},
        "nonsense",
        {"url": "http://example.org/new"},
    ]
    answer = site.client.post("/v3/documents/batch", json=body)
    told = answer.json()
    assert answer.status_code == 200
    assert [one["status_code"] for one in told["results"]] == [202, 200, 422, 202, 422, 200]
    assert (told["accepted"], told["duplicates"], told["refused"]) == (2, 2, 2)
    assert told["results"][1]["document"]["id"] == known
    assert "must begin with http" in told["results"][2]["problem"]["detail"]


@pytest.mark.parametrize("body", ([], [{"url": "http://h/"}] * 101, {"url": "http://h/"}))
def test_a_batch_has_one_to_a_hundred(site: Site, body: Any) -> None:
    assert_problem(site.client.post("/v3/documents/batch", json=body), 422, "1 to 100")


# -- once


def test_a_key_gets_the_same_answer_again(site: Site) -> None:
    first = submit(site, {"url": "http://example.org/a"}, key="k-1")
    site.client.delete(f"/v3/documents/{first.json()['id']}")
    again = submit(site, {"url": "http://example.org/a"}, key="k-1")
    assert (again.status_code, again.json()) == (first.status_code, first.json()) == (202, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert site.app.store.states("tasks") == [], "it was not carried out again"


def test_a_key_with_another_body_is_refused(site: Site) -> None:
    submit(site, {"url": "http://example.org/a"}, key="k-1")
    assert_problem(
        submit(site, {"url": "http://example.org/b"}, key="k-1"), 409, "'k-1'", "Give each request its own"
    )
    assert_problem(send_file(site, "a.txt", b"a", key="k-1"), 409, "'k-1'")
    assert len(site.app.store.states("tasks")) == 1


def test_a_key_counts_for_files_and_batches_too(site: Site) -> None:
    assert [send_file(site, "a.txt", b"a", key="k-1").status_code for _ in range(2)] == [202, 202]
    batch = [{"url": "http://example.org/a"}]
    answers = [
        site.client.post("/v3/documents/batch", json=batch, headers={"idempotency-key": "k-1"}) for _ in range(2)
    ]
    assert answers[0].json() == answers[1].json()
    assert answers[0].json()["accepted"] == 1


@pytest.mark.parametrize("key", ("", "x" * 256, "a b", "a\tb"))
def test_a_key_that_makes_no_sense_is_refused(site: Site, key: str) -> None:
    assert_problem(submit(site, {"url": "http://h/"}, key=key), 422, "Idempotency-Key", "255 visible characters")


@contextmanager
def two_servers(home: Path, **settings: str) -> Iterator[tuple[Site, Site]]:
    one, other = (pipeline(home, ONWARD_SERVE_REQUESTS_PER_SECOND="10000", **settings) for _ in range(2))
    with serving(one) as first, serving(other) as second:
        yield first, second
    one.close()
    other.close()


def test_two_servers_agree_on_a_key(tmp_path: Path) -> None:
    with two_servers(tmp_path) as (one, other):
        first = submit(one, {"url": "http://example.org/a"}, key="k-1")
        assert submit(other, {"url": "http://example.org/a"}, key="k-1").json() == first.json()
        assert submit(other, {"url": "http://example.org/b"}, key="k-1").status_code == 409


def test_a_key_outlives_its_server(tmp_path: Path) -> None:
    answers = []
    for _ in range(2):
        app = pipeline(tmp_path)
        with serving(app) as site:
            answers.append(submit(site, {"url": "http://example.org/a"}, key="k-1"))
        app.close()
    assert [one.status_code for one in answers] == [202, 202]


@pytest.mark.parametrize("backend", ("sqlite", "postgres"))
def test_many_at_once_with_one_key_are_carried_out_once(
    tmp_path: Path, backend: str, request: pytest.FixtureRequest
) -> None:
    answers: list[Answer] = []
    on_server = (
        {"ONWARD_STORE": str(request.getfixturevalue("postgres_store_url"))} if backend == "postgres" else {}
    )

    def send(site: Site) -> None:
        with httpx2.Client(base_url=site.url, timeout=60.0) as client:
            body = {"content": "The same note.", "title": "note"}
            answers.append(client.post("/v3/documents", json=body, headers={"idempotency-key": "k-1"}))

    with two_servers(tmp_path, **on_server) as servers:
        senders = [threading.Thread(target=send, args=(servers[n % 2],)) for n in range(8)]
        for one in senders:
            one.start()
        for one in senders:
            one.join()
        assert {(one.status_code, one.text) for one in answers} == {(202, answers[0].text)}
        assert len(servers[0].app.store.states("tasks")) == 1


def test_keys_are_forgotten_after_a_day(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(3):
        submit(site, {"url": "http://example.org/a"}, key=f"k-{n}")
    monkeypatch.setattr(submissions, "KEPT_SECONDS", -1.0)
    assert submit(site, {"url": "http://example.org/b"}, key="k-0").status_code == 202
    (kept,) = site.app.store.states("idempotency_keys")
    assert kept.status == "processed", "nothing waits for it"


def test_the_store_has_one_request_for_each_source(site: Site) -> None:
    ids = {submit(site, {"url": f"http://example.org/{n}"}).json()["id"] for n in range(3)}
    assert {one.id for one in site.app.store.states(Archive)} == ids
