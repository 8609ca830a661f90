"""Outlook messages, made of their properties: an OLE file by hand, for nothing free writes one."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

_SECTOR, _MINI, _CUTOFF = 512, 64, 4096
_FREE, _END, _FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
_LONG, _TIME = 0x03, 0x40

# Streams (bytes) and folders by name.
Folder = Mapping[str, Any]
Value = str | bytes | int | datetime


@dataclass(frozen=True)
class OutlookMessage:
    """The properties of a message by number, with its recipients and attachments."""

    properties: Mapping[int, Value]
    recipients: tuple[Mapping[int, Value], ...] = ()
    attachments: tuple[Mapping[int, Value] | OutlookMessage, ...] = field(default=())
    ansi: str = ""  # the charset of its strings; empty: they are Unicode


def msg(message: OutlookMessage) -> bytes:
    """Return a .msg file."""
    return ole_file(_item(message, 32))


def ole_file(root: Folder) -> bytes:
    """Write an OLE compound file: small streams in the mini stream, the others in sectors of their own."""
    entries: list[tuple[str, int, bytes, int, int]] = []  # name, type, data, child, right

    def add(folder: Folder) -> int:
        first = right = _FREE
        for name in sorted(folder, key=lambda one: (len(one), one.upper()), reverse=True):
            value = folder[name]
            child = _FREE if isinstance(value, bytes) else add(value)
            entries.append(
                (name, 2, value, _FREE, right) if isinstance(value, bytes) else (name, 1, b"", child, right)
            )
            first = right = len(entries)  # 0 is the root
        return first

    child = add(root)
    mini, sectors = bytearray(), bytearray()
    mini_fat: list[int] = []
    fat: list[int] = []

    def place(data: bytes) -> int:
        count = -(-len(data) // _SECTOR)
        start = len(fat)
        fat.extend([*range(start + 1, start + count), _END] if count else [])
        sectors.extend(data.ljust(count * _SECTOR, b"\0"))
        return start if count else _END

    rows = []
    for name, kind, data, kid, right in entries:
        if kind == 2 and 0 < len(data) < _CUTOFF:
            start, count = len(mini_fat), -(-len(data) // _MINI)
            mini_fat.extend([*range(start + 1, start + count), _END])
            mini.extend(data.ljust(count * _MINI, b"\0"))
        else:
            start = place(data) if kind == 2 else 0
        rows.append(_entry(name, kind, right, kid, start, len(data)))
    rows.insert(0, _entry("Root Entry", 5, _FREE, child, place(bytes(mini)), len(mini)))
    directory = place(b"".join(rows).ljust(-(-len(rows) // 4) * _SECTOR, b"\0"))
    mini_start = place(
        struct.pack(f"<{len(mini_fat)}I", *mini_fat).ljust(-(-len(mini_fat) // 128) * _SECTOR, b"\xff")
    )
    fat_sectors = next(n for n in range(1, 110) if n * 128 >= len(fat) + n)
    first_fat = len(fat)
    fat.extend([_FAT] * fat_sectors)
    fat.extend([_FREE] * (fat_sectors * 128 - len(fat)))
    header = struct.pack(
        "<8s16xHHHHH6xIIIIIIIII", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0x3E, 3, 0xFFFE, 9, 6, 0, fat_sectors,
        directory, 0, _CUTOFF, mini_start, -(-len(mini_fat) // 128), _END, 0,
    )  # fmt: skip
    difat = [first_fat + n for n in range(fat_sectors)]
    header += struct.pack("<109I", *difat, *[_FREE] * (109 - fat_sectors))
    return header + bytes(sectors) + struct.pack(f"<{len(fat)}I", *fat)


def _entry(name: str, kind: int, right: int, child: int, start: int, size: int) -> bytes:
    coded = (name + "\0").encode("utf-16-le")
    head = struct.pack("<64sHBB", coded, len(coded), kind, 1)
    return head + struct.pack("<III36xIQ", _FREE, right, child, start, size)


def _item(message: OutlookMessage, header_bytes: int) -> Folder:
    folder = dict(_properties(message.properties, header_bytes, message.ansi))
    for number, recipient in enumerate(message.recipients):
        folder[f"__recip_version1.0_#{number:08X}"] = _properties(recipient, 8, message.ansi)
    for number, attached in enumerate(message.attachments):
        if isinstance(attached, OutlookMessage):
            inner = dict(_properties({0x3705: 5}, 8, message.ansi)) | {"__substg1.0_3701000D": _item(attached, 24)}
        else:
            inner = dict(_properties({0x3705: 1, **attached}, 8, message.ansi))
        folder[f"__attach_version1.0_#{number:08X}"] = inner
    return folder


def _properties(values: Mapping[int, Value], header_bytes: int, ansi: str) -> Folder:
    folder: dict[str, bytes] = {}
    listed = bytearray(header_bytes)
    for number, value in values.items():
        match value:
            case str():
                kind, data = (0x1E, value.encode(ansi)) if ansi else (0x1F, value.encode("utf-16-le"))
            case bytes():
                kind, data = 0x102, value
            case datetime():
                ticks = int((value - datetime(1601, 1, 1, tzinfo=UTC)).total_seconds() * 10_000_000)
                kind, data = _TIME, struct.pack("<Q", ticks)
            case _:
                kind, data = _LONG, struct.pack("<Q", value)
        if isinstance(value, str | bytes):
            folder[f"__substg1.0_{number:04X}{kind:04X}"] = data
            data = struct.pack("<II", len(data), 3)
        listed += struct.pack("<HHI8s", kind, number, 6, data)
    folder["__properties_version1.0"] = bytes(listed)
    return folder
