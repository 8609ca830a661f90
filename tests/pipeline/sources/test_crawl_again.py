"""A second crawl fetches what changed; what vanished goes, and what cannot be reached stays. A crawl is polite."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from email.utils import formatdate

import pytest

from onward.pipeline.fetch.fetch_errors import HTTPAnswerError
from onward.pipeline.source_kinds import crawl_run
from onward.pipeline.source_kinds.crawl import WebSite
from onward.pipeline.source_kinds.page_version import MAX_LINKS, read_version
from tests.support.crawls import Clock, Taken, give_page, html, pace, put, requested, take
from tests.support.web_server import Handler, Site, serve


@pytest.fixture
def site() -> Iterator[Site]:
    with serve() as site:
        yield site


@pytest.fixture
def clock() -> Clock:
    return Clock()


def crawl(site: Site, clock: Clock, before: dict[str, str] | None = None, **options: str) -> Taken:
    return take(WebSite(pace(clock)), "crawl+" + site.url("/"), before, options, clock=clock)


def fill(site: Site, *, etag: bool = True) -> None:
    put(site, "/", "Start", "/a", "/b", etag=etag)
    put(site, "/a", "A", "/c", etag=etag)
    put(site, "/b", "B", etag=etag)
    put(site, "/c", "C", etag=etag)


PAGES = ["/", "a", "b", "c"]


@pytest.mark.parametrize("etag", (True, False))
def test_nothing_is_new_when_nothing_changed(site: Site, clock: Clock, etag: bool) -> None:
    fill(site, etag=etag)
    first = crawl(site, clock)
    assert sorted(first.fetched) == PAGES
    site.log.clear()
    again = crawl(site, clock, first.versions)
    assert again.versions == first.versions
    assert again.fetched == {}
    statuses = [status for _, status in site.log]
    assert statuses == [404, *([304 if etag else 200] * 4)], "robots.txt, then the pages"


def test_a_site_with_every_trap_is_taken_whole_and_then_only_what_changed(site: Site, clock: Clock) -> None:
    sessions = itertools.count()
    busy = [True, True]

    def month(handler: Handler) -> None:
        number = int(handler.path.partition("=")[2] or 0)
        give_page(
            handler, html(f"Month {number}", [f"/calendar?month={number + 1}", f"/calendar?month={number - 1}"])
        )

    def session(handler: Handler) -> None:
        give_page(handler, html("Shop", [f"/shop?PHPSESSID={next(sessions):032x}", "/a"]), etag=False)

    def slow(handler: Handler) -> None:
        if busy:
            busy.pop()
            handler.give(b"", 503, Retry_After="60")
        else:
            give_page(handler, html("Slow"))

    site.page("/robots.txt", b"User-agent: *\nDisallow: /private\nCrawl-delay: 2")
    traps = ("/calendar", "/shop", "/old", "/circle", "/private/x", "/gone", "/slow", "/deep/", "/print", "/x.jpg")
    put(site, "/", "Start", "/a", *traps, "https://other.example/")
    put(site, "/a", "A", "/b")
    put(site, "/b", "B", "/?utm_source=b")
    put(site, "/print", "A for printers", head='<link rel="canonical" href="/a">')
    site.redirect("/old", "/a", 301)
    site.redirect("/circle", "/circle")
    site.answers |= {"/calendar": month, "/shop": session, "/slow": slow}
    site.otherwise = lambda handler: (
        give_page(handler, html(handler.path, ["deep/"])) if "/deep/" in handler.path else handler.give(b"", 404)
    )
    began = clock.now()
    first = crawl(site, clock, depth="5", pages="100")
    assert {"/", "a", "b", "slow", "deep/", "calendar", "calendar?month=4"} <= set(first.versions)
    assert len([path for path in first.versions if path.startswith("shop")]) == 1
    assert not {"old", "print", "circle", "gone", "private/x"} & set(first.versions)
    # Not after robots.txt, which names the delay, and not beside the two pauses.
    assert clock.now() - began >= 2 * (len(site.log) - 4) + 2 * 60, "the delays that the server asks for"
    hosts = {host for host, _, _ in site.requests}
    assert (hosts, "/private/x" in site.targets) == ({f"site.example:{site.port}"}, False)

    put(site, "/b", "B, revised", "/?utm_source=b")
    site.log.clear()
    again = crawl(site, clock, first.versions, depth="5", pages="100")
    assert again.versions.keys() == first.versions.keys()
    changed = {path for path, version in again.versions.items() if version != first.versions[path]}
    assert changed == {"b", "shop"}, "the links of the shop have another session id each time"
    sent = {path for path, status in site.log if status == 200}
    copies = {"/print", "/calendar?month=0"}  # of them nothing is stored, not even an ETag
    assert sent == {"/robots.txt", "/b", "/shop"} | copies, "only what changed is sent"


def test_only_what_changed_is_fetched(site: Site, clock: Clock) -> None:
    fill(site)
    first = crawl(site, clock)
    put(site, "/a", "A, revised", "/c", "/new")
    put(site, "/new", "New")
    again = crawl(site, clock, first.versions)
    assert sorted(again.fetched) == ["a", "new"]
    assert sorted(again.versions) == [*PAGES, "new"]
    assert crawl(site, clock, again.versions).fetched == {}


def test_a_page_that_changes_twice_in_a_second_is_not_missed(site: Site, clock: Clock) -> None:
    changed = "Fri, 15 Jan 2027 08:00:00 GMT"
    page = {"text": "Start", "date": changed}

    def answer(handler: Handler) -> None:
        handler.send_response_only(304 if handler.headers.get("If-Modified-Since") == changed else 200)
        for name, value in {"Date": page["date"], "Last-Modified": changed, "Content-Type": "text/html"}.items():
            handler.send_header(name, value)
        handler.end_headers()
        if handler.headers.get("If-Modified-Since") != changed:
            handler.wfile.write(html(page["text"]))
        handler.close_connection = True

    site.answers["/"] = answer
    taken = crawl(site, clock)
    page |= {"text": "Start, revised", "date": "Fri, 15 Jan 2027 08:00:05 GMT"}
    taken = crawl(site, clock, taken.versions)
    assert taken.fetched == {"/": html("Start, revised")}
    version = read_version(taken.versions["/"])
    assert version is not None
    assert version.modified == changed, "no change can have the same time any more"


def test_a_page_whose_time_of_change_was_too_new_is_asked_for_by_it_later(site: Site, clock: Clock) -> None:
    changed = "Fri, 15 Jan 2027 08:00:00 GMT"
    sent = ["Fri, 15 Jan 2027 08:00:01 GMT", "Fri, 15 Jan 2027 09:00:00 GMT", "Fri, 15 Jan 2027 10:00:00 GMT"]
    asked: list[str | None] = []

    def answer(handler: Handler) -> None:
        asked.append(handler.headers.get("If-Modified-Since"))
        handler.send_response_only(200)
        for name, value in {"Date": sent.pop(0), "Last-Modified": changed, "Content-Type": "text/html"}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(html("Start"))
        handler.close_connection = True

    site.answers["/"] = answer
    versions = None
    for _ in range(3):
        versions = crawl(site, clock, versions).versions
    assert asked == [None, None, changed]


def test_a_page_that_vanished_is_not_listed(site: Site, clock: Clock) -> None:
    fill(site)
    first = crawl(site, clock)
    put(site, "/a", "A, without its link")
    for status in (404, 410):
        site.page("/c", b"", status)
        again = crawl(site, clock, first.versions)
        assert sorted(again.versions) == ["/", "a", "b"]
        assert again.problems == {}


def test_a_page_that_nothing_links_to_stays_while_it_is_there(site: Site, clock: Clock) -> None:
    fill(site)
    first = crawl(site, clock)
    put(site, "/a", "A, without its link")
    assert sorted(crawl(site, clock, first.versions).versions) == PAGES


def test_what_is_stored_of_a_page_that_fails_stays_and_leads_on(site: Site, clock: Clock) -> None:
    fill(site)
    first = crawl(site, clock)
    site.page("/a", b"", 500)
    again = crawl(site, clock, first.versions)
    assert list(again.problems) == ["a"]
    assert sorted(again.versions) == ["/", "b", "c"]
    assert not again.incomplete


def test_a_page_that_failed_is_found_again_though_the_page_that_led_to_it_changed(
    site: Site, clock: Clock
) -> None:
    fill(site)
    put(site, "/b", "B", "/c")
    site.page("/c", b"", 500)
    first = crawl(site, clock)
    fill(site)
    put(site, "/b", "B", "/c")
    put(site, "/a", "A, without its link")
    assert sorted(crawl(site, clock, first.versions).versions) == PAGES


def test_a_new_page_that_fails_may_have_hidden_others(site: Site, clock: Clock) -> None:
    fill(site)
    site.page("/a", b"", 500)
    assert crawl(site, clock).incomplete


def test_what_a_failed_page_may_have_hidden_is_not_forgotten_in_a_later_part(site: Site, clock: Clock) -> None:
    site.page("/robots.txt", b"User-agent: *\nCrawl-delay: 2")
    fill(site)
    first = crawl(site, clock)
    site.page("/a", b"", 500)
    put(site, "/b", "B", "/d")
    put(site, "/d", "D", "/e")  # requested after the last try of /a
    put(site, "/e", "E")
    again = crawl(site, clock, first.versions, depth="19")
    assert list(again.problems) == ["a"]
    assert again.incomplete, "with this option it is not known that /c is there"


@pytest.mark.parametrize("options", ({}, {"depth": "19"}))
def test_what_is_stored_of_a_page_that_is_refused_now_stays(
    site: Site, clock: Clock, options: dict[str, str]
) -> None:
    fill(site)
    first = crawl(site, clock)
    site.page("/a", b"", 403)
    again = crawl(site, clock, first.versions, **options)
    assert list(again.problems) == ["a"]
    assert again.incomplete or "c" in again.versions


def test_a_server_that_is_down_ends_the_listing(site: Site, clock: Clock) -> None:
    put(site, "/", "Start", *(f"/{number}" for number in range(9)))
    first = crawl(site, clock)
    down = False

    def answer(handler: Handler) -> None:
        handler.give(b"", 502) if down else handler.give(html("Start"), Content_Type="text/html")

    site.answers["/"] = answer
    down = True
    with pytest.raises(HTTPAnswerError):
        crawl(site, clock, first.versions)
    with serve() as gone:
        url = gone.url("/")
    with pytest.raises(ConnectionError):
        take(WebSite(pace(clock)), f"crawl+{url}")


def test_many_broken_pages_do_not_make_a_server_that_is_down(site: Site, clock: Clock) -> None:
    broken = [f"/{number}" for number in range(3 * crawl_run.MAX_FAILED_IN_A_ROW)]
    put(site, "/", "Start", *broken, "/fine")
    put(site, "/fine", "Fine")
    for path in broken:
        site.page(path, b"", 500)
    taken = crawl(site, clock)
    assert sorted(taken.versions) == ["/", "fine"]
    assert len(taken.problems) == len(broken)


def test_whether_a_server_is_down_is_seen_without_the_whole_start(site: Site, clock: Clock) -> None:
    broken = [f"/{number}" for number in range(crawl_run.MAX_FAILED_IN_A_ROW)]
    put(site, "/", "Start", *broken)
    for path in broken:
        site.page(path, b"", 500)
    start, sent = site.answers["/"], []

    def answer(handler: Handler) -> None:
        start(handler)
        site.answers["/"] = large_answer

    def large_answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.close_connection = True
        for _ in range(100):  # more than the buffers of the network hold
            handler.wfile.write(b" " * 1_000_000)
            sent.append(1)

    site.answers["/"] = answer
    assert len(crawl(site, clock).problems) == len(broken)
    assert len(sent) < 100


def test_a_server_that_goes_down_in_the_middle_ends_the_listing(site: Site, clock: Clock) -> None:
    pages = [f"/{number}" for number in range(3 * crawl_run.MAX_FAILED_IN_A_ROW)]
    for path in pages:
        put(site, path, path)
    put(site, "/", "Start", *pages)
    start = site.answers["/"]

    def last_answer(handler: Handler) -> None:
        start(handler)
        site.answers.clear()
        site.otherwise = lambda handler: handler.give(b"", 503)

    site.answers["/"] = last_answer
    with pytest.raises(HTTPAnswerError):
        crawl(site, clock)


def test_other_options_are_another_listing(site: Site, clock: Clock) -> None:
    fill(site)
    first = crawl(site, clock, exclude="/c")
    assert sorted(first.versions) == ["/", "a", "b"]
    assert sorted(crawl(site, clock, first.versions).versions) == PAGES
    assert sorted(crawl(site, clock, first.versions, exclude="/b").versions) == ["/", "a", "c"]


def test_a_copy_is_left_out_in_whatever_order_the_links_are(site: Site, clock: Clock) -> None:
    put(site, "/page", "The same", "/below")
    put(site, "/print", "The same", "/below")
    put(site, "/below", "Below")
    versions: dict[str, str] = {}
    for links in (("/page", "/print"), ("/print", "/page"), ("/page", "/print")):
        put(site, "/", "Start", *links)
        taken = crawl(site, clock, versions)
        assert sorted(taken.versions) == sorted(["/", "below", links[0].strip("/")])
        assert taken.skipped == {"copy": 1}
        versions = taken.versions


def test_a_page_that_moves_nearer_to_the_start_leads_on(site: Site, clock: Clock) -> None:
    fill(site)
    first = crawl(site, clock, depth="1")
    assert (sorted(first.versions), first.skipped) == (["/", "a", "b"], {"deep": 1})
    put(site, "/", "Start", "/b")
    put(site, "/b", "B", "/c")
    put(site, "/c", "C", "/d")
    put(site, "/d", "D", "/e")
    put(site, "/e", "E")
    far = crawl(site, clock, depth="2")
    assert (sorted(far.versions), far.skipped) == (["/", "b", "c"], {"deep": 1})
    again = crawl(site, clock, far.versions, depth="2")
    assert (again.versions, again.fetched, again.skipped) == (far.versions, {}, {"deep": 1})
    put(site, "/", "Start", "/b", "/c")
    near = crawl(site, clock, far.versions, depth="2")
    assert sorted(near.versions) == ["/", "b", "c", "d"]


def test_a_page_with_very_many_links_is_read_each_time(site: Site, clock: Clock) -> None:
    links = [f"/{number}" for number in range(MAX_LINKS + 5)]
    put(site, "/", "Start", *links)
    put(site, links[-1], "Last")
    taken = crawl(site, clock)
    version = read_version(taken.versions["/"])
    assert version is not None
    assert version.cut
    again = crawl(site, clock, taken.versions)
    assert (again.versions, again.fetched) == (taken.versions, {})


# -- politeness


def test_the_rate_is_kept(site: Site, clock: Clock) -> None:
    fill(site)
    times = []
    otherwise = site.otherwise

    def stamp(path: str) -> None:
        real = site.answers.get(path, otherwise)

        def answer(handler: Handler) -> None:
            times.append(clock.seconds)
            real(handler)

        site.answers[path] = answer

    for path in ("/robots.txt", "/", "/a", "/b", "/c"):
        stamp(path)
    crawl(site, clock, rate="2")
    assert len(times) == 5
    assert all(later - earlier >= 0.5 for earlier, later in itertools.pairwise(times))
    assert max(clock.slept) <= 1.0


def test_a_crawl_delay_is_kept_without_holding_a_worker(site: Site, clock: Clock) -> None:
    site.page("/robots.txt", b"User-agent: *\nCrawl-delay: 10")
    fill(site)
    began = clock.seconds
    taken = crawl(site, clock)
    assert sorted(taken.versions) == PAGES
    assert clock.seconds - began >= 30
    assert max(clock.slept) <= 1.0
    assert requested(site) == ["/", "/a", "/b", "/c"], "each once, though there were several deliveries"
    assert sum(path == "/robots.txt" for _, path, _ in site.requests) == 1


@pytest.mark.parametrize("as_date", (False, True))
@pytest.mark.parametrize("status", (429, 503))
def test_a_server_that_asks_for_patience_gets_it(site: Site, clock: Clock, status: int, as_date: bool) -> None:
    fill(site)
    page = site.answers["/b"]
    seen = []

    def answer(handler: Handler) -> None:
        seen.append(clock.seconds)
        patience = formatdate(clock.seconds + 121, usegmt=True) if as_date else "120"
        page(handler) if len(seen) > 1 else handler.give(b"", status, Retry_After=patience)

    site.answers["/b"] = answer
    taken = crawl(site, clock)
    assert sorted(taken.versions) == PAGES
    assert len(seen) == 2
    assert seen[1] - seen[0] >= 120
    assert max(clock.slept) <= 1.0


def test_a_page_that_asks_for_patience_for_ever_is_a_problem(site: Site, clock: Clock) -> None:
    fill(site)
    first = crawl(site, clock)
    site.page("/b", b"", 429, Retry_After="60")
    again = crawl(site, clock, first.versions)
    assert list(again.problems) == ["b"]
    assert sorted(again.versions) == ["/", "a", "c"]


@pytest.mark.parametrize("status", (500, 503, 429))
def test_without_robots_txt_for_now_nothing_is_crawled(site: Site, clock: Clock, status: int) -> None:
    fill(site)
    site.page("/robots.txt", b"", status)
    with pytest.raises(HTTPAnswerError, match=r"robots\.txt"):
        crawl(site, clock)
    assert requested(site) == []


@pytest.mark.parametrize("status", (401, 403, 404))
def test_a_site_without_robots_txt_allows_everything(site: Site, clock: Clock, status: int) -> None:
    fill(site)
    site.page("/robots.txt", b"", status)
    assert sorted(crawl(site, clock).versions) == PAGES


def test_a_long_crawl_goes_on_in_other_deliveries(
    site: Site, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crawl_run, "RUN_SECONDS", 2.5)
    for number in range(12):
        put(site, f"/{number}", f"Page {number}", f"/{number + 1}", f"/copy{number}", f"/gone{number}")
        put(site, f"/copy{number}", "A copy", head=f'<link rel="canonical" href="/{number}">')
    put(site, "/", "Start", "/0")
    taken = crawl(site, clock)
    assert sorted(taken.versions) == sorted(["/", *map(str, range(12))])
    assert taken.skipped["copy"] == 12
    targets = requested(site)
    assert len(targets) == len(set(targets)), "no URL is requested twice"


def test_a_page_that_was_not_stored_before_a_crash_is_requested_again(site: Site, clock: Clock) -> None:
    import tempfile
    from pathlib import Path

    from onward.pipeline.source_kinds import SourceRun
    from tests.pipeline.fetch.public import GUARD

    fill(site)
    kind = WebSite(pace(clock))
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        run = SourceRun(kind.canonical("crawl+" + site.url("/")), guard=GUARD, scratch=Path(folder), notes=notes)
        listing = kind.entries(run)
        stored = next(listing)
        lost = next(listing)  # the process dies here: this one is not committed
        listing.close()  # type: ignore[attr-defined]
        with notes.open("a") as file:
            file.write('{"url": "http://torn')
        requested(site)
        run.versions = {stored.path: stored.version}
        found = {entry.path: entry for entry in kind.entries(run)}
    assert sorted(found) == PAGES
    assert found[lost.path].version == lost.version
    assert requested(site) == [f"/{lost.path}", "/b", "/c"]
