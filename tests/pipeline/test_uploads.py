"""Uploads as sources: what somebody hands over is kept, read, found, and forgotten like anything else."""

from __future__ import annotations

import io
import os
import shutil
import time
import zipfile
from pathlib import Path

import pytest

from onward.ops.submissions import Submitted, submit_upload
from onward.pipeline.app import build
from onward.pipeline.documents import Archive, Message
from onward.pipeline.fetch import canonical
from onward.pipeline.fetch.fetch_errors import UnusableSource
from onward.pipeline.sources import collect_blobs, forget, source_status
from onward.pipeline.uploads import MAX_NAME_CHARACTERS, Upload, clean_name, read_location
from onward.settings import load_settings
from tests.support.pipeline_runs import Pipeline, mail, mbox

DIGEST = "0f" * 32
DAY = 86_400.0


def upload(pipeline: Pipeline, name: str, data: bytes) -> Submitted:
    return submit_upload(pipeline.app, name, io.BytesIO(data))


def age_blobs(pipeline: Pipeline) -> None:
    """Make all blobs look as if they had been put two days ago."""
    for path in (pipeline.home / "blobs").glob("??/*"):
        os.utime(path, (time.time() - 2 * DAY,) * 2)


def zipped(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("_", "."), data)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "subjects"),
    (
        ("note.md", b"# Tides\n\nThe gauge drifted.", {"Tides"}),
        ("list.mbox", mbox(mail("a", "One."), mail("b", "Two.")), {"Letter a", "Letter b"}),
        ("both.zip", zipped(a_txt=b"One note.", b_txt=b"Another."), {"a.txt", "b.txt"}),
    ),
)
def test_an_upload_is_read_as_what_it_is(pipeline: Pipeline, name: str, data: bytes, subjects: set[str]) -> None:
    found = upload(pipeline, name, data)
    pipeline.run()
    pipeline.check_at_rest()
    assert source_status(pipeline.app, found.source).status == "completed"
    assert len(pipeline.all(Message)) == len(subjects)
    if name != "list.mbox":
        assert {one.subject for one in pipeline.all(Message)} == subjects


def test_an_upload_that_waits_keeps_its_blob(pipeline: Pipeline) -> None:
    upload(pipeline, "note.txt", b"A note that waits for days.")
    age_blobs(pipeline)
    assert collect_blobs(pipeline.app) == 0
    pipeline.run()
    assert [one.body for one in pipeline.all(Message)] == ["A note that waits for days."]


def test_bytes_that_nobody_announced_are_collected(pipeline: Pipeline) -> None:
    pipeline.app.blobs.put(lambda target: shutil.copyfileobj(io.BytesIO(b"sent, never submitted"), target))
    age_blobs(pipeline)
    assert collect_blobs(pipeline.app) == 1


def test_the_bytes_of_an_upload_stay_so_that_it_can_be_read_again(pipeline: Pipeline) -> None:
    found = upload(pipeline, "both.zip", zipped(a_txt=b"One note.", b_txt=b"Another."))
    pipeline.run()
    age_blobs(pipeline)
    assert collect_blobs(pipeline.app) == 0
    pipeline.app.store.reset("archives", found.id)
    pipeline.run(within=2 * DAY)
    assert source_status(pipeline.app, found.source).status == "completed"


def test_forgetting_an_upload_removes_its_bytes(pipeline: Pipeline) -> None:
    found = upload(pipeline, "both.zip", zipped(a_txt=b"One note.", b_txt=b"Another."))
    pipeline.run()
    assert pipeline.blobs() == 3
    forget(pipeline.app, found.source)
    assert pipeline.blobs() == 0


def test_the_same_bytes_under_another_name_stay(pipeline: Pipeline) -> None:
    first, second = (upload(pipeline, name, b"The same note.") for name in ("a.txt", "b.txt"))
    assert first.id != second.id
    forget(pipeline.app, first.source)
    pipeline.run()
    assert source_status(pipeline.app, second.source).status == "completed"
    forget(pipeline.app, second.source)
    assert pipeline.blobs() == 0


def test_bytes_that_were_lost_are_said_to_be(pipeline: Pipeline) -> None:
    found = upload(pipeline, "note.txt", b"A note.")
    blob = pipeline.app.blobs.find(Upload(*found.source.removeprefix("upload://").split("/")).digest)
    assert blob is not None
    assert pipeline.app.blobs.delete(blob.digest, blob.put_mark)
    pipeline.run()
    state = pipeline.app.state(Archive, found.id)
    assert state is not None
    assert state.status == "failed"
    assert "BlobMissing" in str(state.last_error)


@pytest.mark.parametrize(
    ("given", "name"),
    (
        ("note.txt", "note.txt"),
        ("../../etc/passwd", "passwd"),
        (r"C:\mail\in box.mbox", "in box.mbox"),
        ("/", "upload"),
        ("..", "upload"),
        ("", "upload"),
        ("a\0b\nc\x1b[31m.txt", "a b c [31m.txt"),
        ("\u202egpj.exe", "gpj.exe"),
        ("half \ud800.txt", "half .txt"),
        ("x" * 500 + ".mbox.gz", "x" * (MAX_NAME_CHARACTERS - 3) + ".gz"),
    ),
)
def test_a_name_is_only_a_name(given: str, name: str) -> None:
    assert clean_name(given) == name
    location = Upload(DIGEST, name).location
    assert read_location(location) == (DIGEST, name)
    assert canonical(location) == location


@pytest.mark.parametrize(
    "location", (f"upload://{DIGEST}/", f"upload://{DIGEST}/a/../b", "upload://0f/x", f"upload://{DIGEST}/..")
)
def test_what_names_no_upload_is_refused(location: str) -> None:
    with pytest.raises(UnusableSource, match="names no upload"):
        canonical(location)


def test_an_upload_is_read_on_another_machine(postgres_store_url: str, tmp_path: Path) -> None:
    here, there = (
        build(load_settings({"ONWARD_STORE": postgres_store_url, "ONWARD_HOME": str(tmp_path / name)}))
        for name in ("here", "there")
    )
    try:
        found = submit_upload(here, "both.zip", io.BytesIO(zipped(a_txt=b"One note.", b_txt=b"Another.")))
        there.work_until_idle()
        assert source_status(here, found.source).status == "completed"
        assert not [one for name in ("here", "there") for one in (tmp_path / name).glob("blobs/*")]
    finally:
        here.close()
        there.close()
