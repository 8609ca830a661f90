"""Web sites as sources: follow the links of a page, and of all pages below its folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from onward.pipeline.fetch.fetch_errors import UnusableSource
from onward.pipeline.fetch.location import canonical_url
from onward.pipeline.source_kinds import web_options
from onward.pipeline.source_kinds.crawl_run import CrawlRun, CrawlSettings
from onward.pipeline.source_kinds.page_links import short_digest
from onward.pipeline.source_kinds.polite_client import PACE, Pace
from onward.pipeline.source_kinds.source_kind import Entry, SourceOption, SourceRun, option_values
from onward.pipeline.source_kinds.web_addresses import Scope, normalized, patterns, web_location

DEPTH = SourceOption("depth", "20", "how many links a page is from the start, at most", web_options.whole_number)


@dataclass(frozen=True, slots=True)
class WebSite:
    """A web site, as in `crawl+https://example.org/docs/`."""

    pace: Pace = PACE
    name: str = "web site"
    schemes: tuple[str, ...] = ("crawl+http", "crawl+https")
    options: tuple[SourceOption, ...] = (
        DEPTH,
        web_options.PAGES,
        web_options.RATE,
        web_options.INCLUDE,
        web_options.EXCLUDE,
        web_options.SUBDOMAINS,
    )

    def canonical(self, location: str) -> str:
        return web_location(location, "crawl+")

    def entries(self, run: SourceRun) -> Iterator[Entry]:
        yield from CrawlRun(run, self._settings(run), self.pace).entries()

    def _settings(self, run: SourceRun) -> CrawlSettings:
        given = option_values(self.options, run.options)
        start = normalized(canonical_url(run.location.removeprefix("crawl+")))
        if start is None:
            raise UnusableSource(f"{run.location!r} is no web page: give the page where the crawl begins")
        scope = Scope(
            start,
            web_options.yes_or_no(given["subdomains"]),
            patterns(given["include"]),
            patterns(given["exclude"]),
        )
        depth = web_options.whole_number(given["depth"])
        return CrawlSettings(
            scope,
            depth=depth,
            pages=web_options.whole_number(given["pages"]),
            rate=web_options.rate(given["rate"]),
            digest=short_digest(f"{scope} {depth}".encode())[:8],
        )
