"""A feed has an entry for each item: its text, or the page that it links to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onward.pipeline.fetch.fetch_errors import Broken, HTTPAnswerError, TooLarge
from onward.pipeline.source_kinds import feed_process
from onward.pipeline.source_kinds.feed import Feed
from tests.support.crawls import Clock, Taken, html, pace, put, requested, take
from tests.support.web_server import Site, serve


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as site:
        yield site


def rss(*items: str) -> bytes:
    namespace = 'xmlns:content="http://purl.org/rss/1.0/modules/content/"'
    return f'<rss version="2.0" {namespace}><channel><title>Feed</title>{"".join(items)}</channel></rss>'.encode()


def item(guid: str, link: str = "", text: str = "", *, date: str = "", whole: str = "") -> str:
    parts = {"link": link, "description": text, "pubDate": date, "title": f"Item {guid}"}
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in parts.items() if value)
    inner += f'<guid isPermaLink="false">{guid}</guid>'
    return f"<item>{inner}{f'<content:encoded><![CDATA[{whole}]]></content:encoded>' if whole else ''}</item>"


def read(site: Site, before: dict[str, str] | None = None, **options: str) -> Taken:
    clock = Clock()
    return take(Feed(pace(clock)), "feed+" + site.url("/feed.xml"), before, options, clock=clock)


def test_the_text_of_an_item_is_taken_if_it_is_whole(site: Site) -> None:
    site.page("/feed.xml", rss(item("1", site.url("/1"), whole="<p>All of it.<script>bad()</script>")))
    taken = read(site)
    page = taken.fetched["1"].decode()
    assert "<h1>Item 1</h1><p>All of it." in page
    assert "script" not in page
    assert taken.entries["1"].url == site.url("/1")
    assert requested(site) == ["/feed.xml"]
    assert read(site, taken.versions).versions == taken.versions


def test_else_its_page_is_requested(site: Site) -> None:
    put(site, "/1", "The page")
    date = "Mon, 05 Jan 2026 10:00:00 GMT"
    site.page("/feed.xml", rss(item("a:1", site.url("/1?utm_source=rss"), "A part …", date=date)))
    taken = read(site)
    assert taken.fetched == {"a:1": html("The page")}
    assert requested(site) == ["/feed.xml", "/1"]
    assert read(site, taken.versions).versions == taken.versions
    assert requested(site) == ["/feed.xml"], "its time is the same"
    assert read(site, content="feed").fetched["a:1"].count(b"A part") == 1


def test_an_item_without_link_or_id_is_taken_too(site: Site) -> None:
    site.page("/feed.xml", rss("<item><title>Only a title</title></item>", item("2", text="Only text")))
    taken = read(site)
    assert len(taken.versions) == 2
    assert b"Only text" in taken.fetched["2"]


def test_an_atom_feed_is_read(site: Site) -> None:
    entry = (
        "<entry><id>tag:x,2026:1</id><title>T</title><updated>2026-01-05T10:00:00Z</updated>"
        '<author><name>Ada</name></author><content type="html">&lt;p&gt;Whole&lt;/p&gt;</content></entry>'
    )
    site.page("/feed.xml", f'<feed xmlns="http://www.w3.org/2005/Atom"><title>F</title>{entry}</feed>'.encode())
    page = read(site).fetched["tag:x,2026:1"].decode()
    assert '<meta name="author" content="Ada">' in page
    assert "<p>Whole</p>" in page


def test_items_that_left_the_feed_stay_unless_chosen(site: Site) -> None:
    site.page("/feed.xml", rss(item("1", whole="One")))
    assert read(site).incomplete
    assert not read(site, keep="no").incomplete


def test_robots_txt_and_trouble_of_an_item_are_its_own(site: Site) -> None:
    site.page("/robots.txt", b"User-agent: *\nDisallow: /secret")
    put(site, "/fine", "Fine")
    site.page("/broken", b"", 500)
    links = [item(path, site.url(f"/{path}")) for path in ("secret", "broken", "fine", "gone")]
    site.page("/feed.xml", rss(*links))
    taken = read(site)
    assert list(taken.versions) == ["fine"]
    assert list(taken.problems) == ["broken"]
    assert taken.skipped == {"robots": 1}


@pytest.mark.parametrize("rules", ("", "User-agent: *\nDisallow: /1"))
def test_of_a_page_that_is_not_there_the_text_in_the_feed_is_taken(site: Site, rules: str) -> None:
    site.page("/robots.txt", rules.encode())
    site.page("/feed.xml", rss(item("1", site.url("/1"), "In short.")))
    assert b"In short." in read(site).fetched["1"]


def test_a_feed_that_cannot_be_read_fails(site: Site) -> None:
    site.page("/feed.xml", b"<html><p>Hello", Content_Type="text/html")
    with pytest.raises(Broken, match="is no feed that can be read"):
        read(site)
    site.page("/feed.xml", b"", 503)
    with pytest.raises(HTTPAnswerError):
        read(site)


def test_entities_of_xml_are_not_read(site: Site) -> None:
    bomb = '<!DOCTYPE r [<!ENTITY f SYSTEM "file:///etc/passwd"><!ENTITY a "lol">'
    bomb += "".join(f'<!ENTITY a{n} "{("&a" + str(n - 1) + ";") * 10 if n else "&a;"}">' for n in range(12)) + "]>"
    site.page("/feed.xml", bomb.encode() + rss(item("1", text="x &f; &a11; y")))
    assert all(len(data) < 10_000 and b"root:" not in data for data in read(site).fetched.values())


@pytest.mark.prove
def test_a_feed_that_is_made_to_take_long_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_process, "PROCESSOR_SECONDS", 0.5)
    attributes = " ".join(f"a{number}='x'" for number in range(100_000))
    site.page("/feed.xml", f"<rss version='2.0' {attributes}><channel></channel></rss>".encode())
    with pytest.raises(TooLarge, match="takes more than"):
        read(site)
