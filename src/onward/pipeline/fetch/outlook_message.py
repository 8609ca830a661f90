"""Read an Outlook message (.msg): an OLE file whose streams are MAPI properties."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any

from onward.pipeline.fetch import mapi_mail
from onward.pipeline.fetch.fetch_errors import Broken
from onward.pipeline.fetch.mapi_mail import AttachedItem, MapiItem, Properties

if TYPE_CHECKING:
    from olefile import OleFileIO

MAX_ATTACHMENTS = 2_000
MAX_RECIPIENTS = 2_000
_PROPERTIES = "__properties_version1.0"
_STREAM = "__substg1.0_"
_ATTACHMENT, _RECIPIENT = "__attach_version1.0_#", "__recip_version1.0_#"
_EMBEDDED = "__substg1.0_3701000D"
_MAX_READS = 2  # once for the tables of sectors, directories and small streams, once for what is in them
_HEADER_SIZE = 512
_TABLE_LISTS_AT = 72  # the number of sectors that list tables of sectors, if the header has no place for all
_BYTES_OF_TABLE_LIST = 127 * 128 * 512  # that one of these sectors stands for, at least
_DAMAGE = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError),
    *(struct.error, MemoryError),
)
_HEADER_BYTES = {"item": 32, "embedded": 24, "part": 8}  # before the list of properties
_ENTRY_BYTES = 16
# Values that are in the list of properties itself: numbers, truth values and times.
_FIXED = {0x02: 2, 0x03: 4, 0x0B: 2, 0x14: 8, 0x40: 8}
_STREAMED = (mapi_mail.ANSI, mapi_mail.UNICODE, mapi_mail.BINARY)

_Path = list[str]


def outlook_mail(data: bytes | bytearray, shown: str) -> bytes:
    """Return an Outlook message as a mail; raise `Broken` if it is damaged.

    The reader is not native code. It reads at most `_MAX_READS` times as many bytes as the file has: the sectors
    of a damaged file may form a loop, and its streams may overlap.
    """
    from olefile import OleFileIO

    try:
        with OleFileIO(_BoundedFile(data)) as file:
            return mapi_mail.mail_bytes(_Message(file, len(data)).item([], "item", 0))
    except _DAMAGE as error:
        why = str(error) or type(error).__name__
        raise Broken(
            f"{shown!r} is a damaged Outlook message ({why}): open it in Outlook, save it again, and ingest that"
        ) from error


class _BoundedFile(io.BytesIO):
    """The bytes of an OLE file, of which no more are read than those of an undamaged file."""

    def __init__(self, data: bytes | bytearray) -> None:
        super().__init__(data)
        self._left = _MAX_READS * len(data)
        if len(data) >= _HEADER_SIZE:
            # olefile joins the tables one by one, each with all before it.
            (count,) = struct.unpack_from("<I", data, _TABLE_LISTS_AT)
            if count > 1 + len(data) // _BYTES_OF_TABLE_LIST:
                raise ValueError("its header has more tables than the file")

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ValueError("its sectors overlap")
        return data


class _Message:
    def __init__(self, file: OleFileIO, size: int) -> None:
        self._file = file
        self._left = size

    def item(self, folder: _Path, kind: str, depth: int) -> MapiItem:
        about = self._properties(folder, kind)
        recipients = [
            mapi_mail.with_code_page(self._properties([*folder, name], "part"), about)
            for name in self._folders(folder, _RECIPIENT)[:MAX_RECIPIENTS]
        ]
        attachments = [
            self._attachment([*folder, name], about, depth)
            for name in self._folders(folder, _ATTACHMENT)[:MAX_ATTACHMENTS]
        ]
        return MapiItem(about, recipients, attachments)

    def _attachment(self, folder: _Path, mail: Properties, depth: int) -> AttachedItem:
        about = mapi_mail.with_code_page(self._properties(folder, "part"), mail)
        _, data = about.pop(mapi_mail.ATTACHED_DATA, (0, b""))
        embedded = [*folder, _EMBEDDED]
        if depth < mapi_mail.MAX_DEPTH and self._file.exists([*embedded, _PROPERTIES]):
            return AttachedItem(about, item=self.item(embedded, "embedded", depth + 1))
        return AttachedItem(about, data)

    def _folders(self, folder: _Path, start: str) -> list[str]:
        entries = self._entry(folder).kids_dict
        return sorted(name for name in (kid.name for kid in entries.values()) if name.startswith(start))

    def _entry(self, folder: _Path) -> Any:  # olefile has no types
        entry = self._file.root
        for name in folder:
            entry = entry.kids_dict[name.lower()]
        return entry

    def _properties(self, folder: _Path, kind: str) -> dict[int, tuple[int, bytes]]:
        found: dict[int, tuple[int, bytes]] = {}
        listed = self._read([*folder, _PROPERTIES])
        for at in range(_HEADER_BYTES[kind], len(listed) - _ENTRY_BYTES + 1, _ENTRY_BYTES):
            type, number, value = struct.unpack_from("<HH4x8s", listed, at)
            if type in _FIXED:
                found[number] = (type, value[: _FIXED[type]])
        for kid in self._entry(folder).kids_dict.values():
            if kid.name.startswith(_STREAM) and len(kid.name) == len(_STREAM) + 8 and not kid.kids:
                tag = int(kid.name[len(_STREAM) :], 16)
                if tag & 0xFFFF in _STREAMED:
                    found[tag >> 16] = (tag & 0xFFFF, self._read([*folder, kid.name]))
        return found

    def _read(self, path: _Path) -> bytes:
        self._left -= self._entry(path).size
        if self._left < 0:
            raise ValueError("its streams overlap")
        with self._file.openstream(path) as stream:
            data: bytes = stream.read()
        return data
