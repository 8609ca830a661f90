"""Blobs in a folder, one file each."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from onward.blobs import Blob, HashedFile, missing
from onward.ledger.store_errors import StoreFull

_LEFTOVER_SECONDS = 86_400.0


class FolderBlobs:
    """Stores each blob as a file below a folder, named by its SHA-256; see `onward.blobs`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, write: Callable[[BinaryIO], None]) -> Blob:
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
                hashed = HashedFile(file)
                write(cast(BinaryIO, hashed))
                file.flush()
                blob = hashed.blob()
                if self.renew(blob.digest):
                    return blob
                os.fsync(file.fileno())
            target = self._path(blob.digest)
            target.parent.mkdir(exist_ok=True)
            self._touch(path)
            with self._locked(fcntl.LOCK_SH):
                path.replace(target)
            _sync_folder(target.parent)
            _sync_folder(self.folder)
            return blob
        finally:
            path.unlink(missing_ok=True)

    def open(self, digest: str) -> BinaryIO:
        try:
            return self._path(digest).open("rb")
        except FileNotFoundError:
            raise missing(digest, self.folder) from None

    def find(self, digest: str) -> Blob | None:
        with suppress(FileNotFoundError):
            about = self._path(digest).stat()
            return Blob(digest, about.st_size, about.st_mtime_ns)
        return None

    def renew(self, digest: str) -> bool:
        if not self.folder.exists():
            return False
        with self._locked(fcntl.LOCK_SH):
            return self._touch(self._path(digest))

    def delete(self, digest: str, put_mark: int) -> bool:
        if not self.folder.exists():
            return False
        with self._locked(fcntl.LOCK_EX):
            found = self.find(digest)
            if found is None or found.put_mark != put_mark:
                return False
            self._path(digest).unlink()
            return True

    def close(self) -> None:
        """Nothing is held open."""

    def older_than(self, seconds: float) -> Iterator[Blob]:
        now = time.time()
        for path in self.folder.glob("new-*"):
            with suppress(FileNotFoundError):  # its `put` has just ended
                if path.stat().st_mtime < now - _LEFTOVER_SECONDS:
                    path.unlink()
        for path in self.folder.glob("??/*"):
            blob = self.find(path.parent.name + path.name)
            if blob is not None and blob.put_mark < (now - seconds) * 1e9:
                yield blob

    def _path(self, digest: str) -> Path:
        return self.folder / digest[:2] / digest[2:]

    def _touch(self, path: Path) -> bool:
        """Mark a file as put now; return whether it is there."""
        now = time.time_ns()  # the kernel's own time stamps are so coarse that two puts may get the same
        with suppress(FileNotFoundError):
            os.utime(path, ns=(now, now))
            return True
        return False

    @contextmanager
    def _locked(self, kind: int) -> Iterator[None]:
        """Hold the folder's lock: any number of processes may put, but not while one of them deletes."""
        number = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(number, kind)
            yield
        finally:
            os.close(number)


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
