"""One run of a crawl: breadth first from the start, each page once, then stored pages that no link led to."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from onward import Kind, OnwardError, classify
from onward.pipeline.fetch.fetch_errors import Refused, UnusableSource
from onward.pipeline.fetch.fetched_items import SkipReason
from onward.pipeline.fetch.http_client import Response
from onward.pipeline.source_kinds.crawl_journal import CrawlJournal, Record
from onward.pipeline.source_kinds.host_turns import GoOnLater
from onward.pipeline.source_kinds.page_links import PageLinks, file_digest, html_of, read_directives, read_page
from onward.pipeline.source_kinds.page_version import MAX_LINKS, PageVersion, read_version
from onward.pipeline.source_kinds.polite_client import Disallowed, Pace, PoliteClient
from onward.pipeline.source_kinds.source_kind import Entry, SourceRun
from onward.pipeline.source_kinds.web_addresses import Scope, normalized
from onward.pipeline.source_kinds.web_content import reason_to_skip_type, reason_to_skip_url

RUN_SECONDS = 600.0  # then the crawl goes on in another delivery, so that other sources have a turn
MAX_TRIES = 3  # of a page whose server cannot answer now
MAX_FAILED_IN_A_ROW = 5  # then the server is taken to be down
URLS_PER_PAGE = 3  # requested for each allowed page, with redirects, copies and what is gone
MET_PER_URL = 30  # links that are remembered for each of them, also those that are passed over by their address

ROBOTS = SkipReason("robots", "not allowed by robots.txt")
NOINDEX = SkipReason("noindex", "the page asks not to be indexed")
COPY = SkipReason("copy", "the same page is taken under another address")
OUTSIDE = SkipReason("outside", "it redirects out of the site")
CLOSED = SkipReason("closed", "it is not open to everyone")
LIMIT = SkipReason("limit", "there are more pages than the option `pages` allows")
DEEP = SkipReason("deep", "it is further from the start than the option `depth` allows")


class PageFailed(OnwardError):
    """A page could not be fetched in an earlier part of this run."""


@dataclass(frozen=True, slots=True)
class CrawlSettings:
    scope: Scope
    depth: int
    pages: int
    rate: float
    digest: str  # of everything that decides which links a page has


@dataclass(frozen=True, slots=True)
class Page:
    """A URL that is to be requested."""

    url: str
    depth: int
    start: bool = False  # the start, or what it redirects to: without it there is no crawl
    hops: int = 0  # redirects that led here
    copies: int = 0  # how many copies of other pages lie on the way here
    alone: bool = False  # taken even if it names another canonical address, which does not exist


class CrawlRun:
    def __init__(self, run: SourceRun, settings: CrawlSettings, pace: Pace) -> None:
        self.run, self.settings, self.scope, self.pace = run, settings, settings.scope, pace
        self.journal = CrawlJournal(run.notes)
        self.queue: deque[Page] = deque()
        self.met: set[str] = set()
        self.deep: set[str] = set()  # further from the start than the option says
        self.done: set[str] = set()
        self.taken: set[str] = set()
        self.texts: dict[str, str] = {}  # the URL of the first page with a text
        self.waiting: dict[str, list[Page]] = {}  # pages that are copies of another one, if that exists
        self.versions = self._read_versions()
        self.failing: set[str] = set()  # the pages that failed since one did not

    def _read_versions(self) -> dict[str, PageVersion]:
        """Return what is stored of each URL, under these options."""
        found = ((self.scope.url_of(path), read_version(text)) for path, text in self.run.versions.items())
        digest = self.settings.digest
        return {url: version for url, version in found if version is not None and version.scope == digest}

    def entries(self) -> Iterator[Entry]:
        began = self.pace.now()
        client = PoliteClient(self.run, self.settings.rate, self.pace, self.journal)
        with self.journal, client as self.client:
            self._queue(Page(self.scope.start, 0, start=True))
            stored = iter(sorted(self.versions))
            try:
                while self._refill(stored) and not self.run.stopped():
                    if self._is_full():
                        self.run.skipped.add(LIMIT, self.queue.popleft().url)
                        continue
                    if self.pace.now() - began > RUN_SECONDS:
                        raise GoOnLater(0.0)
                    yield from self._visit(self.queue.popleft())
            except GoOnLater as later:
                self.run.continue_after = later.seconds

    def _refill(self, stored: Iterator[str]) -> bool:
        """Return whether there is a page to visit; behind all that is linked come pages that only are stored."""
        while not self.queue and (url := next(stored, None)) is not None:
            if self.scope.allows(url):
                self._queue(Page(url, self.settings.depth))
        return bool(self.queue)

    def _is_full(self) -> bool:
        return len(self.taken) >= self.settings.pages or len(self.done) >= self._most_urls

    @property
    def _most_urls(self) -> int:
        """How many URLs are requested at most."""
        return URLS_PER_PAGE * self.settings.pages + 100

    def _queue(self, page: Page) -> bool:
        """Queue a page; return whether it belongs to the crawl, and no page before led to it."""
        if page.url in self.met or not self.scope.allows(page.url):
            return False
        self.met.add(page.url)
        if not page.start and (reason := reason_to_skip_url(page.url)) is not None:
            self.run.skipped.add(reason, self.scope.path_of(page.url))
        else:
            self.queue.append(page)
        return True

    def _follow(self, page: Page, links: list[str], *, copy: bool = False) -> list[str]:
        """Queue the links of a page, if they are not too far; return those that no page before it has queued."""
        copies = page.copies + copy
        if copies > 1:  # a copy of a copy: a server that makes addresses without end
            return []
        if page.depth >= self.settings.depth:
            # They are stored all the same: the page may be nearer to the start in the next run.
            far = [link for link in links if link not in self.met and self.scope.allows(link)]
            for link in far:
                if link not in self.deep and link not in self.versions:
                    if len(self.deep) < MET_PER_URL * self._most_urls:
                        self.deep.add(link)
                    self.run.skipped.add(DEEP, self.scope.path_of(link))
            return far[: MAX_LINKS + 1]  # with one more than is stored the page counts as cut
        new: list[str] = []
        for link in links:
            full = len(self.queue) > 2 * self._most_urls or len(self.met) > MET_PER_URL * self._most_urls
            if full and link not in self.versions:
                # It would not be requested, and a site may have any number of links.
                if link not in self.met and self.scope.allows(link):
                    self.run.skipped.add(LIMIT, self.scope.path_of(link))
            elif self._queue(Page(link, page.depth + 1, copies=copies)):
                new.append(link)
        return new

    # -- one page

    def _visit(self, page: Page) -> Iterator[Entry]:
        record = self.journal.records.get(page.url, Record(url=page.url))
        if self._is_usable(record) and not (page.alone and "skipped" in record):
            yield from self._repeat(page, record)
        else:
            yield from self._request(page, record.get("tries", 0))
        if page.url in self.done and page.url not in self.taken:
            for copy in self.waiting.pop(page.url, ()):  # their canonical page does not exist
                self.queue.append(replace(copy, alone=True))

    def _is_usable(self, record: Record) -> bool:
        """Return whether a record needs no new request: that of an entry does, if its version was not stored."""
        if "version" in record:
            return self.run.versions.get(self.scope.path_of(record["url"])) == record["version"]
        return "tries" not in record and len(record) > 1

    def _repeat(self, page: Page, record: Record) -> Iterator[Entry]:
        """Do what the record of an earlier part of this run says."""
        self.done.add(page.url)
        if "redirect" in record:
            self._redirected(page, record["redirect"])
        self._follow(page, record.get("links", []), copy=record.get("copy", False))
        path = self.scope.path_of(page.url)
        if "problem" in record:
            self._note_hidden(page)
            status = record.get("status")
            text = record["problem"]
            yield Entry(path, "", problem=PageFailed(text) if status is None else Refused(text, status))
        elif "version" in record:
            self.taken.add(page.url)
            if record.get("text"):
                self.texts.setdefault(record["text"], page.url)
            yield Entry(path, record["version"], url=page.url)
        elif "canonical" in record and not self._has_canonical(page, record["canonical"]):
            self.queue.append(replace(page, alone=True))
        elif "skipped" in record:
            self.run.skipped.add(SkipReason(*record["skipped"]), path)

    def _request(self, page: Page, tries: int) -> Iterator[Entry]:
        stored = None if page.alone else self.versions.get(page.url)
        file = self.run.scratch / "page"
        try:
            with file.open("wb") as target:
                response = self.client.get(
                    page.url,
                    target,
                    headers=stored.conditions if stored is not None else {},
                    follow=lambda url: normalized(url) == page.url,
                    wanted=lambda response: reason_to_skip_type(response.media_type) is None,
                )
        except GoOnLater:
            self.queue.appendleft(page)
            raise
        except (OnwardError, OSError) as error:
            yield from self._failed(page, error, tries, stored)
            return
        self.failing.clear()
        self.done.add(page.url)
        if response.redirect:
            self._redirected(page, normalized(response.redirect) or "")
            self.journal.add(Record(url=page.url, redirect=normalized(response.redirect) or ""))
        elif response.not_modified and stored is not None:
            first = self.texts.setdefault(stored.text, page.url) if stored.text else page.url
            is_copy = first != page.url
            links = self._follow(page, stored.absolute_links(page.url), copy=is_copy)
            if is_copy:
                self._skip(page, COPY, links, copy=True)
            else:
                yield self._entry(page, stored, links, fetch=False, response=response)
        elif not response.received:
            self._skip(page, reason_to_skip_type(response.media_type) or CLOSED, [])
        else:
            yield from self._received(page, response, stored)

    def _received(self, page: Page, response: Response, stored: PageVersion | None) -> Iterator[Entry]:
        file = self.run.scratch / "page"
        digest = file_digest(file)
        found = PageLinks(text_digest=digest)
        if (html := html_of(file, response.media_type)) is not None:
            found = read_page(html, response.url, response.media_type)
        directives = found.directives & read_directives(response.headers.get("x-robots-tag", ""))
        links = list(found.links) if directives.follow else []
        if stored is not None and stored.digest != digest:
            # A link that is gone may have been the only one to a page that still exists.
            links += [link for link in stored.absolute_links(page.url) if link not in links]
        first = self.texts.setdefault(found.text_digest, page.url) if found.text_digest else page.url
        reason = None if directives.index else NOINDEX
        if reason is None and self._has_canonical(page, found.canonical):
            reason = COPY
        if reason is not None and first == page.url:
            self.texts.pop(found.text_digest, None)  # it is not taken
        if reason is None and first != page.url:
            reason = COPY
        new = self._follow(page, links, copy=first != page.url)
        if reason is not None:
            canonical = found.canonical if reason is COPY and first == page.url else None
            self._skip(page, reason, new, copy=first != page.url, canonical=canonical)
            return
        if stored is not None and stored.digest == digest:
            version = stored
        else:
            version = PageVersion(digest, found.text_digest, scope=self.settings.digest)
            version = version.with_links(page.url, new)
        version = version.with_validators(response.etag, response.last_modified)
        yield self._entry(page, version, new, fetch=True, response=response)

    def _has_canonical(self, page: Page, canonical: str | None) -> bool:
        """Return whether a page is a copy of its canonical address, or will be if there is something."""
        if canonical is None or canonical == page.url or page.alone or not self.scope.allows(canonical):
            return False
        if canonical in self.done:
            return canonical in self.taken
        self._queue(Page(canonical, page.depth, copies=page.copies))
        self.waiting.setdefault(canonical, []).append(page)
        return True

    def _entry(
        self, page: Page, version: PageVersion, links: list[str], *, fetch: bool, response: Response
    ) -> Entry:
        self.taken.add(page.url)
        if version.text:
            self.texts.setdefault(version.text, page.url)
        text = str(version)
        self.journal.add(Record(url=page.url, version=text, text=version.text, links=links))
        path, name = self.scope.path_of(page.url), response.name
        if not fetch:
            return Entry(path, text, url=page.url)
        file = self.run.scratch / "page"
        return Entry(path, text, name=name, media_type=response.media_type, url=page.url, file=file)

    def _skip(
        self,
        page: Page,
        reason: SkipReason,
        links: list[str],
        *,
        copy: bool = False,
        canonical: str | None = None,
    ) -> None:
        self.run.skipped.add(reason, self.scope.path_of(page.url))
        record = Record(url=page.url, links=links, skipped=[reason.kind, reason.text], copy=copy)
        if canonical is not None:
            record["canonical"] = canonical
        self.journal.add(record)

    def _redirected(self, page: Page, target: str) -> None:
        if not self.scope.allows(target):
            if page.start:
                raise UnusableSource(
                    f"{page.url} redirects to {target or 'no web page'}, which is not on this site below "
                    f"{self.scope.folder}: give crawl+{target or 'https://…'} if you mean that"
                )
            self.run.skipped.add(OUTSIDE, self.scope.path_of(page.url))
        elif page.hops < self.run.limits.max_redirects and target not in self.met:
            self.met.add(target)
            # Next: it is the same page.
            self.queue.appendleft(Page(target, page.depth, page.start, page.hops + 1, page.copies))

    # -- failures

    def _check_server(self) -> None:
        """Request the start again; raise if the server is down, as other pages may then fail for that reason."""
        with io.BytesIO() as target, suppress(Refused):
            self.client.get(self.scope.start, target, wanted=lambda response: False)
        self.failing.clear()

    def _failed(self, page: Page, error: Exception, tries: int, stored: PageVersion | None) -> Iterator[Entry]:
        path = self.scope.path_of(page.url)
        if page.start:
            raise error
        if isinstance(error, Disallowed):
            self.done.add(page.url)
            self._skip(page, ROBOTS, [])
            return
        is_gone = isinstance(error, Refused) and error.status_code in (404, 410)
        if is_gone or (isinstance(error, Refused) and path not in self.run.versions):
            # What is gone is not listed, and so removed.
            self.failing.clear()
            self.done.add(page.url)
            if is_gone:
                self.journal.add(Record(url=page.url, gone=True))
            else:
                self._skip(page, CLOSED, [])
            return
        if classify(error).kind is Kind.TRANSIENT:
            if tries + 1 < MAX_TRIES:
                self.journal.add(Record(url=page.url, tries=tries + 1))
                if self.client.pause_if_asked(page.url, error, tries):
                    self.queue.appendleft(page)
                    return
            self.failing.add(page.url)
            if len(self.failing) >= MAX_FAILED_IN_A_ROW:
                self._check_server()
            if tries + 1 < MAX_TRIES:
                self.queue.append(page)
                return
        # What is stored of the page stays, and leads on.
        self.done.add(page.url)
        links = self._follow(page, stored.absolute_links(page.url)) if stored is not None else []
        self._note_hidden(page)
        record = Record(url=page.url, problem=str(error), links=links)
        if isinstance(error, Refused):
            record["status"] = error.status_code
        self.journal.add(record)
        yield Entry(path, "", problem=error, url=page.url)

    def _note_hidden(self, page: Page) -> None:
        """Remove nothing in this run if pages to which only a failed one leads are not found."""
        if page.url not in self.versions:
            self.run.incomplete = True
