"""One item of a source, and the limits of a fetch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO

from onward.pipeline.fetch.skipped_files import HIDDEN, TOOLS, SkipReason


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How much may be fetched and unpacked, and how long it may take."""

    max_bytes: int = 2_000_000_000  # of one HTTP response, as received and as decoded
    seconds: float = 300.0  # for a whole HTTP transfer, with its redirects
    connect_seconds: float = 30.0  # to connect, and between two reads
    max_redirects: int = 10
    max_unpacked_bytes: int = 50_000_000_000  # of everything in one container
    max_ratio: float = 200.0  # unpacked to packed size, checked above `RATIO_FROM_BYTES`
    max_members: int = 200_000
    max_depth: int = 3  # of containers in containers
    max_file_bytes: int = 50_000_000  # of a file that is read as a whole: anything but an mbox
    allow_private: bool = False


RATIO_FROM_BYTES = 100_000_000
"""Below this unpacked size the ratio is not checked: small files may compress extremely well."""


@dataclass(frozen=True, slots=True)
class FetchedItem:
    """One page, file or mailbox of a source; or the problem why it cannot be fetched.

    `copy_to` writes its decompressed bytes to a file object. It works once, and only until the next item is
    requested, because members of a container are streamed. It may raise the same errors as `problem` holds.
    """

    path: str  # relative to the source, with slashes; "" for the source itself
    kind: str  # mbox, eml, html, text, markdown, rst, code or pdf; "" if a problem leaves it unknown
    copy_to: Callable[[BinaryIO], None]
    media_type: str = ""  # from the server, with its charset, or detected from the content
    language: str = ""  # of code: "python", "rust", …
    url: str = ""  # of a page, after all redirects
    name: str = ""
    problem: Exception | None = None  # permanent or transient, as `onward.classify` says


def problem_item(path: str, problem: Exception) -> FetchedItem:
    """Return an item for a part of the source that cannot be fetched."""

    def copy_to(_: BinaryIO) -> None:
        raise problem

    return FetchedItem(path, "", copy_to, problem=problem)


# Made by tools, and often larger than the rest of the source.
_TOOL_FOLDERS = frozenset(
    {"CVS", "RCS", "SCCS", "_darcs", "node_modules", "bower_components", "__pycache__", "__pypackages__"}
    | {"site-packages", "__MACOSX", "$RECYCLE.BIN", "System Volume Information"}
)


def reason_to_skip(path: str, *, folder: bool = False) -> SkipReason | None:
    """Return why a path is skipped without being opened, or None."""
    parts = PurePosixPath(path).parts
    if any(part in _TOOL_FOLDERS for part in (parts if folder else parts[:-1])):
        return TOOLS
    if any(part.startswith(".") and part not in (".", "..") for part in parts):
        return HIDDEN
    return None
