"""Blobs: bytes stored under the digest of their content. The port to their storage."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, BinaryIO, Protocol

from onward.retry import Permanent


class BlobMissing(Permanent):
    """A blob that a document names does not exist any more."""


class BlobCorrupt(Permanent):
    """A blob does not have the content that its digest names; none of the damaged bytes were returned."""


def missing(digest: str, place: object) -> BlobMissing:
    return BlobMissing(f"the blob {digest[:12]}… is not in {place}; ingest its source again to fetch it anew")


@dataclass(frozen=True, slots=True)
class Blob:
    digest: str
    size: int
    put_mark: int = field(default=0, compare=False)  # Changes when the same bytes are put again; see `delete`


class Blobs(Protocol):
    """Stores bytes by their content: the same bytes are stored once. Safe across threads and processes."""

    def put(self, write: Callable[[BinaryIO], None]) -> Blob:
        """Store what `write` writes; it is durable when this returns."""

    def open(self, digest: str) -> BinaryIO:
        """Open a blob to be read, at any position; raises `BlobMissing`."""

    def find(self, digest: str) -> Blob | None:
        """Return the blob with this digest, or None if there is none."""

    def renew(self, digest: str) -> bool:
        """Count a blob as put now, without its bytes; return False if it is not there."""

    def delete(self, digest: str, put_mark: int) -> bool:
        """Remove a blob, unless it was put again since `put_mark` was read; return whether it was removed."""

    def close(self) -> None:
        """Close its connections and files."""

    def older_than(self, seconds: float) -> Iterator[Blob]:
        """Yield the blobs that were not put for this long; delete what a crash left half written."""


class HashedFile:
    """Writes to a file, and computes digest and size of the written bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        self._size += len(data)
        return self._file.write(data)

    def blob(self) -> Blob:
        return Blob(self._digest.hexdigest(), self._size)
