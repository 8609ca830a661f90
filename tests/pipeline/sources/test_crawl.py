"""A crawl takes every page of a site below its folder once, and gets out of every trap."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onward.pipeline.fetch import FetchLimits
from onward.pipeline.fetch.fetch_errors import Refused, UnusableSource
from onward.pipeline.source_kinds import Entry, crawl_run
from onward.pipeline.source_kinds.crawl import WebSite
from onward.pipeline.source_kinds.crawl_run import CrawlRun, Page
from onward.pipeline.source_kinds.polite_client import Disallowed
from tests.support.crawls import Clock, Taken, html, pace, put, requested, take
from tests.support.web_server import Handler, Site, serve


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as site:
        yield site


def crawl(site: Site, path: str = "/", before: dict[str, str] | None = None, **options: str) -> Taken:
    clock = Clock()
    return take(WebSite(pace(clock)), "crawl+" + site.url(path), before, options, clock=clock)


def test_the_pages_below_the_folder_are_taken_once_each(site: Site) -> None:
    put(site, "/docs/", "Start", "a.html", "/docs/b", "/blog/", "https://other.example/docs/", "mailto:me@x.org")
    put(site, "/docs/a.html", "A", "b", "a.html#part", "/docs/?utm_source=x", "c/d.html")
    put(site, "/docs/b", "B", "a.html", ".")
    put(site, "/docs/c/d.html", "D", "../../docs/", "../../../docs/a.html")
    put(site, "/blog/", "Blog")
    taken = crawl(site, "/docs/")
    assert sorted(taken.versions) == ["docs/", "docs/a.html", "docs/b", "docs/c/d.html"]
    assert taken.fetched["docs/b"] == html("B", ["a.html", "."])
    assert taken.entries["docs/b"].url == site.url("/docs/b")
    assert taken.entries["docs/b"].media_type.startswith("text/html")
    assert requested(site) == ["/docs/", "/docs/a.html", "/docs/b", "/docs/c/d.html"]


@pytest.mark.parametrize(
    ("start", "folder"),
    (("/docs", "/docs/"), ("/docs/", "/docs/"), ("/docs/index.html", "/docs/"), ("/", "/"), ("/a?x=1", "/a/")),
)
def test_the_start_names_the_folder(site: Site, start: str, folder: str) -> None:
    put(site, urlsplit(start).path, "Start", folder + "below", "/elsewhere")
    put(site, folder + "below", "Below")
    put(site, "/elsewhere", "Elsewhere")
    taken = crawl(site, start)
    assert len(taken.versions) == (3 if folder == "/" else 2)


def test_documents_are_taken_and_pictures_are_not_received(site: Site) -> None:
    put(site, "/", "Start", "/paper", "/report.docx", "/photo.JPG", "/film", "/style.css")
    site.page("/paper", b"%PDF-1.7", Content_Type="application/pdf")
    site.page("/report.docx", b"PK", Content_Type="application/octet-stream")
    site.page("/film", b"x" * 1_000_000, Content_Type="video/mp4")
    taken = crawl(site)
    assert sorted(taken.versions) == ["/", "paper", "report.docx"]
    assert taken.entries["paper"].media_type == "application/pdf"
    assert taken.skipped == {"picture": 1, "video": 1, "asset": 1}
    assert requested(site) == ["/", "/paper", "/report.docx", "/film"]


def test_a_calendar_without_end_ends(site: Site) -> None:
    def month(handler: Handler) -> None:
        number = int(parse_qs(urlsplit(handler.path).query).get("month", ["0"])[0])
        links = [f"/calendar?month={number + 1}", f"/calendar?month={number - 1}"]
        handler.give(html(f"Month {number}", links), Content_Type="text/html")

    put(site, "/", "Start", "/calendar")
    site.answers["/calendar"] = month
    assert len(crawl(site, depth="6").versions) == 1 + 1 + 2 * 5
    assert len(crawl(site, pages="8").versions) == 8


def test_links_without_number_do_not_fill_the_memory(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    visit = CrawlRun._visit

    def counted(run: CrawlRun, page: Page) -> Iterator[Entry]:
        lengths.append(len(run.queue))
        return visit(run, page)

    def answer(handler: Handler) -> None:
        links = [f"{handler.path.rstrip('/')}-{number}" for number in range(300)]
        handler.give(html(f"Page {handler.path}", links), Content_Type="text/html")

    site.otherwise = answer
    site.page("/robots.txt", b"", 404)
    monkeypatch.setattr(CrawlRun, "_visit", counted)
    taken = crawl(site, pages="20")
    assert len(taken.versions) == 20
    assert max(lengths) <= 2 * (3 * 20 + 100)
    assert taken.skipped["limit"] > 5_000


def test_ever_deeper_paths_end(site: Site) -> None:
    put(site, "/", "Start", "/a/b/")
    site.otherwise = lambda handler: handler.give(
        html(handler.path, ["a/b/", "more/"]) if handler.path != "/robots.txt" else b"", Content_Type="text/html"
    )
    taken = crawl(site, depth="1000", pages="500")
    assert max(path.count("/") for path in taken.versions) <= 6


@pytest.mark.parametrize(
    "address",
    ("/p{};jsessionid={}", "/p{}?PHPSESSID={}", "/p{}?sid={}x7", "/(S({}))/p{}", "/p{}?utm_campaign={}"),
)
def test_session_ids_and_tracking_make_no_new_pages(site: Site, address: str) -> None:
    count = 0

    def answer(handler: Handler) -> None:
        nonlocal count
        count += 1
        links = [address.format(n, f"{count:032x}") for n in range(3)]
        if address.startswith("/("):
            links = [address.format(f"{count:032x}", n) for n in range(3)]
        handler.give(html(urlsplit(handler.path).path, links), Content_Type="text/html")

    for path in ("/", "/p0", "/p1", "/p2"):
        site.answers[path] = answer
    assert sorted(crawl(site).versions) == ["/", "p0", "p1", "p2"]


def test_the_same_content_under_ever_new_addresses_is_one_page(site: Site) -> None:
    number = 0

    def answer(handler: Handler) -> None:
        nonlocal number
        number += 1
        page = f'<title>Same</title><p>The same text.<a href="/x{number}/">More</a>'
        handler.give(page.encode(), Content_Type="text/html")

    site.otherwise = answer
    site.page("/robots.txt", b"", 404)
    put(site, "/", "Start", "/x/")
    taken = crawl(site)
    assert sorted(taken.versions) == ["/", "x/"]
    assert taken.skipped["copy"] == 2


def test_a_page_is_taken_under_its_canonical_address(site: Site) -> None:
    put(site, "/", "Start", "/print?page=1", "/page")
    canonical = '<link rel="canonical" href="/page">'
    put(site, "/print", "Print", head=canonical)
    put(site, "/page", "Page", head=canonical)
    taken = crawl(site)
    assert sorted(taken.versions) == ["/", "page"]
    assert taken.skipped == {"copy": 1}


@pytest.mark.parametrize("canonical", ("/gone", "https://other.example/page", "/b"))
def test_a_page_whose_canonical_address_is_not_there_is_not_lost(site: Site, canonical: str) -> None:
    put(site, "/", "Start", "/a")
    put(site, "/a", "A", head=f'<link rel="canonical" href="{canonical}">')
    put(site, "/b", "B", head='<link rel="canonical" href="/a">')  # a circle
    taken = crawl(site, depth="1")
    assert len(taken.versions) == 2
    assert "/" in taken.versions


def test_redirects_are_one_page_and_stay_on_the_site(site: Site) -> None:
    put(site, "/", "Start", "/old", "/older", "/out", "/circle", "/new")
    put(site, "/new", "New")
    site.redirect("/old", "/new", 301)
    site.redirect("/older", "/old", 301)
    site.redirect("/out", site.url("/x", "other.example"))
    site.redirect("/circle", "/circle2")
    site.redirect("/circle2", "/circle")
    taken = crawl(site)
    assert sorted(taken.versions) == ["/", "new"]
    assert taken.skipped == {"outside": 1}
    assert all(host.startswith("site.example:") for host, _, _ in site.requests)


def test_a_start_that_redirects_elsewhere_says_what_to_give(site: Site) -> None:
    site.redirect("/", site.url("/docs/", "other.example"))
    with pytest.raises(UnusableSource, match=r"other\.example:\d+/docs/.* give crawl\+http://other\.example"):
        crawl(site)


def test_robots_txt_is_obeyed(site: Site) -> None:
    mine = "User-agent: onward\nDisallow: /private\nDisallow: /*.pdf$\nAllow: /private/open"
    rules = f"User-agent: *\nDisallow: /\n\n{mine}"
    site.page("/robots.txt", rules.encode())
    secrets = ("/private/secret", "/x/%2e%2e/private/secret")
    put(site, "/", "Start", *secrets, "/private/open", "/a.pdf", "/a.pdf.html")
    for path in ("/private/secret", "/private/open", "/a.pdf.html"):
        put(site, path, path)
    taken = crawl(site)
    assert sorted(taken.versions) == ["/", "a.pdf.html", "private/open"]
    assert taken.skipped == {"robots": 2}
    assert requested(site) == ["/", "/private/open", "/a.pdf.html"]


@pytest.mark.parametrize("agent", ("User-agent: bot{}", "useragent bot{}", "User Agent :o*{}"))
def test_rules_for_thousands_of_crawlers_are_read_at_once(site: Site, agent: str) -> None:
    others = "\n".join(agent.format(number) for number in range(12_000))
    mine = "User-agent: OnWard # us\n" + "Disallow: /private\n" * 12_000
    rules = f"{others}\n{mine}User-agent: b\nDisallow: /"
    site.page("/robots.txt", rules.encode())
    put(site, "/", "Start", "/private/secret", "/open")
    put(site, "/open", "Open")
    taken = crawl(site)
    assert sorted(taken.versions) == ["/", "open"]
    assert taken.skipped == {"robots": 1}


def test_a_site_that_allows_nothing_says_so(site: Site) -> None:
    site.page("/robots.txt", b"User-agent: *\nDisallow: /")
    with pytest.raises(Disallowed, match=r"robots\.txt does not allow"):
        crawl(site)
    assert requested(site) == []


def test_pages_say_what_may_be_done_with_them(site: Site) -> None:
    put(site, "/", "Start", "/noindex", "/header", "/nofollow")
    put(site, "/noindex", "N", "/x", head='<meta name="robots" content="noindex">')
    put(site, "/header", "H", "/y", X_Robots_Tag="noindex, nofollow")
    put(site, "/nofollow", "F", "/z", head='<meta name="ROBOTS" content="NoFollow">')
    site.page("/x", html("X") + b'<a rel="nofollow" href="/w">W</a>', Content_Type="text/html")
    for path in ("/y", "/z", "/w"):
        put(site, path, path)
    taken = crawl(site)
    assert sorted(taken.versions) == ["/", "nofollow", "x"]
    assert taken.skipped == {"noindex": 2}


def test_options_choose_the_pages(site: Site) -> None:
    put(site, "/", "Start", "/docs/a", "/docs/b?print=1", "/news/c")
    for path in ("/docs/a", "/docs/b", "/news/c"):
        put(site, path, path)
    assert sorted(crawl(site, include="/docs/*").versions) == ["/", "docs/a", "docs/b?print=1"]
    assert sorted(crawl(site, exclude="*print=* /news/*").versions) == ["/", "docs/a"]
    assert sorted(crawl(site, depth="1", pages="2").versions) == ["/", "docs/a"]


def test_subdomains_belong_to_the_site_if_chosen(site: Site) -> None:
    put(site, "/", "Start", f"http://sub.site.example:{site.port}/x")
    put(site, "/x", "X")
    from tests.pipeline.fetch.public import HOSTS

    HOSTS["sub.site.example"] = ["127.0.0.1"]
    assert sorted(crawl(site).versions) == ["/"]
    assert sorted(crawl(site, subdomains="yes").versions) == ["/", f"http://sub.site.example:{site.port}/x"]


def test_what_is_wrong_with_a_page_is_said_and_the_others_are_taken(site: Site) -> None:
    put(site, "/", "Start", "/gone", "/closed", "/broken", "/fine")
    put(site, "/fine", "Fine")
    site.page("/closed", b"", 403)
    site.page("/broken", b"", 500)
    taken = crawl(site)
    assert sorted(taken.versions) == ["/", "fine"]
    assert list(taken.problems) == ["broken"]
    assert "500" in str(taken.problems["broken"])
    assert taken.skipped == {"closed": 1}
    assert requested(site).count("/broken") == 3


def test_a_page_that_never_ends_holds_up_nothing_for_ever(site: Site) -> None:
    def drip(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        while not site.over.wait(0.01):
            handler.wfile.write(b"x")

    put(site, "/", "Start", "/slow", "/fine")
    put(site, "/fine", "Fine")
    site.answers["/slow"] = drip
    clock = Clock()
    limits = FetchLimits(seconds=0.2)
    taken = take(WebSite(pace(clock)), "crawl+" + site.url("/"), clock=clock, limits=limits)
    assert sorted(taken.versions) == ["/", "fine"]
    assert list(taken.problems) == ["slow"]


def test_a_start_that_is_not_there_fails(site: Site) -> None:
    with pytest.raises(Refused, match="404"):
        crawl(site, "/none")


@pytest.mark.parametrize(
    ("location", "remedy"),
    (("crawl+https://me:secret@x.org/", "save pages that need a password"), ("crawl+https://", "names no host")),
)
def test_a_location_that_cannot_be_crawled(location: str, remedy: str) -> None:
    with pytest.raises(UnusableSource, match=remedy) as caught:
        WebSite().canonical(location)
    assert "secret" not in str(caught.value)


GRAPHS = st.dictionaries(st.integers(0, 15), st.lists(st.integers(0, 15), max_size=6), max_size=16)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graph=GRAPHS)
def test_each_page_of_any_graph_of_links_is_requested_once(site: Site, graph: dict[int, list[int]]) -> None:
    site.answers.clear()
    for number, links in graph.items():
        put(site, f"/p{number}", f"Page {number}", *(f"/p{link}" for link in links))
    put(site, "/", "Start", "/p0")
    reachable, new = set[int](), [0]
    while new:
        if (number := new.pop()) not in reachable:
            reachable.add(number)
            new += graph.get(number, [])
    requested(site)
    taken = crawl(site)
    assert set(taken.versions) == {"/"} | {f"p{number}" for number in reachable if number in graph}
    assert sorted(requested(site)) == sorted(["/", *(f"/p{number}" for number in reachable)])
    again = crawl(site, before=taken.versions)
    assert again.versions == taken.versions
    assert again.fetched == {}


def test_links_that_are_too_far_do_not_fill_the_memory_either(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[CrawlRun] = []
    visit = CrawlRun._visit

    def noted(run: CrawlRun, page: Page) -> Iterator[Entry]:
        runs.append(run)
        return visit(run, page)

    monkeypatch.setattr(CrawlRun, "_visit", noted)
    monkeypatch.setattr(crawl_run, "MET_PER_URL", 1)
    put(site, "/", "Start", "/a")
    put(site, "/a", "A", *(f"/{number}" for number in range(400)))
    taken = crawl(site, pages="20", depth="1")
    assert taken.skipped == {"deep": 400}
    assert len(runs[-1].deep) <= 3 * 20 + 100
