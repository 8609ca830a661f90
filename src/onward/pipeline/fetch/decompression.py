"""Streams of unpacked data: one block in memory at a time, within the limits in all."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Protocol, cast

from onward import OnwardError
from onward.pipeline.fetch.fetch_errors import Broken, TooLarge
from onward.pipeline.fetch.fetched_item import RATIO_FROM_BYTES, FetchLimits

BLOCK_BYTES = 1 << 20
_XZ_MEMORY = 256 << 20  # four times what the strongest preset of xz needs


class Readable(Protocol):
    """The part of a stream that is used here."""

    def read(self, size: int = ..., /) -> bytes:
        """Return at most `size` bytes, and none at the end."""


@dataclass(slots=True)
class UnpackBudget:
    """Counts what is unpacked from one container and all containers in it; raises above the limits."""

    limits: FetchLimits
    name: str
    packed: int
    unpacked: int = 0
    members: int = 0

    def spend(self, count: int) -> None:
        """Count unpacked bytes."""
        self.unpacked += count
        if self.unpacked > self.limits.max_unpacked_bytes:
            raise TooLarge(
                f"{self.name!r} unpacks to more than {self.limits.max_unpacked_bytes:,} bytes: the rest of it is "
                "not read; unpack it yourself and ingest the folder, or raise ONWARD_UNPACK_MAX_BYTES"
            )
        if self.unpacked > RATIO_FROM_BYTES and self.unpacked > self.limits.max_ratio * self.packed:
            raise TooLarge(
                f"{self.name!r} unpacks to more than {self.limits.max_ratio:g} times its size, as an archive made "
                "to do harm does: the rest of it is not read; unpack it yourself if you trust it"
            )

    def count_member(self) -> None:
        """Count one more member."""
        self.spend(0)
        self.members += 1
        if self.members > self.limits.max_members:
            raise TooLarge(
                f"{self.name!r} holds more than {self.limits.max_members:,} members: the rest of it is not read; "
                "unpack it yourself and ingest the folder"
            )


class PeekStream(io.RawIOBase):
    """A stream with `peek`, and with errors that name the damaged file."""

    def __init__(self, inner: Readable, name: str, budget: UnpackBudget | None = None) -> None:
        self._inner, self._name, self._budget = inner, name, budget
        self._ahead = b""

    def peek(self, size: int) -> bytes:
        """Return the first bytes; `read` returns them again."""
        while len(self._ahead) < size and (more := self._pull(size - len(self._ahead))):
            self._ahead += more
        return self._ahead

    def readable(self) -> bool:
        return True  # the decompressors ask

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes, at most `BLOCK_BYTES` if no size is given."""
        if self._ahead:
            size = len(self._ahead) if size < 0 else size
            data, self._ahead = self._ahead[:size], self._ahead[size:]
            return data
        return self._pull(BLOCK_BYTES if size < 0 else size)

    def _pull(self, size: int) -> bytes:
        with naming_damage(self._name):
            data = self._inner.read(size)
        if self._budget is not None:
            self._budget.spend(len(data))
        return data


class _XZ:
    """Reads an xz file of one or more streams in bounded memory; the standard library's reader has no bound."""

    def __init__(self, packed: Readable) -> None:
        self._packed = packed
        self._decoder = self._new_decoder()

    def _new_decoder(self) -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)

    def read(self, size: int = BLOCK_BYTES, /) -> bytes:
        while True:
            packed = b""
            if self._decoder.eof:
                packed = self._decoder.unused_data.lstrip(b"\0")
                # There may be padding between two streams.
                while not packed and (more := self._packed.read(BLOCK_BYTES)):
                    packed = more.lstrip(b"\0")
                if not packed:
                    return b""
                self._decoder = self._new_decoder()
            elif self._decoder.needs_input and not (packed := self._packed.read(BLOCK_BYTES)):
                raise EOFError("it ends before its end is marked")
            if data := self._decoder.decompress(packed, size):
                return data


_DECOMPRESSORS: dict[str, Callable[[IO[bytes]], Readable]] = {
    "gzip": lambda packed: gzip.GzipFile(fileobj=packed, mode="rb"),
    "bzip2": lambda packed: bz2.BZ2File(packed, "rb"),
    "xz": _XZ,
}


def decompressed(kind: str, packed: PeekStream, name: str, budget: UnpackBudget) -> PeekStream:
    """Return the unpacked stream of a gzip, bzip2 or xz stream."""
    # The decompressors only read, though their types require a whole file.
    return PeekStream(_DECOMPRESSORS[kind](cast("IO[bytes]", packed)), name, budget)


@contextmanager
def naming_damage(name: str) -> Iterator[None]:
    """Turn the errors of the standard library on bad data into `Broken`, with the name of the file."""
    try:
        yield
    except OnwardError:
        raise
    except (EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, struct.error) as error:
        raise Broken(f"{name!r} is damaged or cut off ({error}): fetch or pack it again") from error
    except NotImplementedError as error:
        raise Broken(f"{name!r} is packed in a way that is not supported ({error}): pack it again") from error
    except (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError) as error:
        # Not documented, but raised on damaged data.
        raise Broken(f"{name!r} is damaged ({error}): fetch or pack it again") from error
    except OSError as error:
        # gzip and bz2 raise it on bad data. An error of the disk has a number, and is transient.
        if error.errno is not None:
            raise
        raise Broken(f"{name!r} is damaged or cut off ({error}): fetch or pack it again") from error
