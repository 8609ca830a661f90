"""Blobs that are cut into parts: the temporary file before, and the file to read after."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from onward.blobs import HashedFile
from onward.ledger.store_errors import StoreFull

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Spool(HashedFile):
    """A temporary file in a folder."""

    def __init__(self, file: IO[bytes], folder: Path) -> None:
        super().__init__(file)
        self._folder = folder

    def write(self, data: bytes) -> int:
        with _explaining_full(self._folder):
            return super().write(data)

    def parts(self, part_bytes: int) -> Iterator[bytes]:
        """Yield the content in parts; one empty part if there is no content."""
        with _explaining_full(self._folder):
            self._file.seek(0)
        yield self._file.read(part_bytes)
        while part := self._file.read(part_bytes):
            yield part


@contextmanager
def spooled(write: Callable[[BinaryIO], None], folder: Path, memory: int) -> Iterator[Spool]:
    """Yield what `write` has written, in a temporary file of `folder` if it is longer than `memory`."""
    with _explaining_full(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.SpooledTemporaryFile(max_size=memory, dir=str(folder)) as file:
        spool = Spool(file, folder)
        write(cast(BinaryIO, spool))
        yield spool


@contextmanager
def _explaining_full(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreFull(
            f"the folder {folder} cannot be written: {error.strerror}. Free some disk space, make it writable, or "
            "name another data folder with ONWARD_HOME"
        ) from error


class PartReader(io.RawIOBase):
    """A blob as a file to be read at any position; the last parts that were read are kept."""

    def __init__(self, size: int, part_bytes: int, read: Callable[[int], bytes]) -> None:
        self._size, self._part_bytes = size, part_bytes
        self._read_part = lru_cache(maxsize=2)(read)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"a position of {start + offset} is before the beginning")
        self._position = start + offset
        return self._position

    def readinto(self, buffer: Buffer, /) -> int:
        if self._position >= self._size:
            return 0
        number, offset = divmod(self._position, self._part_bytes)
        with memoryview(buffer) as target, memoryview(self._read_part(number)) as part:
            data = part[offset : offset + len(target)]
            target[: len(data)] = data
            self._position += len(data)
            return len(data)
