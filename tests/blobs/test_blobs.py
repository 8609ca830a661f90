"""Blobs: large bytes, kept once under the digest of their content, whole or not at all, wherever they are kept."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import tarfile
import threading
import zipfile
from contextlib import closing
from typing import BinaryIO

import pytest

from onward.blobs import Blob, BlobMissing, Blobs
from onward.retry import Permanent
from tests.blobs.places import DAY, PART, Place, at_once, delete_blob, noise, put_bytes, read_bytes


def test_what_was_put_is_read_back(blobs: Blobs) -> None:
    def write(file: BinaryIO) -> None:
        file.write(b"one ")
        file.write(b"two")

    blob = blobs.put(write)
    assert (blob.digest, blob.size) == (hashlib.sha256(b"one two").hexdigest(), 7)
    assert read_bytes(blobs, blob.digest) == b"one two"


def test_nothing_is_a_blob_too(blobs: Blobs) -> None:
    assert read_bytes(blobs, put_bytes(blobs, b"")) == b""


@pytest.mark.parametrize("size", (PART - 1, PART, PART + 1, 3 * PART, 70 * PART + 7))
def test_a_blob_may_have_any_length(blobs: Blobs, size: int) -> None:
    assert read_bytes(blobs, put_bytes(blobs, noise(size))) == noise(size)


def test_any_position_can_be_read(blobs: Blobs) -> None:
    data = noise(5 * PART + 5)
    with closing(blobs.open(put_bytes(blobs, data))) as stream:
        for start, size in ((4, 3), (4 * PART, 9), (PART - 1, 2), (0, 2 * PART + 1), (len(data) - 2, 9)):
            assert stream.seek(start) == start
            assert stream.read(size) == data[start : start + size]
        assert stream.seek(-3, io.SEEK_END) == len(data) - 3
        assert (stream.read(2), stream.tell()) == (data[-3:-1], len(data) - 1)
        stream.seek(-2, io.SEEK_CUR)
        assert stream.read() == data[-3:]
        stream.seek(len(data) + 100)
        assert stream.read(1) == b""
        with pytest.raises((OSError, ValueError)):
            stream.seek(-1)


def test_lines_are_read_across_parts(blobs: Blobs) -> None:
    lines = [b"%d %s\n" % (number, b"x" * (number % 300)) for number in range(100)]
    with closing(blobs.open(put_bytes(blobs, b"".join(lines)))) as stream:
        assert list(stream) == lines


def test_packed_files_are_read_where_they_are(blobs: Blobs) -> None:
    text = noise(4 * PART)
    tarred, zipped = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=tarred, mode="w:gz") as tar:
        about = tarfile.TarInfo("a.txt")
        about.size = len(text)
        tar.addfile(about, io.BytesIO(text))
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("a.txt", text)
    with closing(blobs.open(put_bytes(blobs, gzip.compress(text)))) as packed, gzip.open(packed) as stream:
        assert stream.read() == text
    with closing(blobs.open(put_bytes(blobs, tarred.getvalue()))) as packed, tarfile.open(fileobj=packed) as tar:
        member = tar.extractfile("a.txt")
        assert member is not None
        assert member.read() == text
    with closing(blobs.open(put_bytes(blobs, zipped.getvalue()))) as packed, zipfile.ZipFile(packed) as archive:
        assert archive.read("a.txt") == text


@pytest.mark.parametrize("size", (4, 4 * PART))
def test_the_same_content_is_kept_once(place: Place, size: int) -> None:
    assert put_bytes(place.blobs, noise(size)) == put_bytes(place.blobs, noise(size))
    assert place.kept() == 1


def test_a_writer_that_fails_leaves_nothing_behind(place: Place) -> None:
    def fail(file: BinaryIO) -> None:
        file.write(noise(2 * PART))
        raise ConnectionError("the other half never came")

    with pytest.raises(ConnectionError, match="never came"):
        place.blobs.put(fail)
    assert place.kept() == 0


def test_what_is_missing_is_told_with_its_remedy(blobs: Blobs) -> None:
    with pytest.raises(BlobMissing, match="ingest its source again") as told:
        blobs.open("ab" * 32)
    assert isinstance(told.value, Permanent), "trying again brings nothing back"


@pytest.mark.parametrize("size", (4, 70 * PART))
def test_a_blob_is_deleted_once(place: Place, size: int) -> None:
    digest = put_bytes(place.blobs, noise(size))
    assert delete_blob(place.blobs, digest)
    assert not delete_blob(place.blobs, digest)
    with pytest.raises(BlobMissing):
        place.blobs.open(digest)
    assert place.kept() == 0


def test_a_blob_that_was_deleted_can_be_put_again(blobs: Blobs) -> None:
    digest = put_bytes(blobs, b"back")
    delete_blob(blobs, digest)
    assert read_bytes(blobs, put_bytes(blobs, b"back")) == b"back"


def test_who_reads_a_small_blob_that_is_deleted_reads_it_to_its_end(blobs: Blobs) -> None:
    digest = put_bytes(blobs, b"still here")
    with closing(blobs.open(digest)) as stream:
        delete_blob(blobs, digest)
        assert stream.read() == b"still here"


def test_a_blob_that_was_put_again_is_not_deleted(place: Place) -> None:
    digest = put_bytes(place.blobs, b"wanted")
    seen = place.blobs.find(digest)
    assert seen == Blob(digest, 6)
    put_bytes(place.blobs, b"wanted")
    assert not place.blobs.delete(digest, seen.put_mark)
    assert read_bytes(place.blobs, digest) == b"wanted"
    again = place.blobs.find(digest)
    assert again is not None
    assert place.blobs.delete(digest, again.put_mark)
    assert place.blobs.find(digest) is None


def test_a_blob_that_was_deleted_and_put_again_is_not_deleted_by_an_old_mark(place: Place) -> None:
    digest = put_bytes(place.blobs, b"wanted")
    seen = place.blobs.find(digest)
    assert seen is not None
    assert place.blobs.delete(digest, seen.put_mark)
    put_bytes(place.blobs, b"wanted")
    assert not place.blobs.delete(digest, seen.put_mark)
    assert read_bytes(place.blobs, digest) == b"wanted"


def test_what_was_put_stays_however_many_delete_what_they_saw_before(place: Place) -> None:
    """Whoever deletes has seen a mark; a put that returns after that is never undone."""
    blobs = place.blobs
    digest = put_bytes(blobs, b"wanted")
    lost: list[int] = []
    done = threading.Event()
    may_look, has_seen = threading.Semaphore(0), threading.Semaphore(0)

    def delete() -> None:
        while True:
            may_look.acquire()
            seen = blobs.find(digest)
            has_seen.release()
            if done.is_set():
                return
            if seen is not None:
                blobs.delete(digest, seen.put_mark)

    def put() -> None:
        for round in range(place.rounds):
            may_look.release()
            has_seen.acquire()
            put_bytes(blobs, b"wanted")
            if blobs.find(digest) is None:
                lost.append(round)
        done.set()
        may_look.release()

    at_once([put, delete])
    assert lost == []


def test_old_blobs_are_told_and_putting_one_again_makes_it_young(place: Place) -> None:
    old, again, young = (put_bytes(place.blobs, data) for data in (b"old", b"again", b"young"))
    place.age(old)
    place.age(again)
    put_bytes(place.blobs, b"again")
    assert list(place.blobs.older_than(DAY)) == [Blob(old, 3)]
    assert {one.digest for one in place.blobs.older_than(-1)} == {old, again, young}


def test_what_a_crash_left_half_written_is_removed_after_a_day(place: Place) -> None:
    put_bytes(place.blobs, b"whole")
    leftover = place.leave_half()
    place.age_halves()
    fresh = place.leave_half()
    assert list(place.blobs.older_than(DAY)) == []
    assert (leftover(), fresh()) == (False, True)


def _tidy(place: Place) -> None:
    """Let a collector pass by: in an object store, puts at the same moment may leave copies until then."""
    list(place.blobs.older_than(DAY))


@pytest.mark.parametrize("size", (8, 8 * PART))
def test_many_put_the_same_at_once(place: Place, size: int) -> None:
    ready = threading.Barrier(8)
    digests: list[str] = []

    def put() -> None:
        def write(file: BinaryIO) -> None:
            file.write(noise(size))
            ready.wait()

        digests.append(place.blobs.put(write).digest)

    at_once([put] * 8)
    assert len(digests) == 8
    assert len(set(digests)) == 1
    _tidy(place)
    assert place.kept() == 1
    assert read_bytes(place.blobs, digests[0]) == noise(size)


@pytest.mark.parametrize("size", (8, 8 * PART))
def test_one_deletes_what_others_put_and_read_it_whole_or_not_at_all(place: Place, size: int) -> None:
    blobs, data = place.blobs, noise(size)
    digest = hashlib.sha256(data).hexdigest()
    done = threading.Event()
    wrong: list[str] = []
    seen = {"whole": 0, "missing": 0, "deleted": 0}

    def put() -> None:
        try:
            for round in itertools.count():
                put_bytes(blobs, data)
                if round >= place.rounds // 4 and seen["deleted"] >= 3:
                    return
        finally:
            done.set()

    def delete() -> None:
        while not done.is_set() or seen["deleted"] < 3:
            seen["deleted"] += delete_blob(blobs, digest)

    def read() -> None:
        while not done.is_set():
            try:
                found = read_bytes(blobs, digest)
            except BlobMissing:
                seen["missing"] += 1
                continue
            seen["whole"] += 1
            if found != data:
                wrong.append(f"{len(found)} bytes of {size}")

    at_once([put, put, delete, read])
    put_bytes(blobs, data)
    assert wrong == []
    assert read_bytes(blobs, digest) == data
    _tidy(place)
    assert place.kept() == 1, seen
