"""The process that reads a data file of Outlook; see `outlook_store`."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from onward.pipeline.fetch import mapi_mail
from onward.pipeline.fetch.fetched_items import LISTED_PER_KIND
from onward.pipeline.fetch.location import printable
from onward.pipeline.fetch.mapi_mail import AttachedItem, MapiItem, Properties
from onward.pipeline.fetch.mbox_writer import write_mail
from onward.pipeline.fetch.outlook_store import CANNOT_OPEN, DAMAGED, OTHER, OUT_OF_MEMORY
from onward.pipeline.read.child_process import end_with_parent, limit_process

MAX_FOLDER_DEPTH = 60
MAX_ATTACHMENTS = 2_000
MAX_RECIPIENTS = 2_000
MAX_MAIL_BYTES = 200_000_000  # of the attachments of one mail: each is in memory several times
_CLASS = 0x001A
_MAIL_CLASSES = ("ipm.note", "ipm.post", "ipm.schedule", "report.")
_MAX_PATH_CHARACTERS = 300
_ERRORS = (OSError, ValueError, TypeError, OverflowError)  # of libpff, on damage


class _Folder(NamedTuple):
    place: Any  # a folder of pypff
    path: str
    depth: int


class _Store:
    """Reads mails in the order of their folders, each once, and counts the items that are passed over."""

    def __init__(self, file: Any, max_attachment_bytes: int) -> None:
        self._file = file
        self._code_page = _code_page(file)
        self._max_attachment_bytes = max_attachment_bytes
        self._seen: set[int] = set()
        self._place = ("", "")  # of the mail that is read: its folder and its number
        self._bytes_left = 0  # of the attachments of this mail
        self.report: dict[str, Any] = {kind: {"count": 0, "paths": []} for kind in (DAMAGED, OTHER)}

    def mails(self) -> Iterator[MapiItem]:
        folders = [_Folder(self._file.get_root_folder(), "", 0)]
        while folders:
            folder = folders.pop()
            for number in self._numbers(folder, "messages"):
                mail = self._mail(folder, number)
                if mail is not None:
                    yield mail
            folders += reversed(list(self._inner(folder)))

    def _inner(self, folder: _Folder) -> Iterator[_Folder]:
        if folder.depth >= MAX_FOLDER_DEPTH:
            return
        for number in self._numbers(folder, "folders"):
            try:
                inner = folder.place.get_sub_folder(number)
                name = (inner.name or "").replace("/", "_")
                if self._is_new(inner):
                    path = "/".join(filter(None, (folder.path, name)))
                    yield _Folder(inner, path, folder.depth + 1)
            except (OSError, ValueError):
                self._pass_over(DAMAGED, folder.path, f"folder {number + 1}")

    def _mail(self, folder: _Folder, number: int) -> MapiItem | None:
        try:
            message = folder.place.get_sub_message(number)
            if not self._is_new(message):
                return None
            about = self._properties(message)
            kind = mapi_mail.text_value(about, _CLASS).lower()
            if kind and not kind.startswith(_MAIL_CLASSES):
                subject = mapi_mail.text_value(about, mapi_mail.SUBJECT).lstrip("\1")
                self._pass_over(OTHER, folder.path, f"{number + 1} {subject}")
                return None
            self._place, self._bytes_left = (folder.path, str(number + 1)), MAX_MAIL_BYTES
            return self._item(message, about, {"X-Folder": mapi_mail.encoded(folder.path)}, 0)
        except _ERRORS:
            self._pass_over(DAMAGED, folder.path, str(number + 1))
            return None

    def _numbers(self, folder: _Folder, what: str) -> range:
        try:
            return range(getattr(folder.place, f"number_of_sub_{what}"))
        except (OSError, ValueError):
            self._pass_over(DAMAGED, folder.path, f"all {what}")
            return range(0)

    def _is_new(self, item: Any) -> bool:
        # A damaged file may have a folder in itself.
        new = item.identifier not in self._seen
        self._seen.add(item.identifier)
        return new

    def _pass_over(self, kind: str, folder: str, name: str) -> None:
        found = self.report[kind]
        found["count"] += 1
        if len(found["paths"]) < LISTED_PER_KIND:
            path = "/".join(filter(None, (folder, name.replace("/", "_"))))
            found["paths"].append(printable(path[:_MAX_PATH_CHARACTERS]))

    def _item(self, message: Any, about: Properties, headers: dict[str, str], depth: int) -> MapiItem:
        listed = message.recipients
        recipients = [self._of_set(one, about) for one in listed.record_sets] if listed is not None else []
        count = min(message.number_of_attachments, MAX_ATTACHMENTS)
        attachments = [self._attachment(message, number, about, depth) for number in range(count)]
        return MapiItem(about, recipients[:MAX_RECIPIENTS], attachments, headers)

    def _attachment(self, message: Any, number: int, mail: Properties, depth: int) -> AttachedItem:
        try:
            return self._attached(message.get_attachment(number), mail, depth)
        except _ERRORS:
            folder, name = self._place
            self._pass_over(DAMAGED, folder, f"{name} attachment {number + 1}")
            return _note({}, f"attachment {number + 1}", "left out: it is damaged")

    def _attached(self, attachment: Any, mail: Properties, depth: int) -> AttachedItem:
        about = mapi_mail.with_code_page(self._properties(attachment), mail)
        if attachment.number_of_sub_items:
            if depth < mapi_mail.MAX_DEPTH:
                inner = attachment.get_sub_item(0)
                return AttachedItem(about, item=self._item(inner, self._properties(inner), {}, depth + 1))
            return AttachedItem(about)
        size = attachment.size or 0
        if size > min(self._max_attachment_bytes, self._bytes_left):
            name = mapi_mail.text_value(about, mapi_mail.LONG_NAME)
            return _note(about, name, f"left out: it has {size:,} bytes")
        self._bytes_left -= size
        return AttachedItem(about, attachment.read_buffer(size) if size else b"")

    def _properties(self, item: Any) -> dict[int, tuple[int, bytes]]:
        found: dict[int, tuple[int, bytes]] = {}
        for record_set in item.record_sets:
            found |= self._of_set(record_set, {})
        return found

    def _of_set(self, record_set: Any, item: Properties) -> dict[int, tuple[int, bytes]]:
        found: dict[int, tuple[int, bytes]] = {}
        for entry in record_set.entries:
            if entry.entry_type in _READ:
                found[entry.entry_type] = (entry.value_type, entry.data or b"")
        if self._code_page:
            found.setdefault(mapi_mail.TEXT_CODE_PAGE, (0x03, self._code_page.to_bytes(4, "little")))
        return mapi_mail.with_code_page(found, item)


def _note(about: dict[int, tuple[int, bytes]], name: str, note: str) -> AttachedItem:
    """Return an attachment that says why another one is missing."""
    named = (mapi_mail.UNICODE, f"{name}.txt".encode("utf-16-le", "replace"))
    media = (mapi_mail.UNICODE, "text/plain".encode("utf-16-le"))
    return AttachedItem(about | {mapi_mail.LONG_NAME: named, mapi_mail.MEDIA_TYPE: media}, note.encode())


_READ = mapi_mail.NUMBERS | {_CLASS}


def _code_page(file: Any) -> int:
    name = file.ascii_codepage
    text = name.decode("ascii", "replace") if isinstance(name, bytes) else str(name or "")
    return int(text[2:]) if text.startswith("cp") and text[2:].isdigit() else 0


def main(memory_bytes: int, max_attachment_bytes: int) -> int:
    """Write the mails of the file that is the standard input; report what is passed over as the last line."""
    end_with_parent()
    import pypff

    limit_process(None, memory_bytes)
    file = pypff.file()
    try:
        file.open_file_object(os.fdopen(0, "rb"))
        store = _Store(file, max_attachment_bytes)
        with os.fdopen(1, "wb", buffering=1 << 20) as out:
            for mail in store.mails():
                data = mapi_mail.mail_bytes(mail)
                write_mail(io.BytesIO(data), out, mapi_mail.seconds_of(mail.properties) or 0)
    except MemoryError:
        return OUT_OF_MEMORY
    except OSError as error:
        _write_report({"error": _cause(str(error))})
        return CANNOT_OPEN
    _write_report(store.report)
    return 0


def _cause(message: str) -> str:
    """Return what is wrong with the file: libpff lists what has failed in each function, outermost first."""
    parts = [part.partition(": ")[2] for part in message.split(". ")]
    return next((part.strip(" .") for part in parts[1:] if part.strip()), message)[:_MAX_PATH_CHARACTERS]


def _write_report(report: dict[str, Any]) -> None:
    sys.stderr.write("\n" + json.dumps(report) + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    os._exit(main(int(sys.argv[1]), int(sys.argv[2])))
