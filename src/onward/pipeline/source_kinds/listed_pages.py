"""The pages that a sitemap or a feed lists, requested as in a crawl: slowly, and as robots.txt allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from onward import Kind, OnwardError, classify
from onward.pipeline.fetch.fetch_errors import EndlessRedirects, Refused, UnusableSource
from onward.pipeline.fetch.fetched_items import SkipReason
from onward.pipeline.fetch.http_client import Response
from onward.pipeline.fetch.limited_file import limited_file
from onward.pipeline.source_kinds import crawl_run
from onward.pipeline.source_kinds.crawl_journal import CrawlJournal, Record
from onward.pipeline.source_kinds.host_turns import GoOnLater
from onward.pipeline.source_kinds.page_links import PageLinks, file_digest, html_of, read_directives, read_page
from onward.pipeline.source_kinds.page_version import PageVersion, read_version, settled_time
from onward.pipeline.source_kinds.polite_client import Disallowed, PoliteClient
from onward.pipeline.source_kinds.source_kind import Entry, SourceRun
from onward.pipeline.source_kinds.web_addresses import normalized
from onward.pipeline.source_kinds.web_content import reason_to_skip_type, reason_to_skip_url


class ListedPages:
    """Requests the pages of a list."""

    def __init__(
        self,
        run: SourceRun,
        client: PoliteClient,
        journal: CrawlJournal,
        *,
        list_url: str,
        allows: Callable[[str], bool] = lambda url: True,
    ) -> None:
        self.run, self.client, self.journal = run, client, journal
        self._list_url, self._allows = list_url, allows
        self._taken: set[str] = set()  # the URLs of pages, after their redirects
        self._failing: set[str] = set()
        self._file = run.scratch / "page"

    def entries(self, url: str, path: str, *, hint: str = "") -> Iterator[Entry]:
        """Yield the page at a URL, if it may be taken; with the same time of change (`hint`) without a request."""
        hint = settled_time(hint, self.client.wall())
        stored = read_version(self.run.versions.get(path, ""))
        record = self.journal.records.get(url, Record(url=url))
        if stored is not None and (record.get("version") == str(stored) or (hint and stored.hint == hint)):
            if (end := stored.ends or url) in self._taken:
                self.run.skipped.add(crawl_run.COPY, path)
                return
            self._taken.add(end)
            yield Entry(path, str(stored), url=end)
        elif "skipped" in record:
            self.run.skipped.add(SkipReason(*record["skipped"]), path)
        elif "problem" in record:
            yield Entry(path, "", problem=crawl_run.PageFailed(record["problem"]), url=url)
        elif "gone" not in record:
            conditional = stored is not None and (not hint or stored.hint == hint)
            yield from self._request(url, path, stored, hint, conditional=conditional)

    def is_hidden(self, url: str) -> bool:
        """Return whether a page was not there, or may not be requested."""
        record = self.journal.records.get(url, Record())
        return "gone" in record or record.get("skipped", [""])[0] == crawl_run.ROBOTS.kind

    def skip(self, url: str, path: str, reason: SkipReason) -> None:
        self.run.skipped.add(reason, path)
        self.journal.add(Record(url=url, skipped=[reason.kind, reason.text]))

    def _request(
        self, url: str, path: str, stored: PageVersion | None, hint: str, *, conditional: bool
    ) -> Iterator[Entry]:
        if (reason := reason_to_skip_url(url)) is not None:
            self.skip(url, path, reason)
            return
        conditions = stored.conditions if conditional and stored is not None else {}
        response: Response | None = None
        while response is None:
            try:
                response = self._get(url, conditions)
            except GoOnLater:
                raise
            except (OnwardError, OSError) as error:
                if not self._is_tried_again(url, error):
                    yield from self._failed(url, path, stored, error)
                    return
        self._failing.clear()
        if response.redirect:
            self.skip(url, path, crawl_run.OUTSIDE)
        elif response.url in self._taken:
            self.skip(url, path, crawl_run.COPY)
        elif response.not_modified and stored is not None:
            self._taken.add(response.url)
            yield self._entry(url, path, stored, response)
        elif not response.received:
            self.skip(url, path, reason_to_skip_type(response.media_type) or crawl_run.CLOSED)
        else:
            yield from self._received(url, path, stored, hint, response)

    def _get(self, url: str, conditions: dict[str, str]) -> Response:
        """Request a page and what it redirects to, each as robots.txt allows."""
        seen = {url}
        for _ in range(self.run.limits.max_redirects + 1):
            with self._file.open("wb") as target:
                response = self.client.get(
                    url,
                    target,
                    headers=conditions,
                    wanted=lambda response: reason_to_skip_type(response.media_type) is None,
                )
            following = normalized(response.redirect) if response.redirect else None
            if following is None or not self._allows(following):
                return response
            if following in seen:
                break
            seen.add(following)
            url = following
        raise EndlessRedirects(f"{url} redirects without end: open it in a browser to see why")

    def _received(
        self, url: str, path: str, stored: PageVersion | None, hint: str, response: Response
    ) -> Iterator[Entry]:
        page = PageLinks()
        if (html := html_of(self._file, response.media_type)) is not None:
            page = read_page(html, response.url, response.media_type)
        if not (page.directives & read_directives(response.headers.get("x-robots-tag", ""))).index:
            self.skip(url, path, crawl_run.NOINDEX)
            return
        self._taken.add(response.url)
        version = PageVersion(file_digest(self._file), ends=response.url if response.url != url else "")
        if stored is not None and (stored.digest, stored.ends) == (version.digest, version.ends):
            version = replace(stored, hint=hint or stored.hint)
        else:
            version = replace(version, hint=hint)
        version = version.with_validators(response.etag, response.last_modified)
        yield self._entry(url, path, version, response)

    def _entry(self, url: str, path: str, version: PageVersion, response: Response) -> Entry:
        self.journal.add(Record(url=url, version=str(version)))

        return Entry(
            path,
            str(version),
            name=response.name,
            media_type=response.media_type,
            url=response.url,
            file=self._file,
        )

    # -- failures

    def _is_tried_again(self, url: str, error: Exception) -> bool:
        """Return whether a page may be requested again in this run, when its host lets us."""
        tries = self.journal.records.get(url, Record()).get("tries", 0) + 1
        if classify(error).kind is not Kind.TRANSIENT or tries >= crawl_run.MAX_TRIES:
            return False
        self.journal.add(Record(url=url, tries=tries))
        self.client.pause_if_asked(url, error, tries)
        return True

    def _failed(self, url: str, path: str, stored: PageVersion | None, error: Exception) -> Iterator[Entry]:
        if isinstance(error, Disallowed):
            self.skip(url, path, crawl_run.ROBOTS)
        elif isinstance(error, Refused) and error.status_code in (404, 410):
            self.journal.add(Record(url=url, gone=True))
        elif isinstance(error, Refused) and stored is None:
            self.skip(url, path, crawl_run.CLOSED)
        else:
            if classify(error).kind is Kind.TRANSIENT:
                self._failing.add(url)
                if len(self._failing) >= crawl_run.MAX_FAILED_IN_A_ROW:
                    self._check_server()
            self.journal.add(Record(url=url, problem=str(error)))
            yield Entry(path, "", problem=error, url=url)

    def _check_server(self) -> None:
        """Request the list again; raise if the server is down: then nothing is known of its pages."""
        with self._file.open("wb") as target:
            self.client.get(self._list_url, target, wanted=lambda response: False)
        self._failing.clear()


def get_list(run: SourceRun, client: PoliteClient, url: str, *, max_bytes: int) -> tuple[bytes, Response]:
    """Request a list of pages; raise if it cannot be read."""
    file = run.scratch / "list"
    first = url
    refusal = f"{first} has more than {max_bytes:,} bytes, too many for a list of pages: split it"
    for _ in range(run.limits.max_redirects + 1):
        with limited_file(file, max_bytes, refusal) as target:
            response = client.get(url, target)
        if not response.redirect:
            break
        url = normalized(response.redirect) or ""
        if not url:
            raise UnusableSource(f"{first} redirects to something that is no web page: give the URL it ends at")
    else:
        raise EndlessRedirects(f"{first} redirects without end: open it in a browser to see why")
    return file.read_bytes(), response
