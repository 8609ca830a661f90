"""Sitemaps as sources: the pages that a site lists for search engines."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from lxml import etree  # type: ignore[import-untyped]

from onward import Kind, OnwardError, classify
from onward.pipeline.fetch.fetch_errors import Broken, NothingToIngest, TooLarge
from onward.pipeline.source_kinds import crawl_run, web_options
from onward.pipeline.source_kinds.crawl_journal import CrawlJournal, Record
from onward.pipeline.source_kinds.host_turns import GoOnLater
from onward.pipeline.source_kinds.listed_pages import ListedPages, get_list
from onward.pipeline.source_kinds.polite_client import PACE, Pace, PoliteClient
from onward.pipeline.source_kinds.source_kind import Entry, SourceOption, SourceRun, option_values
from onward.pipeline.source_kinds.web_addresses import (
    MAX_URL_CHARACTERS,
    Scope,
    normalized,
    origin,
    patterns,
    web_location,
)

MAX_SITEMAP_BYTES = 60_000_000  # the standard allows 50 MB, unpacked
MAX_SITEMAPS = 10_000
MAX_LISTED_PAGES = 1_000_000  # of all sitemaps of a source: they are kept in memory
MAX_NESTING = 3  # of indexes in indexes
MAX_ELEMENTS = 5_000_000  # of one sitemap; the standard allows 50,000 pages
MAX_VALUE_CHARACTERS = 2 * MAX_URL_CHARACTERS  # of one address and its time of change
_CHUNK_BYTES = 100_000
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class SitemapSource:
    """The pages of a sitemap, as in `sitemap+https://example.org/sitemap.xml`, or of those in robots.txt."""

    pace: Pace = PACE
    name: str = "sitemap"
    schemes: tuple[str, ...] = ("sitemap+http", "sitemap+https")
    options: tuple[SourceOption, ...] = (
        web_options.PAGES,
        web_options.RATE,
        web_options.INCLUDE,
        web_options.EXCLUDE,
        web_options.SUBDOMAINS,
    )

    def canonical(self, location: str) -> str:
        return web_location(location, "sitemap+")

    def entries(self, run: SourceRun) -> Iterator[Entry]:
        given = option_values(self.options, run.options)
        start = run.location.removeprefix("sitemap+")
        scope = Scope(
            origin(start) + "/",
            web_options.yes_or_no(given["subdomains"]),
            patterns(given["include"]),
            patterns(given["exclude"]),
        )
        limit = web_options.whole_number(given["pages"])
        began = self.pace.now()
        rate = web_options.rate(given["rate"])
        with CrawlJournal(run.notes) as journal, PoliteClient(run, rate, self.pace, journal) as client:
            pages = ListedPages(run, client, journal, list_url=start, allows=scope.allows)
            sitemaps = _Sitemaps(run, client, journal, scope)
            met: set[str] = set()
            link = ""
            try:
                for link, changed in sitemaps.pages(start):
                    url = normalized(link, start)
                    if run.stopped():
                        return
                    if url is None or url in met:
                        continue
                    path = scope.path_of(url)
                    if not scope.allows(url):
                        run.skipped.add(crawl_run.OUTSIDE, path)
                    elif len(met) >= limit:
                        run.skipped.add(crawl_run.LIMIT, path)
                    elif self.pace.now() - began > crawl_run.RUN_SECONDS:
                        raise GoOnLater(0.0)
                    else:
                        met.add(url)
                        sitemaps.is_full = len(met) >= limit
                        yield from pages.entries(url, path, hint=changed)
                if not link and not sitemaps.problems:
                    raise NothingToIngest(f"{start} lists no page: check the URL, or try again later")
                for url, problem in sitemaps.problems.items():
                    if url not in met:
                        yield Entry(scope.path_of(url), "", problem=problem, url=url)
            except GoOnLater as later:
                run.continue_after = later.seconds


class _Sitemaps:
    """Reads a sitemap and those it names."""

    def __init__(self, run: SourceRun, client: PoliteClient, journal: CrawlJournal, scope: Scope) -> None:
        self._run, self._client, self._journal, self._scope = run, client, journal, scope
        self._seen: set[str] = set()
        self._failed_in_a_row = 0
        self._listed = 0  # pages
        self.is_full = False  # as many pages are taken as the option says: no other sitemap is requested
        self.problems: dict[str, Exception] = {}  # why a sitemap that another one names could not be read, by URL

    def pages(self, start: str) -> Iterator[tuple[str, str]]:
        """Yield each page with the time of its last change, or ""."""
        if urlsplit(start).path not in ("/", "/robots.txt"):
            yield from self._read(start, MAX_NESTING, named=True)
            return
        named = [url for link in self._client.robots(start).sitemaps if (url := normalized(link, start))]
        named = list(dict.fromkeys(named)) or [origin(start) + "/sitemap.xml"]
        if len(named) > 1:  # one that is not there any more must not hide the others
            for url in named:
                yield from self._read(url, MAX_NESTING)
        if len(named) == 1 or self.problems.keys() >= set(named):  # then the source fails, with its error
            self._seen.discard(named[0])
            self.problems.pop(named[0], None)
            yield from self._read(named[0], MAX_NESTING, named=True)

    def _read(self, url: str, nesting: int, *, named: bool = False) -> Iterator[tuple[str, str]]:
        if url in self._seen:
            return
        if self.is_full:
            self._run.skipped.add(crawl_run.LIMIT, url)
            return
        if len(self._seen) >= MAX_SITEMAPS or self._listed >= MAX_LISTED_PAGES or not nesting:
            self._run.skipped.add(crawl_run.LIMIT, url)
            self._run.incomplete = True  # its pages may still exist
            return
        self._seen.add(url)
        record = self._record(url) if named else self._part(url)
        if record is None:
            self._run.incomplete = True  # its pages may still exist
            return
        self._listed += len(record["pages"])
        yield from ((link, changed) for link, changed in record["pages"])
        for link, _ in record["sitemaps"]:
            child = normalized(link, url)
            if child is not None and self._scope.is_same_site(child):
                yield from self._read(child, nesting - 1)

    def _part(self, url: str) -> Record | None:
        """Return what a sitemap lists that another one names, or None if it cannot be read; the others can."""
        while url not in self.problems:
            before = self._journal.records.get(_key(url), Record())
            if "problem" in before:
                self.problems[url] = crawl_run.PageFailed(before["problem"])
                break
            try:
                record = self._record(url)
            except (OnwardError, OSError) as error:
                may_pass, tries = classify(error).kind is Kind.TRANSIENT, before.get("tries", 0) + 1
                if may_pass and tries < crawl_run.MAX_TRIES:
                    self._journal.add(Record(url=_key(url), tries=tries))
                    self._client.pause_if_asked(url, error, tries)
                    continue
                self._failed_in_a_row += may_pass and self._scope.is_same_site(url)
                if self._failed_in_a_row >= crawl_run.MAX_FAILED_IN_A_ROW:
                    raise  # the server is down
                self._journal.add(Record(url=_key(url), problem=str(error)))
                self.problems[url] = error
            else:
                self._failed_in_a_row = 0
                return record
        return None

    def _record(self, url: str) -> Record:
        """Return what a sitemap lists, from the notes of this run if it was read before."""
        key = _key(url)
        if "pages" not in self._journal.records.get(key, Record()):
            data, _ = get_list(self._run, self._client, url, max_bytes=MAX_SITEMAP_BYTES)
            pages, sitemaps = read_sitemap(data, url)
            self._journal.add(Record(url=key, pages=pages, sitemaps=sitemaps))
        return self._journal.records[key]


def _key(url: str) -> str:
    return f"sitemap {url}"  # the same URL could be listed as a page


def read_sitemap(data: bytes, url: str) -> tuple[list[list[str]], list[list[str]]]:
    """Return the pages and the sitemaps that a sitemap lists, each with the time of its last change."""
    data = _unpacked(data, url)
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines()]
        if not any(line.startswith(("http://", "https://")) for line in lines):
            raise Broken(f"{url} is no sitemap: give the URL of an XML file, or of a list of URLs")
        return [[line, ""] for line in lines if line], []
    listing = _Listing()
    try:
        parser = etree.XMLParser(target=listing, resolve_entities=False, no_network=True, load_dtd=False)
        for start in range(0, len(data), _CHUNK_BYTES):
            parser.feed(data[start : start + _CHUNK_BYTES])
            if listing.elements > MAX_ELEMENTS:
                raise TooLarge(
                    f"{url} has more than {MAX_ELEMENTS:,} XML elements, too many for a sitemap: split it"
                )
        parser.close()
    except etree.XMLSyntaxError as error:
        raise Broken(f"{url} is no sitemap, or damaged: {error}") from error
    if listing.root not in ("urlset", "sitemapindex"):
        raise Broken(f"{url} is no sitemap: its first element is {listing.root!r}, not 'urlset'")
    return listing.found["url"], listing.found["sitemap"]


class _Listing:
    """Takes what a sitemap lists from the events of the parser: a tree of 60 MB of tags would take gigabytes."""

    def __init__(self) -> None:
        self.found: dict[str, list[list[str]]] = {"url": [], "sitemap": []}
        self.root = ""
        self.elements = 0
        self._path: list[str] = []
        self._values: dict[str, list[str]] = {}  # in parts, of the page or the sitemap that is being read
        self._characters = 0  # of these values

    def start(self, tag: str, _: object) -> None:
        self.elements += 1
        name = tag.rpartition("}")[2]
        self.root = self.root or name
        self._path.append(name)
        if name in self.found:
            self._values, self._characters = {}, 0

    def data(self, text: str) -> None:
        if len(self._path) > 1 and self._path[-1] in ("loc", "lastmod") and self._path[-2] in self.found:
            if self._characters <= MAX_VALUE_CHARACTERS:  # of what is longer, the beginning is enough to refuse it
                self._values.setdefault(self._path[-1], []).append(text[: MAX_VALUE_CHARACTERS + 1])
            self._characters += len(text)

    def end(self, _: str) -> None:
        name = self._path.pop()
        if name in self.found and (link := self._value("loc")):
            self.found[name].append([link, self._value("lastmod")])
            self._values = {}

    def _value(self, name: str) -> str:
        return "".join(self._values.get(name, ())).strip()

    def close(self) -> None:
        """End the document."""


def _unpacked(data: bytes, url: str) -> bytes:
    if not data.startswith(_GZIP):
        return data
    try:
        unpacked = gzip.GzipFile(fileobj=io.BytesIO(data)).read(MAX_SITEMAP_BYTES + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise Broken(f"{url} is damaged: {error}") from error
    if len(unpacked) > MAX_SITEMAP_BYTES:
        raise TooLarge(f"{url} unpacks to more than {MAX_SITEMAP_BYTES:,} bytes, too many for a sitemap: split it")
    return unpacked
