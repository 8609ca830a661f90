"""A blob goes when no document names it, and never while an ingestion may still name it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from onward import App
from onward.blobs import Blob, Blobs
from onward.ops import submissions
from onward.ops.submissions import submit_upload
from onward.pipeline.app import build
from onward.pipeline.documents import Archive, source_id
from onward.pipeline.sources import collect_blobs, forget, source_status, submit
from onward.recovery.background_jobs import PeriodicJobs
from onward.settings import load_settings
from onward.testing import SimulatedClock
from tests.support.command_runs import environment, onward_process
from tests.support.pipeline_runs import mail, mbox
from tests.support.supervised_workers import until

MAILS = mbox(mail("1", "How does it work?"), mail("2", "It works.", references=["1"]))


@pytest.fixture(params=["folder", "postgres", pytest.param("bucket", marks=pytest.mark.prove)])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    """A pipeline in SQLite with blobs in a folder or a bucket, or all of it in PostgreSQL."""
    given = {"ONWARD_HOME": str(tmp_path / "home")}
    if request.param == "postgres":
        given["ONWARD_STORE"] = request.getfixturevalue("postgres_store_url")
    elif request.param == "bucket":
        given["ONWARD_BLOBS"] = request.getfixturevalue("bucket_url")
    found = build(load_settings(given))
    yield found
    found.close()


class WatchedBlobs:
    """Blobs of which a test is told before or after a call, once."""

    def __init__(
        self, blobs: Blobs, *, after_put: Callable[[], object], before_delete: Callable[[], object]
    ) -> None:
        self._blobs = blobs
        self._after_put = [after_put]
        self._before_delete = [before_delete]

    def put(self, write: Callable[[BinaryIO], None]) -> Blob:
        blob = self._blobs.put(write)
        if self._after_put:
            self._after_put.pop()()
        return blob

    def delete(self, digest: str, *more: Any, **options: Any) -> bool:
        if self._before_delete:
            self._before_delete.pop()()
        return self._blobs.delete(digest, *more, **options)

    def __getattr__(self, name: str) -> Any:  # all the others as they are
        return getattr(self._blobs, name)


def nothing() -> None:
    pass


@contextmanager
def watched(
    app: App, *, after_put: Callable[[], object] = nothing, before_delete: Callable[[], object] = nothing
) -> Iterator[None]:
    real = app.blobs
    app._opened["blobs"] = WatchedBlobs(real, after_put=after_put, before_delete=before_delete)
    try:
        yield
    finally:
        app._opened["blobs"] = real


def write_unnamed(file: BinaryIO) -> None:
    file.write(b"nobody names this")


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Two mailboxes that hold the same."""
    found = tmp_path / "first.mbox", tmp_path / "second.mbox"
    for place in found:
        place.write_bytes(MAILS)
    return found


def check_whole(app: App, place: Path) -> None:
    assert source_status(app, str(place)).status == "completed"
    for one in app.store.find(Archive, "source_id", [source_id(str(place))]):
        archive = app.get(Archive, one.id)
        if archive is not None and archive.blob is not None:
            with closing(app.blobs.open(archive.blob)) as stream:
                assert stream.read() == MAILS


def test_forget_keeps_a_blob_that_an_ingest_has_put_and_not_named_yet(app: App, places: tuple[Path, Path]) -> None:
    first, second = places
    submit(app, str(first))
    app.work_until_idle()
    submit(app, str(second))
    with watched(app, after_put=lambda: forget(app, str(first))):
        app.work_until_idle()
    assert app.store.document_counts(str(first)) == {}
    check_whole(app, second)


def test_forget_keeps_a_blob_that_an_ingest_puts_while_it_is_deleted(app: App, places: tuple[Path, Path]) -> None:
    first, second = places
    submit(app, str(first))
    app.work_until_idle()

    def ingest_second() -> None:
        submit(app, str(second))
        app.work_until_idle()

    with watched(app, before_delete=ingest_second):
        forget(app, str(first))
    assert app.store.document_counts(str(first)) == {}
    check_whole(app, second)


def test_forget_keeps_a_blob_that_is_uploaded_while_it_runs(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tmp_path / "first.mbox"
    first.write_bytes(MAILS)
    submit(app, str(first))
    app.work_until_idle()
    real = submissions.submit_source

    def submit_late(app: App, source: str) -> submissions.Submitted:
        forget(app, str(first))
        return real(app, source)

    monkeypatch.setattr(submissions, "submit_source", submit_late)
    upload = tmp_path / "upload"
    upload.write_bytes(MAILS)
    with upload.open("rb") as stream:
        submitted = submit_upload(app, "second.mbox", stream)
    app.work_until_idle()
    assert source_status(app, submitted.source).status == "completed"


def test_what_forget_had_to_leave_is_collected_later(app: App, places: tuple[Path, Path]) -> None:
    first, second = places
    second.write_bytes(mbox(mail("9", "Something else.")))
    submit(app, str(first))
    app.work_until_idle()
    blob = next(one for one in app.blobs.older_than(-60.0))
    submit(app, str(second))
    with watched(app, after_put=lambda: forget(app, str(first))):
        app.work_until_idle()
    assert app.blobs.find(blob.digest) is not None, "an ingestion was under way"
    assert collect_blobs(app) == 0, "it is young"
    assert collect_blobs(app, older_than=-60.0) == 1
    assert app.blobs.find(blob.digest) is None


def test_a_collection_that_is_stopped_ends_early(app: App) -> None:
    app.blobs.put(write_unnamed)
    assert collect_blobs(app, lambda: True, older_than=-60.0) == 0
    assert collect_blobs(app, older_than=-60.0) == 1


def test_it_reads_no_more_names_at_once_than_it_needs(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number}.txt").write_text(f"Note {number}.")
    submit(app, str(folder))
    app.work_until_idle(["ingestion"])
    monkeypatch.setattr("onward.pipeline.sources._PAGE", 7)
    asked: list[int] = []
    real = app.store.find

    def find(collection: Any, key: str, values: Any) -> Any:
        asked.append(len(values))
        return real(collection, key, values)

    monkeypatch.setattr(app.store, "find", find)
    assert collect_blobs(app, older_than=-60.0) == 0
    assert max(asked) == 7


# -- who collects


def test_one_process_of_many_collects_once_in_an_interval(
    request: pytest.FixtureRequest, app: App, tmp_path: Path
) -> None:
    app.close()
    app._clock = clock = SimulatedClock(time.time())
    runs: list[str] = []
    app.registry.periodic.clear()
    app.periodic("count", every=3_600.0)(lambda stopped: runs.append("ran"))
    processes = [PeriodicJobs(lambda: app.store, app.registry, holder=name) for name in ("a", "b")]
    assert [one.run_due() for one in processes] == [["count"], []]
    clock.advance(3_599)
    assert [one.run_due() for one in processes] == [[], []]
    clock.advance(1)
    assert [one.run_due() for one in processes] == [["count"], []]
    assert runs == ["ran", "ran"]


def test_what_was_cut_short_is_begun_again_by_the_next_process(app: App) -> None:
    app.registry.periodic.clear()
    first, second = (PeriodicJobs(lambda: app.store, app.registry, holder=name) for name in ("a", "b"))
    app.periodic("count", every=3_600.0)(lambda stopped: first.stop())
    assert first.run_due() == ["count"]
    assert second.run_due() == ["count"]


def test_nothing_is_collected_in_the_store_of_another_app(tmp_path: Path) -> None:
    home = {"ONWARD_HOME": str(tmp_path / "home")}
    shop, ours = App(settings=load_settings(home)), build(load_settings(home))
    ours._store = shop.store  # opened without telling it of our services
    try:
        assert PeriodicJobs(lambda: ours.store, ours.registry, holder="a").run_due() == []
    finally:
        shop.close()


@pytest.fixture
def old_blob(home: Path) -> Path:
    """A blob that nobody names, of the day before yesterday, beside a source that was ingested."""
    mailbox = home.parent / "list.mbox"
    mailbox.write_bytes(MAILS)
    app = build(load_settings({"ONWARD_HOME": str(home)}))
    submit(app, str(mailbox))
    app.work_until_idle()
    digest = app.blobs.put(write_unnamed).digest
    app.close()
    path = home / "blobs" / digest[:2] / digest[2:]
    before = time.time() - 2 * 86_400
    os.utime(path, (before, before))
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_the_retry_job_collects(home: Path, old_blob: Path) -> None:
    # A process of its own: the app of the pipeline keeps the settings that it was first used with.
    ran = onward_process(home, "retry-job", "--once")
    assert ran.returncode == 0, ran.stderr
    assert not old_blob.exists()
    assert len(list((home / "blobs").glob("??/*"))) == 1, "the one that is named"


@pytest.mark.parametrize(
    "command", (("worker",), ("serve", "--address", "127.0.0.1:0"), ("retry-job",), ("ingest", "list.mbox"))
)
def test_every_process_collects(home: Path, old_blob: Path, command: tuple[str, ...]) -> None:
    env = {**os.environ, **environment(home), "ONWARD_METRICS_ADDRESS": "off"}
    with subprocess.Popen(
        [sys.executable, "-m", "onward", *command], env=env, cwd=home.parent, stderr=subprocess.DEVNULL
    ) as process:
        try:
            until(lambda: not old_blob.exists(), f"onward {command[0]} collects")
        finally:
            process.terminate()
    assert len(list((home / "blobs").glob("??/*"))) == 1
