"""The version of a stored page: what the server needs to say that it did not change, and its links."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urljoin

MAX_LINKS = 500
MAX_LINK_CHARACTERS = 16_000
_MAX_VALIDATOR_CHARACTERS = 300
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_DAY_ENDS_SECONDS = 36 * 3_600.0  # after its beginning in UTC a day is over in every time zone
_ZONE_SECONDS = 14 * 3_600.0  # how far a time without a zone may be off
_MINUTE_SECONDS = 60.0  # many times of change have no seconds


@dataclass(frozen=True, slots=True)
class PageVersion:
    """The version of a page; the same text for as long as the page is the same."""

    digest: str  # of its content
    text: str = ""  # the digest of its visible text
    etag: str = ""
    modified: str = ""  # as the server writes it
    hint: str = ""  # when it changed, from a sitemap or a feed
    scope: str = ""  # the digest of the options that chose its links
    links: tuple[str, ...] = ()  # that no page before it has; relative to its folder
    cut: bool = False  # whether it has more links than are kept here
    ends: str = ""  # the URL that its own redirects to

    @property
    def conditions(self) -> dict[str, str]:
        """The headers of a request for the page if it changed."""
        if self.cut:
            return {}  # its links are needed, so the page is
        conditions = {"If-None-Match": self.etag, "If-Modified-Since": self.modified}
        return {name: value for name, value in conditions.items() if value}

    def with_validators(self, etag: str, modified: str) -> PageVersion:
        """Return the version with the validators of a server, if it has none: else it is the same text."""
        if self.etag or self.modified:
            return self
        return replace(self, etag=validator(etag), modified=validator(modified))

    def with_links(self, page: str, links: list[str]) -> PageVersion:
        """Return the version with links of the page, as far as they are few enough."""
        folder = page.partition("?")[0].rpartition("/")[0] + "/"
        kept: list[str] = []
        size = 0
        for link in links:
            short = link.removeprefix(folder)
            if urljoin(folder, short) != link:  # such as "a:b", which is a scheme
                short = link
            size += len(short)
            if len(kept) == MAX_LINKS or size > MAX_LINK_CHARACTERS:
                return replace(self, links=tuple(kept), cut=True)
            kept.append(short)
        return replace(self, links=tuple(kept))

    def absolute_links(self, page: str) -> list[str]:
        folder = page.partition("?")[0].rpartition("/")[0] + "/"
        return [urljoin(folder, link) for link in self.links]

    def __str__(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if value}, separators=(",", ":"))


def read_version(text: str) -> PageVersion | None:
    """Read a version as it is stored; None if there is none, or if it would be written in another way now."""
    try:
        values = json.loads(text)
        known = {one.name for one in fields(PageVersion)}
        version = PageVersion(**{name: value for name, value in values.items() if name in known})
        version = replace(version, links=tuple(version.links))
        # A version that reads the same but is another text would be an entry that is fetched, without content.
        return version if str(version) == text else None
    except (ValueError, TypeError, AttributeError):
        return None


def validator(value: str) -> str:
    """Return a validator of a server, or "" if it is too long to be kept."""
    return value if len(value) <= _MAX_VALIDATOR_CHARACTERS and value.isprintable() else ""


def settled_time(text: str, now: float) -> str:
    """Return a time of change as a sitemap or a feed writes it, or "" while a later change may have the same.

    A page that changes twice on a day has the same day twice. What is no time is returned as it is.
    """
    day = _DAY.fullmatch(text) is not None
    try:
        changed = datetime.fromisoformat(text)
    except ValueError:
        try:
            changed = parsedate_to_datetime(text)
        except (ValueError, TypeError):
            return text
    lasts = _DAY_ENDS_SECONDS if day else _MINUTE_SECONDS
    if changed.tzinfo is None:
        lasts, changed = lasts if day else _ZONE_SECONDS, changed.replace(tzinfo=UTC)
    return text if changed.timestamp() + lasts <= now else ""
