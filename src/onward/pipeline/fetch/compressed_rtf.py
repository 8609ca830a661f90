"""Decompress the RTF of Outlook's items (the algorithm of MS-OXRTFCP)."""

from __future__ import annotations

import struct

MAX_BYTES = 5_000_000  # of the RTF of one item
_COMPRESSED, _UNCOMPRESSED = b"LZFu", b"MELA"
_WINDOW = 4096
# What the window begins with.
_START = (
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \\fdecor "
    b"MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par "
    b"\\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)


class BrokenRTF(ValueError):
    """The bytes are no compressed RTF, or unpack to more than `MAX_BYTES`."""


def unpacked_rtf(data: bytes) -> bytes:
    """Return the RTF of the bytes of a property; what is cut off is left out."""
    if len(data) < 16:
        raise BrokenRTF("it has no header")
    size, kind = struct.unpack_from("<4xI4s", data)
    if size > MAX_BYTES:
        raise BrokenRTF(f"it has {size} bytes")
    if kind == _UNCOMPRESSED:
        return data[16 : 16 + size]
    if kind != _COMPRESSED:
        raise BrokenRTF(f"it is of an unknown kind {kind!r}")
    window = bytearray(_START.ljust(_WINDOW, b"\0"))
    at, out, place = len(_START), bytearray(), 16
    while place < len(data) and len(out) < size:
        flags = data[place]
        place += 1
        for bit in range(8):
            if not flags >> bit & 1:
                start, length = at, 1
                window[at : at + 1] = data[place : place + 1] or b"\0"
                place += 1
            else:
                if place + 2 > len(data):
                    return bytes(out[:size])
                (pair,) = struct.unpack_from(">H", data, place)
                place += 2
                start, length = pair >> 4, (pair & 15) + 2
                if start == at:
                    return bytes(out[:size])
            for i in range(length):  # one by one: a run may contain bytes that it has written itself
                window[at] = byte = window[(start + i) % _WINDOW]
                out.append(byte)
                at = (at + 1) % _WINDOW
    return bytes(out[:size])
