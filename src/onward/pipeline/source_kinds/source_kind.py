"""The protocol of a kind of source: list what there is, and fetch one entry.

What changed is found by Onward: it stores the version of each entry, fetches an entry whose version is another
one, and removes what is no longer listed. So a kind stores nothing itself, and a killed run goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from onward.pipeline.fetch.fetched_items import FetchLimits, SkippedFiles
from onward.pipeline.fetch.location import AddressGuard
from onward.pipeline.source_kinds.refused_logins import RefusedLogins


def fetch_nothing(_: BinaryIO) -> None:
    """Write nothing: for entries that have not changed, or that have a problem."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing at a location: a mail, a page, a file, a mailbox or a container of files."""

    path: str  # unique in its source, with slashes; the same for as long as it is the same thing
    version: str  # any text that changes when the content does; "" if the content is to be fetched in each run
    fetch: Callable[[BinaryIO], None] = fetch_nothing  # writes its bytes; called before the next entry, if at all
    name: str = ""  # of the file, from whose ending its kind is seen; "" for the last part of the path
    media_type: str = ""  # with its charset, if the location says so
    url: str = ""  # where a person can open it
    size: int | None = None
    file: Path | None = None  # a file on this machine that has the content; then `fetch` is not called
    problem: Exception | None = None  # why it cannot be fetched now: what is stored of it stays


@dataclass(frozen=True, slots=True)
class SourceOption:
    """A setting of a source, as `depth=3`."""

    name: str
    default: str
    description: str
    parse: Callable[[str], object] = str  # raises ValueError, which says what is allowed


def option_values(options: Iterable[SourceOption], given: Mapping[str, str]) -> dict[str, str]:
    """Return the value of each option: the given one, or the default."""
    return {option.name: given.get(option.name, option.default) for option in options}


@dataclass(slots=True)
class SourceRun:
    """The arguments of one listing of a source."""

    location: str  # canonical
    options: Mapping[str, str] = field(default_factory=dict)  # all of the kind: as given, or the default
    versions: Mapping[str, str] = field(default_factory=dict)  # of what is stored, by path
    limits: FetchLimits = field(default_factory=FetchLimits)
    guard: AddressGuard = field(default_factory=AddressGuard)  # which network addresses may be reached
    skipped: SkippedFiles = field(default_factory=SkippedFiles)  # for what is passed over by the listing itself
    scratch: Path = Path()  # a folder for temporary files, removed after the run
    stopped: Callable[[], bool] = lambda: False  # whether the worker is stopping
    notes: Path | None = None  # a file of the kind that lasts until this ingestion is complete; it can get lost
    continue_after: float | None = None  # set by a kind that lists the rest later: seconds from now
    incomplete: bool = False  # set by a kind that could not list everything: then nothing is removed
    refused_logins: RefusedLogins = field(default_factory=RefusedLogins)  # that are not tried again
    cache: Path = Path()  # kept between the runs of this source, may be missing; removed when it is forgotten

    def is_known(self, entry: Entry) -> bool:
        """Return whether this version of an entry is stored, so that it is not fetched."""
        return entry.version != "" and self.versions.get(entry.path) == entry.version


class SourceKind(Protocol):
    """A kind of source. Others add theirs as entry points of the group `onward.sources`."""

    @property
    def name(self) -> str:
        """The name in messages and pages, such as "IMAP mailbox"."""

    @property
    def schemes(self) -> tuple[str, ...]:
        """The schemes of its locations, without "://": `("imap", "imaps")`."""

    @property
    def options(self) -> tuple[SourceOption, ...]:
        """The settings that a source of this kind has."""

    def canonical(self, location: str) -> str:
        """Return the one form of a location, without secrets; look nothing up. Raise `UnusableSource` if wrong."""

    def entries(self, run: SourceRun) -> Iterator[Entry]:
        """Yield everything that is there, changed or not, in any order.

        Raise if the source cannot be listed: then nothing of it is removed. An entry of which it is not known
        whether it still exists has a `problem`. `run.is_known` says which entries are not fetched.

        A listing that would take long, or has to wait for more than a second, sets `run.continue_after` and ends:
        it is called again, and lists everything once more, what it listed before from `run.notes`.
        """
