"""The members of zip and tar archives, each with its problem, if it has one."""

from __future__ import annotations

import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath, PureWindowsPath
from typing import IO, BinaryIO, Self, cast

from onward.pipeline.fetch.decompression import PeekStream, Readable, naming_damage
from onward.pipeline.fetch.fetch_errors import Encrypted, TooLarge, UnsafeMember
from onward.pipeline.fetch.fetched_item import FetchLimits

_MAX_TAR_EXTENSION_BYTES = 1_000_000  # long names and extended headers are read into memory
_ZIP_ENTRY_BYTES = 200  # allowed bytes per member in the table of contents of a zip, which is read into memory
_MAX_READS_AT_END = 100
_LEADS_OUT = "leads out of the archive; nothing is taken from such a path"


@dataclass(frozen=True, slots=True)
class Member:
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
        raise UnsafeMember(f"the member {name!r} {_LEADS_OUT}: pack it again with relative paths")
    return str(PurePosixPath(name))


def zip_members(file: BinaryIO, name: str, limits: FetchLimits) -> Iterator[Member]:
    """Yield the files of a zip archive."""
    with naming_damage(name):
        _check_contents_size(file, name, limits)
        archive = zipfile.ZipFile(file)
    with archive:
        overlapping = _overlapping(archive)
        for info in archive.infolist():
            if not info.filename.endswith("/"):
                problem = _problem_in_zip(info, overlaps=info.header_offset in overlapping)
                yield Member(info.orig_filename, info.file_size, partial(archive.open, info), problem)


def _problem_in_zip(info: zipfile.ZipInfo, *, overlaps: bool) -> Exception | None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if overlaps:
        return UnsafeMember(
            f"the member {info.filename!r} shares its bytes with another, as in an archive made to do harm"
        )
    if kind not in (0, stat.S_IFREG):
        return UnsafeMember(f"the member {info.filename!r} is a link or a device, and is not followed")
    if info.flag_bits & 0x1:
        return Encrypted(f"the member {info.filename!r} needs a password: unpack it and ingest the folder")
    return None


def _overlapping(archive: zipfile.ZipFile) -> set[int]:
    """Return the offsets of members that share bytes with another."""
    found: set[int] = set()
    end, last = -1, -1
    for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
        if info.header_offset < end:
            found |= {last, info.header_offset}
        header = 30 + len(info.orig_filename.encode("utf-8", "surrogateescape")) if info.flag_bits & 0x800 else 30
        end = max(end, info.header_offset + header + info.compress_size)
        last = info.header_offset
    return found


def _check_contents_size(file: BinaryIO, name: str, limits: FetchLimits) -> None:
    """Raise if the table of contents is too large for memory; zipfile checks the rest."""
    end = file.seek(0, 2)
    start = file.seek(max(0, end - 65_557))
    tail = file.read()
    if (at := tail.rfind(b"PK\x05\x06")) < 0:
        return
    size: int = struct.unpack_from("<L", tail, at + 12)[0]
    if at >= 20 and tail[at - 20 : at - 16] == b"PK\x06\x07":
        file.seek(min(struct.unpack_from("<Q", tail, at - 12)[0], start + at))
        size = max(size if size < 0xFFFFFFFF else 0, struct.unpack_from("<Q", file.read(56), 40)[0])
    if size > max(1_000_000, limits.max_members * _ZIP_ENTRY_BYTES):
        raise TooLarge(
            f"{name!r} has a table of contents of {size:,} bytes, more than {limits.max_members:,} members need: "
            "unpack it yourself and ingest the folder"
        )


def tar_members(stream: PeekStream, name: str) -> Iterator[Member]:
    """Yield the files of a tar archive from a stream."""
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
                yield Member(info.name, info.size, partial(_open_in_tar, archive, info), _problem_in_tar(info))


class _EndingStream:
    """A stream that raises when it is read again and again at its end.

    To skip a member that claims an exabyte, the standard library would read it block by block.
    """

    def __init__(self, stream: PeekStream) -> None:
        self._stream = stream
        self._reads_at_end = 0

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._reads_at_end = 0 if data else self._reads_at_end + 1
        if self._reads_at_end > _MAX_READS_AT_END:
            raise tarfile.ReadError("a member claims more than there is")
        return data


def _open_in_tar(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Readable:
    opened = archive.extractfile(info)
    if opened is None:
        raise UnsafeMember(f"the member {info.name!r} is no file")
    return opened


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
            if type(error).__name__ in _ENDS:
                raise
            # The standard library treats a damaged header in the middle as the end.
            raise _ReadError(str(error)) from None

    def _proc_member(self, archive: tarfile.TarFile) -> Self:
        if self.type in _EXTENSIONS and self.size > _MAX_TAR_EXTENSION_BYTES:
            raise _ReadError(f"an extended header claims {self.size:,} bytes")
        return super()._proc_member(archive)  # type: ignore[misc,no-any-return]


_ReadError = tarfile.ReadError
_HeaderError = tarfile.HeaderError
_ENDS = ("EOFHeaderError", "EmptyHeaderError")
_EXTENSIONS = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)
