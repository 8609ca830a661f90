"""What a source is made of, and how much of it is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may be fetched and unpacked, and how long it may take."""

    max_bytes: int = 2_000_000_000
    """Of one HTTP answer, as received and as decoded."""
    seconds: float = 300.0
    """For a whole HTTP transfer, with its redirects."""
    connect_seconds: float = 30.0
    """For a connection to be made, and for a server to send anything at all."""
    max_redirects: int = 10
    max_unpacked_bytes: int = 50_000_000_000
    """Of everything in one container."""
    max_ratio: float = 200.0
    """Unpacked by packed size, judged once more than `RATIO_FROM` came out."""
    max_members: int = 200_000
    max_depth: int = 3
    """Containers in containers."""
    max_file_bytes: int = 50_000_000
    """Of one file that is read as a whole: anything but an mbox."""
    allow_private: bool = False


RATIO_FROM = 100_000_000
"""Small files compress without bound and harm no one: below this, a ratio says nothing."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to ingest: a page, a file, a mailbox; or the reason why it cannot be taken.

    `copy_to` writes its bytes, decompressed, to a file object. It works once, and only until the next item is
    asked for: what is in a container is read as it streams by. It may raise what `problem` may hold.
    """

    path: str
    """Inside of the source, with slashes; "" for the source itself."""
    kind: str
    """mbox, eml, html, text, markdown, rst, code or pdf; "" where a problem leaves it unknown."""
    copy_to: Callable[[BinaryIO], None]
    media_type: str = ""
    """As the server sent it, with its charset, or as the content looks."""
    language: str = ""
    """Of code: "python", "rust", …"""
    url: str = ""
    """Where a page was in the end, after all redirects."""
    problem: Exception | None = None
    """It cannot be taken, and the others can: permanent or transient, as `onward.classify` tells."""


def trouble(path: str, problem: Exception) -> Item:
    """Stand in for a part of the source that cannot be taken."""

    def copy_to(_: BinaryIO) -> None:
        raise problem

    return Item(path, "", copy_to, problem=problem)


@dataclass(slots=True)
class Skipped:
    """What was passed over, and why: told when nothing is left."""

    reasons: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, reason: str, path: str) -> None:
        """Count one path, and keep the first few of each reason as examples."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        if len(examples := self.reasons.setdefault(reason, [])) < 3:
            examples.append(path)

    def __str__(self) -> str:
        if not self.counts:
            return "it is empty"
        return "skipped " + "; ".join(
            f"{count} {reason} ({', '.join(self.reasons[reason])}{', …' if count > 3 else ''})"
            for reason, count in sorted(self.counts.items())
        )


# Made by tools, not written by anyone, and often larger than all the rest.
_TOOL_FOLDERS = frozenset(
    {"CVS", "RCS", "SCCS", "_darcs", "node_modules", "bower_components", "__pycache__", "__pypackages__"}
    | {"site-packages", "__MACOSX", "$RECYCLE.BIN", "System Volume Information"}
)


def reason_to_skip(path: str, *, folder: bool = False) -> str | None:
    """Tell by a path alone why it is not looked at, if so."""
    parts = PurePosixPath(path).parts
    if any(part in _TOOL_FOLDERS for part in (parts if folder else parts[:-1])):
        return "in folders of tools and dependencies"
    if any(part.startswith(".") and part not in (".", "..") for part in parts):
        return "hidden"
    return None
