"""Where blobs are kept, seen from behind; and what tests of all of them do."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from onward.blobs import Blobs
from onward.blobs.folder import FolderBlobs
from onward.blobs.postgres import PostgresBlobs
from onward.blobs.s3 import S3Blobs
from onward.ledger.postgres.connections import Connections
from onward.s3_place import parse_s3_url
from tests.support.servers import ObjectServer

PART = 1000
"""Bytes in a part here, so that small blobs have many parts."""
DAY = 86_400.0
AGED = 100_000.0
"""More than a day."""


class Place(Protocol):
    """Where blobs are kept, seen from behind."""

    blobs: Blobs
    rounds: int
    """How often a race is run; an object store needs many requests for each."""

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
    rounds = 100

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
    rounds = 100

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


class ObjectPlace:
    rounds = 20

    def __init__(self, server: ObjectServer, url: str, scratch: Path) -> None:
        self.server, self.url = server, url
        self.place = parse_s3_url(url)
        self.bucket = self.place.bucket
        self.client: Any = server.client
        self.blobs: S3Blobs = S3Blobs(self.place, scratch, part=PART, attempts=2)

    def keys(self, part_of_key: str = "") -> list[str]:
        """The keys of the bucket that contain a text."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        found = [one["Key"] for page in pages for one in page.get("Contents", ())]
        return [key for key in found if part_of_key in key]

    def uploads(self) -> list[str]:
        """The keys of incomplete uploads."""
        found = self.client.list_multipart_uploads(Bucket=self.bucket)
        return [one["Key"] for one in found.get("Uploads", ())]

    def kept(self) -> int:
        return len(self.keys("/data-")) + len(self.uploads())

    def age(self, digest: str) -> None:
        assert self.server.ask("age", bucket=self.bucket, part_of_key=digest, seconds=AGED)

    def leave_half(self) -> Callable[[], bool]:
        key = f"{self.place.prefix}{random.Random(0).randbytes(32).hex()}/data-{uuid.uuid4().hex}-8"
        upload = self.client.create_multipart_upload(Bucket=self.bucket, Key=key)["UploadId"]
        self.client.upload_part(Bucket=self.bucket, Key=key, UploadId=upload, PartNumber=1, Body=b"half")
        return lambda: key in self.uploads()

    def age_halves(self) -> None:
        for key in self.uploads():
            self.age(key)

    def replace(self, key: str, data: bytes) -> None:
        """Damage an object."""
        self.client.put_object(Bucket=self.bucket, Key=key, Body=data)

    def content(self, key: str) -> bytes:
        found: bytes = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return found

    def close(self) -> None:
        self.blobs.close()


def delete_blob(blobs: Blobs, digest: str) -> bool:
    found = blobs.find(digest)
    return found is not None and blobs.delete(digest, found.put_mark)


def _make_old(path: Path) -> None:
    yesterday = time.time() - AGED
    os.utime(path, (yesterday, yesterday))


def put_bytes(blobs: Blobs, data: bytes) -> str:
    return blobs.put(lambda file: write_bytes(file, data)).digest


def write_bytes(file: BinaryIO, data: bytes) -> None:
    file.write(data)


def read_bytes(blobs: Blobs, digest: str) -> bytes:
    with closing(blobs.open(digest)) as stream:
        return stream.read()


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def at_once(steps: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=step) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
