"""Mailing-list archives of Mailman 3: HyperKitty exports any month as a mailbox."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from urllib.parse import quote, unquote, urljoin, urlsplit

from onward.pipeline.fetch.fetch_errors import UnusableSource
from onward.pipeline.fetch.location import refused
from onward.pipeline.source_kinds.monthly_archives import (
    RECHECK,
    Month,
    archive_entries,
    canonical_archive,
    version_by_content,
)
from onward.pipeline.source_kinds.polite_client import PACE, Pace
from onward.pipeline.source_kinds.source_kind import Entry, SourceOption, SourceRun

PREFIX = "hyperkitty+"
_LIST = re.compile(r".*/list/(?P<list>[^/@\s]+@[^/@\s]+)/")
_MONTH = re.compile(r"(?P<year>(?!0000|9999)\d{4})/(?P<month>\d{1,2})/?")


@dataclass(frozen=True, slots=True)
class HyperKittyArchives:
    """The archive of a list of Mailman 3, as at https://lists.example.org/archives/list/talk@lists.example.org/."""

    pace: Pace = PACE
    name: str = "HyperKitty archive"
    schemes: tuple[str, ...] = (PREFIX + "https", PREFIX + "http")
    options: tuple[SourceOption, ...] = (RECHECK,)

    def canonical(self, location: str) -> str:
        archive = canonical_archive(location, PREFIX)
        parts = urlsplit(archive)
        if (match := _LIST.match(unquote(parts.path))) is None:
            raise UnusableSource(
                f"{refused(location)!r} names no list: give {PREFIX}https://host/archives/list/NAME@HOST/"
            )
        return parts._replace(path=quote(match[0], safe="/@")).geturl()

    def entries(self, run: SourceRun) -> Iterator[Entry]:
        return archive_entries(run, run.location[len(PREFIX) :], self.pace, _listed_months, version_by_content)


def _listed_months(url: str, found: list[str]) -> list[Month]:
    archive = _LIST.match(unquote(urlsplit(url).path))
    months = {} if archive is None else dict(_months(url, archive, found))
    if not months:
        raise UnusableSource(
            f"{url} links to no month of a list: give the page of the list, and check that it is open to all"
        )
    return list(months.values())


def _months(url: str, archive: re.Match[str], found: list[str]) -> Iterator[tuple[str, Month]]:
    top = quote(archive[0], safe="/@")
    for link in found:
        path = unquote(urlsplit(urljoin(url, link)).path)
        match = _MONTH.fullmatch(path.removeprefix(archive[0])) if path.startswith(archive[0]) else None
        if match is None or not 1 <= int(match["month"]) <= 12:
            continue
        first = date(int(match["year"]), int(match["month"]), 1)
        end = (first + timedelta(days=31)).replace(day=1)
        name = f"{first:%Y-%m}"
        export = f"{top}export/{quote(archive['list'], safe='@')}-{name}.mbox.gz?start={first}&end={end}"
        yield name, Month(name, name, urljoin(url, export))
