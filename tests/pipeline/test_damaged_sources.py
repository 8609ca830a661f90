"""What cannot be looked into is not gone: nothing is removed for a damage that may be mended."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from onward import Status
from onward.pipeline.documents import Archive, source_id
from onward.pipeline.source_kinds import files
from onward.pipeline.sources import submit
from tests.pipeline.fetch.packing import tar
from tests.support.pipeline_runs import Pipeline

LONG = random.Random(7).randbytes(30_000).hex().encode()
FILES = {"a.txt": b"The first file.", "b.txt": LONG, "c.txt": b"The last file."}


def failed(pipeline: Pipeline) -> dict[str, str]:
    """The archives that failed, with their errors."""
    states = pipeline.app.store.states(Archive, status=Status.FAILED)
    archives = pipeline.app.store.get_many(Archive, [one.id for one in states])
    errors = {one.id: str(one.last_error and one.last_error["error_type"]) for one in states}
    return {archive.path: errors[archive.id] for archive in archives}


def test_a_container_that_was_cut_off_gives_what_is_whole_and_keeps_what_was_known(
    pipeline: Pipeline, folder: Path
) -> None:
    source = folder / "papers.tar"
    whole = tar(FILES)
    source.write_bytes(whole)
    pipeline.ingest(source)
    source.write_bytes(whole[:20_000])
    pipeline.ingest(source)
    assert sorted(pipeline.messages()) == ["a.txt", "b.txt", "c.txt"], "the rest may only be out of sight"
    assert failed(pipeline), "the damage is there to be seen"
    source.write_bytes(whole)
    pipeline.ingest(source)
    pipeline.check_at_rest()
    assert sorted(pipeline.messages()) == ["a.txt", "b.txt", "c.txt"]
    assert not failed(pipeline)


def test_a_container_that_is_cut_off_from_the_start_gives_what_is_whole(pipeline: Pipeline, folder: Path) -> None:
    source = folder / "papers.tar"
    source.write_bytes(tar(FILES)[:20_000])
    pipeline.ingest(source)
    assert "a.txt" in pipeline.messages()
    assert failed(pipeline)


def test_a_folder_with_a_damaged_container_keeps_what_was_in_it(pipeline: Pipeline, folder: Path) -> None:
    (folder / "papers.tar").write_bytes(tar(FILES))
    (folder / "note.txt").write_text("A note.")
    pipeline.ingest(folder)
    known = sorted(pipeline.messages())
    assert known == ["note.txt", "papers.tar/a.txt", "papers.tar/b.txt", "papers.tar/c.txt"]
    (folder / "papers.tar").write_bytes(tar(FILES)[:20_000])
    (folder / "note.txt").unlink()
    pipeline.ingest(folder)
    assert sorted(pipeline.messages()) == known[1:], "the note is gone, the papers are only out of sight"


@pytest.fixture
def damaged_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a note and two office files that are none; their times count although they are new."""
    monkeypatch.setattr(files, "RACY_SECONDS", -60.0)
    (folder / "note.txt").write_text("A note.")
    for name in ("report.docx", "minutes.docx"):
        (folder / name).write_bytes(b"PK\x03\x04 cut off")
    return folder


def test_a_file_that_could_not_be_read_is_read_again_if_a_person_asks(
    pipeline: Pipeline, damaged_files: Path
) -> None:
    pipeline.ingest(damaged_files)
    assert sorted(failed(pipeline)) == ["minutes.docx", "report.docx"]
    submit(pipeline.app, str(damaged_files), retries_failed=False)
    pipeline.run()
    assert pipeline.report(damaged_files)["source"]["failed"] == 0, "it would fail again, and alert, in each run"
    pipeline.ingest(damaged_files)
    assert pipeline.report(damaged_files)["source"]["failed"] == 2
    assert sorted(failed(pipeline)) == ["minutes.docx", "report.docx"]


def test_a_retry_of_files_that_could_not_be_read_ingests_their_source_again_once(
    pipeline: Pipeline, damaged_files: Path
) -> None:
    pipeline.ingest(damaged_files)
    store = pipeline.app.store
    store.schedule([("archives", one.id) for one in store.states(Archive, status=Status.FAILED)], at=store.now())
    pipeline.run()
    pipeline.check_at_rest()
    assert sorted(failed(pipeline)) == ["minutes.docx", "report.docx"]
    assert pipeline.report(damaged_files)["source"]["failed"] == 2, "both were read again"
    request = pipeline.app.get(Archive, source_id(pipeline.source(damaged_files)))
    assert request is not None
    assert request.submission == 2, "one run for both"


def test_a_full_disk_is_nobodys_fault(pipeline: Pipeline, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(write: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("a.txt", "b.txt"):
        (folder / name).write_text(f"This is {name}.")
    with monkeypatch.context() as patched:
        patched.setattr(pipeline.app.blobs, "put", full)
        pipeline.submit(folder)
        pipeline.run("ingestion")
        assert not failed(pipeline), "no item is blamed"
    pipeline.run(within=60.0)
    assert sorted(pipeline.messages()) == ["a.txt", "b.txt"]
