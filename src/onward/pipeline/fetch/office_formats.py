"""The formats of office files and e-books: by the members of a zip, or the streams of an OLE file."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import BinaryIO

OLE_START = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
RTF_START = b"{\\rtf"
# The kind of a message for each format that is read.
KIND_OF_FORMAT = {
    **dict.fromkeys(("docx", "odt", "rtf", "doc"), "word"),
    **dict.fromkeys(("xlsx", "xlsb", "ods", "xls"), "spreadsheet"),
    **dict.fromkeys(("pptx", "odp", "ppt"), "slides"),
    "epub": "ebook",
}
# What a suffix claims: the format, or another version of it.
FORMAT_OF_SUFFIX = {
    "." + suffix: format
    for format, suffixes in {
        "docx": "docx docm dotx dotm", "xlsx": "xlsx xlsm xltx xltm", "xlsb": "xlsb",
        "pptx": "pptx pptm ppsx ppsm potx", "odt": "odt ott", "ods": "ods ots", "odp": "odp otp",
        "doc": "doc dot", "xls": "xls xlt", "ppt": "ppt pps pot", "rtf": "rtf", "epub": "epub",
    }.items()
    for suffix in suffixes.split()
}  # fmt: skip

_MEDIA_TYPES = {
    b"application/vnd.oasis.opendocument.text": "odt",
    b"application/vnd.oasis.opendocument.text-template": "odt",
    b"application/vnd.oasis.opendocument.spreadsheet": "ods",
    b"application/vnd.oasis.opendocument.spreadsheet-template": "ods",
    b"application/vnd.oasis.opendocument.presentation": "odp",
    b"application/vnd.oasis.opendocument.presentation-template": "odp",
    b"application/epub+zip": "epub",
}
_OPEN_XML = {"wordprocessingml": "docx", "spreadsheetml": "xlsx", "presentationml": "pptx"}  # in media types
_MAIN_PARTS = (
    ("word/document", "docx"),
    ("xl/workbook.bin", "xlsb"),
    ("xl/workbook", "xlsx"),
    ("ppt/presentation", "pptx"),
)
# Names of streams of an OLE file. Each entry of its directory has 128 bytes and begins with the name.
_STREAMS = {
    name.encode("utf-16-le") + b"\0\0": format
    for name, format in {
        "EncryptedPackage": "encrypted",
        "WordDocument": "doc",
        "Workbook": "xls",
        "Book": "xls",
        "PowerPoint Document": "ppt",
        "__properties_version1.0": "msg",
    }.items()
}
_ENTRY_BYTES = 128
_OLE_HEADER = struct.Struct("<30xH16xI24x109I")  # bits of a sector's size, the first of the directory, the tables
_NO_SECTOR = 0xFFFFFFFA
_MAX_SECTOR_BITS = 12
_MAX_MEDIA_TYPE_BYTES = 100


def claimed_format(name: str, media_type: str) -> str:
    """Return the format that the name or the media type of a file claims, or "".

    >>> claimed_format("Plan.DOTX", ""), claimed_format("plan", "application/epub+zip")
    ('docx', 'epub')
    """
    open_xml = next((format for family, format in _OPEN_XML.items() if family in media_type), "")
    suffix = PurePosixPath(name.lower()).suffix
    return FORMAT_OF_SUFFIX.get(suffix) or _MEDIA_TYPES.get(media_type.encode(), open_xml)


def office_format(data: bytes) -> str:
    """Return the format of an office file or e-book, or "" if it is none."""
    if data.startswith(RTF_START):
        return "rtf"
    if data.startswith(OLE_START):
        return ole_format(data)
    try:
        return zip_format(io.BytesIO(data))
    except Exception:  # on damaged data, zipfile raises errors of many types, also of its decompressors
        return ""


def zip_format(file: BinaryIO) -> str:
    """Return the format of an office file by the members of its zip, or ""; raise what `zipfile` raises."""
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        if "mimetype" in names:
            with archive.open("mimetype") as member:
                return _MEDIA_TYPES.get(member.read(_MAX_MEDIA_TYPE_BYTES).strip(), "")
        if "[Content_Types].xml" in names:
            return next((format for part, format in _MAIN_PARTS if any(n.startswith(part) for n in names)), "")
        return ""


def ole_format(data: bytes | bytearray) -> str:
    """Return the format of an OLE file by the names of its streams, or ""."""
    # A message comes first: its attachments may be OLE files of any format.
    found = {format for name, format in _STREAMS.items() if _has_entry(data.find, name)}
    return next((format for format in ("msg", "encrypted", "doc", "ppt", "xls") if format in found), "")


def ole_is_cut_off(data: bytes | bytearray) -> bool:
    """Return whether an OLE file ends before its directory, or before a table of its sectors."""
    if len(data) < _OLE_HEADER.size:
        return True
    numbers: tuple[int, ...] = _OLE_HEADER.unpack_from(data)
    sector_bits, *sectors = numbers  # of the directory, and of the tables
    last = max(0, *(one for one in sectors if one < _NO_SECTOR))
    return (last + 1) << min(sector_bits, _MAX_SECTOR_BITS) >= len(data)


def _has_entry(find: Callable[[bytes, int], int], name: bytes) -> bool:
    at = find(name, 0)
    while at >= 0:
        if at % _ENTRY_BYTES == 0:
            return True
        at = find(name, at + 1)
    return False
