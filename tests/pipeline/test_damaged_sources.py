"""What cannot be looked into is not gone: nothing is removed for a damage that may be mended."""

from __future__ import annotations

import errno
import random
from pathlib import Path
from typing import BinaryIO

import pytest

from onward import Status
from onward.pipeline.documents import Archive
from onward.pipeline.fetch import FetchedItem
from onward.pipeline.stages import ingestion
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


def test_a_full_disk_is_nobodys_fault(pipeline: Pipeline, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: BinaryIO) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("a.txt", "b.txt"):
        (folder / name).write_text(f"This is {name}.")
    items = [FetchedItem(name, "text", full) for name in ("a.txt", "b.txt")]
    with monkeypatch.context() as patched:
        patched.setattr(ingestion, "fetch", lambda *_, **__: iter(items))
        pipeline.submit(folder)
        pipeline.run("ingestion")
        assert not failed(pipeline), "no item is blamed"
    pipeline.run(within=60.0)
    assert sorted(pipeline.messages()) == ["a.txt", "b.txt"]
