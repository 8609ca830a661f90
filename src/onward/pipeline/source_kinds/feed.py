"""Feeds as sources: an entry for each item of an RSS or Atom feed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import BinaryIO

from onward.pipeline.source_kinds import crawl_run, web_options
from onward.pipeline.source_kinds.crawl_journal import CrawlJournal, Record
from onward.pipeline.source_kinds.feed_process import Item, read_feed
from onward.pipeline.source_kinds.host_turns import GoOnLater
from onward.pipeline.source_kinds.listed_pages import ListedPages, get_list
from onward.pipeline.source_kinds.page_links import short_digest
from onward.pipeline.source_kinds.page_version import PageVersion
from onward.pipeline.source_kinds.polite_client import PACE, Pace, PoliteClient
from onward.pipeline.source_kinds.source_kind import Entry, SourceOption, SourceRun, option_values
from onward.pipeline.source_kinds.web_addresses import normalized, web_location

MAX_FEED_BYTES = 50_000_000


def _choice(value: str) -> str:
    if value not in ("auto", "feed", "page"):
        raise ValueError("give auto, feed or page")
    return value


CONTENT = SourceOption(
    "content",
    "auto",
    "what is taken of an item: the text in the feed, the page it links to, or auto: the text if it is whole",
    _choice,
)
KEEP = SourceOption("keep", "yes", "whether items stay that are no longer in the feed", web_options.yes_or_no)


@dataclass(frozen=True, slots=True)
class Feed:
    """An RSS or Atom feed, as in `feed+https://example.org/feed.xml`."""

    pace: Pace = PACE
    name: str = "feed"
    schemes: tuple[str, ...] = ("feed+http", "feed+https")
    options: tuple[SourceOption, ...] = (CONTENT, KEEP, web_options.RATE)

    def canonical(self, location: str) -> str:
        return web_location(location, "feed+")

    def entries(self, run: SourceRun) -> Iterator[Entry]:
        given = option_values(self.options, run.options)
        start = run.location.removeprefix("feed+")
        run.incomplete = web_options.yes_or_no(given["keep"])  # a feed has its latest items only
        rate, chosen = web_options.rate(given["rate"]), _choice(given["content"])
        began = self.pace.now()
        with CrawlJournal(run.notes) as journal, PoliteClient(run, rate, self.pace, journal) as client:
            pages = ListedPages(run, client, journal, list_url=start)
            try:
                for path, item in _items(run, client, journal, start).items():
                    if run.stopped():
                        return
                    if self.pace.now() - began > crawl_run.RUN_SECONDS:
                        raise GoOnLater(0.0)
                    link = normalized(item["link"], start) if item["link"] else None
                    if link is not None and (chosen == "page" or (chosen == "auto" and not item["content"])):
                        yield from pages.entries(link, path, hint=item["updated"] or item["published"])
                        # What a feed says of a page that is not there is better than nothing.
                        if chosen == "auto" and item["summary"] and pages.is_hidden(link):
                            yield _from_feed(path, item, link)
                    else:
                        yield _from_feed(path, item, link or "")
            except GoOnLater as later:
                run.continue_after = later.seconds


def _items(run: SourceRun, client: PoliteClient, journal: CrawlJournal, url: str) -> dict[str, Item]:
    """Return the items of a feed by path, from the notes of this run if the feed was read before."""
    key = f"feed {url}"
    if key not in journal.records:
        data, response = get_list(run, client, url, max_bytes=MAX_FEED_BYTES)
        journal.add(Record(url=key, items=read_feed(data, response.url, response.media_type)))
    found: dict[str, Item] = {}
    for item in journal.records[key]["items"]:
        path = (item["id"] or item["link"]).strip()
        path = path or short_digest(f"{item['title']} {item['summary']}".encode("utf-8", "replace"))
        found.setdefault(path, item)
    return found


def _from_feed(path: str, item: Item, link: str) -> Entry:
    """Return the text of an item in the feed, as a web page. The parser has removed what could do harm."""
    title, date = item["title"], item["published"] or item["updated"]
    head = f"<title>{escape(title)}</title>"
    for name, value in (("author", item["author"]), ("article:published_time", date)):
        if value:
            head += f'<meta name="{name}" content="{escape(value)}">'
    page = f'<!doctype html><html><head><meta charset="utf-8">{head}</head><body><article>'
    page += f"<h1>{escape(title)}</h1>{item['content'] or item['summary']}</article></body></html>"
    data = page.encode("utf-8", "replace")

    def write(target: BinaryIO) -> None:
        target.write(data)

    version = str(PageVersion(short_digest(data)))
    return Entry(path, version, write, "item.html", "text/html; charset=utf-8", link, len(data))
