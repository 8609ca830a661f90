"""The skipped files of a source: exact counts by kind, and a list of bounded length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

LISTED_PER_KIND = 100  # paths that are listed for each kind; the others are only counted
LISTED_BYTES = 200_000  # the bytes of all listed paths: the list is stored in one document
EXAMPLES = 3


class SkipReason(NamedTuple):
    """Why a file is skipped: its kind for programs, and a description."""

    kind: str
    text: str


class SkippedPath(NamedTuple):
    """One skipped path."""

    path: str
    kind: str
    reason: str


EMPTY = SkipReason("empty", "empty")
EMPTY_ARCHIVE = SkipReason("empty", "an archive with nothing in it")
EMPTY_MAIL = SkipReason("empty", "an empty mail")
BINARY = SkipReason("binary", "binary data")
DEVICE = SkipReason("device", "a device or pipe")
DEAD_LINK = SkipReason("link", "a link that leads nowhere")
OUTER_LINK = SkipReason("link", "a link that leads out of the folder")
FOLDER_LINK = SkipReason("link", "a link to a folder, whose files are taken where they are")
HIDDEN = SkipReason("hidden", "hidden")
TOOLS = SkipReason("tools", "in a folder of tools, dependencies or caches")
GITIGNORE = SkipReason("gitignore", "ignored by .gitignore")
MAIL_SERVER = SkipReason("mail_server", "a mail server's own file in a Maildir")

IGNORED = frozenset({"hidden", "tools", "gitignore", "mail_server"})
"""Kinds that users do not expect to be ingested: counted apart and not listed; a folder counts as one."""

_NOUNS = {
    "picture": ("picture", "pictures"), "video": ("video", "videos"), "archive": ("archive", "archives"),
    "program": ("program", "programs"), "font": ("font", "fonts"), "ebook": ("e-book", "e-books"),
    "link": ("link", "links"), "device": ("device", "devices"), "tools": ("of tools", "of tools"),
    "gitignore": ("by .gitignore", "by .gitignore"), "mail_server": ("of a mail server", "of a mail server"),
}  # fmt: skip


def kind_noun(kind: str, count: int) -> str:
    """Return the noun for a number of files of a kind, as in "2 pictures"."""
    singular, plural = _NOUNS.get(kind, (kind, kind))
    return singular if count == 1 else plural


def most_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return kinds and counts, the highest count first."""
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


@dataclass(slots=True)
class SkippedFiles:
    """Counts everything that a fetch skips, and lists the first paths of each kind."""

    counts: dict[str, int] = field(default_factory=dict)
    _listed: dict[str, list[SkippedPath]] = field(default_factory=dict)
    _bytes: int = 0

    def add(self, reason: SkipReason, path: str) -> None:
        """Count a path, and list it within the limits."""
        kind = reason.kind
        self.counts[kind] = self.counts.get(kind, 0) + 1
        listed = self._listed.setdefault(kind, [])
        size = len(path.encode("utf-8", "surrogateescape"))
        most = EXAMPLES if kind in IGNORED else LISTED_PER_KIND
        if len(listed) < most and self._bytes + size <= LISTED_BYTES:
            listed.append(SkippedPath(path, kind, reason.text))
            self._bytes += size

    @property
    def kinds(self) -> dict[str, int]:
        """Counts by kind, without the kinds in `IGNORED`."""
        return {kind: count for kind, count in most_first(self.counts) if kind not in IGNORED}

    @property
    def ignored(self) -> dict[str, int]:
        """Counts of the kinds in `IGNORED`."""
        return {kind: count for kind, count in most_first(self.counts) if kind in IGNORED}

    @property
    def listed(self) -> list[SkippedPath]:
        """The listed paths, by kind."""
        return [skipped for kind in self.kinds for skipped in self._listed[kind]]

    def __str__(self) -> str:
        if not self.counts:
            return "it is empty"
        groups = (("passed over", self.kinds), ("ignored", self.ignored))
        return "; ".join(f"{verb} {', '.join(map(self._example, kinds))}" for verb, kinds in groups if kinds)

    def _example(self, kind: str) -> str:
        count, paths = self.counts[kind], [skipped.path for skipped in self._listed[kind][:EXAMPLES]]
        more = ", …" if count > len(paths) else ""
        return f"{count:,} {kind_noun(kind, count)} ({', '.join(paths)}{more})"
