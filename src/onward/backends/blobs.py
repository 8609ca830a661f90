"""Blobs in a folder, one file each."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from onward.ports.blobs import Blob, BlobMissing
from onward.ports.store import StoreFull

_LEFTOVER_SECONDS = 86_400.0


class FolderBlobs:
    """Keeps each blob as a file below a folder, named by its SHA-256; see `onward.ports.Blobs`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, write: Callable[[BinaryIO], None]) -> Blob:
        """Keep what `write` writes; it is on disk, synced, when this returns."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            number, name = tempfile.mkstemp(prefix="new-", dir=self.folder)
        except OSError as error:
            raise StoreFull(
                f"the folder for blobs {self.folder} cannot be written: {error.strerror}. Free some disk space, "
                "make it writable, or name another one with ONWARD_BLOBS"
            ) from error
        path = Path(name)
        try:
            with os.fdopen(number, "wb") as file:
                hashed = _Hashed(file)
                write(cast(BinaryIO, hashed))
                file.flush()
                blob = Blob(hashed.digest.hexdigest(), hashed.size)
                target = self._path(blob.digest)
                if self._touch(target):
                    return blob
                os.fsync(file.fileno())
            target.parent.mkdir(exist_ok=True)
            path.replace(target)
            _sync_folder(target.parent)
            _sync_folder(self.folder)
            return blob
        finally:
            path.unlink(missing_ok=True)

    def open(self, digest: str) -> BinaryIO:
        """Open a blob to be read, at any position; raises `BlobMissing`."""
        try:
            return self._path(digest).open("rb")
        except FileNotFoundError:
            raise BlobMissing(
                f"the blob {digest[:12]}… is not in {self.folder}; ingest its source again to fetch it anew"
            ) from None

    def delete(self, digest: str, *, older_than: float = 0.0) -> bool:
        """Remove a blob, if nobody has put it for so many seconds; answer whether it was removed."""
        path = self._path(digest)
        try:
            if older_than and path.stat().st_mtime > time.time() - older_than:
                return False
            path.unlink()
        except FileNotFoundError:
            return False
        return True

    def close(self) -> None:
        """Nothing is held open."""

    def older_than(self, seconds: float) -> Iterator[Blob]:
        """The blobs that nobody has put for so long; what a crash left half written is removed."""
        limit = time.time() - seconds
        for path in self.folder.glob("new-*"):
            if path.stat().st_mtime < time.time() - _LEFTOVER_SECONDS:
                path.unlink(missing_ok=True)
        for path in self.folder.glob("??/*"):
            about = path.stat()
            if about.st_mtime < limit:
                yield Blob(path.parent.name + path.name, about.st_size)

    def _path(self, digest: str) -> Path:
        return self.folder / digest[:2] / digest[2:]

    def _touch(self, path: Path) -> bool:
        """Whether it is there already; then it is as young as if it had just been put."""
        try:
            os.utime(path)
        except FileNotFoundError:
            return False
        return True


class _Hashed:
    """Writes to a file, and follows what was written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.size += len(data)
        return self._file.write(data)


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
