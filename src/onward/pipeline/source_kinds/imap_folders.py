"""Folders of an IMAP server: their names, and which of them a source has."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

_LISTED = re.compile(rb'\(([^)]*)\) (NIL|"(?:[^"\\]|\\.)*") ?(.*)', re.DOTALL)
_SHIFTED = re.compile(rb"&([A-Za-z0-9+,]*)-")
_ESCAPED_QUOTE = re.compile(rb"\\(.)", re.DOTALL)
_LIKE_A_MAIL = re.compile(r"\d+\.eml")
INBOX = "INBOX"

# What `exclude=trash` stands for: the attribute by RFC 6154, and names where a server gives no attributes.
SPECIAL = {
    "trash": (r"\trash", {"trash", "deleted items", "deleted messages", "bin"}),
    "junk": (r"\junk", {"junk", "spam", "junk e-mail", "junk email", "junk mail", "bulk mail"}),
    "drafts": (r"\drafts", {"drafts"}),
    "sent": (r"\sent", {"sent", "sent items", "sent messages", "sent mail"}),
}
_EVERYTHING = r"\all"
_NOT_SELECTABLE = frozenset({r"\noselect", r"\nonexistent"})


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder, as a server lists it."""

    raw: bytes  # as commands name it
    name: str  # for people, with slashes
    path: str  # in entries: like the name, but different folders have different paths
    attributes: frozenset[str] = frozenset()  # in lower case

    @property
    def selectable(self) -> bool:
        return not self.attributes & _NOT_SELECTABLE

    def is_one_of(self, patterns: Iterable[str]) -> bool:
        """Return whether one of these names, patterns or special words means this folder."""
        return any(self._matches(pattern.strip().lower()) for pattern in patterns)

    def _matches(self, pattern: str) -> bool:
        if pattern in SPECIAL:
            attribute, names = SPECIAL[pattern]
            if attribute in self.attributes or self.name.rpartition("/")[2].lower() in names:
                return True
        return fnmatchcase(self.name.lower(), pattern)


def listed_folders(lines: Sequence[bytes | tuple[bytes, bytes] | None]) -> list[Folder]:
    """Return the folders of the response to LIST, INBOX first; names with odd characters come as literals."""
    found: dict[str, Folder] = {}
    for line in lines:
        head, literal = line if isinstance(line, tuple) else (line, None)
        if not head or (match := _LISTED.match(head)) is None:
            continue  # what follows a literal, or no folder at all
        attributes, separator, name = match.groups()
        if literal is not None:
            name = literal
        elif name.startswith(b'"'):
            name = _ESCAPED_QUOTE.sub(rb"\1", name[1:-1])
        delimiter = "" if separator == b"NIL" else decoded(_ESCAPED_QUOTE.sub(rb"\1", separator[1:-1]))
        parts = decoded(name).split(delimiter) if delimiter else [decoded(name)]
        if parts[0].upper() == INBOX:
            parts[0] = INBOX
        path = "/".join(map(_path_part, parts))
        if path in found and found[path].raw != name:
            path += f"%{name.hex()}"  # a server with names that are not in the right encoding
        flags = frozenset(attributes.decode("ascii", "replace").lower().split())
        found[path] = Folder(name, "/".join(parts), path, flags)
    return sorted(found.values(), key=lambda folder: (folder.name != INBOX, folder.path))


def chosen_folders(folders: Sequence[Folder], include: Sequence[str], exclude: Sequence[str]) -> list[Folder]:
    """Return the folders that a source has.

    Where a server has a folder with all mails (as Gmail does), and none was chosen, it stands for the others.
    """
    chosen = [folder for folder in folders if folder.selectable and not folder.is_one_of(exclude)]
    if include:
        return [folder for folder in chosen if folder.is_one_of(include)]
    everything = [folder for folder in chosen if _EVERYTHING in folder.attributes]
    return everything[:1] or chosen


def decoded(name: bytes) -> str:
    """Decode modified UTF-7 (RFC 3501, 5.1.3); what is not in this encoding stays as it is."""

    def plain(match: re.Match[bytes]) -> bytes:
        if not (coded := match[1].replace(b",", b"/")):
            return b"&"
        try:
            return binascii.a2b_base64(coded + b"=" * (-len(coded) % 4)).decode("utf-16-be").encode()
        except ValueError:
            return match[0]

    text = _SHIFTED.sub(plain, name)
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def _path_part(part: str) -> str:
    """Return a part of a path: slashes and control characters are escaped, and what would be another path."""
    part = "".join(f"%{ord(c):02X}" if c in "/%" or not c.isprintable() else c for c in part)
    if _LIKE_A_MAIL.fullmatch(part) or part in ("", ".", ".."):
        return part.replace(".", "%2E") or "%"
    return part
