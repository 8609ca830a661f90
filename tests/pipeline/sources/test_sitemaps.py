"""A sitemap lists pages; what did not change since is not requested."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from onward.pipeline.fetch.fetch_errors import Broken, HTTPAnswerError, NothingToIngest, Refused, TooLarge
from onward.pipeline.source_kinds import sitemap as sitemap_kind
from onward.pipeline.source_kinds.page_version import settled_time
from onward.pipeline.source_kinds.sitemap import SitemapSource, read_sitemap
from onward.pipeline.source_kinds.web_addresses import normalized
from tests.support.crawls import Clock, Taken, pace, put, requested, take
from tests.support.web_server import Site, serve

XMLNS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as site:
        yield site


def sitemap(site: Site, *pages: str, **changed: str) -> bytes:
    urls = [f"<url><loc>{site.url('/' + page)}</loc></url>" for page in pages]
    urls += [
        f"<url><loc> {site.url('/' + page)} </loc><lastmod>{time}</lastmod></url>"
        for page, time in changed.items()
    ]
    return f'<?xml version="1.0"?><urlset {XMLNS}>{"".join(urls)}</urlset>'.encode()


def index(site: Site, *names: str) -> bytes:
    children = "".join(f"<sitemap><loc>{site.url('/' + name)}</loc></sitemap>" for name in names)
    return f"<sitemapindex {XMLNS}>{children}</sitemapindex>".encode()


def read(
    site: Site,
    path: str = "/sitemap.xml",
    before: dict[str, str] | None = None,
    clock: Clock | None = None,
    **options: str,
) -> Taken:
    clock = clock or Clock()
    return take(SitemapSource(pace(clock)), "sitemap+" + site.url(path), before, options, clock=clock)


def fill(site: Site) -> None:
    for page in ("a", "b", "c"):
        put(site, f"/{page}", page.upper(), "/not-followed")


def test_its_pages_are_taken_and_links_are_not_followed(site: Site) -> None:
    fill(site)
    site.page("/sitemap.xml", sitemap(site, "a", "b", "b#part", "gone", "https://other.example/x"))
    taken = read(site)
    assert sorted(taken.versions) == ["a", "b"]
    assert requested(site) == ["/sitemap.xml", "/a", "/b", "/gone", "/https://other.example/x"]


def test_a_page_whose_time_did_not_change_is_not_requested(site: Site) -> None:
    fill(site)
    site.page("/sitemap.xml", sitemap(site, "c", a="2026-01-01", b="2026-01-01"))
    first = read(site)
    requested(site)
    again = read(site, before=first.versions)
    assert (again.versions, again.fetched) == (first.versions, {})
    assert requested(site) == ["/sitemap.xml", "/c"], "only the page without a time"
    put(site, "/b", "B, revised")
    site.page("/sitemap.xml", sitemap(site, "c", a="2026-01-01", b="2026-02-02"))
    changed = read(site, before=again.versions)
    assert list(changed.fetched) == ["b"]
    assert requested(site) == ["/sitemap.xml", "/c", "/b"]
    site.page("/sitemap.xml", sitemap(site, a="2026-01-01"))
    assert sorted(read(site, before=changed.versions).versions) == ["a"]


def test_a_page_that_changes_twice_on_a_day_is_not_missed(site: Site) -> None:
    clock = Clock()  # 2027-01-15 08:00 UTC
    put(site, "/a", "A")
    site.page("/sitemap.xml", sitemap(site, a="2027-01-15"))
    taken = read(site, clock=clock)
    put(site, "/a", "A, revised")
    taken = read(site, before=taken.versions, clock=clock)
    assert list(taken.fetched) == ["a"]
    clock.seconds += 2 * 86_400.0
    taken = read(site, before=taken.versions, clock=clock)
    requested(site)
    again = read(site, before=taken.versions, clock=clock)
    assert (again.versions, requested(site)) == (taken.versions, ["/sitemap.xml"]), "the day is over"


@pytest.mark.parametrize(
    ("text", "settled_after"),
    (
        ("2027-01-15", 28 * 3600),  # 08:00 UTC is 28 hours before the day is over at the last place
        ("2027-01-15T08:00Z", 60),
        ("2027-01-15T09:00:00+01:00", 60),
        ("2027-01-15T08:00:00", 14 * 3600),
        ("Fri, 15 Jan 2027 08:00:00 GMT", 60),
        ("yesterday", 0),
        ("", 0),
    ),
)
def test_a_time_of_change_counts_when_no_later_change_can_have_it(text: str, settled_after: int) -> None:
    now = Clock().seconds
    assert settled_time(text, now + settled_after) == text
    assert settled_after == 0 or settled_time(text, now + settled_after - 1) == ""


@pytest.mark.parametrize("at", ("/index.xml", "/", "/robots.txt"))
def test_an_index_a_packed_sitemap_and_robots_txt_lead_to_pages(site: Site, at: str) -> None:
    fill(site)
    site.page("/index.xml", index(site, "one.xml.gz", "two.txt", "index.xml"))
    site.page("/one.xml.gz", gzip.compress(sitemap(site, "a")), Content_Type="application/gzip")
    site.page("/two.txt", f"{site.url('/b')}\n{site.url('/c')}\n".encode(), Content_Type="text/plain")
    site.page("/robots.txt", f"User-agent: *\nDisallow: /c\nSitemap: {site.url('/index.xml')}".encode())
    taken = read(site, at)
    assert sorted(taken.versions) == ["a", "b"]
    assert taken.skipped == {"robots": 1}


def test_a_part_of_an_index_that_is_not_there_removes_nothing(site: Site) -> None:
    fill(site)
    site.page("/index.xml", index(site, "one.xml", "gone.xml"))
    site.page("/one.xml", sitemap(site, "a"))
    taken = read(site, "/index.xml")
    assert sorted(taken.versions) == ["a"]
    assert taken.incomplete
    site.page("/gone.xml", b"", 500)
    assert read(site, "/index.xml", taken.versions).incomplete


def test_an_index_whose_parts_all_fail_means_a_server_that_is_down(site: Site) -> None:
    names = [f"{number}.xml" for number in range(6)]
    site.page("/index.xml", index(site, *names))
    for name in names:
        site.page(f"/{name}", b"", 500)
    with pytest.raises(HTTPAnswerError):
        read(site, "/index.xml")


def test_sitemaps_are_requested_until_there_are_enough_pages(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(site)
    site.page("/index.xml", index(site, "one.xml", "two.xml", "three.xml"))
    for name, page in {"one": "a", "two": "b", "three": "c"}.items():
        site.page(f"/{name}.xml", sitemap(site, page))
    taken = read(site, "/index.xml", pages="2")
    assert requested(site) == ["/index.xml", "/one.xml", "/a", "/two.xml", "/b"]
    assert (sorted(taken.versions), taken.skipped) == (["a", "b"], {"limit": 1})
    monkeypatch.setattr(sitemap_kind, "MAX_LISTED_PAGES", 1)
    taken = read(site, "/index.xml")
    assert requested(site) == ["/index.xml", "/one.xml", "/a"]
    assert taken.incomplete


def test_a_packed_list_without_its_end_removes_nothing(site: Site) -> None:
    fill(site)
    lines = [f"{site.url('/' + page)}\n".encode() for page in ("a", "b")]
    members = [gzip.compress(line) for line in lines]
    site.page("/sitemap.txt.gz", b"".join(members))
    assert sorted(read(site, "/sitemap.txt.gz").versions) == ["a", "b"], "a file may have several members"
    site.page("/sitemap.txt.gz", gzip.compress(b"".join(lines))[:-12])
    with pytest.raises(Broken, match=r"sitemap\.txt\.gz is damaged: Compressed file ended"):
        read(site, "/sitemap.txt.gz")


def test_sitemaps_above_the_limit_remove_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemap_kind, "MAX_SITEMAPS", 2)
    fill(site)
    site.page("/index.xml", index(site, "one.xml", "two.xml"))
    site.page("/one.xml", sitemap(site, "a"))
    site.page("/two.xml", sitemap(site, "b"))
    taken = read(site, "/index.xml")
    assert sorted(taken.versions) == ["a"]
    assert (taken.incomplete, taken.skipped) == (True, {"limit": 1})


def test_a_sitemap_without_pages_removes_nothing(site: Site) -> None:
    """Programs that write a sitemap anew begin with an empty one."""
    fill(site)
    site.page("/sitemap.xml", sitemap(site))
    with pytest.raises(NothingToIngest, match="lists no page"):
        read(site)


def test_a_sitemap_that_is_not_there_fails(site: Site) -> None:
    with pytest.raises(Refused, match="404"):
        read(site)


@pytest.mark.parametrize(
    "data", (b"<html><p>Hello", b"<urlset><url>", b"plain text", b"", b"\x1f\x8bno gzip", b"<rss></rss>")
)
def test_what_is_no_sitemap_is_named(data: bytes) -> None:
    with pytest.raises(Broken, match=r"http://site\.example/s\.xml is"):
        read_sitemap(data, "http://site.example/s.xml")


def test_entities_of_xml_are_not_read() -> None:
    bomb = "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(10))
    text = f'<!DOCTYPE u [<!ENTITY l0 "lol"><!ENTITY f SYSTEM "file:///etc/passwd">{bomb}]><urlset>%s</urlset>'
    for entity in ("&f;", "&l10;"):
        data = (text % f"<url><loc>http://x/{entity}</loc></url>").encode()
        try:
            pages, _ = read_sitemap(data, "http://site.example/s.xml")
        except Broken:
            continue
        assert pages == [["http://x/", ""]]


def test_a_sitemap_that_is_made_to_fill_the_memory_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemap_kind, "MAX_ELEMENTS", 1_000)
    for data in (b"<urlset>" + b"<a/>" * 100_000, b"<urlset><url>" + b"<a/>" * 100_000):
        with pytest.raises(TooLarge, match="1,000 XML elements"):
            read_sitemap(data, "http://site.example/sitemap.xml")


def test_of_an_address_that_is_too_long_only_the_beginning_is_read() -> None:
    # The parser passes on each entity alone: to put ever more of them together takes minutes.
    data = b"<urlset><url><loc>http://x/" + b"a&amp;" * 200_000 + b"</loc><lastmod>2026</lastmod></url>"
    data += b"<url><loc>http://x/?a=1&amp;b=2</loc><lastmod>2026</lastmod></url></urlset>"
    (long, _), short = read_sitemap(data, "http://site.example/sitemap.xml")[0]
    assert len(long) < 10_000
    assert normalized(long) is None
    assert short == ["http://x/?a=1&b=2", "2026"]


def test_what_a_sitemap_says_of_other_things_is_left_out(site: Site) -> None:
    image = "<i:image><i:loc>http://x/i.png</i:loc></i:image>"
    page = (
        f"<url>{image}<loc>http://x/a<!-- b --></loc><lastmod> 2026 </lastmod>{image}</url><url><lastmod/></url>"
    )
    found = read_sitemap(f'<urlset {XMLNS} xmlns:i="i">{page}</urlset>'.encode(), site.url("/sitemap.xml"))
    assert found == ([["http://x/a", "2026"]], [])


def test_server_trouble_with_one_page_is_its_own(site: Site) -> None:
    fill(site)
    site.page("/sitemap.xml", sitemap(site, "a", "b"))
    first = read(site)
    site.page("/a", b"", 429, Retry_After="60")
    again = read(site, before=first.versions)
    assert list(again.problems) == ["a"]
    assert sorted(again.versions) == ["b"]


def test_pages_that_redirect_are_taken_once(site: Site) -> None:
    fill(site)
    site.redirect("/old", "/a")
    site.redirect("/out", "http://other.example/")
    site.page("/sitemap.xml", sitemap(site, "old", "a", "out"))
    taken = read(site)
    assert list(taken.versions) == ["old"]
    assert taken.entries["old"].url == site.url("/a")
    assert taken.skipped == {"copy": 1, "outside": 1}


@pytest.mark.parametrize("order", (("old", "a"), ("a", "old")))
def test_pages_that_redirect_are_taken_once_again(site: Site, order: tuple[str, str]) -> None:
    fill(site)
    site.redirect("/old", "/a")
    site.page("/sitemap.xml", sitemap(site, **dict.fromkeys(order, "2026-01-01")))
    first = read(site)
    again = read(site, before=first.versions)
    assert list(first.versions) == [order[0]]
    assert (again.versions, again.fetched, again.skipped) == (first.versions, {}, {"copy": 1})


def bad_parts(site: Site) -> dict[str, str]:
    site.page("/broken", b"", 500)
    site.page("/busy", b"", 429, Retry_After="60")
    site.page("/cut.xml", b"<urlset><url>")
    site.redirect("/circle", "/circle")
    site.redirect("/file", "file:///etc/passwd")
    return {name: site.url(f"/{name}") for name in ("broken", "busy", "cut.xml", "circle", "file", "missing")}


def test_a_part_of_an_index_that_cannot_be_read_hides_no_other(site: Site) -> None:
    fill(site)
    site.page("/one.xml", sitemap(site, "a"))
    bad = bad_parts(site)
    site.page("/index.xml", index(site, *bad, "one.xml"))
    taken = read(site, "/index.xml")
    assert list(taken.versions) == ["a"]
    assert taken.incomplete, "what the others list may still exist"
    assert {url for url in bad.values() if any(url in str(problem) for problem in taken.problems.values())} == set(
        bad.values()
    )


def test_a_dead_sitemap_in_robots_txt_hides_no_other(site: Site) -> None:
    fill(site)
    site.page("/one.xml", sitemap(site, "a"))
    bad = bad_parts(site)
    lines = "".join(f"Sitemap: {url}\n" for url in (*bad.values(), site.url("/one.xml")))
    site.page("/robots.txt", lines.encode())
    taken = read(site, "/")
    assert (list(taken.versions), taken.incomplete) == (["a"], True)
    assert len(taken.problems) == len(bad)


def test_sitemaps_of_another_server_that_is_down_do_not_mean_that_this_one_is(site: Site) -> None:
    fill(site)
    site.page("/one.xml", sitemap(site, "a"))
    with serve() as gone:
        dead = [gone.url(f"/{number}.xml") for number in range(8)]
    lines = "".join(f"Sitemap: {url}\n" for url in (*dead, site.url("/one.xml")))
    site.page("/robots.txt", lines.encode())
    assert list(read(site, "/").versions) == ["a"]


@pytest.mark.parametrize(("status", "error"), ((404, Refused), (500, HTTPAnswerError)))
def test_if_no_sitemap_of_robots_txt_can_be_read_it_fails(site: Site, status: int, error: type[Exception]) -> None:
    lines = "".join(f"Sitemap: {site.url(f'/{number}.xml')}\n" for number in range(3))
    site.page("/robots.txt", lines.encode())
    for number in range(3):
        site.page(f"/{number}.xml", b"", status)
    with pytest.raises(error):
        read(site, "/")
