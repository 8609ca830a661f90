"""Blobs: large bytes, kept once under the digest of their content, whole or not at all, wherever they are kept."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import os
import random
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import psycopg
import pytest

from onward import App
from onward.backend_urls import open_blobs
from onward.blobs import Blob, BlobMissing, Blobs
from onward.blobs.folder import FolderBlobs
from onward.blobs.postgres import PostgresBlobs
from onward.ledger.postgres.connections import Connections
from onward.ledger.store_errors import StoreError, StoreFull
from onward.retry import Permanent
from onward.settings import load_settings
from tests.support.servers import PostgresServer

PART = 1000
"""Bytes in a part here, so that small blobs have many parts."""
DAY = 86_400.0


class Place(Protocol):
    """Where blobs are kept, seen from behind."""

    blobs: Blobs

    def kept(self) -> int:
        """How many blobs are there, whole or not."""
        ...

    def age(self, digest: str) -> None:
        """Make it look as if it had been put a day ago."""
        ...

    def leave_half(self) -> Callable[[], bool]:
        """Leave what a process leaves that dies while it puts something; the answer says if it is still there."""
        ...

    def age_halves(self) -> None:
        """Make what was left half written look a day old."""
        ...


class FolderPlace:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blobs: Blobs = FolderBlobs(folder)
        self._names = itertools.count()

    def kept(self) -> int:
        return sum(1 for one in self.folder.rglob("*") if one.is_file() and one.name != ".lock")

    def age(self, digest: str) -> None:
        _make_old(self.folder / digest[:2] / digest[2:])

    def leave_half(self) -> Callable[[], bool]:
        path = self.folder / f"new-{next(self._names)}"
        path.write_bytes(b"half")
        return path.exists

    def age_halves(self) -> None:
        for path in self.folder.glob("new-*"):
            _make_old(path)


class PostgresPlace:
    def __init__(self, url: str, scratch: Path) -> None:
        self.url = url
        self.blobs: Blobs = PostgresBlobs(url, scratch, part=PART)
        self._connections = Connections(url, patience=60.0)

    def ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._connections.use() as connection:
            cursor = connection.execute(query.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def kept(self) -> int:
        [(rows,)] = self.ask("SELECT count(*) FROM blobs")
        [(owners,)] = self.ask("SELECT count(DISTINCT blob) FROM blob_parts")
        assert rows == owners, "no parts without a blob, no blob without parts"
        return int(rows)

    def age(self, digest: str) -> None:
        self.ask("UPDATE blobs SET put_at = put_at - interval '100000 s' WHERE digest = $1", digest)

    def leave_half(self) -> Callable[[], bool]:
        [(id,)] = self.ask("INSERT INTO blobs (size) VALUES (8) RETURNING id")
        self.ask("INSERT INTO blob_parts (blob, part, bytes) VALUES ($1, 0, 'half')", id)
        return lambda: bool(self.ask("SELECT 1 FROM blob_parts WHERE blob = $1", id))

    def age_halves(self) -> None:
        self.ask("UPDATE blobs SET put_at = put_at - interval '100000 s' WHERE digest IS NULL")

    def close(self) -> None:
        assert isinstance(self.blobs, PostgresBlobs)
        self.blobs.close()
        self._connections.close()


def _delete(blobs: Blobs, digest: str) -> bool:
    found = blobs.find(digest)
    return found is not None and blobs.delete(digest, found.put_mark)


def _make_old(path: Path) -> None:
    yesterday = time.time() - 100_000
    os.utime(path, (yesterday, yesterday))


@pytest.fixture
def in_postgres(postgres_store_url: str, tmp_path: Path) -> Iterator[PostgresPlace]:
    with closing(PostgresPlace(postgres_store_url, tmp_path / "scratch")) as place:
        yield place


@pytest.fixture(params=["folder", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        return FolderPlace(tmp_path / "blobs")
    found: Place = request.getfixturevalue("in_postgres")
    return found


@pytest.fixture
def blobs(place: Place) -> Blobs:
    return place.blobs


def _put(blobs: Blobs, data: bytes) -> str:
    return blobs.put(lambda file: _write(file, data)).digest


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)


def _read(blobs: Blobs, digest: str) -> bytes:
    with closing(blobs.open(digest)) as stream:
        return stream.read()


def _noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def test_what_was_put_is_read_back(blobs: Blobs) -> None:
    def write(file: BinaryIO) -> None:
        file.write(b"one ")
        file.write(b"two")

    blob = blobs.put(write)
    assert (blob.digest, blob.size) == (hashlib.sha256(b"one two").hexdigest(), 7)
    assert _read(blobs, blob.digest) == b"one two"


def test_nothing_is_a_blob_too(blobs: Blobs) -> None:
    assert _read(blobs, _put(blobs, b"")) == b""


@pytest.mark.parametrize("size", (PART - 1, PART, PART + 1, 3 * PART, 70 * PART + 7))
def test_a_blob_may_have_any_length(blobs: Blobs, size: int) -> None:
    assert _read(blobs, _put(blobs, _noise(size))) == _noise(size)


def test_any_position_can_be_read(blobs: Blobs) -> None:
    data = _noise(5 * PART + 5)
    with closing(blobs.open(_put(blobs, data))) as stream:
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
    with closing(blobs.open(_put(blobs, b"".join(lines)))) as stream:
        assert list(stream) == lines


def test_packed_files_are_read_where_they_are(blobs: Blobs) -> None:
    text = _noise(4 * PART)
    tarred, zipped = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=tarred, mode="w:gz") as tar:
        about = tarfile.TarInfo("a.txt")
        about.size = len(text)
        tar.addfile(about, io.BytesIO(text))
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("a.txt", text)
    with closing(blobs.open(_put(blobs, gzip.compress(text)))) as packed, gzip.open(packed) as stream:
        assert stream.read() == text
    with closing(blobs.open(_put(blobs, tarred.getvalue()))) as packed, tarfile.open(fileobj=packed) as tar:
        member = tar.extractfile("a.txt")
        assert member is not None
        assert member.read() == text
    with closing(blobs.open(_put(blobs, zipped.getvalue()))) as packed, zipfile.ZipFile(packed) as archive:
        assert archive.read("a.txt") == text


@pytest.mark.parametrize("size", (4, 4 * PART))
def test_the_same_content_is_kept_once(place: Place, size: int) -> None:
    assert _put(place.blobs, _noise(size)) == _put(place.blobs, _noise(size))
    assert place.kept() == 1


def test_a_writer_that_fails_leaves_nothing_behind(place: Place) -> None:
    def fail(file: BinaryIO) -> None:
        file.write(_noise(2 * PART))
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
    digest = _put(place.blobs, _noise(size))
    assert _delete(place.blobs, digest)
    assert not _delete(place.blobs, digest)
    with pytest.raises(BlobMissing):
        place.blobs.open(digest)
    assert place.kept() == 0


def test_a_blob_that_was_deleted_can_be_put_again(blobs: Blobs) -> None:
    digest = _put(blobs, b"back")
    _delete(blobs, digest)
    assert _read(blobs, _put(blobs, b"back")) == b"back"


def test_who_reads_a_small_blob_that_is_deleted_reads_it_to_its_end(blobs: Blobs) -> None:
    digest = _put(blobs, b"still here")
    with closing(blobs.open(digest)) as stream:
        _delete(blobs, digest)
        assert stream.read() == b"still here"


def test_a_blob_that_was_put_again_is_not_deleted(place: Place) -> None:
    digest = _put(place.blobs, b"wanted")
    seen = place.blobs.find(digest)
    assert seen == Blob(digest, 6)
    _put(place.blobs, b"wanted")
    assert not place.blobs.delete(digest, seen.put_mark)
    assert _read(place.blobs, digest) == b"wanted"
    again = place.blobs.find(digest)
    assert again is not None
    assert place.blobs.delete(digest, again.put_mark)
    assert place.blobs.find(digest) is None


def test_a_blob_that_was_deleted_and_put_again_is_not_deleted_by_an_old_mark(place: Place) -> None:
    digest = _put(place.blobs, b"wanted")
    seen = place.blobs.find(digest)
    assert seen is not None
    assert place.blobs.delete(digest, seen.put_mark)
    _put(place.blobs, b"wanted")
    assert not place.blobs.delete(digest, seen.put_mark)
    assert _read(place.blobs, digest) == b"wanted"


def test_what_was_put_stays_however_many_delete_what_they_saw_before(place: Place) -> None:
    """Whoever deletes has seen a mark; a put that returns after that is never undone."""
    blobs = place.blobs
    digest = _put(blobs, b"wanted")
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
        for round in range(100):
            may_look.release()
            has_seen.acquire()
            _put(blobs, b"wanted")
            if blobs.find(digest) is None:
                lost.append(round)
        done.set()
        may_look.release()

    _at_once([put, delete])
    assert lost == []


def test_old_blobs_are_told_and_putting_one_again_makes_it_young(place: Place) -> None:
    old, again, young = (_put(place.blobs, data) for data in (b"old", b"again", b"young"))
    place.age(old)
    place.age(again)
    _put(place.blobs, b"again")
    assert list(place.blobs.older_than(DAY)) == [Blob(old, 3)]
    assert {one.digest for one in place.blobs.older_than(-1)} == {old, again, young}


def test_what_a_crash_left_half_written_is_removed_after_a_day(place: Place) -> None:
    _put(place.blobs, b"whole")
    leftover = place.leave_half()
    place.age_halves()
    fresh = place.leave_half()
    assert list(place.blobs.older_than(DAY)) == []
    assert (leftover(), fresh()) == (False, True)


def test_a_put_that_ends_meanwhile_does_not_disturb_the_search_for_old_blobs(tmp_path: Path) -> None:
    (tmp_path / "new-gone").symlink_to(tmp_path / "nowhere")  # it is listed, but there is no file any more
    assert not list(FolderBlobs(tmp_path).older_than(0))


@pytest.mark.parametrize("size", (8, 8 * PART))
def test_many_put_the_same_at_once(place: Place, size: int) -> None:
    ready = threading.Barrier(8)
    digests: list[str] = []

    def put() -> None:
        def write(file: BinaryIO) -> None:
            file.write(_noise(size))
            ready.wait()

        digests.append(place.blobs.put(write).digest)

    _at_once([put] * 8)
    assert len(digests) == 8
    assert len(set(digests)) == 1
    assert place.kept() == 1
    assert _read(place.blobs, digests[0]) == _noise(size)


def _at_once(steps: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=step) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_folder_that_cannot_be_written_is_told_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreFull, match="ONWARD_BLOBS"):
        _put(FolderBlobs(tmp_path / "file" / "blobs"), b"")


# -- in PostgreSQL


@pytest.mark.parametrize("size", (8, 8 * PART))
def test_one_deletes_what_others_put_and_read_it_whole_or_not_at_all(
    in_postgres: PostgresPlace, size: int
) -> None:
    blobs, data = in_postgres.blobs, _noise(size)
    digest = hashlib.sha256(data).hexdigest()
    done = threading.Event()
    wrong: list[str] = []
    seen = {"whole": 0, "missing": 0, "deleted": 0}

    def put() -> None:
        try:
            for round in itertools.count():
                _put(blobs, data)
                if round >= 25 and seen["deleted"] >= 3:
                    return
        finally:
            done.set()

    def delete() -> None:
        while not done.is_set() or seen["deleted"] < 3:
            seen["deleted"] += _delete(blobs, digest)

    def read() -> None:
        while not done.is_set():
            try:
                found = _read(blobs, digest)
            except BlobMissing:
                seen["missing"] += 1
                continue
            seen["whole"] += 1
            if found != data:
                wrong.append(f"{len(found)} bytes of {size}")

    _at_once([put, put, delete, read])
    _put(blobs, data)
    assert wrong == []
    assert _read(blobs, digest) == data
    assert in_postgres.kept() == 1, seen


def test_an_upload_that_was_held_for_given_up_begins_anew(in_postgres: PostgresPlace) -> None:
    # A collector comes by in the middle of the first upload, as if that had stood still for a day.
    in_postgres.ask("CREATE SEQUENCE comes")
    in_postgres.ask(
        """
        CREATE FUNCTION collect() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF new.part = 3 AND nextval('comes') = 1 THEN
            UPDATE blobs SET put_at = '-infinity' WHERE id = new.blob;
          END IF;
          RETURN NULL;
        END $$"""
    )
    in_postgres.ask("CREATE TRIGGER collect AFTER INSERT ON blob_parts FOR EACH ROW EXECUTE FUNCTION collect()")
    try:
        digest = _put(in_postgres.blobs, _noise(8 * PART))
        assert in_postgres.ask("SELECT last_value FROM comes") == [(2,)], "it came that far twice"
    finally:
        in_postgres.ask("DROP FUNCTION collect() CASCADE")
        in_postgres.ask("DROP SEQUENCE comes")
    assert _read(in_postgres.blobs, digest) == _noise(8 * PART)
    assert in_postgres.kept() == 1


def test_who_reads_a_large_blob_that_is_deleted_is_told(in_postgres: PostgresPlace) -> None:
    blobs = in_postgres.blobs
    digest = _put(blobs, _noise(200 * PART))
    with closing(blobs.open(digest)) as stream:
        assert stream.read(10) == _noise(200 * PART)[:10]
        _delete(blobs, digest)
        with pytest.raises(BlobMissing, match=digest[:12]):
            stream.read()


def test_a_server_that_was_restarted_is_asked_again(
    in_postgres: PostgresPlace, postgres_server: PostgresServer
) -> None:
    blobs, data = in_postgres.blobs, _noise(200 * PART)
    with closing(blobs.open(_put(blobs, data))) as stream:
        start = stream.read(10)
        postgres_server.kill()
        postgres_server.start()
        assert start + stream.read() == data


def test_only_what_is_read_is_fetched(in_postgres: PostgresPlace) -> None:
    digest = _put(in_postgres.blobs, _noise(200 * PART))
    in_postgres.ask("DELETE FROM blob_parts WHERE part BETWEEN 100 AND 120")
    with closing(in_postgres.blobs.open(digest)) as stream:
        stream.seek(-10, io.SEEK_END)
        assert stream.read() == _noise(200 * PART)[-10:]


def test_parts_of_another_length_are_read_too(in_postgres: PostgresPlace, tmp_path: Path) -> None:
    digest = _put(in_postgres.blobs, _noise(5 * PART))
    with closing(PostgresBlobs(in_postgres.url, tmp_path, part=PART // 3)) as other:
        assert _read(other, digest) == _noise(5 * PART)
        assert _put(other, _noise(5 * PART)) == digest
    assert in_postgres.kept() == 1


def test_a_scratch_folder_that_cannot_be_written_is_told_with_a_remedy(
    in_postgres: PostgresPlace, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    with (
        closing(PostgresBlobs(in_postgres.url, tmp_path / "file" / "scratch")) as blobs,
        pytest.raises(StoreFull, match="ONWARD_HOME"),
    ):
        _put(blobs, b"")


def test_nothing_is_left_in_the_scratch_folder(in_postgres: PostgresPlace, tmp_path: Path) -> None:
    _put(in_postgres.blobs, _noise(40 * PART))
    assert list((tmp_path / "scratch").iterdir()) == []


# -- choosing


def test_blobs_are_in_a_folder_below_the_data_folder(tmp_path: Path) -> None:
    blobs = open_blobs(None, tmp_path, "sqlite:///somewhere.db")
    assert isinstance(blobs, FolderBlobs)
    assert blobs.folder == tmp_path / "blobs"


def test_a_fleet_keeps_its_blobs_in_the_database_of_its_store(postgres_store_url: str, tmp_path: Path) -> None:
    app = App(settings=load_settings({"ONWARD_STORE": postgres_store_url, "ONWARD_HOME": str(tmp_path)}))
    assert isinstance(app.blobs, PostgresBlobs)
    digest = _put(app.blobs, b"shared")
    app.blobs.close()
    with closing(psycopg.connect(postgres_store_url.partition("?")[0])) as eye:
        schema = postgres_store_url.rpartition("=")[2]
        found = eye.execute(f"SELECT digest FROM {schema}.blobs".encode()).fetchall()
    assert found == [(digest,)]


def test_a_folder_that_is_named_is_used_even_by_a_fleet(postgres_store_url: str, tmp_path: Path) -> None:
    blobs = open_blobs(str(tmp_path / "shared"), tmp_path, postgres_store_url)
    assert isinstance(blobs, FolderBlobs)
    assert blobs.folder == tmp_path / "shared"


def test_a_database_of_their_own_can_be_named(postgres_url: str, tmp_path: Path) -> None:
    blobs = open_blobs(postgres_url, tmp_path, "sqlite:///somewhere.db")
    assert isinstance(blobs, PostgresBlobs)
    with closing(blobs):
        assert _read(blobs, _put(blobs, b"apart")) == b"apart"


def test_a_place_that_nobody_knows_is_told_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"'s3'; let ONWARD_BLOBS name a folder"):
        open_blobs("s3://bucket/key", tmp_path)
