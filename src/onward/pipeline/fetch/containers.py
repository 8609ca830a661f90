"""Containers: streams of unpacked data within limits, and the members of zip and tar archives."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath, PureWindowsPath
from typing import IO, BinaryIO, NamedTuple, Protocol, Self, cast

from onward import OnwardError
from onward.pipeline.fetch.fetch_errors import Broken, Encrypted, TooLarge, UnsafeMember
from onward.pipeline.fetch.fetched_items import FetchLimits

BLOCK_BYTES = 1 << 20
RATIO_FROM_BYTES = 100_000_000  # below this the ratio is not checked: small files may compress extremely well
_XZ_MEMORY = 256 << 20  # four times what the strongest preset of xz needs
_MAX_TAR_EXTENSION_BYTES = 1_000_000  # long names and extended headers are read into memory
_ZIP_ENTRY_BYTES = 200  # allowed bytes per member in the table of contents of a zip, which is read into memory
_MAX_READS_AT_END = 100
_DAMAGE = (zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, struct.error)


class Readable(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


@dataclass(slots=True)
class UnpackBudget:
    """Counts what is unpacked from one container and all containers in it; raises above the limits."""

    limits: FetchLimits
    name: str
    packed: int
    unpacked: int = 0
    members: int = 0

    def spend(self, count: int) -> None:
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
        self._new_decoder = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
        self._decoder = self._new_decoder()

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


DECOMPRESSORS: dict[str, Callable[[IO[bytes]], Readable]] = {
    "gzip": lambda packed: gzip.GzipFile(fileobj=packed, mode="rb"),
    "bzip2": lambda packed: bz2.BZ2File(packed, "rb"),
    "xz": _XZ,
}


@contextmanager
def naming_damage(name: str) -> Iterator[None]:
    """Turn the errors of the standard library on bad data into `Broken`, with the name of the file."""
    try:
        yield
    except OnwardError:
        raise
    except NotImplementedError as error:
        raise Broken(f"{name!r} is packed in a way that is not supported ({error}): pack it again") from error
    except (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError) as error:
        # Not documented, but raised on damaged data.
        raise Broken(f"{name!r} is damaged ({error}): fetch or pack it again") from error
    except (OSError, EOFError, *_DAMAGE) as error:
        # gzip and bz2 raise OSError on bad data. An error of the disk has a number, and is transient.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise Broken(f"{name!r} is damaged or cut off ({error}): fetch or pack it again") from error


class Member(NamedTuple):
    """One file of an archive; it can be opened until the next one is requested."""

    name: str
    size: int
    open: Callable[[], Readable]
    problem: Exception | None = None


def member_path(name: str) -> str:
    """Return the path of a member, with slashes and no `./`; raise if it leads out of the archive."""
    if "\0" in name or not name.strip("./"):
        raise UnsafeMember(f"the member {name!r} has no usable name")
    windows = PureWindowsPath(name)
    if name.startswith(("/", "\\")) or windows.drive or windows.root or ".." in windows.parts:
        raise UnsafeMember(
            f"the member {name!r} leads out of the archive; nothing is taken from such a path: "
            "pack it again with relative paths"
        )
    return str(PurePosixPath(name))


def zip_members(file: BinaryIO, name: str, limits: FetchLimits) -> Iterator[Member]:
    with naming_damage(name):
        check_contents_size(file, name, limits)
        archive = zipfile.ZipFile(file)
    with archive:
        overlapping: set[int] = set()  # the offsets of members that share bytes with another
        end = last = -1
        for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
            if info.header_offset < end:
                overlapping |= {last, info.header_offset}
            name_bytes = info.orig_filename.encode("utf-8", "surrogateescape") if info.flag_bits & 0x800 else b""
            end = max(end, info.header_offset + 30 + len(name_bytes) + info.compress_size)
            last = info.header_offset
        for info in archive.infolist():
            if not info.filename.endswith("/"):
                problem = _problem_in_zip(info, overlaps=info.header_offset in overlapping)
                yield Member(info.orig_filename, info.file_size, partial(archive.open, info), problem)


def _problem_in_zip(info: zipfile.ZipInfo, *, overlaps: bool) -> Exception | None:
    if overlaps:
        return UnsafeMember(
            f"the member {info.filename!r} shares its bytes with another, as in an archive made to do harm"
        )
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
        return UnsafeMember(f"the member {info.filename!r} is a link or a device, and is not followed")
    if info.flag_bits & 0x1:
        return Encrypted(f"the member {info.filename!r} needs a password; unpack it and ingest the folder")
    return None


def check_contents_size(file: BinaryIO, name: str, limits: FetchLimits) -> None:
    """Raise if the table of contents is too large for memory; zipfile checks the rest."""
    with naming_damage(name):
        size = _contents_size(file)
    if size > max(1_000_000, limits.max_members * _ZIP_ENTRY_BYTES):
        raise TooLarge(
            f"{name!r} has a table of contents of {size:,} bytes, more than {limits.max_members:,} members need: "
            "unpack it yourself and ingest the folder"
        )


def _contents_size(file: BinaryIO) -> int:
    start = file.seek(max(0, file.seek(0, 2) - 65_557))
    tail = file.read()
    if (at := tail.rfind(b"PK\x05\x06")) < 0:
        return 0
    size: int = struct.unpack_from("<L", tail, at + 12)[0]
    if at >= 20 and tail[at - 20 : at - 16] == b"PK\x06\x07":
        file.seek(min(struct.unpack_from("<Q", tail, at - 12)[0], start + at))
        size = max(size if size < 0xFFFFFFFF else 0, struct.unpack_from("<Q", file.read(56), 40)[0])
    return size


def tar_members(stream: PeekStream, name: str) -> Iterator[Member]:
    with naming_damage(name):
        # tarfile only reads in this mode, though its type requires a whole file.
        source = cast("IO[bytes]", _EndingStream(stream))
        archive = tarfile.open(fileobj=source, mode="r|", tarinfo=_TarMember)  # noqa: SIM115
    with archive:
        while True:
            with naming_damage(name):
                info = archive.next()
            if info is None:
                return
            archive.members = []  # type: ignore[attr-defined]  # it would keep them all
            if not info.isdir():
                # Without a problem it is a regular file, which can be opened.
                opener = cast("Callable[[], Readable]", partial(archive.extractfile, info))
                yield Member(info.name, info.size, opener, _problem_in_tar(info))


class _EndingStream:
    """A stream that raises at its end: tarfile would skip a member that claims an exabyte block by block."""

    def __init__(self, stream: PeekStream) -> None:
        self._stream = stream
        self._reads_at_end = 0

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._reads_at_end = 0 if data else self._reads_at_end + 1
        if self._reads_at_end > _MAX_READS_AT_END:
            raise tarfile.ReadError("a member claims more than there is")
        return data


def _problem_in_tar(info: tarfile.TarInfo) -> Exception | None:
    if info.issym() or info.islnk():
        return UnsafeMember(f"the member {info.name!r} is a link to {info.linkname!r}, and is not followed")
    if info.issparse():
        return UnsafeMember(f"the member {info.name!r} is a sparse file: pack it again without holes")
    if not info.isreg():
        return UnsafeMember(f"the member {info.name!r} is a device or a pipe, and is not read")
    return None


class _TarMember(tarfile.TarInfo):
    """A tar header with stricter checks than the standard library's."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:  # the name of the parameter is given
        try:
            return super().fromtarfile(tarfile)
        except _HeaderError as error:
            if type(error).__name__ in ("EOFHeaderError", "EmptyHeaderError"):
                raise
            # The standard library treats a damaged header in the middle as the end.
            raise _ReadError(str(error)) from None

    def _proc_member(self, archive: tarfile.TarFile) -> Self:
        if self.type in _EXTENSIONS and self.size > _MAX_TAR_EXTENSION_BYTES:
            raise _ReadError(f"an extended header claims {self.size:,} bytes")
        return super()._proc_member(archive)  # type: ignore[misc,no-any-return]


_ReadError = tarfile.ReadError
_HeaderError = tarfile.HeaderError
_EXTENSIONS = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)
