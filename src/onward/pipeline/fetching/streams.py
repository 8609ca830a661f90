"""Streams out of containers: never more in memory than a block, and never more in all than allowed."""

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
from onward.pipeline.fetching.errors import Broken, TooLarge
from onward.pipeline.fetching.items import RATIO_FROM, Limits

BLOCK = 1 << 20
_XZ_MEMORY = 256 << 20
"""The strongest preset of xz needs a quarter of it."""


class Readable(Protocol):
    """All that is asked of a stream."""

    def read(self, size: int = ..., /) -> bytes:
        """Give at most `size` bytes, and none at the end."""


@dataclass(slots=True)
class Budget:
    """How much one container may still give, with all that is nested in it."""

    limits: Limits
    name: str
    packed: int
    unpacked: int = 0
    members: int = 0

    def spend(self, count: int) -> None:
        """Count bytes that came out."""
        self.unpacked += count
        if self.unpacked > self.limits.max_unpacked_bytes:
            raise TooLarge(
                f"{self.name!r} unpacks to more than {self.limits.max_unpacked_bytes:,} bytes: the rest of it is "
                "not read; unpack it yourself and ingest the folder, or raise ONWARD_UNPACK_MAX_BYTES"
            )
        if self.unpacked > RATIO_FROM and self.unpacked > self.limits.max_ratio * self.packed:
            raise TooLarge(
                f"{self.name!r} unpacks to more than {self.limits.max_ratio:g} times its size, as an archive made "
                "to do harm does: the rest of it is not read; unpack it yourself if you trust it"
            )

    def count_member(self) -> None:
        """Count one more member; raise if the budget is spent, by members or by bytes."""
        self.spend(0)
        self.members += 1
        if self.members > self.limits.max_members:
            raise TooLarge(
                f"{self.name!r} holds more than {self.limits.max_members:,} members: the rest of it is not read; "
                "unpack it yourself and ingest the folder"
            )


class Stream(io.RawIOBase):
    """A stream that can be looked at before it is read, and whose errors name what is damaged."""

    def __init__(self, inner: Readable, name: str, budget: Budget | None = None) -> None:
        self._inner, self._name, self._budget = inner, name, budget
        self._ahead = b""

    def peek(self, size: int) -> bytes:
        """Give the first bytes, and keep them for the one who reads."""
        while len(self._ahead) < size and (more := self._pull(size - len(self._ahead))):
            self._ahead += more
        return self._ahead

    def readable(self) -> bool:
        """Say yes: the decompressors ask."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Give the next bytes, at most a block of them if no size is asked for."""
        if self._ahead:
            size = len(self._ahead) if size < 0 else size
            data, self._ahead = self._ahead[:size], self._ahead[size:]
            return data
        return self._pull(BLOCK if size < 0 else size)

    def _pull(self, size: int) -> bytes:
        with telling_damage(self._name):
            data = self._inner.read(size)
        if self._budget is not None:
            self._budget.spend(len(data))
        return data


class _XZ:
    """An xz file, one stream after the other, in bounded memory, where the standard library's has no bound."""

    def __init__(self, packed: Readable) -> None:
        self._packed = packed
        self._decoder = self._new_decoder()

    def _new_decoder(self) -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)

    def read(self, size: int = BLOCK, /) -> bytes:
        while True:
            packed = b""
            if self._decoder.eof:
                packed = self._decoder.unused_data.lstrip(b"\0")
                # Between two streams there may be padding.
                while not packed and (more := self._packed.read(BLOCK)):
                    packed = more.lstrip(b"\0")
                if not packed:
                    return b""
                self._decoder = self._new_decoder()
            elif self._decoder.needs_input and not (packed := self._packed.read(BLOCK)):
                raise EOFError("it ends before its end is marked")
            if data := self._decoder.decompress(packed, size):
                return data


_DECOMPRESSORS: dict[str, Callable[[IO[bytes]], Readable]] = {
    "gzip": lambda packed: gzip.GzipFile(fileobj=packed, mode="rb"),
    "bzip2": lambda packed: bz2.BZ2File(packed, "rb"),
    "xz": _XZ,
}


def decompressed(kind: str, packed: Stream, name: str, budget: Budget) -> Stream:
    """Give what is in a gzip, bzip2 or xz stream, as it is read."""
    # The decompressors only read; their types ask for a whole file.
    return Stream(_DECOMPRESSORS[kind](cast("IO[bytes]", packed)), name, budget)


@contextmanager
def telling_damage(name: str) -> Iterator[None]:
    """Turn what the standard library raises on bad data into one error that names the file."""
    try:
        yield
    except OnwardError:
        raise
    except (EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, struct.error) as error:
        raise Broken(f"{name!r} is damaged or cut off ({error}): fetch or pack it again") from error
    except NotImplementedError as error:
        raise Broken(f"{name!r} is packed in a way that is not supported ({error}): pack it again") from error
    except (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError) as error:
        # Not documented, but damage finds its way to them.
        raise Broken(f"{name!r} is damaged ({error}): fetch or pack it again") from error
    except OSError as error:
        # gzip and bz2 report bad data so; an error of the disk has a number, and may pass.
        if error.errno is not None:
            raise
        raise Broken(f"{name!r} is damaged or cut off ({error}): fetch or pack it again") from error
