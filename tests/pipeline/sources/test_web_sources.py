"""Web sites, sitemaps and feeds through the pipeline: what is stored, and what a second ingestion does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.pipeline.documents import Archive, Message
from onward.pipeline.source_kinds import SourceKind
from onward.pipeline.source_kinds.crawl import WebSite
from onward.pipeline.source_kinds.feed import Feed
from onward.pipeline.source_kinds.polite_client import PACE
from onward.pipeline.source_kinds.sitemap import SitemapSource
from onward.pipeline.sources import fetch_report
from tests.support.crawls import Clock, pace, put, requested, take
from tests.support.pipeline_runs import Pipeline
from tests.support.web_server import Site, serve


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as site:
        yield site


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    """A pipeline whose crawls wait on its simulated clock."""
    with Pipeline(tmp_path / "home", ONWARD_FETCH_ALLOW_PRIVATE="true").running() as pipeline:
        clock = pipeline.world.clock
        monkeypatch.setattr(PACE, "now", clock.now)
        monkeypatch.setattr(PACE, "sleep", clock.advance)
        yield pipeline


def ingest(pipeline: Pipeline, location: str) -> dict[str, int]:
    pipeline.submit(location)
    pipeline.run(within=3_600.0)
    report = fetch_report(pipeline.app, location)
    assert report is not None
    return {name: count for name, count in report.counts.items() if count}


def paths(pipeline: Pipeline) -> list[str]:
    return sorted(message.path for message in pipeline.all(Message))


def here(site: Site, prefix: str, path: str = "/") -> str:
    return prefix + site.url(path, "127.0.0.1")


TEXT = "This page is about the harbour, its ships and the {}, and long enough to be an article of its own."


def fill(site: Site) -> None:
    put(site, "/", TEXT.format("start"), "/a", "/b")
    put(site, "/a", TEXT.format("anchor"), "/c")
    put(site, "/b", TEXT.format("boat"))
    put(site, "/c", TEXT.format("crane"))


def test_a_site_is_ingested_again_and_again(pipeline: Pipeline, site: Site) -> None:
    fill(site)
    location = here(site, "crawl+")
    assert ingest(pipeline, location) == {"items": 4, "new": 4}
    assert paths(pipeline) == ["/", "a", "b", "c"]
    urls = {archive.url for archive in pipeline.all(Archive) if archive.blob}
    assert urls == {site.url(path, "127.0.0.1") for path in ("/", "/a", "/b", "/c")}
    requested(site)
    before = pipeline.times("messages")

    assert ingest(pipeline, location) == {"items": 4, "unchanged": 4}
    assert all("If-None-Match" in headers for _, path, headers in site.requests[-4:] if path != "/robots.txt")
    assert pipeline.times("messages") == before

    put(site, "/b", TEXT.format("beacon"))
    assert ingest(pipeline, location) == {"items": 4, "new": 1, "unchanged": 3}

    site.page("/c", b"", 404)
    put(site, "/a", TEXT.format("arch"))
    assert ingest(pipeline, location) == {"items": 3, "new": 1, "unchanged": 2, "removed": 1}
    assert paths(pipeline) == ["/", "a", "b"]

    for path in ("/", "/a", "/b", "/robots.txt"):
        site.page(path, b"", 502)
    pipeline.submit(location)
    pipeline.run(within=3_600.0)
    assert paths(pipeline) == ["/", "a", "b"], "a server that is down removes nothing"

    site.answers.clear()
    fill(site)
    ingest(pipeline, location)
    assert paths(pipeline) == ["/", "a", "b", "c"]
    pipeline.check_at_rest()


def test_a_crawl_that_has_to_wait_goes_on_later(pipeline: Pipeline, site: Site) -> None:
    fill(site)
    site.page("/robots.txt", b"User-agent: *\nCrawl-delay: 20")
    began = pipeline.world.clock.now()
    assert ingest(pipeline, here(site, "crawl+")) == {"items": 4, "new": 4}, "whatever part of the run took it"
    assert pipeline.world.clock.now() - began >= 60
    assert paths(pipeline) == ["/", "a", "b", "c"]
    assert requested(site) == ["/", "/a", "/b", "/c"]
    assert list((pipeline.home / "scratch").iterdir()) == [], "no notes are left"


def test_what_is_left_out_is_reported(pipeline: Pipeline, site: Site) -> None:
    fill(site)
    put(site, "/", TEXT.format("start"), "/a", "/b", "/closed", "/x.png", "/private/")
    site.page("/robots.txt", b"User-agent: *\nDisallow: /private/")
    site.page("/closed", b"", 401)
    location = here(site, "crawl+")
    for _ in range(2):
        ingest(pipeline, location)
        report = fetch_report(pipeline.app, location)
        assert report is not None
        assert report.passed_over == {"closed": 1, "picture": 1, "robots": 1}


def test_a_sitemap_and_a_feed_are_ingested(pipeline: Pipeline, site: Site) -> None:
    fill(site)
    urls = "".join(f"<url><loc>{site.url(path, '127.0.0.1')}</loc></url>" for path in ("/a", "/b"))
    site.page("/sitemap.xml", f"<urlset>{urls}</urlset>".encode())
    assert ingest(pipeline, here(site, "sitemap+", "/sitemap.xml")) == {"items": 2, "new": 2}
    assert ingest(pipeline, here(site, "sitemap+", "/sitemap.xml")) == {"items": 2, "unchanged": 2}
    link = site.url("/c", "127.0.0.1")
    item = "<item><guid isPermaLink='false'>{0}</guid><link>{1}</link></item>"
    feed = f"<rss version='2.0'><channel>{item}</channel></rss>"
    site.page("/feed.xml", feed.format("one", link).encode())
    assert ingest(pipeline, here(site, "feed+", "/feed.xml")) == {"items": 1, "new": 1}
    site.page("/feed.xml", feed.format("two", site.url("/b", "127.0.0.1")).encode())
    assert ingest(pipeline, here(site, "feed+", "/feed.xml")) == {"items": 2, "new": 1, "unchanged": 1}
    assert {"one", "two"} <= set(paths(pipeline)), "an item that left the feed stays"
    pipeline.check_at_rest()


@pytest.mark.parametrize("location", ("crawl+/", "sitemap+/sitemap.xml", "feed+/feed.xml"))
def test_below_one_request_a_second_robots_txt_is_requested_once(site: Site, location: str) -> None:
    prefix, _, path = location.partition("+")
    clock = Clock()
    put(site, "/", TEXT.format("start"), "/a")
    put(site, "/a", TEXT.format("anchor"))
    site.page("/sitemap.xml", f"<urlset><url><loc>{site.url('/a')}</loc></url></urlset>".encode())
    item = f"<item><guid>one</guid><link>{site.url('/a')}</link></item>"
    site.page("/feed.xml", f"<rss version='2.0'><channel>{item}</channel></rss>".encode())
    kinds: dict[str, SourceKind] = {kind.name: kind for kind in (SitemapSource(pace(clock)), Feed(pace(clock)))}
    kind = kinds.get(prefix, WebSite(pace(clock)))
    for _ in range(2):  # each ingestion asks for it
        site.targets = []
        take(kind, f"{prefix}+{site.url(path)}", options={"rate": "0.1"}, clock=clock)
        assert site.targets == ["/robots.txt", path, "/a"]
