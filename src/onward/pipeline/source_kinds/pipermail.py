"""Mailing-list archives of Mailman 2: a page that links to one text file for each month."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote, urljoin

from onward.pipeline.fetch.fetch_errors import UnusableSource
from onward.pipeline.source_kinds.monthly_archives import (
    RECHECK,
    Month,
    archive_entries,
    canonical_archive,
    version_by_response,
)
from onward.pipeline.source_kinds.polite_client import PACE, Pace
from onward.pipeline.source_kinds.source_kind import Entry, SourceOption, SourceRun

PREFIX = "pipermail+"
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
# An archive has a volume for each month, quarter, year, week or day, as its list is set.
_VOLUME = re.compile(
    rf"(?:(?P<year>\d{{4}})(?:-(?P<month>{'|'.join(_MONTHS)})|q(?P<quarter>[1-4]))?|(?:Week-of-Mon-)?(?P<day>\d{{8}}))"
    r"\.txt(?:\.gz)?"
)


@dataclass(frozen=True, slots=True)
class PipermailArchives:
    """The archive of a list of Mailman 2, as at https://lists.example.org/pipermail/talk/."""

    pace: Pace = PACE
    name: str = "Pipermail archive"
    schemes: tuple[str, ...] = (PREFIX + "https", PREFIX + "http")
    options: tuple[SourceOption, ...] = (RECHECK,)

    def canonical(self, location: str) -> str:
        return canonical_archive(location, PREFIX)

    def entries(self, run: SourceRun) -> Iterator[Entry]:
        return archive_entries(run, run.location[len(PREFIX) :], self.pace, _months, version_by_response)


def _months(url: str, found: list[str]) -> list[Month]:
    months = _volumes(url, found)
    if not months:
        raise UnusableSource(
            f"{url} links to no text file of a month, such as 2026-March.txt.gz: "
            "give the page that lists the months"
        )
    return months


def _volumes(url: str, found: list[str]) -> list[Month]:
    volumes: dict[str, Month] = {}
    for link in sorted(found):  # "x.txt.gz" after "x.txt": it is smaller, and replaces it
        name = unquote(link).removeprefix("./")
        if (match := _VOLUME.fullmatch(name)) is not None:
            path = name.removesuffix(".gz").removesuffix(".txt")
            volumes[path] = Month(path, _order(match), urljoin(url, link))
    return list(volumes.values())


def _order(match: re.Match[str]) -> str:
    if match["day"]:
        return str(match["day"])
    month = _MONTHS.index(match["month"]) + 1 if match["month"] else 3 * int(match["quarter"] or 4)
    return f"{match['year']}{month:02}99"
