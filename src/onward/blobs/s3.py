"""Blobs in an object store that speaks the S3 protocol: for workers on many machines, and for much data.

Below the prefix each blob has a folder of its own, named by its SHA-256:

    data-ID-SIZE    its bytes; an object is there when its upload is complete, and never changes
    parts-ID        the digests of its parts, if it has several
    put             a new word each time the same bytes are put again: the blob counts as put then
    drop-ID         a process is deleting what it saw here before

Requests cannot be joined to a transaction, and not every server has conditional ones. So it rests on two facts:
a listing shows all that was written before it, and IDs are never used twice. Who deletes writes a `drop`, lists,
and goes on if nothing was put since it had looked. Who puts what is there already writes `put`, lists, and uploads
anew if there is a `drop` by then. Whatever the order, one of them sees the other; and what was uploaded anew is
not among the keys that the other deletes. Puts of the same bytes at the same moment may all upload: the next put,
or the next collection, leaves one copy.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

from onward.blobs import Blob, BlobCorrupt, missing
from onward.blobs.parts import PartReader, Spool, spooled
from onward.blobs.s3_client import ATTEMPTS, ObjectGone, S3Client, S3Object, UploadGone
from onward.ledger.store_errors import StoreError
from onward.s3_place import S3Place

log = logging.getLogger("onward")

PART_BYTES = 8 << 20  # of an upload, of a checked digest, and of a request that reads
MAX_PARTS = 10_000  # the protocol takes no more
DROP_SECONDS = 600.0  # after this time, a deletion that has not come to its end stops
STALE_DROP_SECONDS = 3_600.0  # by then no request of a deletion is under way any more
_LEFTOVER_SECONDS = 86_400.0
_READS = 2  # of a part that has another digest, before it counts as damaged
_REOPENINGS = 3
_KEY = re.compile(
    r"(?P<digest>[0-9a-f]{64})/(?:data-(?P<data>[0-9a-f]{32})-(?P<size>\d+)|parts-(?P<parts>[0-9a-f]{32})"
    r"|(?P<put>put)|drop-(?P<drop>[0-9a-f]{32}))"
)
PROBE = "doctor-"


@dataclass(frozen=True, slots=True)
class _Copy:
    """One upload of a blob's bytes."""

    id: str
    size: int
    object: S3Object

    @property
    def whole(self) -> bool:
        return self.object.size == self.size


class _BlobFolder:
    """What a listing shows of one blob."""

    def __init__(self, digest: str, objects: Iterable[tuple[re.Match[str], S3Object]]) -> None:
        self.digest = digest
        self.copies: list[_Copy] = []
        self.tables: dict[str, S3Object] = {}
        self.drops: list[S3Object] = []
        self.put: S3Object | None = None
        for match, found in objects:
            if match["data"]:
                self.copies.append(_Copy(match["data"], int(match["size"]), found))
            elif match["parts"]:
                self.tables[match["parts"]] = found
            elif match["put"]:
                self.put = found
            else:
                self.drops.append(found)
        self.whole = sorted((copy for copy in self.copies if copy.whole), key=lambda copy: copy.id)

    @cached_property
    def lasting(self) -> list[S3Object]:
        """All objects but those of deletions: the bytes, then what belongs to them."""
        marker = [self.put] if self.put is not None else []
        return [*(copy.object for copy in self.copies), *self.tables.values(), *marker]

    @property
    def put_mark(self) -> int:
        """A number that changes with each put."""
        names = sorted(f"{one.key} {one.etag}" for one in self.lasting)
        return int.from_bytes(hashlib.sha256("\n".join(names).encode()).digest()[:7])

    @property
    def put_at(self) -> float:
        return max((one.modified for one in self.lasting), default=0.0)

    @property
    def is_dropped(self) -> bool:
        """Whether a deletion may be under way, for who has just written `put`."""
        now = self.put.modified if self.put is not None else 0.0
        return any(drop.modified > now - STALE_DROP_SECONDS for drop in self.drops)

    def blob(self) -> Blob:
        return Blob(self.digest, (self.whole or self.copies)[0].size, self.put_mark)


class S3Blobs:
    """Keeps blobs in a bucket; see `onward.blobs` and above. `put` spools to a temporary file in `scratch`."""

    def __init__(self, place: S3Place, scratch: Path, *, part: int = PART_BYTES, attempts: int = ATTEMPTS) -> None:
        self.scratch = scratch
        self.client = S3Client(place, attempts=attempts)
        self._prefix = place.prefix
        self._part = part

    def close(self) -> None:
        self.client.close()

    def put(self, write: Callable[[BinaryIO], None]) -> Blob:
        with spooled(write, self.scratch, self._part) as spool:
            blob = spool.blob()
            if not self.renew(blob.digest):
                self._upload(blob, spool)
            return blob

    def open(self, digest: str) -> BinaryIO:
        seen = self._look(digest)
        for _ in range(_REOPENINGS):
            if not seen.whole:
                break
            with suppress(ObjectGone):  # another copy may be left
                return self._open(seen)
            seen = self._look(digest)
        if seen.copies:
            raise self._corrupt(digest, "is not as it was uploaded, or lacks the table of its parts")
        raise missing(digest, self.client)

    def find(self, digest: str) -> Blob | None:
        seen = self._look(digest)
        return seen.blob() if seen.whole else None

    def renew(self, digest: str) -> bool:
        before = self._look(digest)
        if not before.whole:
            return False
        self._mark_put(digest)
        seen = self._look(digest)
        if not seen.whole or seen.is_dropped:
            return False
        # Of several copies the one with the first key stays. Who put the others relies on it from now on: the new
        # `put` keeps it from whoever looked before. A copy that came after the first look may be in use yet.
        for extra in before.whole:
            if extra.id > seen.whole[0].id:
                self.client.delete(extra.object.key)
                self.client.delete(self._key(digest, f"parts-{extra.id}"))
        return True

    def delete(self, digest: str, put_mark: int) -> bool:
        seen = self._look(digest)
        return bool(seen.copies) and seen.put_mark == put_mark and self._drop(seen)

    def older_than(self, seconds: float) -> Iterator[Blob]:
        now = self.client.now()
        self._abort_uploads(now - _LEFTOVER_SECONDS)
        for found in self._folders(now - _LEFTOVER_SECONDS):
            seen = found
            self._delete_leftovers(seen, now - _LEFTOVER_SECONDS)
            if not seen.copies:
                if seen.lasting and seen.put_at < now - _LEFTOVER_SECONDS:
                    self._drop(seen)  # a `put` or a table without bytes
                continue
            if len(seen.whole) > 1 and self.renew(seen.digest):
                seen = self._look(seen.digest)
            if seen.copies and seen.put_at < now - seconds:
                yield seen.blob()

    def check(self) -> str:
        """Write, read, list and delete an object; return why abandoned uploads cannot be listed, or ""."""
        key, data = f"{self._prefix}{PROBE}{uuid.uuid4().hex}", b"written by `onward doctor`, to be deleted"
        self.client.put(key, data)
        try:
            if self.client.get(key) != data or not any(one.key == key for one in self.client.objects(key)):
                raise StoreError(f"{self.client} does not list at once what was written. Use a server that does")
        except ObjectGone:
            raise StoreError(f"{self.client} does not have what was written. Use a server that does") from None
        finally:
            self.client.delete(key)
        try:
            next(self.client.uploads(), None)
        except StoreError as error:
            return str(error)
        return ""

    # -- uploading

    def _upload(self, blob: Blob, spool: Spool) -> None:
        id = uuid.uuid4().hex
        key = self._key(blob.digest, f"data-{id}-{blob.size}")
        if blob.size <= self._part:
            self.client.put(key, next(spool.parts(self._part)))
            return
        part_bytes = max(self._part, -(-blob.size // MAX_PARTS))
        digests: list[str] = []

        def parts() -> Iterator[bytes]:
            for part in spool.parts(part_bytes):
                digests.append(hashlib.sha256(part).hexdigest())
                yield part

        def write_table() -> None:
            table = {"digest": blob.digest, "size": blob.size, "part_bytes": part_bytes, "parts": digests}
            self.client.put(self._key(blob.digest, f"parts-{id}"), json.dumps(table).encode())

        # The table is there before the bytes are, so what is found can be checked.
        self.client.upload(key, parts(), write_table)
        self._mark_put(blob.digest)  # an object of several parts has the date of the beginning of its upload

    def _mark_put(self, digest: str) -> None:
        self.client.put(self._key(digest, "put"), uuid.uuid4().hex.encode())

    # -- reading

    def _open(self, seen: _BlobFolder) -> BinaryIO:
        digest, copy = seen.digest, seen.whole[0]
        if copy.id not in seen.tables and copy.size <= max(self._part, PART_BYTES):
            return self._open_small(digest, copy)
        text = self.client.get(self._key(digest, f"parts-{copy.id}"))
        try:
            table = json.loads(text)
            part_bytes, digests = int(table["part_bytes"]), [str(one) for one in table["parts"]]
        except (ValueError, TypeError, KeyError):
            raise self._corrupt(digest, "has a table of parts that cannot be read") from None
        reader = _CheckedParts(self, digest, copy, part_bytes, digests)
        return io.BufferedReader(PartReader(copy.size, part_bytes, reader.read), 1 << 16)

    def _open_small(self, digest: str, copy: _Copy) -> BinaryIO:
        for _ in range(_READS):
            data = self.client.get(copy.object.key)
            if hashlib.sha256(data).hexdigest() == digest:
                return io.BytesIO(data)
        raise self._corrupt(digest, "has other content than was uploaded")

    def _corrupt(self, digest: str, what: str) -> BlobCorrupt:
        return BlobCorrupt(
            f"the blob {digest[:12]}… in {self.client} {what}: it is damaged, and was not used. Delete what is "
            f"below s3://{self.client.place.bucket}/{self._key(digest, '')} and ingest its source again"
        )

    # -- deleting

    def _drop(self, seen: _BlobFolder) -> bool:
        """Delete what was seen of a blob, if nothing was put since; return whether bytes were deleted."""
        drop = self._key(seen.digest, f"drop-{uuid.uuid4().hex}")
        began = time.monotonic()
        self.client.put(drop, b"")
        if self._look(seen.digest).put_mark == seen.put_mark:
            for one in seen.lasting:
                if time.monotonic() - began > DROP_SECONDS:
                    return False  # others may not wait for the `drop` much longer; the next collection goes on
                # If this fails, the `drop` stays: the request may arrive at the server later.
                self.client.delete(one.key)
            self.client.delete(drop)
            return bool(seen.copies)
        self.client.delete(drop)
        return False

    def _delete_leftovers(self, seen: _BlobFolder, before: float) -> None:
        """Delete what dead processes left: deletions, and tables whose bytes never came."""
        ids = {copy.id for copy in seen.copies}
        tables = [one for id, one in seen.tables.items() if id not in ids] if seen.copies else []
        for one in (*seen.drops, *tables):
            if one.modified < before:
                self.client.delete(one.key)

    def _abort_uploads(self, before: float) -> None:
        """Abort uploads of which no part came since."""
        try:
            for key, upload, began in self.client.uploads():
                own = _KEY.fullmatch(key.removeprefix(self._prefix)) is not None
                with suppress(UploadGone):  # it has just ended
                    if own and began < before and self.client.last_part_at(key, upload) < before:
                        self.client.abort(key, upload)
        except StoreError as error:
            # Not every server lists them, and not everybody may.
            log.warning("abandoned uploads are not collected: %s", error)

    # -- listing

    def _key(self, digest: str, name: str) -> str:
        return f"{self._prefix}{digest}/{name}"

    def _look(self, digest: str) -> _BlobFolder:
        return _BlobFolder(digest, self._matched(self.client.objects(self._key(digest, ""))))

    def _matched(self, objects: Iterable[S3Object]) -> Iterator[tuple[re.Match[str], S3Object]]:
        for one in objects:
            if match := _KEY.fullmatch(one.key[len(self._prefix) :]):
                yield match, one

    def _folders(self, before: float) -> Iterator[_BlobFolder]:
        """Yield what there is of each blob; delete what a check left before a time."""

        def known() -> Iterator[S3Object]:
            for one in self.client.objects(self._prefix):
                if one.key.startswith(self._prefix + PROBE) and one.modified < before:
                    self.client.delete(one.key)
                yield one

        for digest, objects in groupby(self._matched(known()), key=lambda found: found[0]["digest"]):
            yield _BlobFolder(digest, objects)


class _CheckedParts:
    """Reads the parts of a blob; checks each by its digest, and all of them by the blob's if read in order."""

    def __init__(self, blobs: S3Blobs, digest: str, copy: _Copy, part_bytes: int, digests: list[str]) -> None:
        self._blobs, self._digest, self._copy = blobs, digest, copy
        self._part_bytes, self._digests = part_bytes, digests
        self._key = copy.object.key
        self._all = hashlib.sha256()
        self._next = 0

    def read(self, number: int) -> bytes:
        data = self._read_checked(number)
        if number == self._next:
            self._next += 1
            self._all.update(data)
            if self._next == len(self._digests) and self._all.hexdigest() != self._digest:
                raise self._blobs._corrupt(self._digest, "has a table of the parts of another one")
        return data

    def _read_checked(self, number: int) -> bytes:
        start = number * self._part_bytes
        length = min(self._part_bytes, self._copy.size - start)
        for _ in range(_READS):
            data = self._fetch(start, length)
            if number < len(self._digests) and hashlib.sha256(data).hexdigest() == self._digests[number]:
                return data
        raise self._blobs._corrupt(self._digest, f"has other content than was uploaded, in part {number}")

    def _fetch(self, start: int, length: int) -> bytes:
        for _ in range(_REOPENINGS):
            with suppress(ObjectGone):
                return self._blobs.client.get(self._key, start, length)
            # It was one copy of several, or was put again meanwhile: the bytes are the same.
            if not (copies := self._blobs._look(self._digest).whole):
                break
            self._key = copies[0].object.key
        raise missing(self._digest, self._blobs.client)
