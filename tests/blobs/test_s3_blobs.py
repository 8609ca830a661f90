"""What is special about blobs in an object store: copies, deletions without transactions, damage, parts."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from onward.blobs import BlobCorrupt, BlobMissing
from onward.blobs.s3 import S3Blobs
from onward.ledger.store_errors import StoreFull
from onward.retry import Permanent
from tests.blobs.places import DAY, PART, ObjectPlace, delete_blob, noise, put_bytes, read_bytes
from tests.support.servers import ObjectServer

SIZES = pytest.mark.parametrize("size", (8, 3 * PART))
MAX_REQUESTS = 30
"""More than any call needs for a blob of these tests."""


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def other(in_bucket: ObjectPlace, tmp_path: Path) -> Iterator[S3Blobs]:
    """The same blobs, as another process has them."""
    with closing(S3Blobs(in_bucket.place, tmp_path / "other", part=PART)) as blobs:
        yield blobs


def add_copy(place: ObjectPlace, digest: str) -> None:
    """Make what is left when two processes put the same bytes at the same moment."""
    id = uuid.uuid4().hex
    for key in place.keys(digest):
        name = key.rpartition("/")[2]
        if name.startswith(("data-", "parts-")):
            kind, _, *size = name.split("-")
            copy = key.replace(name, "-".join([kind, id, *size]))
            place.client.copy_object(
                Bucket=place.bucket, Key=copy, CopySource={"Bucket": place.bucket, "Key": key}
            )


@contextmanager
def before_request(blobs: S3Blobs, number: int, act: Callable[[], object]) -> Iterator[list[int]]:
    """Act before a request, counted from 0; yields how many requests there were."""
    count = [0]

    def called(**_: Any) -> None:
        count[0] += 1
        if count[0] == number + 1:
            act()

    events = blobs.client._client.meta.events
    events.register("before-call.s3", called, unique_id="test")
    try:
        yield count
    finally:
        events.unregister("before-call.s3", called, unique_id="test")


# -- who deletes meets who puts


@SIZES
@pytest.mark.parametrize("copies", (1, 2))
def test_a_put_at_any_moment_of_a_deletion_is_never_undone(
    in_bucket: ObjectPlace, other: S3Blobs, size: int, copies: int
) -> None:
    data, blobs = noise(size), in_bucket.blobs
    outcomes = set()
    for moment in range(MAX_REQUESTS):
        digest = put_bytes(blobs, data)
        if copies > 1:
            add_copy(in_bucket, digest)
        seen = blobs.find(digest)
        assert seen is not None
        with before_request(blobs, moment, lambda: put_bytes(other, data)) as count:
            outcomes.add(blobs.delete(digest, seen.put_mark))
        if count[0] <= moment:
            break  # it was over before
        assert read_bytes(other, digest) == data, f"put before request {moment} of the deletion"
    else:
        pytest.fail("a deletion makes more requests than that")
    assert outcomes == {True, False}, "some puts came too late to stop it, and uploaded anew"


@SIZES
@pytest.mark.parametrize("copies", (1, 2))
def test_a_deletion_at_any_moment_of_a_put_never_undoes_it(
    in_bucket: ObjectPlace, other: S3Blobs, size: int, copies: int
) -> None:
    data, blobs = noise(size), in_bucket.blobs
    outcomes = set()
    for moment in range(MAX_REQUESTS):
        digest = put_bytes(blobs, data)
        if copies > 1:
            add_copy(in_bucket, digest)
        seen = blobs.find(digest)
        assert seen is not None
        mark = seen.put_mark
        with before_request(blobs, moment, lambda: outcomes.add(other.delete(digest, mark))) as count:  # noqa: B023
            put_bytes(blobs, data)
        assert read_bytes(other, digest) == data, f"deleted before request {moment} of the put"
        if count[0] <= moment:
            break
    else:
        pytest.fail("a put makes more requests than that")
    assert outcomes == {True, False}


@SIZES
def test_a_put_at_any_moment_of_a_put_is_never_undone(in_bucket: ObjectPlace, other: S3Blobs, size: int) -> None:
    """Each of them may delete a copy of the other."""
    data, blobs = noise(size), in_bucket.blobs
    for moment in range(MAX_REQUESTS):
        digest = put_bytes(blobs, data)
        add_copy(in_bucket, digest)
        with before_request(blobs, moment, lambda: put_bytes(other, data)) as count:
            put_bytes(blobs, data)
        assert read_bytes(other, digest) == data
        if count[0] <= moment:
            break


def test_copies_are_reduced_to_one_by_the_next_put_or_the_next_collection(in_bucket: ObjectPlace) -> None:
    for size in (8, 3 * PART):
        digest = put_bytes(in_bucket.blobs, noise(size))
        for tidy in (lambda size=size: put_bytes(in_bucket.blobs, noise(size)), lambda: old(in_bucket)):
            add_copy(in_bucket, digest)
            assert len(in_bucket.keys(f"{digest}/data-")) == 2
            tidy()
            assert len(in_bucket.keys(f"{digest}/data-")) == 1
            assert len(in_bucket.keys(f"{digest}/parts-")) == (size > PART)
            assert read_bytes(in_bucket.blobs, digest) == noise(size)


def old(place: ObjectPlace) -> list[str]:
    return [blob.digest for blob in place.blobs.older_than(DAY)]


def test_a_reader_goes_on_with_another_copy(in_bucket: ObjectPlace) -> None:
    data = noise(9 * PART)
    digest = put_bytes(in_bucket.blobs, data)
    (before,) = in_bucket.keys("/data-")
    with closing(in_bucket.blobs.open(digest)) as stream:
        start = stream.read(10)
        add_copy(in_bucket, digest)
        in_bucket.client.delete_object(Bucket=in_bucket.bucket, Key=before)
        assert start + stream.read() == data


def test_who_reads_a_large_blob_that_is_deleted_is_told(in_bucket: ObjectPlace) -> None:
    digest = put_bytes(in_bucket.blobs, noise(100 * PART))
    with closing(in_bucket.blobs.open(digest)) as stream:
        stream.read(10)
        assert delete_blob(in_bucket.blobs, digest)
        with pytest.raises(BlobMissing, match=digest[:12]):
            stream.read()


# -- what dead processes leave


def test_a_deletion_of_a_dead_process_hinders_puts_for_an_hour(in_bucket: ObjectPlace, other: S3Blobs) -> None:
    digest = put_bytes(in_bucket.blobs, b"wanted")
    in_bucket.replace(f"{in_bucket.place.prefix}{digest}/drop-{'ab' * 16}", b"")
    put_bytes(in_bucket.blobs, b"wanted")
    assert in_bucket.kept() == 2, "it was uploaded anew, as the other one may be deleted at any moment"
    in_bucket.server.ask("age", bucket=in_bucket.bucket, part_of_key="/drop-", seconds=4_000)
    put_bytes(in_bucket.blobs, b"wanted")
    assert in_bucket.kept() == 1
    assert read_bytes(other, digest) == b"wanted"


def test_what_dead_processes_left_is_collected_after_a_day(in_bucket: ObjectPlace) -> None:
    digest, lost = put_bytes(in_bucket.blobs, b"wanted"), digest_of(b"lost")
    folder = f"{in_bucket.place.prefix}{digest}/"
    leftovers = {
        f"{folder}drop-{'ab' * 16}",
        f"{folder}parts-{'cd' * 16}",
        f"{in_bucket.place.prefix}{lost}/put",
        f"{in_bucket.place.prefix}{lost}/parts-{'ef' * 16}",
        f"{in_bucket.place.prefix}doctor-{'ab' * 16}",
    }
    foreign = {f"{in_bucket.place.prefix}notes.txt", "elsewhere/put"}
    kept = set(in_bucket.keys()) | foreign
    for key in leftovers | foreign:
        in_bucket.replace(key, b"{}")
    assert old(in_bucket) == []
    assert set(in_bucket.keys()) == kept | leftovers, "they are young"
    for key in leftovers | kept:
        in_bucket.age(key)
    assert old(in_bucket) == [digest]
    assert set(in_bucket.keys()) == kept, "what is not ours stays"


def test_an_upload_that_still_gets_parts_is_not_collected(in_bucket: ObjectPlace) -> None:
    key = f"{in_bucket.place.prefix}{'ab' * 32}/data-{'cd' * 16}-8"
    about = {"Bucket": in_bucket.bucket, "Key": key}
    upload = in_bucket.client.create_multipart_upload(**about)["UploadId"]
    in_bucket.age(key)
    in_bucket.client.upload_part(**about, UploadId=upload, PartNumber=1, Body=b"half")
    old(in_bucket)
    assert in_bucket.uploads() == [key]
    in_bucket.age(key)
    old(in_bucket)
    assert in_bucket.uploads() == []


def test_a_server_that_does_not_list_uploads_is_no_reason_not_to_collect(
    in_bucket: ObjectPlace, caplog: pytest.LogCaptureFixture
) -> None:
    digest = put_bytes(in_bucket.blobs, b"old")
    in_bucket.age(digest)
    in_bucket.server.ask("fail", status=400, code="NotImplemented", count=1, about="uploads")
    assert old(in_bucket) == [digest]
    assert "abandoned uploads are not collected" in caplog.text


def test_a_lost_response_to_the_end_of_an_upload_is_no_failure(in_bucket: ObjectPlace) -> None:
    in_bucket.server.ask("lose", about="POST /" + in_bucket.bucket)
    in_bucket.blobs.client._client.meta.events.register(
        "before-call.s3.CreateMultipartUpload", lambda **_: in_bucket.server.ask("lose", about="no request")
    )
    in_bucket.blobs.client._client.meta.events.register(
        "before-call.s3.CompleteMultipartUpload", lambda **_: in_bucket.server.ask("lose", about="uploadId")
    )
    digest = put_bytes(in_bucket.blobs, noise(5 * PART))
    assert read_bytes(in_bucket.blobs, digest) == noise(5 * PART)
    assert in_bucket.kept() == 1


def test_an_upload_that_fails_is_aborted(in_bucket: ObjectPlace) -> None:
    in_bucket.server.ask("fail", status=400, code="BadDigest", count=1, about="partNumber=3")
    with pytest.raises(Exception, match="BadDigest"):
        put_bytes(in_bucket.blobs, noise(5 * PART))
    assert in_bucket.keys() == []
    assert in_bucket.uploads() == []


PUT = """
import sys
from pathlib import Path
from onward.blobs.s3 import S3Blobs
from onward.s3_place import parse_s3_url
data = Path(sys.argv[2]).read_bytes()
S3Blobs(parse_s3_url(sys.argv[1]), Path(sys.argv[3]), part=1000).put(lambda file: file.write(data))
"""


@pytest.mark.prove
def test_a_process_that_is_killed_during_an_upload_leaves_nothing_that_is_found(
    in_bucket: ObjectPlace, tmp_path: Path, report: Callable[[str], None]
) -> None:
    data = noise(60 * PART)
    (tmp_path / "data").write_bytes(data)
    for part in (1, 2, 30, 60):
        in_bucket.server.ask("hold", part=part)
        process = subprocess.Popen(
            [sys.executable, "-c", PUT, in_bucket.url, tmp_path / "data", tmp_path / "killed"]
        )
        try:
            assert in_bucket.server.ask("held", seconds=50), "the upload has come to this part"
        finally:
            process.kill()
            process.wait()
            in_bucket.server.ask("release")
    assert in_bucket.blobs.find(digest_of(data)) is None
    assert in_bucket.keys() == []
    assert old(in_bucket) == []
    assert len(in_bucket.uploads()) == 4, "they are young, and may go on"
    in_bucket.age_halves()
    assert old(in_bucket) == []
    assert in_bucket.uploads() == []
    assert read_bytes(in_bucket.blobs, put_bytes(in_bucket.blobs, data)) == data
    report("killed at 4 moments of an upload: nothing found, 4 incomplete uploads collected after a day")


# -- damage


def damage(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def the_data(place: ObjectPlace) -> str:
    (key,) = place.keys("/data-")
    return key


@pytest.mark.parametrize("position", (0, PART // 2, PART - 1))
def test_a_small_blob_that_was_damaged_is_never_returned(in_bucket: ObjectPlace, position: int) -> None:
    digest = put_bytes(in_bucket.blobs, noise(PART))
    in_bucket.replace(the_data(in_bucket), damage(noise(PART), position))
    with pytest.raises(BlobCorrupt, match=f"Delete what is below s3://{in_bucket.bucket}/blobs/{digest}/") as told:
        in_bucket.blobs.open(digest)
    assert isinstance(told.value, Permanent), "trying again brings nothing back"


@pytest.mark.parametrize("part", (0, 3, 6))
def test_a_part_that_was_damaged_is_never_returned(in_bucket: ObjectPlace, part: int) -> None:
    data = noise(6 * PART + 100)
    digest = put_bytes(in_bucket.blobs, data)
    in_bucket.replace(the_data(in_bucket), damage(data, part * PART + 50))
    read = io.BytesIO()
    with closing(in_bucket.blobs.open(digest)) as stream, pytest.raises(BlobCorrupt, match=f"in part {part}"):
        shutil.copyfileobj(stream, read, 100)
    assert data.startswith(read.getvalue())
    with closing(in_bucket.blobs.open(digest)) as stream:
        stream.seek(part * PART + 60)
        with pytest.raises(BlobCorrupt):
            stream.read(1)


@SIZES
def test_a_truncated_blob_is_told_and_mended_by_the_next_put(in_bucket: ObjectPlace, size: int) -> None:
    digest = put_bytes(in_bucket.blobs, noise(size))
    in_bucket.replace(the_data(in_bucket), noise(size)[:-1])
    with pytest.raises(BlobCorrupt, match="not as it was uploaded"):
        in_bucket.blobs.open(digest)
    assert in_bucket.blobs.find(digest) is None
    assert put_bytes(in_bucket.blobs, noise(size)) == digest
    assert read_bytes(in_bucket.blobs, digest) == noise(size)
    in_bucket.age(digest)
    assert old(in_bucket) == [digest]
    assert delete_blob(in_bucket.blobs, digest)
    assert in_bucket.keys() == []


def test_a_damaged_table_of_parts_is_told(in_bucket: ObjectPlace) -> None:
    data = noise(3 * PART)
    digest = put_bytes(in_bucket.blobs, data)
    (key,) = in_bucket.keys("/parts-")
    table = json.loads(in_bucket.content(key))
    wrong = [digest_of(data[:PART]), digest_of(b"other"), table["parts"][2]]
    for text in (b"{", b"{}", b"[]", json.dumps({**table, "parts": wrong[:2]}).encode()):
        in_bucket.replace(key, text)
        with pytest.raises(BlobCorrupt):
            read_bytes(in_bucket.blobs, digest)


def test_a_table_of_the_parts_of_another_blob_is_told(in_bucket: ObjectPlace) -> None:
    """Data and table fit each other, but not the digest by which the blob is asked for."""
    mine, others = noise(3 * PART), noise(3 * PART)[::-1]
    digest, other = (put_bytes(in_bucket.blobs, data) for data in (mine, others))
    for kind in ("data", "parts"):
        ((target,), (source,)) = (in_bucket.keys(f"{one}/{kind}-") for one in (digest, other))
        in_bucket.replace(target, in_bucket.content(source))
    with pytest.raises(BlobCorrupt, match="of another one"):
        read_bytes(in_bucket.blobs, digest)


def test_a_large_blob_without_its_table_is_told(in_bucket: ObjectPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.blobs.s3.PART_BYTES", PART)
    digest = put_bytes(in_bucket.blobs, noise(3 * PART))
    (key,) = in_bucket.keys("/parts-")
    in_bucket.client.delete_object(Bucket=in_bucket.bucket, Key=key)
    with pytest.raises(BlobCorrupt, match="lacks the table"):
        in_bucket.blobs.open(digest)


# -- parts


def test_only_what_is_read_is_fetched(in_bucket: ObjectPlace) -> None:
    digest = put_bytes(in_bucket.blobs, noise(20 * PART))
    in_bucket.server.ask("requests")
    with closing(in_bucket.blobs.open(digest)) as stream:
        stream.seek(-10, io.SEEK_END)
        assert stream.read() == noise(20 * PART)[-10:]
    fetched = [one for one in in_bucket.server.ask("requests") if "/data-" in one]
    assert [one.rpartition(" ")[2] for one in fetched] == ["bytes=19000-19999"]


def test_parts_of_another_length_are_read_too(in_bucket: ObjectPlace, tmp_path: Path) -> None:
    digest = put_bytes(in_bucket.blobs, noise(5 * PART))
    with closing(S3Blobs(in_bucket.place, tmp_path, part=PART // 3)) as other:
        assert read_bytes(other, digest) == noise(5 * PART)
        assert put_bytes(other, noise(5 * PART)) == digest
    assert in_bucket.kept() == 1


def test_a_blob_has_no_more_parts_than_the_protocol_takes(
    in_bucket: ObjectPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.blobs.s3.MAX_PARTS", 4)
    digest = put_bytes(in_bucket.blobs, noise(9 * PART))
    (key,) = in_bucket.keys("/parts-")
    assert len(json.loads(in_bucket.content(key))["parts"]) == 4
    assert read_bytes(in_bucket.blobs, digest) == noise(9 * PART)


def test_a_scratch_folder_that_cannot_be_written_is_told_with_a_remedy(
    in_bucket: ObjectPlace, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    with (
        closing(S3Blobs(in_bucket.place, tmp_path / "file" / "scratch")) as blobs,
        pytest.raises(StoreFull, match="ONWARD_HOME"),
    ):
        put_bytes(blobs, b"")


def test_nothing_is_left_in_the_scratch_folder(in_bucket: ObjectPlace) -> None:
    put_bytes(in_bucket.blobs, noise(40 * PART))
    assert list(in_bucket.blobs.scratch.iterdir()) == []


LARGE = int(os.environ.get("LARGE_BLOB_BYTES", "200000000"))
"""moto reads a whole object for each range of it: larger ones take long."""
STREAM = r"""
import hashlib, random, re, sys
from pathlib import Path
from onward.blobs.s3 import S3Blobs
from onward.s3_place import parse_s3_url
blobs, total = S3Blobs(parse_s3_url(sys.argv[1]), Path(sys.argv[2])), int(sys.argv[3])
blobs.find("ab" * 32)  # botocore loads what it needs
# Not `ru_maxrss`, which begins with that of the process that started this one.
peak = lambda: int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024
before, piece = peak(), random.Random(0).randbytes(1 << 20)

def write(file):
    for number in range(total >> 20):
        file.write(number.to_bytes(4) + piece[4:])

digest, read = blobs.put(write).digest, hashlib.sha256()
put = peak() - before
with blobs.open(digest) as stream:
    while data := stream.read(1 << 20):
        read.update(data)
print(read.hexdigest() == digest, put, peak() - before)
"""


@pytest.mark.prove
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak of memory from there")
def test_a_large_blob_is_put_and_read_in_little_memory(
    in_bucket: ObjectPlace, tmp_path: Path, report: Callable[[str], None]
) -> None:
    given = [sys.executable, "-c", STREAM, in_bucket.url, str(tmp_path), str(LARGE)]
    ran = subprocess.run(given, capture_output=True, text=True, check=True, env=os.environ)
    same, put, read = ran.stdout.split()
    assert same == "True"
    assert max(int(put), int(read)) < LARGE // 2
    grown = f"{int(put) >> 20} MiB to put it, {int(read) >> 20} MiB to put and read it"
    report(f"{LARGE >> 20} MiB: at most so much more memory: {grown}")


def test_two_prefixes_of_a_bucket_know_nothing_of_each_other(
    object_server: ObjectServer, in_bucket: ObjectPlace, tmp_path: Path
) -> None:
    digest = put_bytes(in_bucket.blobs, b"here")
    there = ObjectPlace(object_server, object_server.url(in_bucket.bucket, "blobs/2"), tmp_path)
    with closing(there):
        assert there.blobs.find(digest) is None
        put_bytes(there.blobs, b"there")
        in_bucket.age("blobs")
        assert old(in_bucket) == [digest]
        assert old(there) == [digest_of(b"there")]
