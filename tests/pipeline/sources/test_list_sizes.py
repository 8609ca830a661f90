"""Of a list of pages or months that is too large, no more is received than is needed to see that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onward.pipeline.fetch.fetch_errors import TooLarge
from onward.pipeline.source_kinds import SourceKind, feed, monthly_archives, sitemap
from onward.pipeline.source_kinds.feed import Feed
from onward.pipeline.source_kinds.hyperkitty import HyperKittyArchives
from onward.pipeline.source_kinds.pipermail import PipermailArchives
from onward.pipeline.source_kinds.sitemap import SitemapSource
from tests.support.crawls import Clock, pace, take
from tests.support.web_server import Handler, Site, serve

BLOCK = b"<urlset>" + b" " * 999_992
BLOCKS = 100  # more than the buffers of the network hold


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as site:
        yield site


@pytest.mark.parametrize(
    ("location", "kind"),
    (
        ("sitemap+", SitemapSource(pace(Clock()))),
        ("feed+", Feed(pace(Clock()))),
        ("pipermail+", PipermailArchives()),
        ("hyperkitty+", HyperKittyArchives()),
    ),
)
def test_a_list_that_is_too_large_is_not_received_to_its_end(
    site: Site, monkeypatch: pytest.MonkeyPatch, location: str, kind: SourceKind
) -> None:
    sent = []

    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.close_connection = True
        for _ in range(BLOCKS):
            handler.wfile.write(BLOCK)
            sent.append(len(BLOCK))

    path = "/archives/list/talk@lists.example.org/"
    site.answers[path] = answer
    monkeypatch.setattr(sitemap, "MAX_SITEMAP_BYTES", 100_000)
    monkeypatch.setattr(feed, "MAX_FEED_BYTES", 100_000)
    monkeypatch.setattr(monthly_archives, "MAX_INDEX_BYTES", 100_000)
    with pytest.raises(TooLarge, match="100,000 bytes"):
        take(kind, location + site.url(path))
    assert len(sent) < BLOCKS
