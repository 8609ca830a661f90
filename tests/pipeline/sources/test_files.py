"""Of a folder, only files that have changed are read; of a web page, only what its server says has changed."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import BinaryIO

import pytest

from onward.pipeline.fetch import files_and_folders
from onward.pipeline.source_kinds import files
from tests.support.pipeline_runs import Pipeline, mail


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of files that were read; a version is trusted at once."""
    monkeypatch.setattr(files, "RACY_SECONDS", -60.0)
    opened: list[str] = []
    real = Path.open

    def spied(path: Path, mode: str = "r", **options: object) -> object:
        if path.suffix in (".txt", ".zip", ".mbox") and mode == "rb":
            opened.append(path.name)
        return real(path, mode, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", spied)
    return opened


def test_only_changed_files_are_read(pipeline: Pipeline, folder: Path, read: list[str]) -> None:
    for name in ("a", "b"):
        (folder / f"{name}.txt").write_text(f"Text {name}.")
    with zipfile.ZipFile(folder / "c.zip", "w") as packed:
        packed.writestr("c.txt", "Text c.")
    pipeline.ingest(folder)
    assert sorted(read) == ["a.txt", "b.txt", "c.zip"]
    read.clear()
    (folder / "b.txt").write_text("Text B.")
    pipeline.ingest(folder)
    assert read == ["b.txt"], "it has the same size"
    assert pipeline.texts() == ["Text B.", "Text a.", "Text c."]
    assert pipeline.report(folder)["source"] == {"items": 3, "new": 1, "unchanged": 2, "failed": 0, "removed": 0}
    (folder / "a.txt").unlink()
    (folder / "c.zip").unlink()
    pipeline.ingest(folder)
    assert pipeline.texts() == ["Text B."]
    pipeline.check_at_rest()


def test_a_file_that_changed_just_before_it_was_read_is_read_again(
    pipeline: Pipeline, folder: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may change once more within the same tick of the clock, with the same size."""
    (folder / "a.txt").write_text("Text a.")
    for racy_seconds, times_read in ((3600.0, 2), (-60.0, 3)):
        monkeypatch.setattr(files, "RACY_SECONDS", racy_seconds)
        for _ in range(2):
            pipeline.ingest(folder)
        assert len(read) == times_read
    assert pipeline.texts() == ["Text a."]


def test_a_file_with_an_old_time_is_noticed(pipeline: Pipeline, folder: Path, read: list[str]) -> None:
    (folder / "a.txt").write_text("Text a.")
    pipeline.ingest(folder)
    about = (folder / "a.txt").stat()
    (folder / "new").write_text("Text A.")
    os.utime(folder / "new", ns=(about.st_atime_ns, about.st_mtime_ns))
    (folder / "new").rename(folder / "a.txt")
    pipeline.ingest(folder)
    assert pipeline.texts() == ["Text A."], "another file with the same name, size and time"


def test_a_maildir_is_read_only_if_a_mail_came_or_went(
    pipeline: Pipeline, folder: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []
    real = files_and_folders._copy_mail

    def copy(folder: Path, unique: str, place: str, target: BinaryIO) -> bool:
        copied.append(unique)
        return real(folder, unique, place, target)

    monkeypatch.setattr(files_and_folders, "_copy_mail", copy)
    for part in ("cur", "new", "tmp"):
        (folder / part).mkdir()
    (folder / "new" / "1700000000.1.host").write_text(mail("1"))
    pipeline.ingest(folder)
    (folder / "new" / "1700000000.1.host").rename(folder / "cur" / "1700000000.1.host:2,S")
    pipeline.ingest(folder)
    assert len(copied) == 1
    (folder / "new" / "1700000001.2.host").write_text(mail("2"))
    pipeline.ingest(folder)
    assert len(copied) == 3
    assert sorted(pipeline.messages()) == ["1", "2"]


def test_an_empty_folder_removes_nothing(pipeline: Pipeline, folder: Path) -> None:
    """It may be one that is not mounted now."""
    (folder / "a.txt").write_text("Text a.")
    pipeline.ingest(folder)
    (folder / "a.txt").unlink()
    pipeline.ingest(folder)
    assert pipeline.texts() == ["Text a."]
    assert pipeline.status(folder) == "partially_completed"


class Site(BaseHTTPRequestHandler):
    content, etag, modified = b"A page.", '"1"', ""
    answers: list[int]

    def do_GET(self) -> None:
        same = bool(self.etag) and self.headers.get("If-None-Match") == self.etag
        same |= bool(self.modified) and self.headers.get("If-Modified-Since") == self.modified
        self.answers.append(304 if same else 200)
        self.send_response(304 if same else 200)
        for name, value in {"ETag": self.etag, "Last-Modified": self.modified}.items():
            if value:
                self.send_header(name, value)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        if not same:
            self.wfile.write(self.content)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


@contextmanager
def serving() -> Iterator[tuple[str, type[Site]]]:
    site = type("OneSite", (Site,), {"answers": []})
    server = HTTPServer(("127.0.0.1", 0), site)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/page.txt", site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_page_is_transferred_only_if_it_has_changed(tmp_path: Path) -> None:
    with (
        serving() as (url, site),
        Pipeline(tmp_path / "home", ONWARD_FETCH_ALLOW_PRIVATE="true").running() as pipeline,
    ):
        pipeline.ingest(url)
        pipeline.ingest(url)
        assert site.answers == [200, 304]
        assert pipeline.texts() == ["A page."]
        site.content, site.etag = b"Another page.", '"2"'
        pipeline.ingest(url)
        pipeline.ingest(url)
        assert site.answers == [200, 304, 200, 304]
        assert pipeline.texts() == ["Another page."]
        pipeline.check_at_rest()


def test_a_page_that_changes_twice_in_a_second_is_transferred_twice(tmp_path: Path) -> None:
    with (
        serving() as (url, site),
        Pipeline(tmp_path / "home", ONWARD_FETCH_ALLOW_PRIVATE="true").running() as pipeline,
    ):
        site.etag, site.modified = "", "Thu, 31 Dec 2099 23:59:59 GMT"  # later than the time of the response
        pipeline.ingest(url)
        site.content = b"Another page."
        pipeline.ingest(url)
        assert pipeline.texts() == ["Another page."]


def test_the_data_folder_is_left_out(tmp_path: Path) -> None:
    with Pipeline(tmp_path / "onward-data").running() as pipeline:
        (tmp_path / "a.txt").write_text("Text a.")
        pipeline.ingest(tmp_path)
        pipeline.ingest(tmp_path)
        assert pipeline.texts() == ["Text a."]
