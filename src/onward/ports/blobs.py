"""Blobs: bytes kept under the digest of what they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from onward.retry import Permanent


class BlobMissing(Permanent):
    """A blob that a document names is not there any more."""


@dataclass(frozen=True, slots=True)
class Blob:
    """What a blob is called, and how long it is."""

    digest: str
    size: int


class Blobs(Protocol):
    """Keeps bytes by their content: the same bytes are kept once. Safe across threads and processes."""

    def put(self, write: Callable[[BinaryIO], None]) -> Blob:
        """Keep what `write` writes; it is on disk, synced, when this returns."""
        ...

    def open(self, digest: str) -> BinaryIO:
        """Open a blob to be read, at any position; raises `BlobMissing`."""
        ...

    def delete(self, digest: str, *, older_than: float = 0.0) -> bool:
        """Remove a blob, if nobody has put it for so many seconds; answer whether it was removed."""
        ...

    def close(self) -> None:
        """Close what it holds open."""
        ...

    def older_than(self, seconds: float) -> Iterator[Blob]:
        """The blobs that nobody has put for so long."""
        ...
