"""Blobs: large bytes, kept once under the digest of their content, whole or not at all."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

import pytest

from onward.backends.blobs import FolderBlobs
from onward.ports import BlobMissing, StoreFull
from onward.retry import Permanent


@pytest.fixture
def blobs(tmp_path: Path) -> FolderBlobs:
    return FolderBlobs(tmp_path / "blobs")


def _put(blobs: FolderBlobs, data: bytes) -> str:
    return blobs.put(lambda file: _write(file, data)).digest


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)


def _read(blobs: FolderBlobs, digest: str) -> bytes:
    with closing(blobs.open(digest)) as stream:
        return stream.read()


def _files(blobs: FolderBlobs) -> list[Path]:
    return [one for one in blobs.folder.rglob("*") if one.is_file()]


def test_what_was_put_is_read_back(blobs: FolderBlobs) -> None:
    def write(file: BinaryIO) -> None:
        file.write(b"one ")
        file.write(b"two")

    blob = blobs.put(write)
    assert (blob.digest, blob.size) == (hashlib.sha256(b"one two").hexdigest(), 7)
    assert _read(blobs, blob.digest) == b"one two"


def test_nothing_is_a_blob_too(blobs: FolderBlobs) -> None:
    assert _read(blobs, _put(blobs, b"")) == b""


def test_any_position_can_be_read(blobs: FolderBlobs) -> None:
    with closing(blobs.open(_put(blobs, b"0123456789"))) as stream:
        stream.seek(4)
        assert stream.read(3) == b"456"


def test_the_same_content_is_kept_once(blobs: FolderBlobs) -> None:
    assert _put(blobs, b"same") == _put(blobs, b"same")
    assert len(_files(blobs)) == 1


def test_a_writer_that_fails_leaves_nothing_behind(blobs: FolderBlobs) -> None:
    def fail(file: BinaryIO) -> None:
        file.write(b"half")
        raise ConnectionError("the other half never came")

    with pytest.raises(ConnectionError, match="never came"):
        blobs.put(fail)
    assert _files(blobs) == []


def test_what_is_missing_is_told_with_its_remedy(blobs: FolderBlobs) -> None:
    with pytest.raises(BlobMissing, match="ingest its source again") as told:
        blobs.open("ab" * 32)
    assert isinstance(told.value, Permanent), "trying again brings nothing back"


def test_a_blob_is_deleted_once(blobs: FolderBlobs) -> None:
    digest = _put(blobs, b"gone")
    assert blobs.delete(digest)
    assert not blobs.delete(digest)
    with pytest.raises(BlobMissing):
        blobs.open(digest)


def test_who_reads_a_blob_that_is_deleted_reads_it_to_its_end(blobs: FolderBlobs) -> None:
    digest = _put(blobs, b"still here")
    with closing(blobs.open(digest)) as stream:
        blobs.delete(digest)
        assert stream.read() == b"still here"


def test_old_blobs_are_told_and_putting_one_again_makes_it_young(blobs: FolderBlobs) -> None:
    old, again, young = (_put(blobs, data) for data in (b"old", b"again", b"young"))
    yesterday = time.time() - 100_000
    for digest in (old, again):
        os.utime(blobs.folder / digest[:2] / digest[2:], (yesterday, yesterday))
    _put(blobs, b"again")
    assert [(one.digest, one.size) for one in blobs.older_than(86_400)] == [(old, 3)]
    assert young in {one.digest for one in blobs.older_than(-1)}


def test_what_a_crash_left_half_written_is_removed_after_a_day(blobs: FolderBlobs) -> None:
    _put(blobs, b"whole")
    leftover, fresh = blobs.folder / "new-leftover", blobs.folder / "new-fresh"
    for path in (leftover, fresh):
        path.write_bytes(b"half")
    yesterday = time.time() - 100_000
    os.utime(leftover, (yesterday, yesterday))
    assert list(blobs.older_than(86_400)) == []
    assert (leftover.exists(), fresh.exists()) == (False, True)


def test_many_put_the_same_at_once(blobs: FolderBlobs) -> None:
    ready = threading.Barrier(8)
    digests: list[str] = []

    def put() -> None:
        def write(file: BinaryIO) -> None:
            file.write(b"the same")
            ready.wait()

        digests.append(blobs.put(write).digest)

    threads = [threading.Thread(target=put) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(digests) == 8
    assert len(set(digests)) == 1
    assert len(_files(blobs)) == 1
    assert _read(blobs, digests[0]) == b"the same"


def test_a_folder_that_cannot_be_written_is_told_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreFull, match="ONWARD_BLOBS"):
        _put(FolderBlobs(tmp_path / "file" / "blobs"), b"")
