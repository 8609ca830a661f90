"""A Maildir as one mbox: the same bytes, whatever flags its mails have."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from onward.pipeline.fetch.fetch_errors import UnreadableSource
from onward.pipeline.fetch.fetched_item import FetchedItem
from onward.pipeline.fetch.location import printable
from onward.pipeline.fetch.skipped_files import EMPTY_MAIL, MAIL_SERVER, SkippedFiles

PARTS = ("cur", "new", "tmp")
_FROM = re.compile(rb">*From ")
_DELIVERED = re.compile(r"(\d{1,11})\.")
_LINE_BYTES = 1 << 16


def is_maildir(folder: Path) -> bool:
    """Return whether a folder is a Maildir."""
    try:
        return all((folder / part).is_dir() for part in PARTS)
    except OSError:
        return False  # not readable; reported when its content is listed


def maildir_item(folder: Path, path: str, skipped: SkippedFiles) -> FetchedItem | None:
    """Return the mails of a Maildir as one item in mboxrd format, or None if there are none."""
    base = path + "/" if path else ""
    mails = sorted(unique_names(folder).items())
    for place, is_mail in _places(folder):
        if not is_mail:
            skipped.add(MAIL_SERVER, base + printable(place))
    if not mails:
        return None

    def copy_to(target: BinaryIO) -> None:
        for unique, place in mails:
            if not _copy_mail(folder, unique, place, target):
                skipped.add(EMPTY_MAIL, base + printable(place))

    return FetchedItem(path, "mbox", copy_to, "application/mbox")


def unique_names(folder: Path) -> dict[str, str]:
    """Map the unique name of each mail to where it is now.

    A mail that is read or flagged moves from `new` to `cur` and its flags after the colon change; the unique
    name before the colon stays.
    """
    found: dict[str, str] = {}
    for place, is_mail in _places(folder):
        if is_mail:
            found.setdefault(place.partition("/")[2].partition(":2,")[0], place)
    return found


def _places(folder: Path) -> Iterator[tuple[str, bool]]:
    """Yield each entry of `cur` and `new`, and whether it is a mail."""
    for part in ("cur", "new"):
        with os.scandir(folder / part) as entries:
            for entry in entries:
                is_mail = not entry.name.startswith(".") and entry.is_file(follow_symlinks=False)
                yield f"{part}/{entry.name}", is_mail


def _copy_mail(folder: Path, unique: str, place: str, target: BinaryIO) -> bool:
    """Copy one mail; return False if it is empty."""
    for _ in range(5):
        try:
            with (folder / place).open("rb") as mail:
                return _copy_quoted(mail, target, separator(unique))
        except FileNotFoundError:
            # A mail program has moved it, or deleted it: then it is left out.
            moved = unique_names(folder).get(unique)
            if moved is None:
                return True
            place = moved
        except PermissionError as error:
            raise UnreadableSource(
                f"the mail {str(folder / place)!r} may not be read: allow it, or move it away"
            ) from error
    raise FileNotFoundError(f"the mail {unique!r} in {str(folder)!r} moves faster than it can be read")


def separator(unique: str) -> bytes:
    """Return the mbox line before a mail, with the date of delivery from its name."""
    delivered = _DELIVERED.match(unique)
    seconds = min(int(delivered[1]), 0xFFFFFFFF) if delivered else 0
    return f"From MAILER-DAEMON {time.asctime(time.gmtime(seconds))}\n".encode()


def _copy_quoted(mail: BinaryIO, target: BinaryIO, first_line: bytes) -> bool:
    line = mail.readline(_LINE_BYTES)
    if not line:
        return False
    target.write(first_line)
    begins = True
    while line:
        # A line longer than `_LINE_BYTES` is read in several parts; only the first can be a "From " line.
        if begins and _FROM.match(line):
            target.write(b">")
        target.write(line)
        begins = line.endswith(b"\n")
        line = mail.readline(_LINE_BYTES)
    target.write(b"\n" if begins else b"\n\n")
    return True
