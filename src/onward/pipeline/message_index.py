"""The offset of each message of a mailbox: a sorted table in a blob, searched without reading all of it."""

from __future__ import annotations

import io
from array import array
from typing import BinaryIO

ID_BYTES = 16
RECORD_BYTES = ID_BYTES + 8  # an id and an offset (big-endian)


class MessageIndex:
    """Collects ids and offsets, `RECORD_BYTES` bytes for each message."""

    def __init__(self) -> None:
        self._ids = bytearray()
        self._offsets = array("Q")

    def add(self, id: bytes, offset: int) -> None:
        self._ids += id
        self._offsets.append(offset)

    def write(self, file: BinaryIO) -> None:
        """Write the table, ordered by id."""
        ids = [bytes(self._ids[start : start + ID_BYTES]) for start in range(0, len(self._ids), ID_BYTES)]
        order = sorted(range(len(ids)), key=ids.__getitem__)
        file.write(b"".join(ids[place] + self._offsets[place].to_bytes(8) for place in order))


def find_offset(table: BinaryIO, id: bytes) -> int | None:
    """Return the offset of a message, or None if it is not in the table (binary search)."""
    low, high = 0, table.seek(0, io.SEEK_END) // RECORD_BYTES
    while low < high:
        middle = (low + high) // 2
        table.seek(middle * RECORD_BYTES)
        record = table.read(RECORD_BYTES)
        if record[:ID_BYTES] == id:
            return int.from_bytes(record[ID_BYTES:])
        if record[:ID_BYTES] < id:
            low = middle + 1
        else:
            high = middle
    return None
