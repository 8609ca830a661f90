"""The items of a source, the files that are skipped, and the limits of a fetch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple

from onward.pipeline.documents import SkippedItem

LISTED_PER_KIND = 100  # paths that are listed for each kind; the others are only counted
LISTED_BYTES = 200_000  # the bytes of all listed paths: the list is stored in one document
EXAMPLES = 3


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
    environment_proxies: bool = False  # whether HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY count
    pictures: bool = False  # whether pictures are taken: their text is recognised
    no_pictures: str = ""  # why they are not
    contact: str = ""  # a URL or mail address of the operator, sent to servers


@dataclass(frozen=True, slots=True)
class FetchedItem:
    """One page, file or mailbox of a source; or the problem why it cannot be fetched."""

    path: str  # relative to the source, with slashes; "" for the source itself
    kind: str  # a `Kind` of `documents.py`; "" if a problem leaves it unknown
    # Writes its decompressed bytes once, before the next item is requested: members of a container are streamed.
    copy_to: Callable[[BinaryIO], None]
    media_type: str = ""  # from the server, with its charset, or detected from the content
    language: str = ""  # of code: "python", "rust", …
    url: str = ""  # of a page, after all redirects
    name: str = ""
    problem: Exception | None = None  # permanent or transient, as `onward.classify` says


def problem_item(path: str, problem: Exception) -> FetchedItem:

    def copy_to(_: BinaryIO) -> None:
        raise problem

    return FetchedItem(path, "", copy_to, problem=problem)


class SkipReason(NamedTuple):
    """Why a file is skipped: its kind for programs, and a description."""

    kind: str
    text: str


TOOLS = SkipReason("tools", "in a folder of tools, dependencies or caches")
# Kinds that users do not expect to be ingested: counted apart and not listed; a folder counts as one.
IGNORED = frozenset({"hidden", "tools", "gitignore", "mail_server"})

# Singular and plural, where they are not the name of the kind.
_NOUNS = {
    **{
        kind: (kind, kind + "s")
        for kind in ("picture", "video", "archive", "program", "font", "link", "device", "duplicate")
    },
    "ebook": ("e-book", "e-books"),
    "damaged": ("damaged mail or folder of Outlook", "damaged mails or folders of Outlook"),
    "outlook": ("item of Outlook that is no mail", "items of Outlook that are no mails"),
    "duplicate": ("duplicate", "duplicates"),
    "tools": ("of tools", "of tools"),
    "gitignore": ("by .gitignore", "by .gitignore"),
    # Of pages of a web site.
    "robots": ("not allowed by robots.txt", "not allowed by robots.txt"),
    "noindex": ("not to be indexed", "not to be indexed"),
    "copy": ("copy", "copies"),
    "outside": ("redirect out of the site", "redirects out of the site"),
    "closed": ("not open to everyone", "not open to everyone"),
    "limit": ("above the limit of pages", "above the limit of pages"),
    "deep": ("too far from the start", "too far from the start"),
    "asset": ("style or script", "styles or scripts"),
    "mail_server": ("of a mail server", "of a mail server"),
}


def kind_noun(kind: str, count: int) -> str:
    """Return the noun for a number of files of a kind, as in "2 pictures"."""
    return _NOUNS.get(kind, (kind, kind))[count != 1]


def most_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


@dataclass(slots=True)
class SkippedFiles:
    """Counts everything that a fetch skips, and lists the first paths of each kind."""

    counts: Counter[str] = field(default_factory=Counter)
    _listed: dict[str, list[SkippedItem]] = field(default_factory=dict)
    _bytes: int = 0

    def add(self, reason: SkipReason, path: str) -> None:
        kind = reason.kind
        self.counts[kind] += 1
        listed = self._listed.setdefault(kind, [])
        size = len(path.encode("utf-8", "surrogateescape"))
        most = EXAMPLES if kind in IGNORED else LISTED_PER_KIND
        if len(listed) < most and self._bytes + size <= LISTED_BYTES:
            listed.append(SkippedItem(path=path, kind=kind, reason=reason.text))
            self._bytes += size

    def add_again(self, counts: Mapping[str, int], path: str) -> None:
        """Count what was skipped in an entry when it was fetched; it is listed as one."""
        for kind, count in counts.items():
            if count > 0:
                self.add(SkipReason(kind, "as when it was fetched"), path)
                self.counts[kind] += count - 1

    @property
    def kinds(self) -> dict[str, int]:
        """Counts by kind, without the kinds in `IGNORED`."""
        return {kind: count for kind, count in most_first(self.counts) if kind not in IGNORED}

    @property
    def ignored(self) -> dict[str, int]:
        return {kind: count for kind, count in most_first(self.counts) if kind in IGNORED}

    @property
    def listed(self) -> list[SkippedItem]:
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


# Made by tools, and often larger than the rest of the source.
_TOOL_FOLDERS = frozenset(
    {"CVS", "RCS", "SCCS", "_darcs", "node_modules", "bower_components", "__pycache__", "__pypackages__"}
    | {"site-packages", "__MACOSX", "$RECYCLE.BIN", "System Volume Information"}
)


def reason_to_skip(path: str, *, folder: bool = False) -> SkipReason | None:
    parts = PurePosixPath(path).parts
    if any(part in _TOOL_FOLDERS for part in (parts if folder else parts[:-1])):
        return TOOLS
    if any(part.startswith(".") and part not in (".", "..") for part in parts):
        return SkipReason("hidden", "hidden")
    return None
