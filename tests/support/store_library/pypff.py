"""Stands in for libpff in a test, for no free program writes a data file of Outlook.

It reads JSON behind the signature. It has the part of libpff's interface that is used, and the faults of a native
library: it crashes, hangs, and takes all memory.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, BinaryIO

TYPES = {"text": 0x1F, "ansi": 0x1E, "bytes": 0x102, "number": 0x03}


def _record_set(values: Mapping[str, Any]) -> SimpleNamespace:
    entries = [
        SimpleNamespace(entry_type=int(number, 16), value_type=TYPES[kind], data=bytes.fromhex(data))
        for number, (kind, data) in values.items()
    ]
    return SimpleNamespace(entries=entries)


class _Item:
    def __init__(self, stored: dict[str, Any]) -> None:
        self._stored = stored
        self.identifier = stored["id"]
        self.record_sets = [_record_set(stored.get("properties", {}))]
        self.recipients = SimpleNamespace(record_sets=[_record_set(one) for one in stored.get("recipients", ())])
        self.number_of_attachments = len(stored.get("attachments", ()))
        self.number_of_sub_items = len(stored.get("items", ()))
        self.size = len(stored.get("data", "")) // 2

    def get_attachment(self, number: int) -> _Item:
        return _Item(self._stored["attachments"][number])

    def get_sub_item(self, number: int) -> _Item:
        return _Item(self._stored["items"][number])

    def read_buffer(self, size: int) -> bytes:
        if self._stored.get("fault") == "damaged":
            raise OSError("pypff_attachment_read_buffer: unable to read it.")
        return bytes.fromhex(self._stored["data"])[:size]


class _Folder:
    def __init__(self, stored: dict[str, Any]) -> None:
        self._stored = stored
        self.identifier, self.name = stored["id"], stored["name"]
        self.number_of_sub_messages = len(stored["messages"])
        self.number_of_sub_folders = len(stored["folders"])

    def get_sub_message(self, number: int) -> _Item:
        stored = self._stored["messages"][number]
        match stored.get("fault"):
            case "damaged":
                raise OSError("pypff_folder_get_sub_message: unable to retrieve it. libpff_x: unable to read it.")
            case "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "hang":
                time.sleep(3_600)
            case "memory":
                bytearray(1 << 42)
        return _Item(stored)

    def get_sub_folder(self, number: int) -> _Folder:
        return _Folder(self._stored["folders"][number])


class file:
    ascii_codepage = b"cp1252"

    def open_file_object(self, stored: BinaryIO) -> None:
        try:
            self._root = json.loads(stored.read()[4:])
        except ValueError:
            raise OSError(
                "pypff_file_open: unable to open file. libpff_header: unsupported content type."
            ) from None

    def get_root_folder(self) -> _Folder:
        return _Folder(self._root)
