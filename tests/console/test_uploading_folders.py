"""Folders over HTTP: their files are sent one by one, then the folder, which becomes one source with its paths."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from onward.console.api import submissions
from onward.pipeline.documents import Message
from tests.console.shop import words
from tests.console.test_api_submitting import Answer, assert_problem, status, submit
from tests.support.console_client import HTML, Site, pipeline, serving


def upload(site: Site, data: bytes, name: str = "a.md") -> str:
    """Send the bytes of a file; return their digest."""
    answer = site.client.post("/v3/uploads", files={"file": (name, data)})
    assert answer.status_code == 201, answer.text
    assert answer.json()["size"] == len(data)
    return str(answer.json()["digest"])


def folder(site: Site, files: dict[str, bytes], name: str = "reports", key: str | None = None) -> Answer:
    listed = [{"path": path, "digest": upload(site, data)} for path, data in files.items()]
    return submit(site, {"type": "folder", "name": name, "files": listed}, key)


FILES = {
    "tide.md": b"# Tides\n\nThe gauge drifted.",
    "2026/mars/\u6f6e\u4f4d.md": b"# Harbour\n\nThe mooring held.",
    "x/" + "long-name-" * 20 + "/notes.txt": b"A note about the buoy.",
}


def test_a_folder_becomes_one_source_whose_files_keep_their_paths(site: Site) -> None:
    answer = folder(site, FILES)
    assert answer.status_code == 202, answer.text
    site.app.work_until_idle()
    assert status(site, answer.json()["id"])["status"] == "done"
    found = site.app.store.get_many(Message, [one.id for one in site.app.store.states("messages")])
    assert {one.path for one in found} == set(FILES)
    assert {one.source for one in found} == {site.app.store.sources()[0]}
    assert "reports.tar (uploaded)" in words(site.page("/tasks"))
    results = site.client.get("/v3/search", params={"q": "mooring"}).json()["results"]
    assert [one["path"] for one in results] == ["2026/mars/\u6f6e\u4f4d.md"]


def test_the_same_folder_is_taken_once_in_whatever_order_its_files_come(site: Site) -> None:
    first = folder(site, FILES)
    again = folder(site, dict(reversed(FILES.items())))
    other = folder(site, FILES | {"new.md": b"# New"})
    assert (first.status_code, again.status_code, other.status_code) == (202, 200, 202)
    assert again.json() == first.json() | {"duplicate": True}


def test_a_repeated_request_gets_the_same_response(site: Site) -> None:
    assert [folder(site, FILES, key="one").status_code for _ in range(2)] == [202, 202]
    assert len(site.app.store.states("tasks")) == 1


@pytest.mark.parametrize(
    ("path", "said"),
    (
        ("../secret", "'../secret' is not one inside the folder: give a relative path"),
        ("/etc/passwd", "is not one inside the folder"),
        ("C:\\x", "is not one inside the folder"),
        ("a\0b", "is not one inside the folder"),
        ("..", "is not one inside the folder"),
        ("\ud800.md", "files.0.path is '?.md': should be a valid string"),
    ),
)
def test_a_path_that_is_none_of_a_folder_is_refused(site: Site, path: str, said: str) -> None:
    listed = [{"path": path, "digest": upload(site, b"a")}]
    body = json.dumps({"type": "folder", "name": "f", "files": listed})  # half a character stays one
    answer = site.client.post("/v3/documents", content=body, headers={"content-type": "application/json"})
    assert_problem(answer, 422, said)
    assert site.app.store.document_counts() == {}


def test_bad_folders_are_refused_with_a_remedy(site: Site) -> None:
    digest = upload(site, b"a note")

    def refused(files: Any, *said: str, name: str = "f") -> None:
        assert_problem(submit(site, {"type": "folder", "name": name, "files": files}), 422, *said)

    refused([], "files", "at least 1")
    refused([{"path": "a", "digest": "0" * 64}], "'a' is not here", "POST /v3/uploads")
    refused([{"path": "a", "digest": "x"}], "digest")
    refused([{"path": "", "digest": digest}], "path", "at least 1")
    refused([{"path": "a" * 1001, "digest": digest}], "path", "at most 1000")
    refused([{"path": "a", "digest": digest}] * 3, "2 paths given more than once: 'a', 'a': give each file once")
    refused([{"path": "a", "digest": digest}, {"path": "./a", "digest": digest}], "1 path given more than once")
    refused([{"path": "a", "digest": digest}], "name", "at least 1", name="")
    assert_problem(site.client.post("/v3/uploads", files={"file": ("e.txt", b"")}), 422, "'e.txt' is empty")
    assert_problem(site.client.post("/v3/uploads", files={"other": ("e.txt", b"a")}), 422, "field `file`")
    assert_problem(site.client.post("/v3/uploads", content=b"a"), 415, "multipart/form-data")


def test_a_folder_that_is_larger_than_what_is_unpacked_is_refused(tmp_path: Path) -> None:
    app = pipeline(tmp_path / "home", ONWARD_UNPACK_MAX_BYTES="10")
    with serving(app) as site:
        assert_problem(folder(site, {"a": b"eleven bytes"}), 422, "more than the 10", "ONWARD_UNPACK_MAX_BYTES")
    app.close()


def test_what_a_person_sends_from_a_page_is_in_the_action_log(site: Site) -> None:
    folder(site, {"a.md": b"# By a program"})
    assert site.app.store.actions() == []
    site.page("/ingest")  # gives a session
    folder(site, {"a.md": b"# By a person"})
    folder(site, {"a.md": b"# By a person"})  # is known already
    assert [(one.via, one.action) for one in site.app.store.actions()] == [("console", "ingest")]


def test_bytes_that_were_collected_while_it_was_submitted_are_stored_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = submissions._put

    def put_and_lose(app: Any, source: str) -> Any:
        digest = source.split("/")[2]
        blob = app.blobs.find(digest)
        assert app.blobs.delete(digest, blob.put_mark)
        return put(app, source)

    monkeypatch.setattr(submissions, "_put", put_and_lose)
    answer = folder(site, FILES)
    site.app.work_until_idle()
    assert status(site, answer.json()["id"])["status"] == "done"


# -- the plain form


def send_form(site: Site, *files: tuple[str, bytes]) -> Answer:
    (token,) = set(re.findall(r'name="form_token" value="([^"]+)"', site.page("/ingest")))
    sent = [("file", one) for one in files]
    return site.client.post("/ingest", data={"form_token": token}, files=sent, headers=HTML)


def test_a_form_takes_many_files_and_lists_what_became_of_each(site: Site) -> None:
    send_form(site, ("known.md", b"# Known"))
    answer = send_form(site, ("a.md", b"# One"), ("empty.md", b""), ("known.md", b"# Known"), ("b.md", b"# Two"))
    assert answer.status_code == 200
    said = words(answer.text)
    assert "a.md (uploaded) taken" in said
    assert "empty.md refused The upload 'empty.md' is empty: send a file that holds something" in said
    assert "known.md (uploaded) known already" in said
    assert len(site.app.store.states("tasks")) == 3
    assert len(site.app.store.actions()) == 3


def test_a_form_with_nothing_but_refused_files_says_so_with_its_status(site: Site) -> None:
    assert send_form(site, ("a.md", b""), ("b.md", b"")).status_code == 422
    assert "Nothing was given: give a URL, choose files" in words(send_form(site, ("", b"")).text)
