"""A Maildir folder as one mailbox, the same bytes whether its mails were read since or not."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import BinaryIO

from onward.pipeline.fetching.errors import Unreadable
from onward.pipeline.fetching.items import Item

_PARTS = ("cur", "new", "tmp")
_FROM = re.compile(rb">*From ")
_DELIVERED = re.compile(r"(\d{1,11})\.")
_LINE = 1 << 16


def is_maildir(folder: Path) -> bool:
    """Tell whether a folder is a Maildir."""
    try:
        return all((folder / part).is_dir() for part in _PARTS)
    except OSError:
        return False  # it cannot be looked into, which is told when it is tried


def maildir_item(folder: Path, path: str) -> Item | None:
    """Give the mails of a Maildir as one item in mboxrd format, or None if there are none."""
    mails = sorted(unique_names(folder).items())
    if not mails:
        return None

    def copy_to(target: BinaryIO) -> None:
        for unique, place in mails:
            _copy_mail(folder, unique, place, target)

    return Item(path, "mbox", copy_to, "application/mbox")


def unique_names(folder: Path) -> dict[str, str]:
    """Map the unique name of each mail to where it is now.

    A mail that is read or flagged moves from `new` to `cur` and gets other letters after the colon: what is in
    front of it stays.
    """
    found: dict[str, str] = {}
    for part in ("cur", "new"):
        with os.scandir(folder / part) as entries:
            for entry in entries:
                if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False):
                    found.setdefault(entry.name.partition(":2,")[0], f"{part}/{entry.name}")
    return found


def _copy_mail(folder: Path, unique: str, place: str, target: BinaryIO) -> None:
    for _ in range(5):
        try:
            with (folder / place).open("rb") as mail:
                _copy_quoted(mail, target, separator(unique))
        except FileNotFoundError:
            # A mail program moved it meanwhile, or deleted it: then it is left out.
            moved = unique_names(folder).get(unique)
            if moved is None:
                return
            place = moved
        except PermissionError as error:
            raise Unreadable(
                f"the mail {str(folder / place)!r} may not be read: allow it, or move it away"
            ) from error
        else:
            return
    raise FileNotFoundError(f"the mail {unique!r} in {str(folder)!r} moves faster than it can be read")


def separator(unique: str) -> bytes:
    """Make the line between two mails; its date is when the mail was delivered, as its name says."""
    delivered = _DELIVERED.match(unique)
    seconds = min(int(delivered[1]), 0xFFFFFFFF) if delivered else 0
    return f"From MAILER-DAEMON {time.asctime(time.gmtime(seconds))}\n".encode()


def _copy_quoted(mail: BinaryIO, target: BinaryIO, first_line: bytes) -> None:
    line = mail.readline(_LINE)
    if not line:
        return
    target.write(first_line)
    begins = True
    while line:
        # A line longer than what is read at once begins only once.
        if begins and _FROM.match(line):
            target.write(b">")
        target.write(line)
        begins = line.endswith(b"\n")
        line = mail.readline(_LINE)
    target.write(b"\n" if begins else b"\n\n")
