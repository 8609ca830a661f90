"""In a real browser a mail that wants to do harm does none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Dialog, Page, Route

from tests.console.browser.conftest import elsewhere
from tests.console.hostile import EVIL, PAYLOADS, crawl, ingest
from tests.support.console_client import Site, pipeline, serving

TOKEN = "a token of some length"
OF_A_KIND = 3
"""Pages of one kind that are looked at."""


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A console of a store with such mails in it."""
    folder = tmp_path_factory.mktemp("attacked")
    app = pipeline(folder / "home", ONWARD_SERVE_REQUESTS_PER_SECOND="100000")
    elsewhere(lambda: ingest(app, folder / "mail"))
    with serving(app) as site:
        yield site
    app.close()


@pytest.fixture(scope="module")
def paths(attacked: Site) -> dict[str, str]:
    """A few pages of each kind, as they were sent."""
    kinds: dict[str, int] = {}
    chosen = {}
    for path, page in crawl(attacked).items():
        if "part=" in path:  # a part of a page, which no browser shows alone
            continue
        kind = "/".join(urlsplit(path).path.split("/")[:3])
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] <= OF_A_KIND:
            chosen[path] = page
    assert len(kinds) > 8
    return chosen


class Watched:
    """A tab, and what its pages tried to do."""

    def __init__(self, page: Page, own: str) -> None:
        self.page = page
        self.outside: list[str] = []
        self.said: list[str] = []
        page.on("request", lambda one: None if one.url.startswith(own) else self.outside.append(one.url))
        page.on("dialog", self._dismiss)
        page.on("pageerror", lambda one: self.said.append(str(one)))
        page.on("console", lambda one: self.said.append(one.text) if one.type in ("error", "warning") else None)

    def _dismiss(self, dialog: Dialog) -> None:
        self.said.append(dialog.message)
        dialog.dismiss()

    def visit(self, url: str) -> None:
        self.page.goto(url, wait_until="load")
        # Quotations are folded: what is in them must be as harmless once it is seen.
        self.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
        assert self.page.evaluate("window.harmed") is None, url


def test_nothing_runs_and_no_request_leaves(
    attacked: Site, paths: dict[str, str], open_page: Callable[..., Page]
) -> None:
    tab = Watched(open_page(attacked.url), attacked.url)
    for path in paths:
        tab.visit(path)
    assert tab.outside == []
    assert tab.said == [], "also no violation of the policy: there was nothing to stop"


def test_a_citation_leads_to_its_message_and_marks_it(
    attacked: Site, paths: dict[str, str], open_page: Callable[..., Page]
) -> None:
    path = next(
        one for one, page in paths.items() if one.startswith("/threads/") and 'class="cite" href="#m-' in page
    )
    tab = Watched(open_page(attacked.url), attacked.url)
    tab.visit(path)
    link = tab.page.locator(".prose a.cite").first
    target = link.get_attribute("href")
    assert target is not None
    link.click()
    marked = tab.page.locator("article:target")
    assert marked.get_attribute("id") == target.removeprefix("#")
    assert marked.evaluate("(one) => getComputedStyle(one).boxShadow") != "none"
    assert (tab.outside, tab.said) == ([], [])


def test_the_policy_would_stop_what_slips_through(attacked: Site, open_page: Callable[..., Page]) -> None:
    """The second wall: even a page with a script in it runs nothing."""
    page = open_page(attacked.url)
    stopped: dict[str, str] = {}
    left: list[str] = []
    page.on("requestfailed", lambda one: stopped.update({one.url: one.failure or ""}))
    page.on("requestfinished", lambda one: left.append(one.url))

    def poison(route: Route) -> None:
        answer = route.fetch()
        harm = "".join(one for one in PAYLOADS[:8] if "refresh" not in one)  # that only loads the page again
        route.fulfill(response=answer, body=answer.text().replace("</main>", f"{harm}</main>"))

    page.route("**/settings", poison)
    page.goto("/settings", wait_until="load")
    assert page.evaluate("document.querySelector('main svg[onload]') !== null"), "it did slip through"
    assert page.evaluate("window.harmed") is None
    assert {why for url, why in stopped.items() if EVIL in url} == {"csp"}
    assert [url for url in left if EVIL in url] == []


def test_who_follows_a_link_from_another_site_stays_logged_in(
    attacked: Site, open_page: Callable[..., Page]
) -> None:
    with serving(attacked.app, token=TOKEN) as locked:
        page = open_page(locked.url)
        page.goto("/settings")
        page.fill("input[name=token]", "a guess")
        page.click("button.main")
        assert page.text_content("[role=alert]") == "That is not the token."
        page.fill("input[name=token]", TOKEN)
        page.click("button.main")
        page.wait_for_url("**/settings")
        link = f'<a href="{locked.url}/threads">look at this</a>'
        page.route("http://mail.example/", lambda route: route.fulfill(body=link, content_type="text/html"))
        page.goto("http://mail.example/")
        page.click("a")
        page.wait_for_url("**/threads")
        assert page.text_content("h1") == "Threads"
        page.click("text=Log out")
        page.wait_for_url("**/login?ended=true")
        page.goto("/threads")
        assert page.text_content("h1") == "Log in"
